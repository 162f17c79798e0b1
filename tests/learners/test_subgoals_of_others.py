"""Subgoals that stand for what the others do; candidates of the own life and of rounds; all against plain loops."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers.played import (
    LENGTHS,
    ONE_SEAT,
    PARTNERS,
    SPEC,
    A,
    B,
    S,
    T,
    U,
    behind_the_end,
    config,
    drawn_state,
    episodes,
    fast_jit,
    same_bytes,
)
from omg.config import adjust, resolve
from omg.controllers.others import steps_of_others
from omg.errors import UserError
from omg.learners import build_learner
from omg.learners.omg import OMGLearner
from omg.learners.prior import PriorLearner
from omg.learners.subgoals import at_round_ends, last_alive, mix_subgoals
from omg.modules.opponent_models.prior import InputStatistics, Prior
from omg.pools.priors import PriorCard, load_prior, pool_prior, prior_folder, save_prior

KEY = jax.random.key(3)
TOLD = dataclasses.replace(SPEC, seat_blocks=((0, 1), (3, 1)))
"""A game whose state has two numbers for each of its three seats, in two blocks."""


def build(spec: Any = TOLD, learns_prior: bool = False, **changes: Any) -> OMGLearner:
    settings = config(am_model="omg_am", learner="omg_learner", subgoal_of="others", **changes)
    learner = build_learner(settings, spec, ONE_SEAT, PARTNERS, learns_prior=learns_prior)
    assert isinstance(learner, OMGLearner)
    return learner


@pytest.mark.parametrize("spec", [TOLD, SPEC], ids=["state", "observations"])
def test_what_the_others_did_leaves_the_own_seat_out(spec: Any) -> None:
    batch, read = episodes(), steps_of_others(spec)
    seats = np.array([[2], [0], [1], [0]])
    found = np.asarray(read.along(batch, seats))
    assert found.shape == (B, T + 1, 1, read.dim)
    for b in range(B):
        assert not found[b, 0].any()
        for t in range(1, T + 1):
            expected = []
            for other in [(seats[b, 0] + step) % A for step in (1, 2)]:
                blocks = [batch.state[b, t - 1, other], batch.state[b, t - 1, 3 + other]]
                expected += [*(blocks if spec is TOLD else batch.obs[b, t - 1, other])]
                expected += [*np.eye(U)[batch.actions[b, t - 1, other]]]
            np.testing.assert_allclose(found[b, t, 0], expected, atol=1e-6)
    everybody = np.asarray(read.along(batch, None))
    np.testing.assert_array_equal(everybody[np.arange(B), :, seats[:, 0]], found[:, :, 0])


def test_what_is_stored_is_what_is_read() -> None:
    assert build().kept.state
    assert build().kept.columns == 1
    assert not build(SPEC).kept.state
    assert build(SPEC).kept.columns is None


def test_an_own_life_ends_with_the_last_view_that_is_not_empty() -> None:
    seen = np.ones((2, 6, 2, 3), np.float32)
    seen[0, 3:, 0] = 0  # Dead from slot 3 on.
    seen[0, 2, 1] = 0  # Saw nothing once, but lived.
    length = np.array([[5], [4]])
    np.testing.assert_array_equal(last_alive(seen, length), [[2, 5], [4, 4]])


def test_slots_stand_for_the_ends_of_their_rounds() -> None:
    codes = np.arange(7, dtype=np.float32)[None, :, None, None].repeat(2, axis=0)
    mean, log_var = at_round_ends((codes, codes + 10), 3, np.array([[6], [4]]))
    np.testing.assert_array_equal(np.asarray(mean)[:, :, 0, 0], [[0, 3, 3, 3, 6, 6, 6], [0, 3, 3, 3, 4, 4, 4]])
    np.testing.assert_array_equal(np.asarray(log_var), np.asarray(mean) + 10)


def test_the_selected_subgoal_is_the_end_of_the_round_and_of_the_own_life() -> None:
    learner = build(dataclasses.replace(TOLD, round_steps=2), omg_candidates="rounds", subgoal_mode="next")
    state, batch = drawn_state(learner), learner.keep(episodes(team=ONE_SEAT))
    obs = np.array(batch.obs)
    obs[1, 2:] = 0  # The own life of this episode ends in slot 1.
    batch = batch._replace(obs=obs)
    (share,) = learner.shares(state.mac.reading, batch)
    model = state.mac.opponent_model
    told = learner.training.others.along(batch, share.views.chosen)
    codes = fast_jit(lambda: model.prior.encode(jnp.asarray(told)))()
    inferred = np.zeros((B, T + 1, 1, 3), np.float32)
    selection = fast_jit(lambda: learner.training.select(model, state, share, codes, inferred, KEY))()
    for b, length in enumerate((5, 1, 3, 2)):
        for t in range(LENGTHS[b]):
            end = min((t // 2 + 1) * 2, length)
            np.testing.assert_allclose(selection.mean[b, t, 0], codes[0][b, end, 0], rtol=1e-5)


def test_learning_reads_the_others_and_nothing_behind_the_end() -> None:
    learner = build(learns_prior=True, omg_feature="both")
    state, batch = drawn_state(learner), learner.keep(episodes(team=ONE_SEAT))
    empty = InputStatistics.empty(SPEC.obs_dim)
    state = eqx.tree_at(lambda one: one.mac.opponent_model.prior.seen, state, empty)
    update = fast_jit(learner.update)
    new, metrics = update(state, batch, 1, 0, KEY)
    assert {"am_goal_distance", "prior_reconstruction", "omg_offset_1"} <= metrics.keys()
    kept = learner.keep(behind_the_end(episodes(team=ONE_SEAT)))
    same_bytes(new.mac.opponent_model, update(state, kept, 1, 0, KEY)[0].mac.opponent_model)
    statistics = new.mac.opponent_model.prior.seen
    assert statistics.mean.shape == (SPEC.obs_dim,)
    assert float(statistics.rows) == sum(LENGTHS) + B
    read = steps_of_others(TOLD).dim
    assert state.mac.agent.sizes.feature_dim == 3 + read
    # What the state says of the own seat changes nothing.
    own = np.array(batch.state)
    own[np.arange(B), :, np.asarray(batch.seat)] += 1.0
    same_bytes(new, update(state, batch._replace(state=own), 1, 0, KEY)[0])


def test_a_prior_of_the_others_counts_both_kinds_of_views() -> None:
    settings = config(am_model="omg_am", learner="am_learner", subgoal_of="others", obs_is_state=True)
    learner = build_learner(settings, TOLD, ONE_SEAT, PARTNERS)
    assert isinstance(learner, PriorLearner)
    state, batch = learner.init(KEY), episodes()
    new, _ = fast_jit(learner.update)(state, batch, 1, 0, KEY)
    assert new.prior.statistics.mean.shape == (steps_of_others(TOLD).dim,)
    viewed = np.concatenate([batch.state[b, : length + 1] for b, length in enumerate(LENGTHS)])
    assert new.prior.seen.mean.shape == (S,)
    np.testing.assert_allclose(new.prior.seen.mean, viewed.mean(axis=0), atol=1e-5)


def test_the_mix_may_end_with_a_share_of_the_run() -> None:
    settings = config(am_model="omg_am", learner="omg_learner", t_max=1000, omg_mix_until=0.5)
    learner = build()
    state, batch = drawn_state(learner), learner.keep(episodes(team=ONE_SEAT))
    (share,) = learner.shares(state.mac.reading, batch)
    codes = (np.zeros((B, T + 1, 1, 3), np.float32),) * 2
    selection = learner.training.select(state.mac.opponent_model, state, share, codes, codes[0], KEY)
    shares = [
        float(mix_subgoals(settings, codes[0], selection, share.mask[..., None], t, KEY)[1]) for t in (0, 250, 500)
    ]
    np.testing.assert_allclose(shares, [0.5, 0.25, 0.0], atol=1e-6)


@pytest.mark.parametrize(
    ("algorithm", "game", "words", "reason"),
    [
        ("iql_omg", "foraging", ["omg_residual=True"], "omg_residual=True, but the present view has no code"),
        ("iql_omg", "stag_hunt", ["omg_maps=True"], "omg_maps=True, but what the others do is no map"),
        ("hop_plus", "stag_hunt", [], "learner=hop_plus_learner infers a subgoal for each co-player"),
    ],
)
def test_what_does_not_go_with_it_is_refused(algorithm: str, game: str, words: list[str], reason: str) -> None:
    with pytest.raises(UserError, match=reason):
        adjust(resolve(algorithm, game, ["subgoal_of=others", *words]).config, has_gpu=False)


def test_a_pool_has_a_prior_of_each_kind(tmp_path: Path) -> None:
    for kind, seen in (("view", None), ("others", 7)):
        shapes = jax.eval_shape(lambda seen=seen: Prior(5, 2, seen_features=seen, key=KEY))
        prior = jax.tree.map(lambda leaf: np.ones(leaf.shape, np.float32), shapes)
        card = PriorCard("toy_grid", "5x5", False, 5, 2, 10, seen_features=seen)
        save_prior(tmp_path / prior_folder(kind), prior, card)
        assert pool_prior(tmp_path, kind) == str(tmp_path / prior_folder(kind))
        found, read = load_prior(tmp_path, kind)
        assert read.subgoal_of == kind
        assert (found.seen is None) == (seen is None)
