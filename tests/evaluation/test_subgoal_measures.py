"""What inferred subgoals say: the measures of training against worked examples, loops and those of evaluation."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers.played import (
    LENGTHS,
    ONE_SEAT,
    PARTNERS,
    SPEC,
    B,
    T,
    behind_the_end,
    config,
    drawn_state,
    episodes,
    fast_jit,
    same_bytes,
)
from omg.evaluation.measures import subgoal_hit_ratio
from omg.learners import build_learner
from omg.learners.omg import OMGLearner
from omg.learners.subgoal_measures import TOLERANCE, hit_ratio, probe_accuracy

ratio = fast_jit(hit_ratio, static_argnums=3)
probe = fast_jit(probe_accuracy, static_argnums=3)


def test_worked_example_of_the_hit_ratio():
    seen = jnp.arange(1.0, 6.0).reshape(1, 5, 1, 1)
    # s3 lies ahead of step 1, s1 not of step 2, and s5 counts once; the last slot has no step and no prediction.
    predicted = jnp.array([3.0, 1.0, 5.0, 5.0, 4.0]).reshape(1, 5, 1, 1)
    assert float(ratio(predicted, seen, jnp.array([4]), 0.3)) == pytest.approx(0.4)
    blurred = predicted + jnp.array([0.1, -0.1, 0.05, -0.2, 0.0]).reshape(1, 5, 1, 1)
    assert float(ratio(blurred, seen, jnp.array([4]), 0.3)) == pytest.approx(0.4)
    assert float(ratio(blurred, seen, jnp.array([4]), 0.08)) == pytest.approx(0.2)
    theirs = subgoal_hit_ratio(
        np.asarray(predicted)[..., 0], np.asarray(seen)[..., 0], np.array([5]), np.ones(1), 0.3, np.array([4])
    )
    assert theirs == pytest.approx([0.4])


def test_views_that_come_back_count_once():
    # The player stands still, then leaves: five predictions of the same view are one hit.
    seen = jnp.array([0.0, 0.0, 0.0, 0.0, 0.0, 3.0]).reshape(1, 6, 1, 1)
    predicted = jnp.zeros((1, 6, 1, 1))
    assert float(ratio(predicted, seen, jnp.array([5]), 0.5)) == pytest.approx(1 / 6)


@pytest.mark.parametrize("seed", range(4))
def test_both_hit_ratios_agree(seed: int):
    rng = np.random.default_rng(seed)
    games, slots, seats, width = 6, 9, 2, 3
    # Walks on a coarse grid come back to where they have been; predictions are noisy views of any time.
    seen = np.cumsum(rng.integers(-1, 2, (games, slots, seats, width)), axis=1).astype(np.float32)
    named = rng.integers(0, slots, (games, slots, seats))
    decoded = np.take_along_axis(seen, named[..., None], axis=1)
    decoded = (decoded + 0.3 * rng.normal(size=decoded.shape)).astype(np.float32)
    length = rng.integers(2, slots, games)
    for tolerance in (0.4, 0.9):
        theirs = [
            subgoal_hit_ratio(decoded[:, :, i], seen[:, :, i], length + 1, np.ones(width), tolerance, length)
            for i in range(seats)
        ]
        assert 0.05 < np.mean(theirs) < 0.95
        assert float(ratio(decoded, seen, length, tolerance)) == pytest.approx(np.mean(theirs), abs=1e-6)


def test_probe_reads_what_is_there_and_nothing_else():
    rng = np.random.default_rng(0)
    games, steps, classes = 40, 10, 4
    labels = np.broadcast_to(rng.integers(0, classes, games)[:, None, None], (games, steps, 1))
    centres = 3.0 * rng.normal(size=(classes, 8))
    noise = rng.normal(size=(games, steps, 1, 8))
    weight = (rng.random((games, steps, 1)) < 0.8).astype(np.float32)
    separable = (centres[labels] + 0.1 * noise).astype(np.float32)
    assert float(probe(separable, labels, weight, classes)) > 0.99
    assert 0.05 < float(probe(noise.astype(np.float32), labels, weight, classes)) < 0.5
    # Steps of weight zero count neither in the fit nor in the score.
    spoilt = np.where(weight[..., None] > 0, separable, 50.0 * noise).astype(np.float32)
    assert float(probe(spoilt, labels, weight, classes)) == float(probe(separable, labels, weight, classes))


def test_measures_of_the_learner_equal_loops():
    settings = config(am_model="omg_am", learner="omg_learner", omg_horizon=2)
    learner = build_learner(settings, SPEC, ONE_SEAT, PARTNERS)
    assert isinstance(learner, OMGLearner)
    state, batch = drawn_state(learner), episodes(team=ONE_SEAT)
    # Two games with one player in both of the other seats.
    players = np.array(batch.players)
    players[1], players[3] = [1, 1, -1], [0, 0, -1]
    batch = batch._replace(players=players)
    examine = fast_jit(learner.examine)
    metrics = examine(state, batch, jax.random.key(0))
    model = state.mac.opponent_model
    views = state.mac.reading.episodes(batch, learner.main_seats(batch))
    inference = model.unroll(views.model_inputs())
    decoded = np.asarray(model.prior.decode_normalised(inference.mean))[:, :, 0]
    seen = np.asarray(inference.seen)[:, :, 0]
    np.testing.assert_allclose(seen, model.prior.normalise(views.seen)[:, :, 0], atol=1e-6)
    future, present = [], []
    for b in range(B):
        for t in range(LENGTHS[b]):
            ahead = seen[b, min(t + 2, LENGTHS[b])]
            future.append(np.sqrt(((decoded[b, t] - ahead) ** 2).mean()))
            present.append(np.sqrt(((seen[b, t] - ahead) ** 2).mean()))
    assert float(metrics["subgoal_future_distance"]) == pytest.approx(np.mean(future), rel=1e-5)
    assert float(metrics["subgoal_present_distance"]) == pytest.approx(np.mean(present), rel=1e-5)
    length = np.asarray(LENGTHS)
    hits = subgoal_hit_ratio(decoded, seen, length + 1, np.ones(seen.shape[-1]), TOLERANCE, length)
    assert float(metrics["subgoal_hit_ratio"]) == pytest.approx(hits.mean(), abs=1e-6)
    # Whoever has most of the other seats is to be named; of two with equally many, the first.
    counts = [[int((row == player).sum()) for player in range(PARTNERS)] for row in np.asarray(players)]
    labels = np.argmax(counts, axis=1)
    assert float(metrics["probe_chance"]) == pytest.approx(np.bincount(labels).max() / B)
    rows = np.broadcast_to(labels[:, None, None], (B, T, 1))
    played = np.asarray(batch.filled, np.float32)[:, :-1, None]
    for name, features in (("subgoal_probe", inference.mean), ("present_probe", inference.seen)):
        assert float(metrics[name]) == pytest.approx(float(probe(features[:, :-1], rows, played, PARTNERS)), abs=1e-6)
    other = examine(state, behind_the_end(batch), jax.random.key(0))
    assert same_bytes(other, metrics)
