"""Controller and Q learner: targets, masks and the optimiser against slow versions; one update under every setting."""

from __future__ import annotations

import dataclasses
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
    ONE_SEAT,
    SPEC,
    TWO_SEATS,
    A,
    B,
    S,
    T,
    U,
    behind_the_end,
    config,
    counted_steps,
    drawn,
    drawn_state,
    edited,
    episodes,
    fast_jit,
    same_bytes,
    unrolled,
)
from omg.components import EpisodeBatch
from omg.config import Config
from omg.controllers import build_mac
from omg.controllers.basic import BasicMAC
from omg.controllers.draw import TeamDraw
from omg.envs.base import Observation
from omg.errors import UserError
from omg.learners import LEARNERS, build_learner
from omg.learners.optimisers import clip_by_norm, torch_rmsprop
from omg.learners.prior import PriorState
from omg.learners.q import QLearner, QState, best_values
from omg.modules.agents import AGENTS
from omg.modules.mixers import MIXERS
from omg.modules.mixers.base import Choices
from omg.registry import ModelTraining

Update = Callable[..., tuple[QState, dict[str, Array]]]


KEY = jax.random.key(7)


def learner_for(team: TeamDraw | None = None, **changes: Any) -> tuple[QLearner, Update]:
    """A learner and its compiled update; tests with the same settings share the compilation."""
    return _compiled(config(**changes).model_dump_json(), team)


@functools.cache
def _compiled(settings: str, team: TeamDraw | None) -> tuple[QLearner, Update]:
    learner = QLearner(Config.model_validate_json(settings), SPEC, team)
    return learner, fast_jit(learner.update)


def slow_metrics(learner: QLearner, state: QState, batch: EpisodeBatch) -> dict[str, float]:
    """The loss with loops over episodes, steps and the seats that learn, from the values of all seats."""
    settings = learner.config
    unroll = fast_jit(unrolled)
    q, target_q = np.asarray(unroll(state.mac, batch)), np.asarray(unroll(state.target_mac, batch))
    avail, actions, ended = np.asarray(batch.avail), np.asarray(batch.actions), np.asarray(batch.terminated)
    seats = [list(range(A))] * B
    if learner.team is not None and batch.seat is not None:
        slots = learner.team.main_slots
        seats = [[(int(first) + slot - slots[0]) % A for slot in slots] for first in batch.seat]
    squared = absolute = taken_sum = target_sum = count = 0.0
    for b, t in counted_steps():
        taken, following, best, best_next = (np.zeros(len(seats[b])) for _ in range(4))
        chosen = np.zeros(len(seats[b]), int)
        for i, a in enumerate(seats[b]):
            taken[i] = q[b, t, a, actions[b, t, a]]
            chooser = q if settings.double_q else target_q
            legal = [u for u in range(U) if avail[b, t + 1, a, u]]
            chosen[i] = max(legal, key=lambda u: chooser[b, t + 1, a, u])
            following[i] = target_q[b, t + 1, a, chosen[i]]
            best[i] = max(q[b, t, a, u] for u in range(U) if avail[b, t, a, u])
            best_next[i] = max(target_q[b, t + 1, a, u] for u in legal)
        reward = np.asarray(batch.reward[b, t])
        if settings.common_reward:
            reward = reward.sum()
        elif reward.ndim == 1:
            reward = reward[seats[b]]
        if state.mixer is not None and state.target_mixer is not None:
            here = Choices(jnp.asarray(actions[b, t, seats[b]]), jnp.asarray(best, jnp.float32))
            ahead = Choices(jnp.asarray(chosen), jnp.asarray(best_next, jnp.float32))
            taken = np.asarray([state.mixer(jnp.asarray(taken, jnp.float32), batch.state[b, t], here)])
            following = jnp.asarray(following, jnp.float32)
            following = np.asarray([state.target_mixer(following, batch.state[b, t + 1], ahead)])
            reward = reward.sum()
        target = reward + settings.gamma * (0.0 if ended[b, t] else 1.0) * following
        squared += ((taken - target) ** 2).sum()
        absolute += np.abs(taken - target).sum()
        taken_sum, target_sum, count = taken_sum + taken.sum(), target_sum + target.sum(), count + taken.size
    return {
        "loss": squared / count,
        "td_error_abs": absolute / count,
        "q_taken_mean": taken_sum / (count * learner.seats),
        "target_mean": target_sum / (count * learner.seats),
    }


CASES: dict[str, tuple[dict[str, Any], bool]] = {
    "iql": ({}, False),
    "iql without double q": ({"double_q": False}, False),
    "iql, a reward per seat": ({}, True),
    "iql, rewards summed": ({"common_reward": True}, True),
    "vdn": ({"mixer": "vdn", "double_q": False}, False),
    "qmix, rewards summed": ({"mixer": "qmix"}, True),
    "qplex": ({"mixer": "qplex"}, True),
    "qmix on the state": ({"mixer": "qmix", "double_q": False, "obs_is_state": True}, False),
}


@pytest.mark.parametrize("case", CASES)
def test_loss_and_metrics_equal_loops(case: str):
    changes, reward_per_agent = CASES[case]
    learner, update = learner_for(**changes)
    state, batch = drawn_state(learner), episodes(reward_per_agent=reward_per_agent)
    _, metrics = update(state, batch, 0, 0, KEY)
    assert set(metrics) == {"loss", "grad_norm", "td_error_abs", "q_taken_mean", "target_mean"}
    for name, expected in slow_metrics(learner, state, batch).items():
        assert float(metrics[name]) == pytest.approx(expected, rel=1e-4, abs=1e-5), name


TEAM_CASES: dict[str, tuple[TeamDraw, dict[str, Any], bool]] = {
    "one seat": (ONE_SEAT, {}, False),
    "one seat, its own reward": (ONE_SEAT, {"double_q": False}, True),
    "one seat, everybody's reward": (ONE_SEAT, {"common_reward": True}, True),
    "one seat, a network each": (ONE_SEAT, {"agent": "idv_rnn"}, True),
    "one seat on the state": (ONE_SEAT, {"agent": "dueling", "obs_is_state": True}, True),
    "two seats": (TWO_SEATS, {}, True),
    "two seats, mixed": (TWO_SEATS, {"mixer": "qmix"}, True),
}


@pytest.mark.parametrize("case", TEAM_CASES)
def test_a_learner_in_some_seats_reads_only_those(case: str):
    team, changes, reward_per_agent = TEAM_CASES[case]
    learner, update = learner_for(team, **changes)
    state, batch = drawn_state(learner), episodes(reward_per_agent=reward_per_agent, team=team)
    kept = learner.keep(batch)
    assert kept.obs.shape == (B, T + 1, learner.seats, OBS)
    assert kept.avail.shape == (B, T + 1, learner.seats, U)
    assert kept.state.shape[-1] == (S if learner.kept.state else 0)
    new, metrics = update(state, kept, 0, 0, KEY)
    for name, expected in slow_metrics(learner, state, batch).items():
        assert float(metrics[name]) == pytest.approx(expected, rel=1e-4, abs=1e-5), name
    # What the other seats saw, could do and did is nothing to it; nor what they were paid, unless rewards are summed.
    other, seats = episodes(5, reward_per_agent=reward_per_agent), np.asarray(learner.main_seats(batch))
    mine = (np.arange(A) == seats[..., None]).any(axis=1)[:, None]
    changed = batch._replace(
        obs=np.where(mine[..., None], batch.obs, other.obs),
        avail=np.where(mine[..., None], batch.avail, other.avail),
        actions=np.where(mine, batch.actions, other.actions),
    )
    if reward_per_agent and not learner.config.common_reward:
        changed = changed._replace(reward=np.where(mine, batch.reward, other.reward))
    assert not same_bytes(changed.obs, batch.obs)
    same, _ = update(state, learner.keep(changed), 0, 0, KEY)
    assert same_bytes(same, new)


def test_the_best_legal_action_by_hand():
    q = jnp.array([[[[1.0, 5.0, 3.0]]], [[[1.0, 5.0, 3.0]]]])
    avail = jnp.array([[[[True, False, True]]], [[[False, False, False]]]])
    # Padding has no legal action, and is worth nothing.
    assert best_values(q, avail)[:, 0, 0].tolist() == [3.0, 0.0]


def test_what_lies_behind_the_end_does_not_count():
    learner, update = learner_for()
    state, batch = drawn_state(learner), episodes()
    new, metrics = update(state, batch, 0, 0, KEY)
    assert same_bytes(update(state, behind_the_end(batch), 0, 0, KEY), (new, metrics))
    # Episodes 1 and 2 ended for real, so their last observation does not count either.
    ended = batch._replace(obs=edited(batch.obs, ((2, 3), 5.0), ((1, 5), 5.0)))
    assert float(update(state, ended, 0, 0, KEY)[1]["loss"]) == pytest.approx(float(metrics["loss"]), rel=1e-6)
    # Episodes 0 and 3 were cut: their last observation is what the last target bootstraps from.
    for cut in (edited(batch.obs, ((0, 5), 5.0)), edited(batch.obs, ((3, 2), 5.0))):
        _, other = update(state, batch._replace(obs=cut), 0, 0, KEY)
        assert abs(float(other["loss"]) - float(metrics["loss"])) > 1e-5


@pytest.mark.parametrize(
    ("agent", "mixer"), [*((agent, None) for agent in sorted(AGENTS)), *(("rnn", mixer) for mixer in sorted(MIXERS))]
)
def test_updates_lower_the_loss(agent: str, mixer: str | None):
    # Without double Q-learning the targets stand still, so that small enough steps must lower the loss every time.
    learner, update = learner_for(agent=agent, mixer=mixer, double_q=False)
    state = end = drawn_state(learner)
    batch, losses = episodes(), []
    for _ in range(6):
        end, metrics = update(end, batch, 0, 0, KEY)
        losses.append(float(metrics["loss"]))
    assert np.all(np.diff(losses) < 0)
    assert int(end.updates) == 6
    for before, after in zip(jax.tree.leaves(state.target_mac), jax.tree.leaves(end.target_mac), strict=True):
        np.testing.assert_array_equal(before, after)
    for before, after in zip(jax.tree.leaves(state.mac), jax.tree.leaves(end.mac), strict=True):
        assert not same_bytes(before, after)


def test_target_is_copied_when_a_multiple_is_passed():
    learner, update = learner_for()
    state, batch, copied = drawn_state(learner), episodes(), []
    for episode in (4, 8, 12, 16, 20, 24, 45, 48):
        state, _ = update(state, batch, episode, 0, KEY)
        copied.append(same_bytes(state.mac.agent.fc1.weight, state.target_mac.agent.fc1.weight))
    assert copied == [False, False, True, False, True, False, True, False]
    assert int(state.last_target_episode) == 45


def test_seeds_learn_as_if_alone():
    learner, alone = learner_for(mixer="vdn", double_q=False)
    states = [drawn_state(learner, seed) for seed in (1, 2)]
    batches = [episodes(seed) for seed in (1, 2)]
    stacked, stacked_batch = (jax.tree.map(lambda *x: jnp.stack(x), *trees) for trees in (states, batches))
    together = fast_jit(jax.vmap(learner.update, in_axes=(0, 0, None, None, None), axis_name="seeds"))
    # The target copy that is due makes the comparison cover the new parameters in both networks.
    result, metrics = together(stacked, stacked_batch, 25, 0, KEY)
    for seed in range(2):
        expected, expected_metrics = alone(states[seed], batches[seed], 25, 0, KEY)
        for name, value in expected_metrics.items():
            assert float(metrics[name][seed]) == pytest.approx(float(value), rel=1e-4, abs=1e-6), name
        for ours, single in zip(jax.tree.leaves(result), jax.tree.leaves(expected), strict=True):
            np.testing.assert_allclose(ours[seed], single, atol=2e-5)


def test_a_broken_loss_shows():
    learner, update = learner_for()
    batch = episodes()
    broken = batch._replace(reward=edited(batch.reward, ((0, 0), np.nan)))
    _, metrics = update(drawn_state(learner), broken, 0, 0, KEY)
    assert not np.isfinite(float(metrics["loss"]))
    assert not np.isfinite(float(metrics["grad_norm"]))


def test_rmsprop_is_pytorchs():
    lr, alpha, eps = 0.05, 0.9, 1e-2
    optimiser = torch_rmsprop(lr, alpha, eps)
    parameter, state = jnp.array([1.0, -2.0]), optimiser.init(jnp.zeros(2))
    expected, square = np.array([1.0, -2.0]), np.zeros(2)
    for gradient in ([0.3, -4.0], [1e-3, 2.0], [0.0, 0.5]):
        step, state = optimiser.update(jnp.array(gradient), state)
        parameter = parameter + step
        square = alpha * square + (1 - alpha) * np.square(gradient)
        expected = expected - lr * np.array(gradient) / (np.sqrt(square) + eps)
    np.testing.assert_allclose(parameter, expected, rtol=1e-5)


def test_clipping_is_pytorchs():
    gradients = {"a": jnp.array([3.0, 0.0]), "b": jnp.array([[4.0]])}
    clipped, norm = clip_by_norm(gradients, 2.5)
    assert float(norm) == pytest.approx(5.0)
    np.testing.assert_allclose(clipped["a"], np.array([3.0, 0.0]) * 2.5 / (5.0 + 1e-6), rtol=1e-6)
    unchanged, _ = clip_by_norm(gradients, 10.0)
    np.testing.assert_array_equal(unchanged["b"], gradients["b"])


# Controller


@pytest.mark.parametrize("obs_is_state", [False, True])
@pytest.mark.parametrize("agent", sorted(AGENTS))
def test_acting_and_unrolling_agree(agent: str, obs_is_state: bool):
    settings = config(agent=agent, obs_is_state=obs_is_state)
    mac = drawn(jax.eval_shape(lambda: build_mac(settings, SPEC, jax.random.key(0))), 0)
    weight = jax.tree.leaves(mac.agent)[0]
    assert weight.shape[-2:] == ((S if obs_is_state else OBS) + U + A, 8)
    batch = episodes()._replace(avail=jnp.ones((B, T + 1, A, U), bool))
    act, carry, chosen = fast_jit(BasicMAC.act), mac.initial(B), []
    assert carry.seats.hidden.shape == (B, A, 4 if agent == "dueling" else 8)
    assert carry.seats.model is None
    assert carry.last_actions.tolist() == [[-1] * A] * B
    for t in range(T + 1):
        seen = Observation(batch.obs[:, t], batch.state[:, t], batch.avail[:, t])
        actions, carry, record = act(mac, seen, carry, jax.random.key(t), 0.0)
        assert record == {}
        assert actions.dtype == jnp.int32
        np.testing.assert_array_equal(carry.last_actions, actions)
        chosen.append(actions)
    # Replaying the actions taken, the unrolled values must name those same actions as the best ones.
    q = fast_jit(unrolled)(mac, batch._replace(actions=jnp.stack(chosen, axis=1)))
    assert q.shape == (B, T + 1, A, U)
    np.testing.assert_array_equal(q.argmax(axis=-1), jnp.stack(chosen, axis=1))


def test_greedy_version_of_a_sampling_controller():
    mac = drawn(jax.eval_shape(lambda: build_mac(config(), SPEC, jax.random.key(0))), 0)
    mac = dataclasses.replace(mac, selector="multinomial")
    batch = episodes()
    seen = Observation(batch.obs[:, 0], batch.state[:, 0], batch.avail[:, 0])
    act = fast_jit(BasicMAC.act)

    def choices(mac: BasicMAC) -> set[bytes]:
        keys = jax.random.split(jax.random.key(0), 8)
        return {np.asarray(act(mac, seen, mac.initial(B), key, 0.0)[0]).tobytes() for key in keys}

    assert len(choices(mac)) > 1
    assert len(choices(mac.greedy())) == 1


def test_unknown_names_are_refused():
    plain = config()
    for key, word, function in (
        ("mac", "basic_mak", lambda c: build_mac(c, SPEC, jax.random.key(0))),
        ("agent", "rnm", lambda c: build_mac(c, SPEC, jax.random.key(0))),
        ("mixer", "qmixx", lambda c: jax.eval_shape(QLearner(c, SPEC).init, jax.random.key(0))),
        ("learner", "q_lerner", lambda c: build_learner(c, SPEC)),
    ):
        with pytest.raises(UserError, match=f"Unknown {key} '{word}'"):
            function(plain.model_copy(update={key: word}))


# Players that search need a game that can be searched; `test_hop_learner` has one.
@pytest.mark.parametrize("name", sorted(name for name, entry in LEARNERS.items() if not entry.traits.plans))
def test_learning_starts_with_equal_networks(name: str):
    model = (
        "omg_am"
        if LEARNERS[name].traits.models is ModelTraining.SUBGOALS
        else "liam_am"
        if name == "q_learner_4am"
        else "none_am"
    )
    mixer = "qmix" if name == "q_learner" else None
    learner = build_learner(config(learner=name, mixer=mixer, am_model=model), SPEC)
    # Shapes are enough for most of it, and the counter is nearly nothing to compile.
    state = jax.eval_shape(learner.init, jax.random.key(0))
    assert int(fast_jit(lambda key: learner.init(key).updates)(jax.random.key(0))) == 0
    if isinstance(state, PriorState):
        assert learner.policy(state) is None
        assert learner.tested(state) is state.prior
        return
    assert learner.policy(state) is state.mac
    if not isinstance(state, QState):
        # Learners of policies have no target copy of the agent; what they have beside it is tested where they are.
        return
    state = fast_jit(learner.init)(jax.random.key(0))
    assert int(state.last_target_episode) == 0
    # The target network has no model of its own: it is given the online one's features.
    assert state.target_mac.opponent_model is None
    assert (state.mac.opponent_model is None) == (model == "none_am")
    for online, target in ((state.mac.agent, state.target_mac.agent), (state.mixer, state.target_mixer)):
        assert same_bytes(online, target)
        assert all(np.asarray(leaf).any() for leaf in jax.tree.leaves(online))
