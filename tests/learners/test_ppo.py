"""IPPO and MAPPO: advantages and whole updates against loops; on-policy data; features."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers.acted import dense, drawn_networks, legal_episodes, seats_of
from helpers.played import (
    LENGTHS,
    ONE_SEAT,
    PARTNERS,
    SPEC,
    TWO_SEATS,
    A,
    B,
    T,
    U,
    config,
    counted_steps,
    edited,
    fast_jit,
    same_bytes,
    unrolled,
)
from omg.components import EpisodeBatch
from omg.config import Config, adjust, resolve
from omg.controllers.draw import TeamDraw
from omg.errors import UserError
from omg.learners import build_learner
from omg.learners.advantages import ValueScale, generalised_advantages, standardised, unscaled
from omg.learners.critics import rescaled
from omg.learners.ppo import PPOLearner, PPOState
from omg.training.program import Program

KEY = jax.random.key(9)
NETWORKS = ("mac", "critic")


def learner_for(team: TeamDraw | None = None, **changes: Any) -> tuple[PPOLearner, Callable[..., Any]]:
    """A learner and its compiled update; tests with the same settings share the compilation."""
    small = {"learner": "ppo_learner", "action_selector": "multinomial", "optimizer": "adam", "lr": 1e-3}
    small |= {"epsilon_start": 0.0, "epsilon_finish": 0.0, "critic_hidden_dim": 7, "ppo_epochs": 1}
    return _compiled(config(**(small | changes)).model_dump_json(), team)


@functools.cache
def _compiled(settings: str, team: TeamDraw | None) -> tuple[PPOLearner, Callable[..., Any]]:
    learner = build_learner(Config.model_validate_json(settings), SPEC, team, PARTNERS)
    assert isinstance(learner, PPOLearner)
    return learner, fast_jit(learner.update)


# Advantages


def slow_advantages(
    reward: np.ndarray, values: np.ndarray, ended: np.ndarray, gamma: float, gae_lambda: float
) -> np.ndarray:
    """By the definition: a sum of discounted errors, up to the end of the episode. Rewards [B, T, m]."""
    result = np.zeros(reward.shape)
    for b, length in enumerate(LENGTHS):
        for t in range(length):
            for k in range(t, length):
                follows = 0.0 if ended[b, k] else values[b, k + 1]
                result[b, t] += (gamma * gae_lambda) ** (k - t) * (reward[b, k] + gamma * follows - values[b, k])
    return result


@pytest.mark.parametrize("on_cpu", [True, False])
@pytest.mark.parametrize("gae_lambda", [0.0, 0.8, 1.0])
def test_advantages_equal_sums_of_errors(gae_lambda: float, on_cpu: bool, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("omg.learners.advantages.on_cpu", lambda: on_cpu)
    batch = legal_episodes(1, reward_per_agent=True)
    values = np.random.default_rng(0).normal(size=(B, T + 1, A))
    mask = np.asarray(batch.filled[:, :-1], np.float32)
    reward, ended = batch.reward[:, :-1], batch.terminated[:, :-1]
    advantages = generalised_advantages(reward, jnp.asarray(values), ended, mask, 0.9, gae_lambda)
    expected = slow_advantages(reward, values, ended, 0.9, gae_lambda)
    np.testing.assert_allclose(advantages, expected, atol=1e-5)
    # Of the values behind an end only those count that a cut episode bootstraps from.
    for episode, slot, matters in ((0, 5, True), (1, 5, False), (2, 3, False), (3, 2, True), (3, 3, False)):
        other = edited(values, ((episode, slot), 1.0))
        changed = np.asarray(generalised_advantages(reward, jnp.asarray(other), ended, mask, 0.9, gae_lambda))
        assert (np.abs(changed - expected).max() > 1e-3) == matters
    even = np.asarray(standardised(advantages, mask))
    counted = np.concatenate([even[b, : LENGTHS[b]].ravel() for b in range(B)])
    assert counted.mean() == pytest.approx(0.0, abs=1e-6)
    assert counted.std() == pytest.approx(1.0, rel=1e-4)
    assert not even[3, 2:].any()


# Whole updates


def critic_input(learner: PPOLearner, batch: EpisodeBatch, b: int, t: int, seat: int) -> np.ndarray:
    settings = learner.config
    if settings.critic_input == "state":
        return np.concatenate([batch.state[b, t], np.eye(A)[seat]])
    parts = [batch.state[b, t] if settings.obs_is_state else batch.obs[b, t, seat]]
    if settings.obs_last_action:
        parts.append(np.zeros(U) if t == 0 else np.eye(U)[batch.actions[b, t - 1, seat]])
    if settings.obs_agent_id:
        parts.append(np.eye(A)[seat])
    return np.concatenate(parts)


def slow_values(learner: PPOLearner, critic: Any, batch: EpisodeBatch, seats: list[list[int]]) -> np.ndarray:
    """What the critic says, step by step on concatenated inputs, [B, T+1, m]."""
    result = np.zeros((B, T + 1, len(seats[0])))
    for b in range(B):
        for i, seat in enumerate(seats[b]):
            width = critic.fc1.bias.size
            h = np.zeros(width)
            for t in range(T + 1):
                first = np.maximum(dense(critic.fc1, critic_input(learner, batch, b, t, seat)), 0)
                if hasattr(critic, "fc2"):
                    h = np.maximum(dense(critic.fc2, first), 0)
                else:
                    gates, hidden = dense(critic.input_gates, first), dense(critic.hidden_gates, h)
                    r, z = (
                        1 / (1 + np.exp(-gates[part] - hidden[part]))
                        for part in (slice(width), slice(width, 2 * width))
                    )
                    n = np.tanh(gates[2 * width :] + r * hidden[2 * width :])
                    h = (1 - z) * n + z * h
                result[b, t, i] = dense(critic.value, h)[0]
    return result


def slow_reward(settings: Config, batch: EpisodeBatch, seats: list[list[int]]) -> np.ndarray:
    reward = np.zeros((B, T, len(seats[0])))
    for b in range(B):
        for t in range(T):
            for i, seat in enumerate(seats[b]):
                paid = np.asarray(batch.reward[b, t])
                if paid.ndim and settings.common_reward:
                    paid = paid.sum()
                elif paid.ndim:
                    paid = (1 - settings.prosocial) * paid[seat] + settings.prosocial * paid.sum() / A
                reward[b, t, i] = paid
    return reward


def slow_metrics(learner: PPOLearner, state: PPOState, batch: EpisodeBatch, logits: np.ndarray) -> dict[str, float]:
    """Metrics of the first pass by a policy with the given logits; `state` is the one that played."""
    settings, seats = learner.config, seats_of(learner.team, batch)
    values = slow_values(learner, state.critic, batch, seats)
    reward = slow_reward(settings, batch, seats)
    advantages = slow_advantages(reward, values, batch.terminated, settings.gamma, settings.gae_lambda)
    steps = [(b, t, i) for b, t in counted_steps() for i in range(len(seats[0]))]
    raw = np.array([advantages[step] for step in steps])
    targets = np.array([advantages[step] + values[step] for step in steps])
    scaled = (raw - raw.mean()) / raw.std() if settings.normalise_advantage else raw
    played = np.asarray(fast_jit(unrolled)(state.mac, batch))
    objective, entropy, divergence, limits = [], [], [], []
    for (b, t, i), advantage in zip(steps, scaled, strict=True):
        seat = seats[b][i]
        legal = batch.avail[b, t, seat]
        now, then = (np.exp(x[b, t, seat][legal]) / np.exp(x[b, t, seat][legal]).sum() for x in (logits, played))
        place = int(legal[: batch.actions[b, t, seat]].sum())
        ratio = now[place] / then[place]
        limited = min(max(ratio, 1 - settings.ppo_clip), 1 + settings.ppo_clip)
        limits.append(abs(ratio - 1) > settings.ppo_clip)
        objective.append(min(ratio * advantage, limited * advantage))
        entropy.append(-(now * np.log(now)).sum())
        divergence.append(ratio - 1 - np.log(ratio))
    said = targets - raw
    # What a new critic says is taken as it is, but what it should say is scaled.
    wanted = (targets - targets.mean()) / targets.std() if settings.normalise_value else targets
    error = (said - wanted) ** 2
    return {
        "policy_loss": -np.mean(objective),
        "entropy": np.mean(entropy),
        "loss": -np.mean(objective) - settings.entropy_coef * np.mean(entropy),
        "approx_kl": np.mean(divergence),
        "clip_fraction": np.mean(limits),
        "critic_loss": error.mean(),
        "value_mean": said.mean(),
        "target_mean": targets.mean(),
        "advantage_mean": raw.mean(),
        "explained_variance": 1 - raw.var() / targets.var(),
    }


CASES: dict[str, tuple[TeamDraw | None, dict[str, Any], bool]] = {
    "ippo": (None, {"normalise_advantage": False}, False),
    "mappo, a reward per seat": (None, {"critic_input": "state", "normalise_value": False}, True),
    "feed-forward, rewards shared": (None, {"agent": "mlp", "mlp_second_dim": 5, "prosocial": 0.3}, True),
    "on the state, rewards summed": (None, {"obs_is_state": True, "common_reward": True, "entropy_coef": 0.5}, True),
    "ippo, one seat of a team": (ONE_SEAT, {"obs_last_action": False, "obs_agent_id": False}, True),
    "mappo, two seats of a team": (TWO_SEATS, {"critic_input": "state", "critic": "mlp", "prosocial": 1.0}, True),
}


@pytest.mark.parametrize("case", CASES)
def test_an_update_equals_loops(case: str):
    team, changes, reward_per_agent = CASES[case]
    learner, update = learner_for(team, **changes)
    state = drawn_networks(learner, NETWORKS)
    batch = legal_episodes(reward_per_agent=reward_per_agent, team=team)
    new, metrics = update(state, learner.keep(batch), 0, 0, KEY)
    expected = slow_metrics(learner, state, batch, np.asarray(fast_jit(unrolled)(state.mac, batch)))
    assert expected["approx_kl"] == pytest.approx(0.0, abs=1e-9)
    for name, value in expected.items():
        assert float(metrics[name]) == pytest.approx(value, rel=1e-3, abs=1e-5), name
    assert int(new.updates) == 1
    for before, after in zip(
        jax.tree.leaves((state.mac, state.critic)), jax.tree.leaves((new.mac, new.critic)), strict=True
    ):
        assert not same_bytes(before, after)


def test_later_passes_are_judged_by_the_policy_that_played():
    learner, update = learner_for(ppo_epochs=2, lr=0.1)
    state, batch = drawn_networks(learner, NETWORKS), legal_episodes()
    once, first = learner_for(lr=0.1)[1](state, batch, 0, 0, KEY)
    _, both = update(state, batch, 0, 0, KEY)
    moved = slow_metrics(learner, state, batch, np.asarray(fast_jit(unrolled)(once.mac, batch)))
    assert moved["approx_kl"] > 1e-3
    assert 0 < moved["clip_fraction"] < 1
    for name in ("loss", "policy_loss", "entropy", "approx_kl", "clip_fraction"):
        second = 2 * float(both[name]) - float(first[name])
        assert second == pytest.approx(moved[name], rel=2e-3, abs=1e-5), name


def test_parts_of_a_pass_are_whole_episodes_each_once():
    learner, update = learner_for(ppo_epochs=3, ppo_minibatches=2)
    order = np.asarray(learner._order(KEY, B))
    assert order.shape == (6, 2)
    assert [sorted(order[2 * epoch : 2 * epoch + 2].ravel()) for epoch in range(3)] == [[0, 1, 2, 3]] * 3
    state, batch = drawn_networks(learner, NETWORKS), legal_episodes()
    new, metrics = update(state, batch, 0, 0, KEY)
    assert int(new.opt_state[0].count) == int(new.critic_opt_state[0].count) == 6
    assert all(np.isfinite(float(value)) for value in metrics.values())


def test_updates_make_what_paid_more_likely_and_values_truer():
    learner, update = learner_for(ppo_epochs=8, gamma=0.0, gae_lambda=0.0, entropy_coef=0.0, lr=3e-3, critic_lr=0.02)
    state, batch = drawn_networks(learner, NETWORKS), legal_episodes()
    # Action 1 is always legal; it alone pays.
    batch = batch._replace(reward=np.asarray((batch.actions == 1).sum(axis=-1), np.float32))
    chance = fast_jit(
        lambda mac: jax.nn.softmax(jnp.where(batch.avail, unrolled(mac, batch), -1e9))[:, :2, :, 1].mean()
    )
    chances, errors = [float(chance(state.mac))], []
    for _ in range(6):
        state, metrics = update(state, batch, 0, 0, KEY)
        chances.append(float(chance(state.mac)))
        errors.append(float(metrics["explained_variance"]))
    assert np.all(np.diff(chances) > 0)
    assert errors[-1] > errors[0] + 0.2


def test_nothing_behind_the_last_view_counts():
    learner, update = learner_for(ppo_epochs=2, ppo_minibatches=2)
    state, batch = drawn_networks(learner, NETWORKS), legal_episodes()
    expected = update(state, batch, 0, 0, KEY)
    behind = ((3, slice(3, None)), 2.0), ((2, slice(4, None)), 2.0)
    idle = np.arange(T + 1)[None, :, None] >= np.asarray(LENGTHS)[:, None, None]
    noisy = batch._replace(obs=edited(batch.obs, *behind), actions=np.where(idle, 0, batch.actions))
    assert same_bytes(update(state, noisy, 0, 0, KEY), expected)


def test_seeds_learn_as_if_alone():
    learner, alone = learner_for(ppo_epochs=2, ppo_minibatches=2)
    states = [drawn_networks(learner, NETWORKS, seed) for seed in (1, 2)]
    batches = [legal_episodes(seed) for seed in (1, 2)]
    stacked, stacked_batch = (jax.tree.map(lambda *x: jnp.stack(x), *trees) for trees in (states, batches))
    together = fast_jit(jax.vmap(learner.update, in_axes=(0, 0, None, None, None), axis_name="seeds"))
    result, _ = together(stacked, stacked_batch, 0, 0, KEY)
    for seed in range(2):
        expected, _ = alone(states[seed], batches[seed], 0, 0, KEY)
        for ours, single in zip(jax.tree.leaves(result), jax.tree.leaves(expected), strict=True):
            np.testing.assert_allclose(ours[seed], single, atol=2e-5)


# The critic's scale


def test_moving_the_scale_changes_nothing_that_the_critic_says():
    learner, _ = learner_for()
    critic, batch = drawn_networks(learner, NETWORKS).critic, legal_episodes()
    views = drawn_networks(learner, NETWORKS).mac.reading.episodes(batch)
    inputs = learner.critic_inputs(batch, views, None)
    mask, rng = np.asarray(batch.filled[:, :-1], np.float32), np.random.default_rng(0)
    returns = [jnp.asarray(rng.normal(mean, spread, (B, T, A)), jnp.float32) for mean, spread in ((5, 2), (-30, 9))]
    empty: ValueScale = unscaled()
    first = empty.read(returns[0], mask)
    # What a new critic says means nothing yet: it begins about the mean of the first returns.
    assert [float(value) for value in empty.change_to(first)] == [1.0, 0.0]
    second = first.read(returns[1], mask)
    moved = rescaled(critic, *first.change_to(second))
    assert np.abs(np.asarray(moved(inputs)) - np.asarray(critic(inputs))).max() > 0.1
    np.testing.assert_allclose(second.stretch(moved(inputs)), first.stretch(critic(inputs)), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(second.stretch(second.shrink(returns[0])), returns[0], rtol=1e-4, atol=1e-4)
    counted = np.concatenate([np.asarray(returns[0])[b, : LENGTHS[b]].ravel() for b in range(B)])
    # One batch is not held back by the zeros that the statistics start from.
    assert [float(moment) for moment in first.moments] == pytest.approx([counted.mean(), counted.std()], rel=1e-3)


def test_a_critic_that_ran_away_is_not_believed():
    learner, update = learner_for()
    state, batch = drawn_networks(learner, NETWORKS), legal_episodes()
    wild = state._replace(scale=state.scale._replace(square=jnp.float32(1e12), weight=jnp.float32(1.0)))
    _, metrics = update(wild, batch, 0, 0, KEY)
    most = float(jnp.abs(batch.reward).max()) / (1.0 - learner.config.gamma)
    assert 0.0 < abs(float(metrics["value_mean"])) <= most * 1.001


# Opponent models


@pytest.mark.parametrize("model", ["base_am", "liam_am"])
def test_features_enter_actor_and_critic_and_the_model_learns_by_itself(model: str):
    learner, update = learner_for(ONE_SEAT, am_model=model, ppo_epochs=2)
    state = drawn_networks(learner, NETWORKS)
    batch = learner.keep(legal_episodes(team=ONE_SEAT))
    assert state.mac.agent.sizes.feature_dim == state.critic.sizes.widths[-1] == 7
    assert learner.controls == ("zero", "shuffled")
    end, losses = state, []
    for _ in range(4):
        end, metrics = update(end, batch, 0, 0, KEY)
        losses.append(float(metrics["am_loss"]))
    assert np.all(np.diff(losses) < 0)
    # One step per update, whatever the number of passes.
    assert int(end.model_opt_state[0].count) == 4
    assert int(end.opt_state[0].count) == 8
    deaf, _ = update(state._replace(mac=state.mac.with_features("zero")), batch, 0, 0, KEY)
    once, _ = update(state, batch, 0, 0, KEY)
    # The rows that read features learn only when there are some; the model does not care what becomes of them.
    assert same_bytes(deaf.mac.opponent_model, once.mac.opponent_model)
    for before, silent, heard in (
        (state.mac.agent.fc1.weight, deaf.mac.agent.fc1.weight, once.mac.agent.fc1.weight),
        (state.critic.fc1.weight, deaf.critic.fc1.weight, once.critic.fc1.weight),
    ):
        assert same_bytes(before[-7:], silent[-7:])
        assert not same_bytes(before[-7:], heard[-7:])


# On-policy data and configuration


def test_a_run_uses_exactly_the_episodes_just_played():
    settings, notes = adjust(resolve("mappo", "sc2", {"batch_size_run": 8, "ppo_minibatches": 4}).config, has_gpu=True)
    assert (settings.buffer_size, settings.batch_size, settings.updates_per_episode) == (8, 8, 1 / 8)
    assert notes == [
        "buffer_size 32 -> 8, batch_size 32 -> 8, updates_per_episode 0.03125 -> 0.125: learner=ppo_learner learns "
        "once from exactly the batch_size_run=8 episodes just played."
    ]
    assert adjust(resolve("ippo", "sc2").config, has_gpu=True)[1] == []
    program = Program(settings)
    assert (program.sequences, program.updates, program.learning.period) == (8, 1, 1)
    with pytest.raises(UserError, match=r"buffer_size: got 64 with batch_size=8 .* Allowed: 8, 8 and 0.125"):
        Program(settings.model_copy(update={"buffer_size": 64}))
    for changes, message in (
        ({"ppo_minibatches": 5}, "ppo_minibatches: got 5, which does not divide the batch_size_run=32 episodes"),
        ({"action_selector": "epsilon_greedy"}, "action_selector: got epsilon_greedy, but learner=ppo_learner"),
        ({"prosocial": 0.5, "common_reward": True}, "prosocial: got 0.5, but the rewards of all seats are summed"),
        ({"am_model": "omg_am"}, "learner: got ppo_learner, which cannot train am_model=omg_am"),
    ):
        with pytest.raises(UserError, match=message):
            adjust(resolve("ippo", "foraging", changes).config, has_gpu=True)


def test_players_sample_while_learning_and_are_tested_at_their_best():
    learner, _ = learner_for()
    state = drawn_networks(learner, NETWORKS)
    assert learner.policy(state).selector == "multinomial"
    assert learner.tested(state).selector == "epsilon_greedy"
    sampling, _ = learner_for(test_greedy=False)
    assert sampling.tested(drawn_networks(sampling, NETWORKS)).selector == "multinomial"


# One body for both
