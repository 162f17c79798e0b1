"""COMA: targets, baseline, advantage and every step of the critic against loops; what the critic may not see."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from helpers.acted import dense, drawn_networks, legal_episodes, seats_of
from helpers.played import (
    LENGTHS,
    ONE_SEAT,
    SPEC,
    A,
    B,
    T,
    U,
    config,
    counted_steps,
    edited,
    episodes,
    fast_jit,
    same_bytes,
    unrolled,
)
from omg.components import EpisodeBatch
from omg.components.selectors import multinomial_log_probabilities
from omg.config import Config, adjust, resolve
from omg.controllers.draw import TeamDraw
from omg.errors import UserError
from omg.learners import build_learner
from omg.learners.advantages import lambda_targets
from omg.learners.coma import COMALearner, COMAState, counterfactual_advantage
from omg.learners.optimisers import clip_by_norm

KEY = jax.random.key(3)
NETWORKS = ("mac", "critic", "target_critic")
FLOOR = {"epsilon_start": 0.3, "epsilon_finish": 0.3}


def learner_for(team: TeamDraw | None = None, **changes: Any) -> tuple[COMALearner, Callable[..., Any]]:
    """A learner and its compiled update; tests with the same settings share the compilation."""
    small = {"learner": "coma_learner", "action_selector": "multinomial", "critic_hidden_dim": 9, **FLOOR}
    return _compiled(config(**small, **changes).model_dump_json(), team)


@functools.cache
def _compiled(settings: str, team: TeamDraw | None) -> tuple[COMALearner, Callable[..., Any]]:
    learner = build_learner(Config.model_validate_json(settings), SPEC, team)
    assert isinstance(learner, COMALearner)
    return learner, fast_jit(learner.update)


# Targets, probabilities and advantages by themselves


@pytest.mark.parametrize("td_lambda", [0.0, 0.7, 1.0])
def test_lambda_targets_equal_loops(td_lambda: float):
    batch, gamma = episodes(2, reward_per_agent=True), 0.9
    values = np.random.default_rng(0).normal(size=(B, T + 1, A))
    mask = np.asarray(batch.filled[:, :-1], np.float32)
    targets = lambda_targets(
        batch.reward[:, :-1], jnp.asarray(values), batch.terminated[:, :-1], mask, gamma, td_lambda
    )
    for b, length in enumerate(LENGTHS):
        for a in range(A):
            after = values[b, length, a]
            for t in reversed(range(length)):
                blend = (1 - td_lambda) * values[b, t + 1, a] + td_lambda * after
                after = batch.reward[b, t, a] + gamma * (not batch.terminated[b, t]) * blend
                assert float(targets[b, t, a]) == pytest.approx(after, rel=1e-4, abs=1e-5)


def slow_probabilities(logits: np.ndarray, legal: np.ndarray, epsilon: float) -> np.ndarray:
    odds = np.where(legal, np.exp(logits - logits[legal].max()), 0.0)
    return np.where(legal, (1 - epsilon) * odds / odds.sum() + epsilon / legal.sum(), 0.0)


@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0])
def test_probabilities_are_a_masked_softmax_with_a_floor(epsilon: float):
    rng = np.random.default_rng(1)
    logits, avail = rng.normal(0, 3, (6, U)), rng.random((6, U)) < 0.5
    avail[:, 2] = True
    result = np.asarray(fast_jit(multinomial_log_probabilities)(jnp.asarray(logits, jnp.float32), avail, epsilon))
    for row in range(6):
        expected = slow_probabilities(logits[row], avail[row], epsilon)
        np.testing.assert_allclose(np.exp(result[row]), expected, atol=1e-6)
        assert np.exp(result[row])[avail[row]].min() >= epsilon / avail[row].sum() - 1e-6
    # Rows of padding, in which nothing is legal, must not spoil a gradient.
    nothing = np.zeros_like(avail)
    for mask in (avail, nothing):
        slope = jax.grad(lambda x, mask=mask: multinomial_log_probabilities(x, mask, epsilon).sum())(
            jnp.asarray(logits, jnp.float32)
        )
        assert np.isfinite(np.asarray(slope)).all()


def test_the_baseline_averages_over_the_own_actions():
    rng = np.random.default_rng(4)
    q, actions = rng.normal(size=(7, U)), rng.integers(0, U, 7)
    pi = rng.dirichlet(np.ones(U), 7)
    result = counterfactual_advantage(jnp.asarray(q), jnp.asarray(pi), jnp.asarray(actions))
    for row in range(7):
        baseline = sum(pi[row, u] * q[row, u] for u in range(U))
        assert float(result[row]) == pytest.approx(q[row, actions[row]] - baseline, abs=1e-5)
    # On average nothing is better than average.
    every = jnp.stack([counterfactual_advantage(q, pi, jnp.full(7, u)) for u in range(U)], axis=1)
    np.testing.assert_allclose((pi * np.asarray(every)).sum(axis=1), np.zeros(7), atol=1e-5)


# The whole update


def critic_input(batch: EpisodeBatch, b: int, t: int, seat: int) -> np.ndarray:
    """State, own observation, the others' actions, everybody's last actions, the seat: side by side."""
    others = [np.zeros(U) if a == seat else np.eye(U)[batch.actions[b, t, a]] for a in range(A)]
    last = [np.zeros(U) if t == 0 else np.eye(U)[batch.actions[b, t - 1, a]] for a in range(A)]
    return np.concatenate([batch.state[b, t], batch.obs[b, t, seat], *others, *last, np.eye(A)[seat]])


def critic_values(critic: Any, rows: np.ndarray) -> np.ndarray:
    hidden = np.maximum(dense(critic.fc1, rows), 0)
    return dense(critic.actions, np.maximum(dense(critic.fc2, hidden), 0))


def slow_update(learner: COMALearner, state: COMAState, batch: EpisodeBatch, epsilon: float) -> tuple[Any, Any]:
    """The critic after all its steps and the metrics, with one gradient at a time."""
    settings, seats = learner.config, seats_of(learner.team, batch)
    m = len(seats[0])
    rows = np.array([[[critic_input(batch, b, t, a) for a in seats[b]] for t in range(T + 1)] for b in range(B)])
    actions = np.array([[[batch.actions[b, t, a] for a in seats[b]] for t in range(T + 1)] for b in range(B)])
    target_q = critic_values(state.target_critic, rows)
    targets = np.zeros((B, T, m))
    for b, length in enumerate(LENGTHS):
        for i, seat in enumerate(seats[b]):
            after = target_q[b, length, i, actions[b, length, i]]
            for t in reversed(range(length)):
                bootstrap = target_q[b, t + 1, i, actions[b, t + 1, i]]
                blend = (1 - settings.td_lambda) * bootstrap + settings.td_lambda * after
                reward = batch.reward[b, t] if batch.reward.ndim == 2 else batch.reward[b, t, seat]
                after = targets[b, t, i] = reward + settings.gamma * (not batch.terminated[b, t]) * blend

    @fast_jit
    def slope(critic: Any, rows: Any, actions: Any, targets: Any) -> Any:
        def loss(critic: Any) -> Any:
            x = jax.nn.relu(critic.fc2(jax.nn.relu(critic.fc1(rows))))
            taken = jnp.take_along_axis(critic.actions(x), actions[:, None], axis=-1)[:, 0]
            return ((taken - targets) ** 2).mean()

        return clip_by_norm(jax.grad(loss)(critic), settings.grad_norm_clip)

    critic, opt_state = state.critic, state.critic_opt_state
    q, losses, norms, steps = np.zeros((B, T, m, U)), [], [], 0
    for t in reversed(range(T)):
        q[:, t] = critic_values(critic, rows[:, t])
        live = [b for b in range(B) if t < LENGTHS[b]]
        if live:
            flat = rows[live, t].reshape(-1, rows.shape[-1]), actions[live, t].ravel(), targets[live, t].ravel()
            error = np.take_along_axis(critic_values(critic, flat[0]), flat[1][:, None], -1)[:, 0] - flat[2]
            losses.append((error**2).mean())
            gradients, norm = slope(critic, *(jnp.asarray(x, jnp.float32) for x in flat[:1]), flat[1], flat[2])
            moves, opt_state = learner.critic_optimiser.update(gradients, opt_state)
            critic, steps = optax.apply_updates(critic, moves), steps + 1
            norms.append(float(norm))
    logits = np.asarray(fast_jit(unrolled)(state.mac, batch))
    loss = advantages = highest = spread = count = 0.0
    for b, t in counted_steps():
        for i, seat in enumerate(seats[b]):
            pi = slow_probabilities(logits[b, t, seat], batch.avail[b, t, seat], epsilon)
            action = actions[b, t, i]
            advantage = q[b, t, i, action] - (pi * q[b, t, i]).sum()
            loss -= advantage * np.log(pi[action])
            advantages, highest, count = advantages + advantage, highest + pi.max(), count + 1
            spread -= sum(p * np.log(p) for p in pi if p > 0)
    metrics = {
        "loss": loss / count,
        "advantage_mean": advantages / count,
        "pi_max": highest / count,
        "entropy": spread / count,
        "critic_loss": np.mean(losses),
        "critic_grad_norm": np.mean(norms),
    }
    return critic, metrics


@pytest.mark.parametrize(("team", "reward_per_agent"), [(None, False), (ONE_SEAT, True)], ids=["all seats", "one seat"])
def test_an_update_equals_loops(team: TeamDraw | None, reward_per_agent: bool):
    learner, update = learner_for(team)
    state = drawn_networks(learner, NETWORKS)
    batch = legal_episodes(3, reward_per_agent=reward_per_agent, team=team)
    critic, expected = slow_update(learner, state, batch, 0.3)
    new, metrics = update(state, learner.keep(batch), 0, 0, KEY)
    for name, value in expected.items():
        assert float(metrics[name]) == pytest.approx(value, rel=1e-3, abs=1e-5), name
    for ours, slow in zip(jax.tree.leaves(new.critic), jax.tree.leaves(critic), strict=True):
        np.testing.assert_allclose(ours, slow, atol=2e-5)
    assert int(new.critic_steps) == max(LENGTHS)
    assert {"grad_norm", "td_error_abs", "q_taken_mean", "target_mean"} <= set(metrics)


def test_nothing_behind_the_last_view_counts():
    learner, update = learner_for()
    state, batch = drawn_networks(learner, NETWORKS), legal_episodes()
    expected = update(state, batch, 0, 0, KEY)
    behind = ((3, slice(3, None)), 2.0), ((2, slice(4, None)), 2.0)
    noisy = batch._replace(
        obs=edited(batch.obs, *behind),
        state=edited(batch.state, *behind),
        actions=np.where(np.arange(T + 1)[None, :, None] > np.asarray(LENGTHS)[:, None, None], 0, batch.actions),
    )
    assert same_bytes(update(state, noisy, 0, 0, KEY), expected)
    # A game that ended for real does not bootstrap from its last view, one that was cut does.
    for episode, slot, matters in ((1, 5, False), (2, 3, False), (0, 5, True), (3, 2, True)):
        other = batch._replace(state=edited(batch.state, ((episode, slot), 1.0)))
        _, metrics = update(state, other, 0, 0, KEY)
        assert (abs(float(metrics["critic_loss"]) - float(expected[1]["critic_loss"])) > 1e-6) == matters


def test_the_critic_sees_the_others_actions_and_not_the_own():
    learner, _ = learner_for()
    state, batch = drawn_networks(learner, NETWORKS), legal_episodes()
    judge = fast_jit(lambda batch: state.critic(learner._critic_inputs(batch, state.mac.reading.episodes(batch))))
    before = np.asarray(judge(batch))
    assert before.shape == (B, T + 1, A, U)
    other = np.array(batch.actions)
    other[0, 2, 1] = (other[0, 2, 1] + 1) % U
    after = np.asarray(judge(batch._replace(actions=other)))
    np.testing.assert_array_equal(after[0, 2, 1], before[0, 2, 1])
    assert np.abs(after[0, 2, 0] - before[0, 2, 0]).max() > 1e-4
    # In the next step it is one of everybody's last actions.
    assert (np.abs(after[0, 3] - before[0, 3]).max(axis=-1) > 1e-4).all()
    np.testing.assert_array_equal(after[0, [0, 1, 4, 5]], before[0, [0, 1, 4, 5]])


def test_the_target_is_copied_after_enough_steps_of_the_critic():
    learner, update = learner_for(target_update_interval=8)
    state, batch, copied = drawn_networks(learner, NETWORKS), legal_episodes(), []
    for _ in range(5):
        state, _ = update(state, batch, 0, 0, KEY)
        copied.append(same_bytes(state.critic, state.target_critic))
    # Five steps per update: the interval is reached after 10 and, from there, after 20.
    assert copied == [False, True, False, True, False]
    assert (int(state.critic_steps), int(state.last_target_step), int(state.updates)) == (25, 20, 5)


def test_configuration_is_pymarls_and_what_cannot_be_is_refused():
    settings, notes = adjust(resolve("coma", "sc2").config, has_gpu=True)
    assert notes == []
    assert (settings.batch_size_run, settings.batch_size, settings.buffer_size) == (8, 8, 8)
    assert (settings.epsilon_start, settings.epsilon_finish, settings.epsilon_anneal_time) == (0.5, 0.01, 100_000)
    assert (settings.td_lambda, settings.critic_lr, settings.target_update_interval) == (0.8, 0.0005, 200)
    fitted, notes = adjust(resolve("coma", "sc2", {"batch_size_run": 16, "buffer_size": 500}).config, has_gpu=True)
    assert (fitted.batch_size, fitted.buffer_size, fitted.updates_per_episode) == (16, 16, 1 / 16)
    assert "buffer_size 500 -> 16, batch_size 8 -> 16, updates_per_episode 0.125 -> 0.0625" in notes[0]
    for changes, message in (
        ({"action_selector": "epsilon_greedy"}, "action_selector: got epsilon_greedy, but learner=coma_learner"),
        ({"am_model": "base_am"}, "am_model: got base_am, but learner=coma_learner trains none"),
        ({"mixer": "vdn"}, "mixer: got vdn, but learner=coma_learner has no use for a mixer"),
    ):
        with pytest.raises(UserError, match=message):
            adjust(resolve("coma", "sc2", changes).config, has_gpu=True)
