"""LOLA: its gradient finds tit for tat where naive learners defect, and the learner's gradient is that gradient."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array

from helpers.acted import drawn_networks, legal_episodes
from helpers.played import ONE_SEAT, SPEC, A, B, T, config, fast_jit, same_bytes
from omg.components import EpisodeBatch
from omg.config import adjust, resolve
from omg.envs.base import EnvSpec
from omg.errors import UserError
from omg.learners.lola import LOLALearner, reactions
from omg.learners.ppo import PPOLearner

KEY = jax.random.key(9)
SMALL: dict[str, Any] = {
    "learner": "lola_learner",
    "agent": "idv_conv",
    "action_selector": "multinomial",
    "optimizer": "adam",
    "epsilon_start": 0.0,
    "epsilon_finish": 0.0,
    "critic_hidden_dim": 7,
    "ppo_epochs": 1,
    "entropy_coef": 0.0,
    "obs_agent_id": False,
    "obs_last_action": False,
    "lola_limit": 1e6,
}


def exact_lola_gradient(values: Callable[[Any], Array], parameters: Any, step: float) -> Any:
    """The formula of the learner's description, from values that are known exactly.

    Args:
        values: From parameters, stacked by player, to V of every player.
        parameters: A pytree whose leaves have the players as their first axis.
        step: That co-players are expected to learn by.

    Returns:
        For every player its own row of the gradient.
    """
    players = jax.tree.leaves(parameters)[0].shape[0]
    slopes = jax.jacrev(values)(parameters)  # Of each V, by the parameters of all players.

    def own(tree: Any, player: int) -> Any:
        return jax.tree.map(lambda leaf: leaf[player], tree)

    rows = []
    for i in range(players):

        def learning_of_others(parameters: Any, i: int = i) -> Array:
            total = jnp.float32(0.0)
            for j in range(players):
                if j != i:
                    climbs = own(jax.grad(lambda p, j=j: values(p)[j])(parameters), j)
                    wanted = own(own(slopes, i), j)
                    total += sum(
                        (a * b).sum() for a, b in zip(jax.tree.leaves(climbs), jax.tree.leaves(wanted), strict=True)
                    )
            return total

        reaction = own(jax.grad(learning_of_others)(parameters), i)
        rows.append(jax.tree.map(lambda a, b: a + step * b, own(own(slopes, i), i), reaction))
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *rows)


# The iterated prisoner's dilemma, exactly


def dilemma_values(logits: Array, gamma: float = 0.96) -> Array:
    """What it is worth to two players who remember the last step: logits [2, 5] of cooperating -> mean reward [2].

    States: the start, then both cooperated, only I did, only the other did, nobody did, as each player sees it.
    """
    first, second = jax.nn.sigmoid(logits[0]), jax.nn.sigmoid(logits[1][jnp.array([0, 1, 3, 2, 4])])
    joint = jnp.stack([first * second, first * (1 - second), (1 - first) * second, (1 - first) * (1 - second)], axis=-1)
    visits = joint[0] @ jnp.linalg.inv(jnp.eye(4) - gamma * joint[1:])
    return (1 - gamma) * jnp.stack([visits @ jnp.array([-1.0, -3, 0, -2]), visits @ jnp.array([-1.0, 0, -3, -2])])


def test_the_gradient_finds_tit_for_tat_where_naive_learners_defect():
    def train(step: float, key: Array) -> Array:
        def learn(logits: Array, _: None) -> tuple[Array, None]:
            return logits + 5.0 * exact_lola_gradient(dilemma_values, logits, step), None

        return jax.lax.scan(learn, 0.1 * jax.random.normal(key, (2, 5)), None, length=200)[0]

    keys = jax.random.split(jax.random.key(0), 8)
    policies = fast_jit(jax.vmap(train, in_axes=(None, 0)))
    worth = {step: np.asarray(jax.vmap(dilemma_values)(policies(step, keys))) for step in (0.0, 50.0)}
    assert worth[0.0].max() < -1.9  # Nobody cooperates: -2.
    assert worth[50.0].min() > -1.1  # Everybody does: -1.
    # As tit for tat does it: what the other did is answered in kind. After an unrequited cooperation a few do not,
    # but none can be exploited: whoever always defects gets less from any of them than they get from each other.
    learned = policies(50.0, keys)
    cooperates = np.asarray(jax.nn.sigmoid(learned))
    assert cooperates[..., [1, 3]].min() > 0.9
    assert cooperates[..., 4].max() < 0.1
    assert np.median(cooperates[..., 2]) < 0.2
    defects = jnp.full(5, -20.0)
    for first, second in learned:
        assert float(dilemma_values(jnp.stack([defects, second]))[0]) < -1.5
        assert float(dilemma_values(jnp.stack([first, defects]))[1]) < -1.5


# The learner's gradient, exactly: all episodes of a small game, each as often as it is likely

PLAYERS, STEPS, STATES = 3, 2, 9
"""Two actions; the state is the start or what all did in the step before."""
CHANCES = np.random.default_rng(0).integers(1, 4, (PLAYERS, STATES)) / 4
"""[players, states], chance of action 0: quarters, so that four draws of a quarter are all that can happen."""
REWARDS = np.random.default_rng(1).normal(size=(STATES, 2, 2, 2, PLAYERS)).astype(np.float32)
GAME = EnvSpec("test", "test", PLAYERS, 2, STATES, 1, STEPS, reward_per_agent=True)


def next_state(actions: tuple[int, ...]) -> int:
    return 1 + 4 * actions[0] + 2 * actions[1] + actions[2]


def episodes_of(all_actions: list[tuple[tuple[int, ...], ...]]) -> EpisodeBatch:
    """Episodes in which these actions were played, by step and player."""
    count = len(all_actions)
    states = np.zeros((count, STEPS + 1), int)
    actions = np.zeros((count, STEPS + 1, PLAYERS), np.int32)
    reward = np.zeros((count, STEPS + 1, PLAYERS), np.float32)
    for b, steps in enumerate(all_actions):
        for t, joint in enumerate(steps):
            actions[b, t], reward[b, t], states[b, t + 1] = joint, REWARDS[(states[b, t], *joint)], next_state(joint)
    slots = np.broadcast_to(np.arange(STEPS + 1), (count, STEPS + 1))
    obs: Any = np.repeat(np.eye(STATES, dtype=np.float32)[states][:, :, None], PLAYERS, axis=2)
    avail: Any = np.ones((count, STEPS + 1, PLAYERS, 2), bool)
    fields: Any = {"state": np.zeros((count, STEPS + 1, 1), np.float32), "actions": actions, "reward": reward}
    terminated: Any = slots == STEPS - 1
    filled: Any = slots < STEPS
    return EpisodeBatch(obs=obs, avail=avail, terminated=terminated, filled=filled, seat=None, records={}, **fields)


def likely_episodes() -> EpisodeBatch:
    """Every way in which draws of quarters can fall, 4^(players * steps) episodes."""
    played = []
    for draws in product(range(4), repeat=PLAYERS * STEPS):
        state, steps = 0, []
        for t in range(STEPS):
            joint = tuple(int(draws[t * PLAYERS + j] >= 4 * CHANCES[j, state]) for j in range(PLAYERS))
            steps.append(joint)
            state = next_state(joint)
        played.append(tuple(steps))
    return episodes_of(played)


def with_chances(agent: Any) -> Any:
    """A network whose probabilities in each state are CHANCES; all its units are at work."""
    bias, hidden = 0.1, np.eye(STATES) + 0.2
    log_chances = np.log(np.stack([CHANCES, 1 - CHANCES], axis=-1))
    last = np.stack([np.linalg.solve(hidden, table) for table in log_chances]).astype(np.float32)
    eye = jnp.broadcast_to(jnp.eye(STATES), (PLAYERS, STATES, STATES))
    steady = {"weight": eye, "bias": jnp.full((PLAYERS, STATES), bias)}
    values = {"fc1": steady, "fc2": steady, "fc3": {"weight": jnp.asarray(last), "bias": jnp.zeros((PLAYERS, 2))}}

    def fill(path: Any, leaf: Any) -> Array:
        _, layer, name = (entry.name for entry in path)
        assert values[layer][name].shape == leaf.shape
        return values[layer][name]

    return jax.tree_util.tree_map_with_path(fill, agent)


def test_the_first_gradient_is_the_exact_one():
    step = 0.7
    changes = {"gamma": 1.0, "gae_lambda": 1.0, "lola_step": step, "rnn_hidden_dim": STATES}
    settings = config(**(SMALL | changes | {"normalise_advantage": False, "normalise_value": False}))
    learner = LOLALearner(settings, GAME)
    state = drawn_networks(learner, ("mac", "critic"))
    agent = with_chances(state.mac.agent)
    state = state._replace(mac=jax.tree.unflatten(jax.tree.structure(state.mac), jax.tree.leaves(agent)))
    every = episodes_of(list(product(product(range(2), repeat=PLAYERS), repeat=STEPS)))  # type: ignore[arg-type]
    nothing = jnp.full(every.actions.shape, -1)

    def values(agent: Any) -> Array:
        """V of every player: the sum over all that can happen."""
        log_pi = jax.nn.log_softmax(agent.head(agent.embed(every.obs, nothing)))
        taken = jnp.take_along_axis(log_pi, jnp.asarray(every.actions)[..., None], axis=-1)[:, :-1, :, 0]
        return jnp.exp(taken.sum(axis=(1, 2))) @ every.reward.sum(axis=1)

    @fast_jit
    def learned(agent: Any, batch: EpisodeBatch) -> Any:
        mac = jax.tree.unflatten(jax.tree.structure(state.mac), jax.tree.leaves(agent))
        epsilon = jnp.float32(0.0)
        lessons = learner._estimate(state._replace(mac=mac), *learner.shares(mac.reading, batch), None, epsilon, KEY)[2]
        gradient = jax.grad(lambda agent: learner._loss(agent, state.critic, lessons, epsilon)[0])(agent)
        # From a mean over steps and players to a sum, and from a loss to what is climbed.
        return jax.tree.map(lambda leaf: -STEPS * PLAYERS * leaf, gradient)

    exact, naive = (fast_jit(lambda agent, s=s: exact_lola_gradient(values, agent, s))(agent) for s in (step, 0.0))
    ours = learned(agent, likely_episodes())
    for lola, plain, estimate in zip(*(jax.tree.leaves(tree) for tree in (exact, naive, ours)), strict=True):
        np.testing.assert_allclose(estimate, lola, atol=2e-4 * float(jnp.abs(lola).max()) + 1e-5)
        assert np.abs(np.asarray(lola - plain)).max() > 0.02 * np.abs(np.asarray(plain)).max()


# Its parts


def test_reactions_equal_loops():
    rng = np.random.default_rng(0)
    shifts, advantages = rng.normal(size=(B, T, A, A)), rng.normal(size=(B, T, A))
    expected = np.zeros((B, T, A))
    for b, t, i, j, other in product(range(B), range(T), range(A), range(A), range(T)):
        expected[b, t, i] += shifts[b, other, i, j] * advantages[b, max(t, other), j]
    np.testing.assert_allclose(reactions(jnp.asarray(shifts), jnp.asarray(advantages)), expected, atol=1e-5)


def update_with(batch: EpisodeBatch, learner: str = "lola_learner", **changes: Any) -> tuple[Any, dict[str, Array]]:
    settings = config(**(SMALL | {"learner": learner} | changes))
    maker = {"lola_learner": LOLALearner, "ppo_learner": PPOLearner}[learner](settings, SPEC)
    return fast_jit(maker.update)(drawn_networks(maker, ("mac", "critic")), batch, 0, 0, KEY)


def test_without_a_step_it_is_ppo():
    batch = legal_episodes(reward_per_agent=True)
    lola, metrics = update_with(batch, lola_step=0.0)
    ppo, _ = update_with(batch, learner="ppo_learner")
    assert same_bytes(lola.mac, ppo.mac)
    assert float(metrics["lola_share"]) == 0.0


def test_the_step_is_shortened_to_the_limit():
    batch = legal_episodes(reward_per_agent=True)
    long, metrics = update_with(batch, lola_step=0.5, lola_limit=0.1)
    share = float(metrics["lola_share"])
    assert share > 0.1
    short, _ = update_with(batch, lola_step=0.5 * 0.1 / share)
    for one, other in zip(jax.tree.leaves(long.mac), jax.tree.leaves(short.mac), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)


def test_co_players_must_learn_each_with_a_network_of_its_own():
    with pytest.raises(UserError, match="those of a team are frozen"):
        LOLALearner(config(**SMALL), SPEC, ONE_SEAT)
    with pytest.raises(UserError, match=r"agent: got mlp, .* Allowed: idv_conv"):
        adjust(resolve("lola", "stag_hunt", {"agent": "mlp"}).config, has_gpu=False)
