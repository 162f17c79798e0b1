"""What every game of the registry must keep; new members are tested with default arguments unless listed here."""

from __future__ import annotations

import importlib
import warnings
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers.counting import CountingEnv
from omg.envs import ENVS, Env, EnvState, Observation, Outcome, make_env
from omg.envs.adapters import adapt

CONFIGURATIONS: dict[str, list[dict[str, Any]]] = {
    "sc2": [
        {"map_name": "3m"},
        {"map_name": "2s3z", "start": "random", "episode_limit": 40},
        {"map_name": "MMM", "episode_limit": 30},
        {"map_name": "2c_vs_64zg", "episode_limit": 10},
    ],
    "foraging": [
        {},
        {"rows": 5, "cols": 6, "players": 3, "max_food": 2, "sight": 2, "force_coop": True, "episode_limit": 15},
        {"rows": 5, "cols": 5, "max_food": 1, "grid_observation": True, "rounds": 3, "episode_limit": 6},
    ],
}
BUILT_IN = [name for name, entry in ENVS.items() if not entry.traits.foreign]
CASES = [(name, args) for name in BUILT_IN for args in CONFIGURATIONS.get(name, [{}])]
ALL_LEGAL = {"predator_prey"}
"""Games in which no action is ever forbidden."""
NO_CHANCE = {"rendezvous"}
"""Games that start alike and know no luck: what the players do is all that decides them."""
GAMES = 4
STEPS_AFTER_THE_END = 3


@dataclass
class Episodes:
    """`GAMES` games of random legal play; NumPy arrays with the time axis first."""

    observations: Observation
    """obs [T + 1, B, A, O], state [T + 1, B, S], avail [T + 1, B, A, U]."""
    outcomes: Outcome
    """Every field [T, B, …]."""
    lengths: np.ndarray
    """[B] steps until the first end."""


class Table:
    """One configured game with its compiled functions."""

    def __init__(self, name: str, args: dict[str, Any]) -> None:
        self.name = name
        self.counting = CountingEnv(make_env(name, **args))
        self.env: Env = self.counting
        self.spec = self.env.spec
        self._reset = jax.jit(self.env.reset, static_argnums=1)
        self._step = jax.jit(self._random_step)
        self.played = self.play(seed=0, steps=self.spec.episode_limit + STEPS_AFTER_THE_END)

    def _random_step(
        self, key: jax.Array, time: int, state: EnvState, avail: jax.Array
    ) -> tuple[EnvState, Observation, Outcome]:
        choice_key = jax.random.fold_in(jax.random.key(99), time)
        actions = jax.random.categorical(choice_key, jnp.where(avail, 0.0, -jnp.inf))
        return self.env.step(jax.random.fold_in(key, time), state, actions)

    def play(self, seed: int, steps: int) -> Episodes:
        """Plays `steps` steps; `seed` is the game's luck, while the players' choices always come from the same keys."""
        key = jax.random.key(seed)
        state, observation = self._reset(key, GAMES)
        observations, outcomes = [observation], []
        for time in range(steps):
            state, observation, outcome = self._step(key, time, state, observation.avail)
            observations.append(observation)
            outcomes.append(outcome)
        stacked = jax.tree.map(lambda *arrays: np.stack(arrays), *jax.device_get(observations))
        results = jax.tree.map(lambda *arrays: np.stack(arrays), *jax.device_get(outcomes))
        over = results.terminated | results.truncated
        return Episodes(stacked, results, np.where(over.any(axis=0), over.argmax(axis=0) + 1, steps + 1))


@pytest.fixture(scope="module", params=CASES, ids=lambda case: "-".join([case[0], *map(str, case[1].values())]))
def table(request: pytest.FixtureRequest) -> Table:
    return Table(*request.param)


def test_spec_is_complete(table: Table) -> None:
    spec = table.spec
    assert spec.name == table.name
    assert spec.scenario
    assert min(spec.n_agents, spec.n_actions, spec.obs_dim, spec.state_dim, spec.episode_limit) >= 1
    assert spec.success_metric in (*spec.metrics, "return")
    assert len(set(spec.metrics)) == len(spec.metrics)
    assert hash(table.counting.env) is not None, "compiled functions take the game as a static argument"


def test_shapes_and_types_are_those_of_the_spec(table: Table) -> None:
    spec, (obs, state, avail), outcome = table.spec, table.played.observations, table.played.outcomes
    steps = spec.episode_limit + STEPS_AFTER_THE_END
    assert (obs.shape, obs.dtype) == ((steps + 1, GAMES, spec.n_agents, spec.obs_dim), np.float32)
    assert (state.shape, state.dtype) == ((steps + 1, GAMES, spec.state_dim), np.float32)
    assert (avail.shape, avail.dtype) == ((steps + 1, GAMES, spec.n_agents, spec.n_actions), np.bool_)
    reward_shape = (steps, GAMES, spec.n_agents) if spec.reward_per_agent else (steps, GAMES)
    assert (outcome.reward.shape, outcome.reward.dtype) == (reward_shape, np.float32)
    for flag in (outcome.terminated, outcome.truncated):
        assert (flag.shape, flag.dtype) == ((steps, GAMES), np.bool_)
    assert set(outcome.metrics) == set(spec.metrics)
    for name, value in outcome.metrics.items():
        assert (value.shape, value.dtype) == ((steps, GAMES), np.float32), name


def test_some_action_is_always_legal(table: Table) -> None:
    assert table.played.observations.avail.any(axis=-1).all()


def test_every_episode_ends_by_the_limit_and_only_in_one_way(table: Table) -> None:
    limit, outcome = table.spec.episode_limit, table.played.outcomes
    assert (table.played.lengths <= limit).all()
    assert not (outcome.terminated & outcome.truncated).any()
    for game, length in enumerate(table.played.lengths):
        assert not outcome.truncated[: min(length, limit - 1), game].any(), "cut before the limit"


def test_numbers_stay_finite_even_after_the_end(table: Table) -> None:
    played = table.played
    for array in (*played.observations, played.outcomes.reward, *played.outcomes.metrics.values()):
        assert np.isfinite(array).all()


def test_something_happens(table: Table) -> None:
    """Guards against games whose arrays have the right shapes and nothing in them."""
    obs, state, avail = table.played.observations
    assert (np.ptp(obs[: table.played.lengths.min()], axis=0) > 0).any()
    assert (np.ptp(state[: table.played.lengths.min()], axis=0) > 0).any()
    assert avail.all() == (table.name in ALL_LEGAL)


def test_the_key_decides_the_game(table: Table) -> None:
    steps = min(table.spec.episode_limit, 30)
    again, other = table.play(seed=0, steps=steps), table.play(seed=1, steps=steps)
    for first, second in zip(jax.tree.leaves(again.observations), table.played.observations, strict=True):
        np.testing.assert_array_equal(first, second[: steps + 1])
    for first, second in zip(jax.tree.leaves(again.outcomes), jax.tree.leaves(table.played.outcomes), strict=True):
        np.testing.assert_array_equal(first, second[:steps])
    assert (again.observations.obs != other.observations.obs).any() == (table.name not in NO_CHANCE)


def test_games_of_a_batch_are_independent(table: Table) -> None:
    obs = table.played.observations.obs
    assert all((obs[:, 0] != obs[:, game]).any() for game in range(1, GAMES))


def test_nothing_is_compiled_twice(table: Table) -> None:
    table.play(seed=7, steps=3)
    assert table.counting.traces == 2, "one trace of reset and one of step, whatever was played"


@pytest.mark.parametrize("games", [1, 7])
def test_any_batch_size_and_any_number_of_seeds(table: Table, games: int) -> None:
    env, spec, seeds = table.counting.env, table.spec, 2

    def reset_and_step(key: jax.Array) -> tuple[Observation, Observation, Outcome]:
        state, start = env.reset(key, games)
        _, observation, outcome = env.step(key, state, jnp.argmax(start.avail, axis=-1))
        return start, observation, outcome

    start, observation, outcome = jax.eval_shape(jax.vmap(reset_and_step), jax.random.split(jax.random.key(0), seeds))
    for seen in (start, observation):
        assert seen.obs.shape == (seeds, games, spec.n_agents, spec.obs_dim)
        assert seen.state.shape == (seeds, games, spec.state_dim)
        assert seen.avail.shape == (seeds, games, spec.n_agents, spec.n_actions)
    assert outcome.terminated.shape == (seeds, games)


def test_pymarl_interface(table: Table) -> None:
    env = adapt(table.counting.env, "pymarl", seed=1)
    random = np.random.default_rng(0)
    observations, state = env.reset()
    info = env.get_env_info()
    assert (len(observations), observations[0].shape) == (info["n_agents"], (info["obs_shape"],))
    assert state.shape == (info["state_shape"],)
    over, steps = False, 0
    while not over:
        reward, over, step_info = env.step([random.choice(np.flatnonzero(row)) for row in env.get_avail_actions()])
        steps += 1
        assert np.isfinite(reward)
        assert set(table.spec.metrics) <= set(step_info)
        assert steps <= info["episode_limit"]
    assert ("episode_limit" in step_info) <= (steps == info["episode_limit"])


def test_pettingzoo_interface(table: Table) -> None:
    tests = importlib.import_module("pettingzoo.test")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tests.parallel_api_test(adapt(table.counting.env, "pettingzoo", seed=1), num_cycles=table.spec.episode_limit)
