"""The subgoal prior: encodings, loss and input statistics against NumPy loops; what learning may and may not change."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array

from helpers.played import (
    OBS,
    SPEC,
    A,
    B,
    S,
    T,
    behind_the_end,
    config,
    counted_views,
    drawn,
    edited,
    episodes,
    fast_jit,
    same_bytes,
    zeros_like,
)
from omg.components import EpisodeBatch, view_mask
from omg.controllers.draw import TeamDraw, TeamSlots
from omg.learners import build_learner
from omg.learners.prior import PriorLearner, PriorState
from omg.modules.opponent_models.prior import InputStatistics, Prior

D = 3
KEY = jax.random.key(5)
WATCHED = TeamDraw((TeamSlots(A, (0, 1)),))
"""A team of nothing but frozen players."""

Update = Callable[..., tuple[PriorState, dict[str, Array]]]


@functools.cache
def learner_for(obs_is_state: bool = False) -> tuple[PriorLearner, Update]:
    settings = config(am_model="omg_am", learner="am_learner", obs_is_state=obs_is_state, prior_kl_weight=0.01)
    learner = build_learner(settings, SPEC, WATCHED, 2)
    assert isinstance(learner, PriorLearner)
    return learner, fast_jit(learner.update)


def drawn_state(learner: PriorLearner, seed: int = 0) -> PriorState:
    shapes = jax.eval_shape(learner.init, KEY)
    prior = drawn(shapes.prior, seed)
    fresh = prior.with_statistics(InputStatistics.empty(prior.statistics.mean.shape[0]))
    return zeros_like(shapes)._replace(prior=fresh)


def views(batch: EpisodeBatch, obs_is_state: bool) -> np.ndarray:
    """[B, T+1, m, O]."""
    return np.asarray(batch.state[:, :, None] if obs_is_state else batch.obs, np.float64)


# One view at a time


def slow_normalise(prior: Prior, seen: np.ndarray) -> np.ndarray:
    _, mean, variance = (np.asarray(part, np.float64) for part in prior.statistics)
    return (seen - mean) / np.where(np.sqrt(variance) < 0.01, 1.0, np.sqrt(variance))


def through(layers: Any, x: np.ndarray) -> np.ndarray:
    for layer in layers:
        x = x @ np.asarray(layer.weight) + np.asarray(layer.bias)
        x = np.where(x > 0, x, 0.01 * x)
    return x


def dense(layer: Any, x: np.ndarray) -> np.ndarray:
    return x @ np.asarray(layer.weight) + np.asarray(layer.bias)


def slow_encode(prior: Prior, seen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    hidden = through(prior.encoder, slow_normalise(prior, seen))
    return dense(prior.mean_head, hidden), np.clip(dense(prior.log_var_head, hidden), -8, 4)


def slow_loss(prior: Prior, seen: np.ndarray, noise: np.ndarray, weight: float) -> dict[str, float]:
    """`seen` [B, T+1, m, O], `noise` [B, T+1, m, D]."""
    errors, divergences = [], []
    for b, t in counted_views():
        for i in range(seen.shape[2]):
            mean, log_var = slow_encode(prior, seen[b, t, i])
            subgoal = mean + np.exp(0.5 * log_var) * noise[b, t, i]
            rebuilt = dense(prior.output, through(prior.decoder, subgoal))
            errors.append(((rebuilt - slow_normalise(prior, seen[b, t, i])) ** 2).mean())
            divergences.append(sum(0.5 * (m**2 + np.exp(v) - 1 - v) for m, v in zip(mean, log_var, strict=True)))
    reconstruction, kl = float(np.mean(errors)), float(np.mean(divergences))
    return {"prior_loss": reconstruction + weight * kl, "prior_reconstruction": reconstruction, "prior_kl": kl}


@pytest.mark.parametrize("obs_is_state", [False, True])
def test_loss_equals_loops(obs_is_state: bool):
    learner, update = learner_for(obs_is_state)
    state, batch = drawn_state(learner), episodes()
    seen = views(batch, obs_is_state)
    seats, width = (1, S) if obs_is_state else (A, OBS)
    assert seen.shape == (B, T + 1, seats, width)
    kept = learner.keep(batch)
    assert kept.state.shape[-1] == (S if obs_is_state else 0)
    new, metrics = update(state, kept, 0, 0, KEY)
    # The first update reads the statistics of its own batch before it learns from it.
    prior = state.prior.with_statistics(new.prior.statistics)
    noise = np.asarray(jax.random.normal(KEY, (B, T + 1, seats, D)), np.float64)
    for name, expected in slow_loss(prior, seen, noise, weight=0.01).items():
        assert float(metrics[name]) == pytest.approx(expected, rel=1e-4), name


def test_decoding_is_in_original_units():
    learner, _ = learner_for()
    prior = drawn(jax.eval_shape(learner.init, KEY).prior, 3)
    subgoal = np.random.default_rng(0).normal(size=(6, D))
    normal = dense(prior.output, through(prior.decoder, subgoal))
    expected = normal * np.sqrt(np.asarray(prior.statistics.variance)) + np.asarray(prior.statistics.mean)
    decode = fast_jit(lambda prior, subgoal: (prior.decode(subgoal), prior.decode_normalised(subgoal)))
    original, units = decode(prior, jnp.asarray(subgoal, jnp.float32))
    np.testing.assert_allclose(original, expected, atol=1e-5)
    np.testing.assert_allclose(units, normal, atol=1e-5)
    np.testing.assert_allclose(prior.normalise(original), units, atol=1e-5)
    assert prior.subgoal_dim == D


# Input statistics


def test_statistics_are_those_of_all_counted_views():
    learner, update = learner_for()
    batches = [episodes(seed) for seed in range(3)]
    # One feature never changes and another has an offset.
    scale, offset = np.array([1, 0, 1, 1], np.float32), np.array([0, 0.7, 0, 20], np.float32)
    batches = [batch._replace(obs=batch.obs * scale + offset) for batch in batches]
    state = drawn_state(learner)
    for batch in batches:
        state, metrics = update(state, learner.keep(batch), 0, 0, KEY)
    rows = np.concatenate([views(batch, False)[b, t] for batch in batches for b, t in counted_views()])
    found = state.prior.statistics
    assert float(found.rows) == len(rows)
    np.testing.assert_allclose(found.mean, rows.mean(axis=0), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(found.variance, rows.var(axis=0), rtol=1e-4, atol=1e-6)
    assert all(np.isfinite(np.asarray(leaf)).all() for leaf in jax.tree.leaves((state, metrics)))
    # A constant feature is centred but not blown up.
    scaled = np.asarray(state.prior.normalise(jnp.asarray(rows, jnp.float32)))
    np.testing.assert_allclose(scaled[:, 1], 0.0, atol=1e-5)
    np.testing.assert_allclose(scaled.std(axis=0)[[0, 2, 3]], 1.0, atol=1e-4)


def test_no_gradient_reaches_the_statistics():
    learner, _ = learner_for()
    batch = episodes()
    prior = drawn_state(learner).prior
    # Variance zero is where the root has no slope.
    for statistics in (InputStatistics.empty(OBS), InputStatistics(jnp.ones(()), jnp.ones(OBS), jnp.zeros(OBS))):

        def value(prior: Prior) -> Array:
            return prior.loss(batch.obs, view_mask(batch), 0.1, KEY)[0]

        loss = fast_jit(jax.grad(value))
        gradients = loss(prior.with_statistics(statistics))
        assert all(not np.asarray(leaf).any() for leaf in jax.tree.leaves(gradients.statistics))
        assert all(np.asarray(leaf).any() for leaf in jax.tree.leaves((gradients.encoder, gradients.output)))


def test_nothing_counted_changes_nothing():
    before = InputStatistics(jnp.float32(4.0), jnp.array([1.0, 2.0]), jnp.array([3.0, 4.0]))
    after = before.add(jnp.full((5, 2), 9.0), jnp.zeros(5))
    assert same_bytes(before, after)


# Learning


@pytest.mark.parametrize("obs_is_state", [False, True])
def test_updates_lower_the_loss(obs_is_state: bool):
    learner, update = learner_for(obs_is_state)
    state = end = drawn_state(learner)
    batch, losses = learner.keep(episodes()), []
    for _ in range(6):
        end, metrics = update(end, batch, 0, 0, KEY)
        losses.append(float(metrics["prior_loss"]))
    assert np.all(np.diff(losses) < 0)
    # One prior and one optimiser all along, not new ones at every call.
    assert int(end.updates) == int(end.opt_state[0].count) == 6
    for one, other in zip(jax.tree.leaves(state.prior), jax.tree.leaves(end.prior), strict=True):
        assert not same_bytes(one, other)


@pytest.mark.parametrize("obs_is_state", [False, True])
def test_nothing_behind_the_end_counts(obs_is_state: bool):
    learner, update = learner_for(obs_is_state)
    state, batch = drawn_state(learner), episodes()
    new = update(state, learner.keep(batch), 0, 0, KEY)
    assert same_bytes(update(state, learner.keep(behind_the_end(batch)), 0, 0, KEY), new)
    changed = batch._replace(obs=edited(batch.obs, ((3, 1, 0), 1.0)), state=edited(batch.state, ((3, 1), 1.0)))
    assert not same_bytes(update(state, learner.keep(changed), 0, 0, KEY)[1], new[1])


def test_measures_on_unseen_games_equal_loops():
    learner, _ = learner_for()
    prior = drawn(jax.eval_shape(learner.init, KEY).prior, 1)
    # One subgoal feature says nothing: its mean is the same for every view.
    silent = np.where(np.arange(prior.mean_head.weight.shape[1]) == 2, 0, prior.mean_head.weight)
    prior = jax.tree.map(lambda leaf: silent if leaf is prior.mean_head.weight else leaf, prior)
    state, batch = drawn_state(learner)._replace(prior=prior), episodes()
    metrics = fast_jit(learner.examine)(state, batch, KEY)
    seen = views(batch, False)
    rows = np.concatenate([seen[b, t] for b, t in counted_views()])
    means = np.stack([slow_encode(prior, row)[0] for row in rows])
    rebuilt = np.stack([dense(prior.output, through(prior.decoder, mean)) for mean in means])
    normal = slow_normalise(prior, rows)
    deviation = np.sqrt(np.asarray(prior.statistics.variance))
    noise = np.asarray(jax.random.normal(KEY, (B, T + 1, A, D)), np.float64)
    expected = slow_loss(prior, seen, noise, 0.01) | {
        "prior_rmse": np.sqrt((((rebuilt - normal) * deviation) ** 2).mean()),
        "prior_active": float((means.var(axis=0) > 0.01).sum()),
        "prior_explained": 1 - ((rebuilt - normal) ** 2).mean() / (normal**2).mean(),
    }
    assert expected["prior_active"] == 2.0
    assert set(metrics) == set(expected)
    for name, value in expected.items():
        assert float(metrics[name]) == pytest.approx(value, rel=1e-4), name


def test_the_prior_only_watches():
    learner, _ = learner_for()
    state = drawn_state(learner)
    assert learner.policy(state) is None
    assert learner.tested(state) is state.prior
    assert learner.controls == ()
    # Its own first parameters: encoder and decoder mirror each other, with two hidden layers of 128.
    shapes = [layer.weight.shape for layer in (*state.prior.encoder, *state.prior.decoder, state.prior.output)]
    assert shapes == [(OBS, 128), (128, 128), (D, 128), (128, 128), (128, OBS)]
