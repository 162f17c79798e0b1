"""QTRAN: its three losses against loops over episodes, steps and seats, and what each of them trains."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from helpers.acted import dense, legal_episodes, perceptron, seats_of
from helpers.played import (
    ONE_SEAT,
    SPEC,
    TWO_SEATS,
    U,
    behind_the_end,
    config,
    counted_steps,
    drawn_state,
    fast_jit,
    same_bytes,
)
from omg.components import EpisodeBatch
from omg.config import Config, adjust, resolve
from omg.controllers.basic import BasicMAC
from omg.controllers.draw import TeamDraw
from omg.errors import UserError
from omg.learners import build_learner
from omg.learners.q import QState
from omg.learners.qtran import QTranLearner

KEY = jax.random.key(5)


def learner_for(team: TeamDraw | None = None, **changes: Any) -> tuple[QTranLearner, Callable[..., Any]]:
    """A learner and its compiled update; tests with the same settings share the compilation."""
    return _compiled(config(learner="qtran_learner", **changes).model_dump_json(), team)


@functools.cache
def _compiled(settings: str, team: TeamDraw | None) -> tuple[QTranLearner, Callable[..., Any]]:
    learner = build_learner(Config.model_validate_json(settings), SPEC, team)
    assert isinstance(learner, QTranLearner)
    return learner, fast_jit(learner.update)


@fast_jit
def unrolled(mac: BasicMAC, batch: EpisodeBatch) -> tuple[Any, Any]:
    """Values and recurrent states of all seats."""
    return mac.reading.episodes(batch).run(mac.agent, None)


def joint_value(mixer: Any, state: np.ndarray, hidden: list[np.ndarray], actions: list[int]) -> float:
    """Q_jt on concatenated inputs, one seat after the other."""
    encoding = np.zeros(mixer.encode_out.bias.shape)
    for h, action in zip(hidden, actions, strict=True):
        first = np.maximum(dense(mixer.encode_in, np.concatenate([h, np.eye(U)[action]])), 0)
        encoding = encoding + dense(mixer.encode_out, first)
    return float(perceptron(mixer.joint.layers, np.concatenate([state, encoding]))[0])


def slow_losses(learner: QTranLearner, state: QState, batch: EpisodeBatch) -> dict[str, float]:
    settings = learner.config
    (q, hidden), (target_q, target_hidden) = (
        [np.asarray(values, np.float64) for values in unrolled(mac, batch)] for mac in (state.mac, state.target_mac)
    )
    seats = seats_of(learner.team, batch)
    sums = dict.fromkeys(("td", "opt", "nopt", "abs", "joint", "target", "v", "agents"), 0.0)
    steps = counted_steps()
    for b, t in steps:

        def best(values: np.ndarray, slot: int, b: int = b) -> list[int]:
            legal = [[u for u in range(U) if batch.avail[b, slot, a, u]] for a in seats[b]]
            return [max(us, key=lambda u: values[b, slot, a, u]) for a, us in zip(seats[b], legal, strict=True)]

        here, following = best(q, t), best(q if settings.double_q else target_q, t + 1)
        taken = [int(batch.actions[b, t, a]) for a in seats[b]]
        memory, next_memory = [hidden[b, t, a] for a in seats[b]], [target_hidden[b, t + 1, a] for a in seats[b]]
        reward = np.asarray(batch.reward[b, t])
        if reward.ndim:
            reward = reward.sum() if settings.common_reward else reward[seats[b]].sum()
        follows = joint_value(state.target_mixer, batch.state[b, t + 1], next_memory, following)
        target = reward + settings.gamma * (not batch.terminated[b, t]) * follows
        joint = joint_value(state.mixer, batch.state[b, t], memory, taken)
        joint_best = joint_value(state.mixer, batch.state[b, t], memory, here)
        value = float(perceptron(state.mixer.value.layers, batch.state[b, t])[0])
        own_best = sum(q[b, t, a, u] for a, u in zip(seats[b], here, strict=True))
        own = sum(q[b, t, a, u] for a, u in zip(seats[b], taken, strict=True))
        sums["td"] += (joint - target) ** 2
        sums["opt"] += (own_best - joint_best + value) ** 2
        sums["nopt"] += min(0.0, own - joint + value) ** 2
        sums["abs"] += abs(joint - target)
        sums["joint"] += joint / learner.seats
        sums["target"] += target / learner.seats
        sums["v"] += value
        sums["agents"] += own / learner.seats
    mean = {name: total / len(steps) for name, total in sums.items()}
    loss = mean["td"] + settings.opt_loss * mean["opt"] + settings.nopt_min_loss * mean["nopt"]
    return {
        "loss": loss,
        "td_loss": mean["td"],
        "opt_loss": mean["opt"],
        "nopt_loss": mean["nopt"],
        "td_error_abs": mean["abs"],
        "q_taken_mean": mean["joint"],
        "target_mean": mean["target"],
        "v_mean": mean["v"],
        "agent_q_mean": mean["agents"],
    }


CASES: dict[str, tuple[TeamDraw | None, dict[str, Any], bool]] = {
    "all seats": (None, {}, False),
    "big networks, other weights": (None, {"network_size": "big", "opt_loss": 0.7, "nopt_min_loss": 2.0}, False),
    "without double q, rewards summed": (None, {"double_q": False, "common_reward": True}, True),
    "feed-forward on the state": (None, {"agent": "mlp", "mlp_second_dim": 6, "obs_is_state": True}, False),
    "one seat of a team": (ONE_SEAT, {}, True),
    "two seats of a team": (TWO_SEATS, {"common_reward": True}, True),
}


@pytest.mark.parametrize("case", CASES)
def test_losses_equal_loops(case: str):
    team, changes, reward_per_agent = CASES[case]
    learner, update = learner_for(team, **changes)
    state, batch = drawn_state(learner), legal_episodes(reward_per_agent=reward_per_agent, team=team)
    expected = slow_losses(learner, state, batch)
    assert expected["nopt_loss"] > 0
    _, metrics = update(state, learner.keep(batch), 0, 0, KEY)
    assert set(metrics) == {*expected, "grad_norm"}
    for name, value in expected.items():
        assert float(metrics[name]) == pytest.approx(value, rel=1e-4, abs=1e-5), name


def test_nothing_behind_the_end_counts():
    learner, update = learner_for()
    state, batch = drawn_state(learner), legal_episodes()
    assert same_bytes(update(state, behind_the_end(batch), 0, 0, KEY), update(state, batch, 0, 0, KEY))


def test_the_seats_agree_with_the_joint_value_and_not_the_other_way_round():
    batch = legal_episodes()

    def slopes(**weights: float) -> Any:
        learner, _ = learner_for(**weights)
        state = drawn_state(learner)
        learned, frozen = (state.mac.agent, state.mixer), (state.target_mac.agent, state.target_mixer)
        (share,) = learner.shares(state.mac.reading, batch)
        return fast_jit(jax.grad(lambda nets: learner._loss(nets, frozen, state.mac, share, None)[0]))(learned)

    (agent_td, alone), (agent_all, together) = slopes(opt_loss=0.0, nopt_min_loss=0.0), slopes()
    for name in ("joint", "encode_in", "encode_out"):
        ours, others = (jax.tree.leaves(getattr(mixer, name)) for mixer in (alone, together))
        for one, other in zip(ours, others, strict=True):
            np.testing.assert_allclose(one, other, atol=1e-6)
    # The state's value and the seats' own values learn by the other two losses, and by nothing else.
    assert not any(np.asarray(leaf).any() for leaf in jax.tree.leaves((alone.value, agent_td.fc2)))
    assert all(np.asarray(leaf).any() for leaf in jax.tree.leaves((together.value, agent_all.fc2)))


def test_updates_lower_the_loss_and_copies_are_made():
    learner, update = learner_for(double_q=False)
    state, batch, losses = drawn_state(learner), legal_episodes(), []
    before = state.target_mixer
    for _ in range(6):
        state, metrics = update(state, batch, 0, 0, KEY)
        losses.append(float(metrics["loss"]))
    assert np.all(np.diff(losses) < 0)
    assert same_bytes(state.target_mixer, before)
    state, _ = update(state, batch, 10, 0, KEY)
    assert same_bytes(state.target_mixer, state.mixer)
    assert same_bytes(state.target_mac.agent, state.mac.agent)


def test_a_team_value_needs_a_team_reward():
    settings = resolve("qtran", "foraging").config
    assert adjust(settings, has_gpu=True)[0].common_reward is True
    for changes, message in (
        ({"common_reward": False}, "common_reward: got False, but learner=qtran_learner learns one team value"),
        ({"mixer": "vdn"}, "mixer: got vdn, but learner=qtran_learner has no use for a mixer"),
        ({"prosocial": 0.5}, "prosocial: got 0.5, but the rewards of all seats are summed into one"),
    ):
        with pytest.raises(UserError, match=message):
            adjust(resolve("qtran", "foraging", changes).config, has_gpu=True)


def test_joint_values_tell_joint_actions_apart_that_no_sum_can():
    """Fitted to a table that pays only for equal actions, which is not monotonic in any seat's action."""
    learner, _ = learner_for(mixing_embed_dim=32)
    mixer = drawn_state(learner).mixer
    pairs = jnp.array([[i, j, 0] for i in range(2) for j in range(2)])
    pay, state, hidden = jnp.array([1.0, -1.0, -1.0, 1.0]), jnp.ones((4, 6)), jnp.zeros((4, 3, 8))
    adam = optax.adam(0.003)

    @fast_jit
    def fit(mixer: Any) -> Any:
        def loss(mixer: Any) -> Any:
            return ((mixer.joint_value(state, hidden, pairs) - pay) ** 2).mean()

        def step(carry: tuple[Any, Any], _: None) -> tuple[tuple[Any, Any], Any]:
            value, slope = jax.value_and_grad(loss)(carry[0])
            moves, moments = adam.update(slope, carry[1])
            return (optax.apply_updates(carry[0], moves), moments), value

        return jax.lax.scan(step, (mixer, adam.init(mixer)), None, length=300)[1]

    errors = fit(mixer)
    # The best sum of two tables leaves a squared error of 1.
    assert float(errors[0]) > 0.5
    assert float(errors[-1]) < 0.05
