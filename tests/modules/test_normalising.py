"""Opponent models that bring views to mean 0 and deviation 1: what is counted, what is read, what is exported."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers.played import OBS, ONE_SEAT, PARTNERS, SPEC, A, B, T, U, config, episodes, fast_jit
from omg.components import loss_mask
from omg.components.files import name_leaves
from omg.exchange.models import reading_plainly
from omg.learners import build_learner
from omg.learners.q import QLearner
from omg.modules.opponent_models import OPPONENT_MODELS
from omg.modules.opponent_models.base import ActionTargets, ModelInputs, ModelSizes, ModelTargets
from omg.modules.opponent_models.keys import MeLIBAKeys
from omg.modules.opponent_models.prior import InputStatistics

NAMES = ("base_am", "liam_am", "meliba_am")
SIZES = ModelSizes(OBS, OBS, U, A, feature_dim=4, hidden_dim=6, normalise=True, own=(MeLIBAKeys(),))
KEY = jax.random.key(1)
SEATS = np.array([[2], [1], [0], [2]])


def built(name: str, **changes: Any) -> Any:
    return OPPONENT_MODELS[name].build(SIZES._replace(**changes), key=jax.random.key(7))


def played(gain: float = 1.0, offset: float = 0.0, seed: int = 0) -> tuple[ModelInputs, Any, Any, Any]:
    """Inputs, what everybody saw and did, the slots with a view, the mask; views stretched and moved."""
    batch = episodes(seed)
    obs: Any = batch.obs * gain + offset
    mask = np.asarray(loss_mask(batch))
    viewed = np.concatenate([np.ones((B, 1), np.float32), mask], axis=1)
    seen = np.take_along_axis(obs, SEATS[:, None, :, None], axis=2)
    last: Any = np.concatenate([np.full((B, 1, A), -1, np.int32), batch.actions[:, :-1]], axis=1)
    inputs = ModelInputs(seen, last, SEATS[:, None])
    return inputs, ModelTargets(obs[:, :-1], batch.actions[:, :-1], SEATS), viewed, mask


def counted(model: Any, inputs: ModelInputs, targets: ModelTargets, viewed: Any, mask: Any) -> Any:
    given = targets if model.targets is ModelTargets else ActionTargets(targets.actions, targets.seats)
    return model.counting(inputs, given, viewed, mask)


def learned(model: Any, inputs: ModelInputs, targets: ModelTargets, viewed: Any, mask: Any) -> tuple[Any, Any]:
    """Features of all slots, and the loss."""
    given = targets if model.targets is ModelTargets else ActionTargets(targets.actions, targets.seats)
    inference = model.unroll(inputs)
    cut = jax.tree.map(lambda values: values[:, :-1], inference)
    return model.features(inference, None), model.loss(cut, given, mask, KEY)[0]


learn = fast_jit(learned)


@pytest.mark.parametrize("name", NAMES)
def test_views_in_other_units_are_the_same_to_it(name: str) -> None:
    small, large = played(), played(gain=300.0, offset=-40.0)
    features, loss = learn(counted(built(name), *small), *small)
    others, other_loss = learn(counted(built(name), *large), *large)
    viewed = np.asarray(small[2], bool)
    np.testing.assert_allclose(np.asarray(others)[viewed], np.asarray(features)[viewed], rtol=1e-3, atol=1e-4)
    assert float(other_loss) == pytest.approx(float(loss), rel=1e-3)
    # As they are, they are not.
    plain = built(name, normalise=False)
    assert not np.allclose(learn(plain, *large)[0][viewed], learn(plain, *small)[0][viewed], rtol=0.1)


def test_counts_are_of_the_views_that_there_were() -> None:
    model, batches = built("liam_am"), [played(seed=seed) for seed in (0, 5)]
    for batch in batches:
        model = counted(model, *batch)
    own = np.concatenate([inputs.seen[np.asarray(viewed, bool)] for inputs, _, viewed, _ in batches]).reshape(-1, OBS)
    of_others = []
    for _, targets, _, mask in batches:
        for b, t in zip(*np.nonzero(mask), strict=True):
            of_others += [targets.obs[b, t, (SEATS[b, 0] + 1 + j) % A] for j in range(A - 1)]
    for statistics, rows in ((model.seen_statistics, own), (model.others_statistics, np.array(of_others))):
        assert int(statistics.rows) == len(rows)
        np.testing.assert_allclose(statistics.mean, rows.mean(axis=0), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(statistics.variance, rows.var(axis=0), rtol=1e-4, atol=1e-5)


def test_updates_count_and_never_learn_the_statistics() -> None:
    learner = build_learner(
        config(learner="q_learner_4am", am_model="liam_am", am_normalise=True), SPEC, ONE_SEAT, PARTNERS
    )
    assert isinstance(learner, QLearner)
    state, batch = learner.init(KEY), learner.keep(episodes(team=ONE_SEAT))
    update = fast_jit(learner.update)
    once, _ = update(state, batch, 0, 0, KEY)
    twice, _ = update(once, batch, 0, 0, KEY)
    first, second = (each.mac.opponent_model.seen_statistics for each in (once, twice))
    assert 0 < float(first.rows) == float(second.rows) / 2
    # The same views again: no gradient has moved what was counted.
    np.testing.assert_allclose(second.mean, first.mean, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(second.variance, first.variance, rtol=1e-5, atol=1e-6)
    assert not np.allclose(once.mac.opponent_model.embed.weight, twice.mac.opponent_model.embed.weight)


@pytest.mark.parametrize("name", NAMES)
def test_without_the_key_there_are_no_statistics(name: str) -> None:
    assert not [leaf for leaf in name_leaves(built(name, normalise=False)) if "statistics" in leaf]
    assert counted(model := built(name, normalise=False), *played()) is model


@pytest.mark.parametrize("name", ["base_am", "liam_am"])
def test_an_exported_model_reads_views_as_they_are(name: str) -> None:
    batch = played(gain=20.0, offset=3.0)
    model = counted(built(name), *batch)
    nothing = InputStatistics(jnp.zeros(()), jnp.zeros(OBS), jnp.ones(OBS))
    plain = eqx.tree_at(lambda model: model.seen_statistics, reading_plainly(model), nothing)
    features, expected = (np.asarray(learn(each, *batch)[0]) for each in (plain, model))
    viewed = np.asarray(batch[2], bool)
    np.testing.assert_allclose(features[viewed], expected[viewed], rtol=1e-3, atol=1e-3)
    assert features.shape[:2] == (B, T + 1)
