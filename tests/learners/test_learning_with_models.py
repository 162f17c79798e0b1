"""Learning with opponent models: what every one of them must keep to, and the controls that play beside it."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array

from helpers.played import (
    ONE_SEAT,
    PARTNERS,
    SPEC,
    A,
    B,
    U,
    behind_the_end,
    config,
    drawn_state,
    edited,
    episodes,
    fast_jit,
    same_bytes,
)
from omg.components import EpisodeBatch
from omg.controllers.base import PlayerView
from omg.controllers.basic import BasicMAC
from omg.controllers.draw import TeamDraw
from omg.learners import build_learner
from omg.learners.q import QLearner
from omg.modules.opponent_models import OPPONENT_MODELS
from omg.modules.opponent_models.base import ModelInputs

D, H = 3, 3
KEY = jax.random.key(11)
MODELS = sorted(name for name, entry in OPPONENT_MODELS.items() if not entry.traits.absent)


def model_learner(model: str, team: TeamDraw | None = ONE_SEAT, **changes: Any) -> QLearner:
    settings = config(am_model=model, learner="omg_learner" if model == "omg_am" else "q_learner_4am", **changes)
    learner = build_learner(settings, SPEC, team, PARTNERS)
    assert isinstance(learner, QLearner)
    return learner


def data(learner: QLearner, seed: int = 0, **options: Any) -> EpisodeBatch:
    return episodes(seed, team=learner.team, **options)


# All opponent models


@functools.cache
def compiled(model: str) -> tuple[QLearner, Callable[..., Any]]:
    # The next state as the subgoal makes the model's targets independent of the values, which learn too.
    learner = model_learner(model, subgoal_mode="next", double_q=False)
    return learner, fast_jit(learner.update)


@pytest.mark.parametrize("model", MODELS)
def test_nothing_behind_the_end_counts(model: str):
    learner, update = compiled(model)
    state, batch = drawn_state(learner), data(learner)
    # Late in the run, when no selected subgoal enters Q any more.
    new = update(state, learner.keep(batch), 0, 60_000, KEY)
    assert same_bytes(update(state, learner.keep(behind_the_end(batch)), 0, 60_000, KEY), new)
    # The last state itself may be a subgoal, but it is no step to learn from.
    ahead = batch._replace(obs=edited(batch.obs, ((1, 5), 1.0), ((2, 3), 1.0)))
    other = update(state, learner.keep(ahead), 0, 60_000, KEY)
    assert same_bytes(other[1]["loss"], new[1]["loss"])
    assert same_bytes(other[1]["am_loss"], new[1]["am_loss"]) == (model != "omg_am")


@pytest.mark.parametrize("model", MODELS)
def test_updates_lower_both_losses(model: str):
    learner, update = compiled(model)
    state = end = drawn_state(learner)
    batch, losses = learner.keep(data(learner)), []
    for _ in range(6):
        end, metrics = update(end, batch, 0, 0, KEY)
        losses.append(float(metrics["am_loss"]))
    learns = bool(jax.tree.leaves(state.mac.opponent_model))
    assert np.all(np.diff(losses) < 0) if learns else losses == [0.0] * 6
    # One model and one optimiser all along, not new ones at every call.
    assert int(end.model_opt_state[0].count) == int(end.updates) == 6

    values, state_q = [], state
    for _ in range(4):
        learned, metrics = update(state_q, batch, 0, 0, KEY)
        values.append(float(metrics["loss"]))
        # The first model goes with every agent, so that nothing but the agent differs.
        kept = dataclasses.replace(learned.mac, opponent_model=state.mac.opponent_model)
        state_q = learned._replace(mac=kept)
    assert np.all(np.diff(values) < 0)


@pytest.mark.parametrize("model", MODELS)
def test_the_q_loss_never_trains_the_model(model: str):
    learner, _ = compiled(model)
    state, batch = drawn_state(learner), learner.keep(data(learner))
    (share,) = learner.shares(state.mac.reading, batch)

    @fast_jit
    def slope(model: Any) -> tuple[Array, Any]:
        def loss(model: Any) -> Array:
            features = model.features(model.unroll(share.views.model_inputs()), KEY)
            agents = (state.mac.agent, None), (state.target_mac.agent, None)
            return learner._loss(*agents, state.mac, share, features)[0]

        return jax.value_and_grad(loss)(model)

    value, gradients = slope(state.mac.opponent_model)
    assert all(not np.asarray(leaf).any() for leaf in jax.tree.leaves(gradients))
    if jax.tree.leaves(gradients):
        other = drawn_state(learner, seed=1).mac.opponent_model
        assert abs(float(slope(other)[0]) - float(value)) > 1e-5


def test_a_given_prior_is_never_changed():
    learner, update = compiled("omg_am")
    state, batch = drawn_state(learner), learner.keep(data(learner))
    end = state
    for seed in range(3):
        end, metrics = update(end, batch, 0, 0, jax.random.key(seed))
    assert "prior_loss" not in metrics
    before, after = state.mac.opponent_model, end.mac.opponent_model
    assert same_bytes(before.prior, after.prior)
    for one, other in zip(
        jax.tree.leaves(before.with_prior(None)), jax.tree.leaves(after.with_prior(None)), strict=True
    ):
        assert not same_bytes(one, other)
    moments = jax.tree.leaves(state.model_opt_state[0].mu)
    assert [leaf.shape for leaf in moments] == [leaf.shape for leaf in jax.tree.leaves(before.with_prior(None))]


# Controls while acting


def by_hand(features: str, inferred: np.ndarray) -> np.ndarray:
    if features == "zero":
        return np.zeros_like(inferred)
    return np.stack([inferred[b - 1] for b in range(B)]) if features == "shuffled" else inferred


@pytest.mark.parametrize("agent", ["rnn", "dueling"])
def test_controls_act_with_zeros_and_with_the_neighbours_features(agent: str):
    learner = model_learner("omg_am", agent=agent)
    state, batch = drawn_state(learner), data(learner)
    assert state.mac.sampling
    assert learner.controls == ("zero", "shuffled")
    assert model_learner("omg_am", team=None).controls == ()
    players = {"inferred": learner.tested(state), **{name: learner.control(state, name) for name in learner.controls}}
    assert all(mac.reading.feature_control == name and not mac.sampling for name, mac in players.items())
    seats, rows = ONE_SEAT.main_seats(batch.seat), np.arange(B)[:, None]
    act, model = fast_jit(BasicMAC.act_seats), state.mac.opponent_model
    infer = fast_jit(lambda inputs, memory: model.infer(inputs, memory, None))

    @fast_jit
    def respond(view: PlayerView, features: Array, h: Array) -> tuple[Array, Array]:
        last = jnp.take_along_axis(view.last_actions, seats, axis=1)
        h = state.mac.agent.step(state.mac.agent.embed(view.obs, last, features, seats), h, seats)
        return h, jnp.where(view.avail, state.mac.agent.head(h, seats), -jnp.inf).argmax(axis=-1)

    hidden_of = {}
    for name, mac in players.items():
        memory, model_memory = mac.initial_seats(B, 1), model.initial(B, 1)
        h, last = memory.hidden, np.full((B, A), -1, np.int32)
        for t in range(3):
            obs, avail = batch.obs[rows, t, seats], np.broadcast_to(np.arange(U) > 0, (B, 1, U))
            view = PlayerView(obs, batch.state[:, t], avail, seats, last)
            actions, memory, record = act(mac, view, memory, KEY, 0.0)
            inferred, model_memory, _ = infer(ModelInputs(obs, last, seats), model_memory)
            # What is noted is what was inferred, whatever became of it.
            np.testing.assert_allclose(record["infer_mu"], inferred, atol=1e-6)
            h, best = respond(view, by_hand(mac.reading.feature_control, np.asarray(inferred)), h)
            np.testing.assert_allclose(memory.hidden, h, atol=1e-6)
            np.testing.assert_array_equal(actions, best)
            last = batch.actions[:, t]
        hidden_of[name] = np.asarray(memory.hidden)
    assert np.abs(hidden_of["inferred"] - hidden_of["zero"]).max() > 1e-3
    assert np.abs(hidden_of["inferred"] - hidden_of["shuffled"]).max() > 1e-3


def test_the_zero_control_is_zero_from_training_to_acting():
    learner = model_learner("omg_am", omg_q_input="zero")
    state, batch = drawn_state(learner), data(learner)
    seats = ONE_SEAT.main_seats(batch.seat)
    obs = batch.obs[np.arange(B)[:, None], 0, seats]
    view = PlayerView(obs, batch.state[:, 0], np.ones((B, 1, U), bool), seats, np.full((B, A), -1))
    act = fast_jit(BasicMAC.act_seats)
    silent = np.pad(state.mac.agent.fc1.weight[:-D], ((0, D), (0, 0)))
    deaf = eqx.tree_at(lambda mac: mac.agent.fc1.weight, state.mac, silent)
    for mac in (state.mac, learner.tested(state)):
        _, memory, record = act(mac, view, mac.initial_seats(B, 1), KEY, 0.0)
        _, expected, _ = act(deaf, view, deaf.initial_seats(B, 1), KEY, 0.0)
        np.testing.assert_allclose(memory.hidden, expected.hidden, atol=1e-7)
        assert np.abs(record["infer_mu"]).max() > 1e-3
