"""Controller and Q learner: targets, masks and the optimiser against slow versions; one update under every setting."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array

from omg.components import EpisodeBatch
from omg.config import Config, parse_config
from omg.controllers import BasicMAC, build_mac
from omg.envs.base import EnvSpec, Observation
from omg.errors import UserError
from omg.learners import LEARNERS, QLearner, QState, build_learner
from omg.learners.optimisers import clip_by_norm, torch_rmsprop
from omg.learners.q import next_values
from omg.modules.agents import AGENTS
from omg.modules.mixers import MIXERS

B, T, A, S, U, OBS = 4, 5, 3, 6, 5, 4
SPEC = EnvSpec("test", "test", A, U, OBS, S, T)

Update = Callable[..., tuple[QState, dict[str, Array]]]


fast_jit = functools.partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})
"""Compiling is nearly all of these tests' time, and what they compute is small."""


def config(**changes: Any) -> Config:
    small = {"rnn_hidden_dim": 8, "mixing_embed_dim": 4, "hypernet_embed": 6, "lr": 5e-5, "target_update_interval": 10}
    return parse_config(small | changes)


def learner_for(**changes: Any) -> tuple[QLearner, Update]:
    """A learner and its compiled update; tests with the same settings share the compilation."""
    return _compiled(config(**changes).model_dump_json())


@functools.cache
def _compiled(settings: str) -> tuple[QLearner, Update]:
    learner = QLearner(Config.model_validate_json(settings), SPEC)
    return learner, fast_jit(learner.update)


def episodes(seed: int = 0, reward_per_agent: bool = False) -> EpisodeBatch:
    """Lengths 5 (time limit), 5 (real end in the last step), 3 (real end), 2 (cut early): every case of the mask."""
    rng = np.random.default_rng(seed)
    played, ended = np.array([5, 5, 3, 2]), np.array([False, True, True, False])
    slots = np.arange(T + 1)
    avail = rng.random((B, T + 1, A, U)) < 0.6
    avail[..., 1] = True
    avail[2, 4:] = False
    avail[3, 3:] = False
    return EpisodeBatch(
        obs=jnp.asarray(rng.normal(size=(B, T + 1, A, OBS)), jnp.float32),
        state=jnp.asarray(rng.normal(size=(B, T + 1, S)), jnp.float32),
        avail=jnp.asarray(avail),
        actions=jnp.asarray(rng.integers(0, U, (B, T + 1, A)), jnp.int32),
        reward=jnp.asarray(rng.normal(size=(B, T + 1, A) if reward_per_agent else (B, T + 1)), jnp.float32),
        terminated=jnp.asarray((slots == played[:, None] - 1) & ended[:, None]),
        filled=jnp.asarray(slots < played[:, None]),
        seat=None,
        records={},
    )


def drawn(shapes: Any, seed: int) -> Any:
    """Parameters from NumPy: compiling the networks' own initialisation would take most of the tests' time."""
    rng = np.random.default_rng(seed)
    return jax.tree.map(lambda leaf: jnp.asarray(rng.uniform(-0.4, 0.4, leaf.shape), jnp.float32), shapes)


def drawn_state(learner: QLearner, seed: int = 0) -> QState:
    """A state whose target network differs from the online one, so that mixing the two up shows."""
    shapes = jax.eval_shape(learner.init, jax.random.key(0))
    zeros = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
    names = ("mac", "target_mac", "mixer", "target_mixer")
    return zeros._replace(**{name: drawn(getattr(shapes, name), 10 * seed + i) for i, name in enumerate(names)})


def slow_metrics(learner: QLearner, state: QState, batch: EpisodeBatch) -> dict[str, float]:
    """The loss with loops over episodes, steps and seats."""
    settings = learner.config
    q, target_q = np.asarray(state.mac.unroll(batch)), np.asarray(state.target_mac.unroll(batch))
    avail, actions = np.asarray(batch.avail), np.asarray(batch.actions)
    squared = absolute = taken_sum = target_sum = count = 0.0
    for b in range(B):
        for t in range(T):
            if not batch.filled[b, t] or (t > 0 and batch.terminated[b, t - 1]):
                continue
            taken, following = np.zeros(A), np.zeros(A)
            for a in range(A):
                taken[a] = q[b, t, a, actions[b, t, a]]
                chooser = q if settings.double_q else target_q
                legal = [u for u in range(U) if avail[b, t + 1, a, u]]
                if legal:
                    following[a] = target_q[b, t + 1, a, max(legal, key=lambda u: chooser[b, t + 1, a, u])]
            reward = np.asarray(batch.reward[b, t])
            if state.mixer is not None:
                taken = np.asarray([state.mixer(jnp.asarray(taken, jnp.float32), batch.state[b, t])])
                following = np.asarray([state.target_mixer(jnp.asarray(following, jnp.float32), batch.state[b, t + 1])])
                reward = reward.sum()
            elif settings.common_reward:
                reward = reward.sum()
            target = reward + settings.gamma * (0.0 if batch.terminated[b, t] else 1.0) * following
            squared += ((taken - target) ** 2).sum()
            absolute += np.abs(taken - target).sum()
            taken_sum, target_sum, count = taken_sum + taken.sum(), target_sum + target.sum(), count + taken.size
    return {
        "loss": squared / count,
        "td_error_abs": absolute / count,
        "q_taken_mean": taken_sum / (count * A),
        "target_mean": target_sum / (count * A),
    }


CASES: dict[str, tuple[dict[str, Any], bool]] = {
    "iql": ({}, False),
    "iql without double q": ({"double_q": False}, False),
    "iql, a reward per seat": ({}, True),
    "iql, rewards summed": ({"common_reward": True}, True),
    "vdn": ({"mixer": "vdn", "double_q": False}, False),
    "qmix, rewards summed": ({"mixer": "qmix"}, True),
    "qmix on the state": ({"mixer": "qmix", "double_q": False, "obs_is_state": True}, False),
}


@pytest.mark.parametrize("case", CASES)
def test_loss_and_metrics_equal_loops(case: str):
    changes, reward_per_agent = CASES[case]
    learner, update = learner_for(**changes)
    state, batch = drawn_state(learner), episodes(reward_per_agent=reward_per_agent)
    _, metrics = update(state, batch, 0)
    assert set(metrics) == {"loss", "grad_norm", "td_error_abs", "q_taken_mean", "target_mean"}
    for name, expected in slow_metrics(learner, state, batch).items():
        assert float(metrics[name]) == pytest.approx(expected, rel=1e-4, abs=1e-5), name


def test_next_values_by_hand():
    q = jnp.array([[[[1.0, 5.0, 3.0]]]])
    target_q = jnp.array([[[[0.5, 9.0, -2.0]]]])
    avail = jnp.array([[[[True, False, True]]]])
    # The online network prefers action 2 among the legal ones, the target network action 0.
    assert float(next_values(q, target_q, avail, double_q=True)[0, 0, 0]) == -2.0
    assert float(next_values(q, target_q, avail, double_q=False)[0, 0, 0]) == 0.5


def test_what_lies_behind_the_end_does_not_count():
    learner, update = learner_for()
    state, batch = drawn_state(learner), episodes()
    _, metrics = update(state, batch, 0)
    # Episode 2 ended for real after three steps, so nothing of its slot 3 counts; episode 1 likewise in slot 5.
    changed = batch._replace(
        obs=batch.obs.at[2, 3:].add(5.0).at[1, 5].add(5.0),
        reward=batch.reward.at[2, 3:].add(5.0),
        actions=batch.actions.at[2, 3:].set(0),
    )
    _, same = update(state, changed, 0)
    assert float(same["loss"]) == pytest.approx(float(metrics["loss"]), rel=1e-6)
    # Episodes 0 and 3 were cut: their last observation is what the last target bootstraps from.
    for cut in (batch.obs.at[0, 5].add(5.0), batch.obs.at[3, 2].add(5.0)):
        _, other = update(state, batch._replace(obs=cut), 0)
        assert abs(float(other["loss"]) - float(metrics["loss"])) > 1e-5


@pytest.mark.parametrize("mixer", [None, *sorted(MIXERS)])
@pytest.mark.parametrize("agent", sorted(AGENTS))
def test_updates_lower_the_loss(agent: str, mixer: str | None):
    # Without double Q-learning the targets stand still, so that small enough steps must lower the loss every time.
    learner, update = learner_for(agent=agent, mixer=mixer, double_q=False)
    state = end = drawn_state(learner)
    batch, losses = episodes(), []
    for _ in range(6):
        end, metrics = update(end, batch, 0)
        losses.append(float(metrics["loss"]))
    assert np.all(np.diff(losses) < 0)
    assert int(end.updates) == 6
    for before, after in zip(jax.tree.leaves(state.target_mac), jax.tree.leaves(end.target_mac), strict=True):
        np.testing.assert_array_equal(before, after)
    moved = [bool((a != b).any()) for a, b in zip(jax.tree.leaves(state.mac), jax.tree.leaves(end.mac), strict=True)]
    assert all(moved)


def test_target_is_copied_when_a_multiple_is_passed():
    learner, update = learner_for()
    state, batch, copied = drawn_state(learner), episodes(), []
    for episode in (4, 8, 12, 16, 20, 24, 45, 48):
        state, _ = update(state, batch, episode)
        copied.append(bool((state.mac.agent.fc1.weight == state.target_mac.agent.fc1.weight).all()))
    assert copied == [False, False, True, False, True, False, True, False]
    assert int(state.last_target_episode) == 45


def test_seeds_learn_as_if_alone():
    learner, alone = learner_for(mixer="vdn", double_q=False)
    states = [drawn_state(learner, seed) for seed in (1, 2)]
    batches = [episodes(seed) for seed in (1, 2)]
    stacked, stacked_batch = (jax.tree.map(lambda *x: jnp.stack(x), *trees) for trees in (states, batches))
    together = fast_jit(jax.vmap(learner.update, in_axes=(0, 0, None), axis_name="seeds"))
    # The target copy that is due makes the comparison cover the new parameters in both networks.
    result, metrics = together(stacked, stacked_batch, 25)
    for seed in range(2):
        expected, expected_metrics = alone(states[seed], batches[seed], 25)
        for name, value in expected_metrics.items():
            assert float(metrics[name][seed]) == pytest.approx(float(value), rel=1e-4, abs=1e-6), name
        for ours, single in zip(jax.tree.leaves(result), jax.tree.leaves(expected), strict=True):
            np.testing.assert_allclose(ours[seed], single, atol=2e-5)


def test_a_broken_loss_shows():
    learner, update = learner_for()
    batch = episodes()
    _, metrics = update(drawn_state(learner), batch._replace(reward=batch.reward.at[0, 0].set(jnp.nan)), 0)
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
    assert carry.hidden.shape == (B, A, 8)
    assert carry.last_action.tolist() == [[-1] * A] * B
    for t in range(T + 1):
        seen = Observation(batch.obs[:, t], batch.state[:, t], batch.avail[:, t])
        actions, carry, record = act(mac, seen, carry, jax.random.key(t), 0.0)
        assert record == {}
        assert actions.dtype == jnp.int32
        np.testing.assert_array_equal(carry.last_action, actions)
        chosen.append(actions)
    # Replaying the actions taken, the unrolled values must name those same actions as the best ones.
    q = fast_jit(BasicMAC.unroll)(mac, batch._replace(actions=jnp.stack(chosen, axis=1)))
    assert q.shape == (B, T + 1, A, U)
    np.testing.assert_array_equal(q.argmax(axis=-1), jnp.stack(chosen, axis=1))


def test_greedy_version_of_a_sampling_controller():
    mac = BasicMAC(build_mac(config(), SPEC, jax.random.key(0)).agent, "multinomial", False, A)
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
        ("action_selector", "epsilon_greed", lambda c: build_mac(c, SPEC, jax.random.key(0))),
        ("mixer", "qmixx", lambda c: QLearner(c, SPEC)),
        ("learner", "q_lerner", lambda c: build_learner(c, SPEC)),
    ):
        with pytest.raises(UserError, match=f"Unknown {key} '{word}'"):
            function(plain.model_copy(update={key: word}))


def test_learning_starts_with_equal_networks():
    for name in LEARNERS:
        learner = build_learner(config(learner=name, mixer="qmix"), SPEC)
        state = learner.init(jax.random.key(0))
        assert learner.policy(state) is state.mac
        assert int(state.updates) == int(state.last_target_episode) == 0
        for online, target in ((state.mac, state.target_mac), (state.mixer, state.target_mixer)):
            for one, other in zip(jax.tree.leaves(online), jax.tree.leaves(target), strict=True):
                assert float(jnp.abs(one).max()) > 0
                np.testing.assert_array_equal(one, other)
