"""PR2: targets and losses against loops, expected answers that are the best ones, and a game that needs them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers.acted import drawn_networks, legal_episodes, seats_of
from helpers.played import (
    ONE_SEAT,
    PARTNERS,
    SPEC,
    A,
    B,
    T,
    U,
    behind_the_end,
    config,
    counted_steps,
    fast_jit,
    same_bytes,
    unrolled,
)
from omg.components import EpisodeBatch
from omg.config import Config, adjust, resolve
from omg.controllers.draw import TeamDraw
from omg.envs.base import EnvSpec
from omg.errors import UserError
from omg.learners import build_learner
from omg.learners.pr2 import PR2Learner, PR2State, draw_answers

KEY = jax.random.key(9)
NETWORKS = ("mac", "q", "target_q", "others")
ALPHA, GAMMA, SAMPLES = 0.3, 0.9, 2
SMALL: dict[str, Any] = {
    "learner": "pr2_learner",
    "agent": "idv_conv",
    "action_selector": "multinomial",
    "optimizer": "adam",
    "critic_hidden_dim": 7,
    "obs_agent_id": False,
    "obs_last_action": False,
    "gamma": GAMMA,
    "pr2_temperature": ALPHA,
    "pr2_samples": SAMPLES,
}


def learner_for(team: TeamDraw | None = None, **changes: Any) -> tuple[PR2Learner, Callable[..., Any]]:
    """A learner and its compiled update; tests with the same settings share the compilation."""
    return _compiled(config(**(SMALL | changes)).model_dump_json(), team)


@functools.cache
def _compiled(settings: str, team: TeamDraw | None) -> tuple[PR2Learner, Callable[..., Any]]:
    learner = build_learner(Config.model_validate_json(settings), SPEC, team, PARTNERS)
    assert isinstance(learner, PR2Learner)
    return learner, fast_jit(learner.update)


# Whole updates against loops


def perceptron(networks: Any, seat: int, *parts: np.ndarray) -> np.ndarray:
    network = networks.networks
    if networks.n_agents is not None:
        network = jax.tree.map(lambda leaf: leaf[seat], network)
    x = np.concatenate(parts)
    for layer in (network.fc1, network.fc2):
        x = np.maximum(x @ np.asarray(layer.weight, np.float64) + np.asarray(layer.bias), 0)
    return x @ np.asarray(network.value.weight, np.float64) + np.asarray(network.value.bias)


def softmax(logits: np.ndarray, legal: np.ndarray) -> np.ndarray:
    """Zero for what is not legal."""
    result = np.zeros(legal.size)
    result[legal] = np.exp(logits[legal] - logits[legal].max())
    return result / result.sum()


def entropy(p: np.ndarray) -> float:
    return float(-(p[p > 0] * np.log(p[p > 0])).sum())


class Slow:
    """A learner's networks, asked for one seat of one slot at a time."""

    def __init__(self, state: PR2State, batch: EpisodeBatch):
        self.state, self.batch = state, batch
        self.logits = np.asarray(fast_jit(unrolled)(state.mac, batch))

    def rho(self, b: int, t: int, seat: int, own: int) -> list[np.ndarray]:
        logits = perceptron(self.state.others, seat, self.batch.obs[b, t, seat], np.eye(U)[own]).reshape(A - 1, U)
        return [softmax(logits[k - 1], self.batch.avail[b, t, (seat + k) % A]) for k in range(1, A)]

    def q(self, networks: Any, b: int, t: int, seat: int, own: int, others: Any) -> float:
        answers = np.concatenate([np.eye(U)[int(action)] for action in others])
        return float(perceptron(networks, seat, self.batch.obs[b, t, seat], answers)[own])

    def pi(self, b: int, t: int, seat: int) -> np.ndarray:
        return softmax(self.logits[b, t, seat], self.batch.avail[b, t, seat])

    def soft(self, networks: Any, b: int, t: int, seat: int, drawn: np.ndarray) -> np.ndarray:
        """`drawn`: [U, samples, A-1], the answers to each own action."""
        result = np.zeros(U)
        for own in range(U):
            result[own] = np.mean([self.q(networks, b, t, seat, own, answer) for answer in drawn[own]])
            result[own] += ALPHA * sum(entropy(p) for p in self.rho(b, t, seat, own))
        return result

    def value(self, networks: Any, b: int, t: int, seat: int, drawn: np.ndarray) -> float:
        pi = self.pi(b, t, seat)
        return float(pi @ self.soft(networks, b, t, seat, drawn)) + ALPHA * entropy(pi)


@pytest.mark.parametrize(
    ("team", "changes"),
    [(None, {}), (None, {"agent": "mlp"}), (ONE_SEAT, {})],
    ids=["a network each", "one network", "one seat of a team"],
)
def test_an_update_equals_loops(team: TeamDraw | None, changes: dict[str, Any]):
    learner, update = learner_for(team, **changes)
    state, batch = drawn_networks(learner, NETWORKS), legal_episodes(reward_per_agent=True, team=team)
    seats = seats_of(team, batch)
    kept = jax.tree.map(jnp.asarray, learner.keep(batch))

    @fast_jit
    def draws() -> tuple[Any, ...]:
        """The same draws as in the update, each by the key that it uses."""
        target_key, policy_key, others_key = jax.random.split(KEY, 3)
        sight = learner.sight(kept, state.mac.reading.episodes(kept, learner.main_seats(kept)))
        every = learner.log_rho(state.others, sight, jnp.eye(U)[None, None, :, None])
        taken = learner.log_rho(state.others, sight, jax.nn.one_hot(sight.own, U)[:, :, None])
        return (
            draw_answers(target_key, every, SAMPLES),
            draw_answers(policy_key, every, SAMPLES),
            draw_answers(others_key, taken, 1)[:, :, 0],
        )

    # [B, T+1, U, samples, m, A-1] twice, and [B, T+1, m, A-1].
    ahead, now, answers = (np.asarray(values) for values in draws())
    ahead, now = (values.reshape(B, T + 1, U, SAMPLES, -1, A - 1) for values in (ahead, now))
    slow = Slow(state, batch)
    found: dict[str, list[float]] = {name: [] for name in ("loss", "target_mean", "policy_loss", "rho_loss", "entropy")}
    entropies = []
    for b, t in counted_steps():
        for i, seat in enumerate(seats[b]):
            joint = [int(batch.actions[b, t, (seat + k) % A]) for k in range(A)]
            follows = 0.0
            if not batch.terminated[b, t]:
                follows = slow.value(state.target_q, b, t + 1, seat, ahead[b, t + 1, :, :, i])
            target = batch.reward[b, t, seat] + GAMMA * follows
            found["target_mean"].append(target)
            found["loss"].append((slow.q(state.q, b, t, seat, joint[0], joint[1:]) - target) ** 2)
            found["policy_loss"].append(-slow.value(state.q, b, t, seat, now[b, t, :, :, i]))
            found["entropy"].append(entropy(slow.pi(b, t, seat)))
            expected, rho = 0.0, slow.rho(b, t, seat, joint[0])
            for k in range(A - 1):
                entropies.append(entropy(rho[k]))
                for action in range(U):
                    answer = [*answers[b, t, i]]
                    answer[k] = action
                    chance = rho[k][action]
                    if chance > 0:
                        expected += chance * (ALPHA * np.log(chance) - slow.q(state.q, b, t, seat, joint[0], answer))
            found["rho_loss"].append(expected)
    new, metrics = update(state, kept, 0, 0, KEY)
    for name, values in found.items():
        assert float(metrics[name]) == pytest.approx(np.mean(values), rel=1e-3, abs=1e-5), name
    assert float(metrics["rho_entropy"]) == pytest.approx(np.mean(entropies), rel=1e-3)
    for before, after in (("mac", new.mac), ("q", new.q), ("others", new.others)):
        assert not same_bytes(getattr(state, before), after), before
    assert same_bytes(state.target_q, new.target_q)


def test_the_target_follows_at_its_interval_and_padding_does_not_count():
    learner, update = learner_for()
    state, batch = drawn_networks(learner, NETWORKS), legal_episodes(reward_per_agent=True)
    new, metrics = update(state, batch, 10, 0, KEY)
    assert same_bytes(new.target_q, new.q)
    assert int(new.last_target_episode) == 10
    other, other_metrics = update(state, behind_the_end(batch), 10, 0, KEY)
    assert same_bytes(new, other)
    assert same_bytes(metrics, other_metrics)


def test_settings_that_do_not_go_together_are_refused():
    for changes, message in (
        ({"am_model": "base_am"}, "learner=pr2_learner trains none"),
        ({"mixer": "vdn"}, "has no use for a mixer"),
        ({"action_selector": "epsilon_greedy"}, "Allowed: multinomial"),
    ):
        with pytest.raises(UserError, match=message):
            adjust(resolve("pr2", "stag_hunt", changes).config, has_gpu=False)


# Learning

CLIMBING = np.array([[11.0, -30.0, 0.0], [-30.0, 7.0, 6.0], [0.0, 0.0, 5.0]])
"""Both get this. The best joint action lies beside the worst; on average the last action pays most."""


def test_the_climbing_game_is_solved_by_asking_what_the_other_would_answer():
    spec = EnvSpec("test", "test", 2, 3, 1, 1, 1)
    small = {"critic_hidden_dim": 32, "rnn_hidden_dim": 16, "pr2_samples": 4, "pr2_temperature": 1.0, "gamma": 0.0}
    rates = {"lr": 0.01, "critic_lr": 0.01, "am_lr": 0.01}
    learner = PR2Learner(config(**(SMALL | small | rates)), spec)
    joint = np.stack(np.meshgrid(range(3), range(3), indexing="ij"), axis=-1).reshape(9, 1, 2)
    slots: Any = np.array([[True, False]] * 9)
    actions: Any = np.concatenate([joint, joint], axis=1).astype(np.int32)
    batch = EpisodeBatch(
        obs=jnp.ones((9, 2, 2, 1)),
        state=jnp.ones((9, 2, 1)),
        avail=jnp.ones((9, 2, 2, 3), bool),
        actions=actions,
        reward=jnp.asarray(CLIMBING[actions[..., 0], actions[..., 1]], jnp.float32),
        terminated=slots,
        filled=slots,
        seat=None,
        records={},
    )

    @jax.jit
    def learn(key: Any) -> tuple[PR2State, dict[str, Any]]:
        start_key, key = jax.random.split(key)
        step = functools.partial(learner.update, batch=batch, episode=0, t_env=0)
        state, metrics = jax.lax.scan(
            lambda state, key: step(state, key=key), learner.init(start_key), jax.random.split(key, 400)
        )
        return state, jax.tree.map(lambda values: values[-1], metrics)

    state, metrics = learn(jax.random.key(0))
    assert float(metrics["loss"]) < 1.0
    chances = np.asarray(jax.nn.softmax(unrolled(state.mac, batch)[0, 0]))
    assert CLIMBING.mean(axis=1).argmax() == 2
    np.testing.assert_array_equal(chances.argmax(axis=-1), [0, 0])
    assert chances[:, 0].min() > 0.8
    # To each action the answers that suit me: a softmax over the other's actions, rows for one player, columns for
    # the other.
    sight = learner.sight(batch, state.mac.reading.episodes(batch))
    answers = np.exp(np.asarray(learner.log_rho(state.others, sight, jnp.eye(3)[None, None, :, None])))[0, 0, :, :, 0]
    for seat, worth in enumerate((CLIMBING, CLIMBING.T)):
        wanted = np.exp(worth) / np.exp(worth).sum(axis=1, keepdims=True)
        np.testing.assert_allclose(answers[:, seat], wanted, atol=0.15)
