"""The PettingZoo, PyMARL and EPyMARL interfaces: types, agreement with the game underneath, refusals."""

from __future__ import annotations

import importlib
import re
import sys
import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import omg
from omg.cli import command_names
from omg.envs.adapters import adapt
from omg.envs.adapters.single import SingleGame
from omg.envs.base import EnvSpec, Observation, Outcome
from omg.envs.foraging import Foraging, ForagingArgs
from omg.errors import UserError


class Countdown:
    """A team game whose every number is known: action 1 counts down from 3 to the win, 0 waits, 2 is never legal."""

    spec = EnvSpec(
        name="countdown",
        scenario="3",
        n_agents=2,
        n_actions=3,
        obs_dim=2,
        state_dim=1,
        episode_limit=5,
        metrics=("battle_won",),
        success_metric="battle_won",
    )

    def __init__(self) -> None:
        self.traces = 0

    def reset(self, key: jax.Array, num_envs: int) -> tuple[Any, Observation]:
        self.traces += 1
        luck = jax.random.uniform(key, (num_envs,))
        left, steps = jnp.full(num_envs, 3), jnp.zeros(num_envs, int)
        return (left, steps, luck), self._observe(left, luck)

    def step(self, key: jax.Array, state: Any, actions: jax.Array) -> tuple[Any, Observation, Outcome]:
        self.traces += 1
        left, steps, luck = state
        left, steps = left - jnp.max(actions, axis=1), steps + 1
        won = left <= 0
        outcome = Outcome(left * 0.5, won, (steps >= 5) & ~won, {"battle_won": won.astype(jnp.float32)})
        return (left, steps, luck), self._observe(left, luck), outcome

    def _observe(self, left: jax.Array, luck: jax.Array) -> Observation:
        number = left.astype(jnp.float32)
        obs = jnp.stack([jnp.stack([number, luck], axis=-1), jnp.stack([-number, luck], axis=-1)], axis=1)
        avail = jnp.broadcast_to(jnp.array([[True, True, False], [False, True, False]]), (len(left), 2, 3))
        return Observation(obs, number[:, None], avail)


@pytest.fixture(scope="module")
def countdown() -> Countdown:
    return Countdown()


@pytest.fixture(scope="module")
def foraging() -> Foraging:
    return Foraging(ForagingArgs(rows=5, cols=5, max_food=1, episode_limit=20))


def test_pymarl_types_and_values(countdown: Countdown) -> None:
    env = adapt(countdown, "pymarl", seed=1)
    observations, state = env.reset()
    assert [type(obs) for obs in observations] == [np.ndarray, np.ndarray]
    assert (observations[1].shape, observations[1].dtype, state.tolist()) == ((2,), np.float32, [3.0])
    assert env.get_avail_actions() == [[1, 1, 0], [0, 1, 0]]
    assert env.get_avail_agent_actions(1) == [0, 1, 0]
    reward, terminated, info = env.step([1, 1])
    assert (reward, terminated, info) == (1.0, False, {"battle_won": 0.0})
    assert (type(reward), type(terminated)) == (float, bool)
    assert env.get_obs_agent(1)[0] == -2.0
    np.testing.assert_array_equal(env.get_obs()[1], env.get_obs_agent(1))
    env.step(np.array([1, 1]))
    assert env.step((0, 1)) == (0.0, True, {"battle_won": 1.0})
    assert env.get_env_info() == {"state_shape": 1, "obs_shape": 2, "n_actions": 3, "n_agents": 2, "episode_limit": 5}
    assert (env.get_total_actions(), env.get_state_size(), env.get_obs_size(), env.episode_limit) == (3, 1, 2, 5)
    assert (env.render(), env.close()) == (None, None)


def test_pymarl_marks_the_time_limit_and_counts() -> None:
    class Slow(Countdown):
        def step(self, key: jax.Array, state: Any, actions: jax.Array) -> tuple[Any, Observation, Outcome]:
            return super().step(key, state, actions * 0)

    env = adapt(Slow(), "pymarl")
    env.reset()
    results = [env.step([0, 1]) for _ in range(5)]
    assert [terminated for _, terminated, _ in results] == [False, False, False, False, True]
    assert results[-1][2] == {"battle_won": 0.0, "episode_limit": True}
    assert "episode_limit" not in results[-2][2]
    assert env.get_stats() == {
        "battles_won": 0.0,
        "battles_game": 1,
        "battles_draw": 1,
        "win_rate": 0.0,
        "timeouts": 1,
        "restarts": 0,
    }


def test_pymarl_sums_rewards_of_general_sum_games(foraging: Foraging) -> None:
    env = adapt(foraging, "pymarl", seed=5)
    random = np.random.default_rng(0)
    total = 0.0
    for _ in range(10):
        env.reset()
        over = False
        while not over:
            legal = [np.flatnonzero(row) for row in env.get_avail_actions()]
            # Loading is the last action: taken whenever it is legal.
            actions = [row[-1] if row[-1] == 5 else random.choice(row) for row in legal]
            reward, over, info = env.step(actions)
            assert reward == pytest.approx(info["agent_0_reward"] + info["agent_1_reward"])
            total += reward
    stats = env.get_stats()
    assert stats["episodes"] == 10
    # Normalised, all food of a game is worth 1: the rewards count the games that were finished.
    assert total == pytest.approx(stats["episodes"] - stats["timeouts"], abs=1e-4)
    assert total > 0
    assert stats["foods_left_mean"] == pytest.approx(stats["timeouts"] / 10)


def test_pymarl_refuses_what_is_illegal(countdown: Countdown) -> None:
    env = adapt(countdown, "pymarl")
    with pytest.raises(RuntimeError, match="has not started"):
        env.get_obs()
    env.reset()
    with pytest.raises(ValueError, match=r"Agent 1 cannot perform action 0; legal are \[1\]"):
        env.step([1, 0])
    with pytest.raises(ValueError, match=r"Agent 0 cannot perform action 7; legal are \[0, 1\]"):
        env.step([7, 1])
    with pytest.raises(ValueError, match="Got 1 actions for 2 agents"):
        env.step([1])
    for _ in range(3):
        env.step([1, 1])
    with pytest.raises(RuntimeError, match="is over"):
        env.step([1, 1])
    with pytest.raises(UserError, match="replays") as refused:
        env.save_replay()
    assert set(re.findall(r"`omg (\w+)", str(refused.value))) <= set(command_names())
    assert "omg " in str(refused.value)


@pytest.mark.parametrize("api", ["pymarl", "pettingzoo"])
def test_the_seed_decides_everything_and_compiles_once(countdown: Countdown, api: str) -> None:
    def luck(env: Any) -> float:
        return float(env.reset()[0][0][1] if api == "pymarl" else env.reset()[0]["agent_0"]["observation"][1])

    first, same, other = (adapt(countdown, api, seed=seed) for seed in (1, 1, 2))
    sequence = [luck(first) for _ in range(3)]
    compiled = countdown.traces
    assert len(set(sequence)) == 3
    assert [luck(same) for _ in range(3)] == sequence
    assert luck(other) not in sequence
    if api == "pymarl":
        assert (other.seed(1), other.seed()) == (1, 1)
        assert luck(other) == sequence[0]
    else:
        assert other.reset(seed=1)[0]["agent_0"]["observation"][1] == np.float32(sequence[0])
    assert countdown.traces == compiled


def test_pettingzoo_passes_its_own_test(foraging: Foraging) -> None:
    tests = importlib.import_module("pettingzoo.test")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tests.parallel_api_test(adapt(foraging, "pettingzoo", seed=3), num_cycles=60)


def test_pettingzoo_values(countdown: Countdown) -> None:
    pettingzoo = importlib.import_module("pettingzoo")
    env = adapt(countdown, "pettingzoo", seed=1)
    assert isinstance(env, pettingzoo.ParallelEnv)
    observations, infos = env.reset()
    assert env.agents == ["agent_0", "agent_1"]
    assert infos == {"agent_0": {}, "agent_1": {}}
    for agent in env.agents:
        assert env.observation_space(agent).contains(observations[agent])
    assert env.state_space.contains(env.state())
    assert observations["agent_1"]["action_mask"].tolist() == [0, 1, 0]
    observations, rewards, terminations, truncations, infos = env.step({"agent_0": 1, "agent_1": 1})
    assert rewards == {"agent_0": 1.0, "agent_1": 1.0}, "a team reward goes to everybody"
    assert infos["agent_0"] == {"battle_won": 0.0, "illegal_action": False}
    assert env.state().tolist() == [2.0]
    # Agent 0 plays what is never legal and agent 1 nothing: 0 and 1 are played in their place.
    _, rewards, _, _, infos = env.step({"agent_0": 2})
    assert (rewards["agent_0"], infos["agent_0"]["illegal_action"], infos["agent_1"]["illegal_action"]) == (
        0.5,
        True,
        True,
    )
    _, _, terminations, truncations, infos = env.step({"agent_0": 99, "agent_1": 1})
    assert terminations == {"agent_0": True, "agent_1": True}
    assert truncations == {"agent_0": False, "agent_1": False}
    assert infos["agent_1"] == {"battle_won": 1.0, "illegal_action": False}
    assert env.agents == []
    with pytest.raises(ValueError, match="No agent is called 'agent_2'"):
        env.step({"agent_2": 0})


def test_pettingzoo_keeps_general_sum_rewards_apart() -> None:
    importlib.import_module("pettingzoo")
    game = Foraging(ForagingArgs(rows=3, cols=3, max_food=1, max_player_level=1, max_food_level=1))
    env = adapt(game, "pettingzoo", seed=0)
    observations, _ = env.reset()
    # The only food is in the middle; one player alone can take it, and alone is paid.
    mover = next(agent for agent in env.agents if observations[agent]["action_mask"][5])
    other = next(agent for agent in env.agents if agent != mover)
    _, rewards, terminations, _, infos = env.step({mover: 5, other: 0})
    assert rewards == {mover: 1.0, other: 0.0}
    assert terminations == {mover: True, other: True}
    assert infos[other]["score"] == 1.0


def test_without_pettingzoo_the_extra_is_named(countdown: Countdown, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "omg.envs.adapters.pettingzoo", raising=False)
    monkeypatch.setitem(sys.modules, "pettingzoo", None)
    with pytest.raises(UserError, match=r"pip install 'omg-marl\[envs\]'"):
        adapt(countdown, "pettingzoo")


def test_jax_is_the_game_itself_and_other_names_are_refused(countdown: Countdown) -> None:
    assert adapt(countdown, "jax") is countdown
    with pytest.raises(UserError, match=r"'petingzoo'. Did you mean 'pettingzoo'\? Allowed: epymarl, jax, petting"):
        adapt(countdown, "petingzoo")


def test_epymarl_speaks_gymnasium(countdown: Countdown) -> None:
    env = adapt(countdown, "epymarl", seed=1)
    observations, info = env.reset()
    assert ([obs.shape for obs in observations], info) == ([(2,), (2,)], {})
    observations, reward, terminated, truncated, info = env.step(np.array([1, 1]))
    assert (reward, terminated, truncated, info) == (1.0, False, False, {"battle_won": 0.0})
    assert [type(value) for value in (reward, terminated, truncated)] == [float, bool, bool]
    np.testing.assert_array_equal(observations, env.get_obs())
    assert env.get_state().tolist() == [2.0]
    env.step([1, 1])
    assert env.step([0, 1])[1:] == (0.0, True, False, {"battle_won": 1.0})
    assert env.get_stats()["battles_won"] == 1
    luck = [float(env.reset(seed=seed)[0][0][1]) for seed in (1, 2, 1)]
    assert luck[0] == luck[2] != luck[1]
    with pytest.raises(UserError, match="options: got layout"):
        env.reset(options={"layout": 1})
    with pytest.raises(UserError, match=r"common_reward: got False, but countdown 3 has one reward"):
        adapt(countdown, "epymarl", common_reward=False)
    with pytest.raises(UserError, match=r"Unknown reward_scalarisation 'man'. Did you mean 'mean'\?"):
        adapt(countdown, "epymarl", reward_scalarisation="man")


def test_epymarl_tells_a_cut_from_an_end_and_adds_rewards_up_as_told(foraging: Foraging) -> None:
    ways = {"sum": {}, "mean": {"reward_scalarisation": "mean"}, "each": {"common_reward": False}}
    envs = {name: adapt(foraging, "epymarl", seed=5, **words) for name, words in ways.items()}
    random, ends, paid = np.random.default_rng(0), set(), 0.0
    for _ in range(10):
        for env in envs.values():
            env.reset()
        over = False
        while not over:
            legal = [np.flatnonzero(row) for row in envs["sum"].get_avail_actions()]
            actions = [row[-1] if row[-1] == 5 else random.choice(row) for row in legal]
            results = {name: env.step(actions) for name, env in envs.items()}
            _, total, terminated, truncated, info = results["sum"]
            assert (type(results["each"][1]), len(results["each"][1])) == (list, 2)
            assert total == pytest.approx(sum(results["each"][1])) == pytest.approx(2 * results["mean"][1])
            assert info.get("episode_limit", False) is truncated
            assert not any(key.startswith("agent_") for key in info), "runners would log the last step's as a mean"
            over, paid = terminated or truncated, paid + total
        ends.add((terminated, truncated))
    assert ends == {(True, False), (False, True)}
    assert paid > 0


def test_make_takes_epymarls_words() -> None:
    game = {"rows": 5, "cols": 5, "max_food": 1}
    env = omg.make("foraging", api="epymarl", seed=3, common_reward=False, reward_scalarisation="sum", **game)
    env.reset()
    assert len(env.step([0, 0])[1]) == 2
    with pytest.raises(UserError, match=r"env_args\.common_reward"):
        omg.make("foraging", api="pymarl", common_reward=False, **game)


def test_many_steps_at_once_are_as_many_single_steps(foraging: Foraging) -> None:
    together, alone = (adapt(foraging, "pettingzoo", seed=5) for _ in range(2))
    names, rng = together.possible_agents, np.random.default_rng(0)
    for _ in range(2):
        together.reset()
        alone.reset()
        while together.agents:
            wanted = {name: rng.integers(-1, 7, 8) for name in names}  # Some of them illegal.
            stretch = together.step_many(wanted)
            count = len(stretch.rewards)
            for step in range(count):
                observations, rewards, terminated, truncated, infos = alone.step({n: wanted[n][step] for n in names})
                for seat, name in enumerate(names):
                    np.testing.assert_array_equal(stretch.observations[step, seat], observations[name]["observation"])
                    np.testing.assert_array_equal(stretch.masks[step, seat], observations[name]["action_mask"])
                    assert stretch.rewards[step, seat] == rewards[name]
                    illegal = stretch.actions[step, seat] != wanted[name][step]
                    assert illegal == infos[name]["illegal_action"]
                np.testing.assert_array_equal(stretch.states[step], alone.state())
                assert all(stretch.metrics[name][step] == infos[names[0]][name] for name in stretch.metrics)
            assert (terminated[names[0]], truncated[names[0]]) == (stretch.terminated, stretch.truncated)
            assert (together.agents, count) == (alone.agents, 8 if together.agents else count)
            np.testing.assert_array_equal(together.state(), alone.state())
    with pytest.raises(RuntimeError, match="The game is over"):
        together.step_many({name: [0] for name in names})
    with pytest.raises(ValueError, match="equally many actions"):
        together.step_many({names[0]: [0]})


def test_what_a_single_game_shows_belongs_to_the_caller(foraging: Foraging) -> None:
    game = SingleGame(foraging, seed=0)
    game.reset()
    before, kept = game.seen, [values.copy() for values in game.seen]
    game.step(np.zeros(foraging.spec.n_agents, int))
    for values, old in zip(before, kept, strict=True):
        np.testing.assert_array_equal(values, old)
    game.seen.obs[:] = 7.0
    assert (game.seen.state != 7.0).any()
