"""Other people's games as games to train in: Gymnasium (lbforaging), PettingZoo, JaxMARL."""

from __future__ import annotations

import sys
import types
import warnings
from typing import Any, ClassVar, NamedTuple

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces
from pettingzoo import ParallelEnv

import omg
from omg.controllers.scripted.base import RandomPlayer
from omg.envs import ENVS, make_env
from omg.envs.adapters.host import GameFaultError, HostGame
from omg.envs.adapters.pettingzoo import PettingZooEnv
from omg.errors import UserError
from omg.runners.vector import play_episodes

LBF = "lbforaging:Foraging-8x8-2p-3f-v3"


def opened(name: str, **env_args: Any) -> HostGame:
    env: Any = make_env(name, **env_args)
    return env.open()


# ------------------------------------------------------------------------------------------------ Gymnasium


def test_lbforaging_step_by_step() -> None:
    ours, spec = opened("gymma", key=LBF), make_env("gymma", key=LBF).spec
    assert (spec.n_agents, spec.n_actions, spec.obs_dim, spec.state_dim) == (2, 6, 15, 30)
    assert (spec.episode_limit, spec.reward_per_agent, spec.scenario) == (50, True, "Foraging-8x8-2p-3f-v3")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = gymnasium.make("Foraging-8x8-2p-3f-v3", disable_env_checker=True)
    random = np.random.default_rng(0)
    paid, ends = 0.0, []
    for seed in range(6):
        seen, (observations, _) = ours.reset(seed), theirs.reset(seed=seed)
        for time in range(1, 51):
            np.testing.assert_array_equal(seen.obs, observations)
            np.testing.assert_array_equal(seen.state, np.concatenate(observations))
            assert seen.avail.all()
            # Loading often, so that something is paid.
            actions = np.where(random.random(2) < 0.5, 5, random.integers(0, 6, 2))
            step = ours.step(actions)
            observations, rewards, ended, _, _ = theirs.step(actions.tolist())
            np.testing.assert_array_equal(step.reward, np.float32(rewards))
            assert (step.terminated or step.truncated) == ended
            seen, paid = step.seen, paid + sum(rewards)
            if ended:
                assert step.truncated == (time == 50), "the game calls its own time limit an end"
                ends.append(time)
                break
    assert paid > 0
    assert 50 in ends


def test_names_without_a_package_limits_and_arguments() -> None:
    spec = make_env("gymma", key="Foraging-8x8-2p-3f-v3", time_limit=20).spec
    assert (spec.episode_limit, spec.obs_dim) == (20, 15)
    assert make_env("gymma", key=LBF, time_limit=500).spec.episode_limit == 50, "lbforaging ends by itself after 50"
    small = make_env("gymma", key=LBF, kwargs={"players": 3, "sight": 2}).spec
    assert (small.n_agents, small.obs_dim) == (3, 18)


@pytest.mark.parametrize(("scalarisation", "expected"), [("sum", 0.75), ("mean", 0.375)])
def test_rewards_can_be_shared(scalarisation: str, expected: float) -> None:
    shared = {"common_reward": True, "reward_scalarisation": scalarisation}
    game = opened("gymma", key="test_adapters_host:Lists", **shared)
    game.reset(0)
    assert game.step(np.array([0, 0])).reward == expected
    assert not make_env("gymma", key="test_adapters_host:Lists", **shared).spec.reward_per_agent


class Lists:
    """Different spaces for the two seats, actions that count from 1, flags in lists, a state of its own."""

    observation_space = spaces.Tuple([spaces.Discrete(4), spaces.Box(0, 1, (2, 3))])
    action_space = spaces.Tuple([spaces.Discrete(2, start=1), spaces.Discrete(5)])
    rewards: ClassVar[Any] = [0.5, 0.25]

    def reset(self, *, seed: int) -> tuple[Any, dict[str, Any]]:
        self.last: Any = None
        return self._seen(), {}

    def step(self, actions: list[int]) -> tuple[Any, Any, list[bool], list[bool], dict[str, Any]]:
        self.last = actions
        done = [actions[1] == 4, True]
        return self._seen(), self.rewards, done, [actions[1] == 3] * 2, {"score": actions[1]}

    def get_state(self) -> np.ndarray:
        return np.array([[1, 2], [3, 4]])

    def _seen(self) -> Any:
        return (2, np.arange(6, dtype=np.float32).reshape(2, 3) / 6)


class OneReward(Lists):
    rewards = 0.5


class OneSpace(Lists):
    observation_space = spaces.Box(0, 1, (3,))
    action_space = spaces.Discrete(2)


class Continuous(Lists):
    action_space = spaces.Tuple([spaces.Box(0, 1, (1,))] * 2)


def test_spaces_of_all_kinds() -> None:
    game = opened("gymma", key="test_adapters_host:Lists", metrics=["score", "missing"])
    spec = make_env("gymma", key="test_adapters_host:Lists").spec
    assert (spec.n_agents, spec.n_actions, spec.obs_dim, spec.state_dim) == (2, 5, 6, 4)
    seen = game.reset(0)
    assert seen.obs[0].tolist() == [0, 0, 1, 0, 0, 0], "one-hot, and padded"
    np.testing.assert_allclose(seen.obs[1], np.arange(6) / 6, rtol=1e-6)
    assert seen.state.tolist() == [1, 2, 3, 4]
    assert seen.avail.tolist() == [[True, True, False, False, False], [True] * 5]
    step = game.step(np.array([1, 2]))
    assert game.env.last == [2, 2], "the first seat's actions count from 1"  # type: ignore[attr-defined]
    assert (step.terminated, step.truncated, step.metrics) == (False, False, [2.0, 0.0])
    assert game.step(np.array([1, 3])).truncated
    assert game.step(np.array([1, 4])).terminated
    assert game.close() is None


def test_games_that_do_not_fit_are_refused() -> None:
    for key, message in (
        ("test_adapters_host:OneSpace", r"env_args\.key: .*Allowed: games with a tuple of spaces"),
        ("test_adapters_host:Continuous", r"seat 0 has the action space Box.*Allowed: Discrete"),
        ("rware:rware-tiny-2ag-v2", r"'rware' cannot be imported\. Install it with: pip install rware"),
        ("rware-tiny-2ag-v2", r"'rware' cannot be imported\. Install it with: pip install rware"),
        ("nowhere_at_all:Game", r"'nowhere_at_all' cannot be imported\. Is its folder on PYTHONPATH"),
        ("lbforaging:Foraging-8x8-2p-3f-v9", r"env_args\.key: got 'lbforaging:Foraging-8x8-2p-3f-v9'\. .*"),
    ):
        with pytest.raises(UserError, match=message):
            make_env("gymma", key=key)
    game = opened("gymma", key="test_adapters_host:OneReward")
    game.reset(0)
    with pytest.raises(GameFaultError, match=r"env_args\.common_reward=True"):
        game.step(np.array([0, 0]))


def test_without_gymnasium_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    with pytest.raises(UserError, match=r"pip install 'omg-marl\[envs\]'"):
        make_env("gymma", key=LBF)


# ------------------------------------------------------------------------------------------------ PettingZoo


def our_foraging() -> PettingZooEnv:
    """A built-in game as a PettingZoo environment: masks in the observation, a state, per-agent rewards."""
    return omg.make("foraging", api="pettingzoo", rows=4, cols=4, max_food=1, episode_limit=12)


def test_a_pettingzoo_environment_and_back() -> None:
    key = "test_adapters_host:our_foraging"
    game, spec = opened("pettingzoo", key=key, time_limit=12, metrics=["score"]), make_env("foraging").spec
    theirs: ParallelEnv[str, Any, int] = our_foraging()
    random, paid = np.random.default_rng(1), 0.0
    for seed in range(4):
        seen, (observations, _) = game.reset(seed), theirs.reset(seed=seed)
        over = False
        while not over:
            for seat, name in enumerate(theirs.possible_agents):
                np.testing.assert_array_equal(seen.obs[seat], observations[name]["observation"])
                np.testing.assert_array_equal(seen.avail[seat], observations[name]["action_mask"])
            np.testing.assert_array_equal(seen.state, theirs.state())
            legal = [np.flatnonzero(row) for row in seen.avail]
            actions = np.array([row[-1] if row[-1] == 5 else random.choice(row) for row in legal])
            step = game.step(actions)
            observations, rewards, _, cut, infos = theirs.step(
                dict(zip(theirs.possible_agents, actions.tolist(), strict=True))
            )
            assert np.ravel(step.reward).tolist() == [np.float32(value) for value in rewards.values()]
            assert step.metrics == [infos["agent_0"]["score"]]
            over = step.terminated or step.truncated
            assert (step.truncated or step.terminated) == (not theirs.agents)
            assert step.truncated >= cut["agent_0"]
            seen, paid = step.seen, paid + float(np.sum(step.reward))
        # The seats of a game that is over can only do nothing.
        assert seen.avail.sum(axis=1).tolist() == [1, 1]
    assert paid > 0
    assert make_env("pettingzoo", key=key).spec.n_actions == spec.n_actions


class Leaving(ParallelEnv):  # type: ignore[type-arg]
    """Agent b leaves after two steps; a and c end after four. Masks are in the info."""

    metadata: ClassVar[dict[str, Any]] = {"name": "leaving"}
    possible_agents: ClassVar[list[str]] = ["a", "b", "c"]

    def observation_space(self, agent: str) -> spaces.Space:
        return spaces.Box(0, 9, (2,)) if agent == "a" else spaces.MultiBinary(3)

    def action_space(self, agent: str) -> spaces.Discrete:
        return spaces.Discrete(2)

    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        self.agents, self.time = list(self.possible_agents), 0
        return self._seen(), {name: {"action_mask": [0, 1]} for name in self.agents}

    def step(self, actions: dict[str, int]) -> Any:
        assert set(actions) == set(self.agents), "only those who are there may act"
        acted, self.time = list(self.agents), self.time + 1
        left = {name: self.time >= (2 if name == "b" else 4) for name in acted}
        rewards = {name: float(actions[name]) for name in acted}
        seen = self._seen()
        self.agents = [name for name in acted if not left[name]]
        return seen, rewards, left, dict.fromkeys(acted, False), {name: {"time": self.time} for name in acted}

    def close(self) -> None:
        pass

    def _seen(self) -> dict[str, Any]:
        return {
            name: np.array([self.time, 1], np.float32) if name == "a" else np.array([1, 0, 1], np.int8)
            for name in self.agents
        }


def test_agents_that_leave_early() -> None:
    game = opened("pettingzoo", key="test_adapters_host:Leaving", time_limit=9, metrics=["time"])
    seen = game.reset(0)
    assert seen.avail.tolist() == [[False, True]] * 3, "masks of the info"
    assert seen.obs.tolist() == [[0, 1, 0], [1, 0, 1], [1, 0, 1]]
    assert seen.state.tolist() == [0, 1, 0, 1, 0, 1, 1, 0, 1], "no state of its own: all observations"
    game.step(np.array([1, 1, 1]))
    step = game.step(np.array([1, 1, 1]))
    assert np.ravel(step.reward).tolist() == [1, 1, 1]
    assert step.seen.avail.tolist() == [[True, True], [True, False], [True, True]]
    step = game.step(np.array([1, 0, 1]))
    assert np.ravel(step.reward).tolist() == [1, 0, 1]
    assert step.seen.obs[1].tolist() == [0, 0, 0]
    assert (step.terminated, step.truncated) == (False, False)
    step = game.step(np.array([0, 0, 1]))
    assert (step.terminated, step.truncated, step.metrics) == (True, False, [4.0])
    cut = opened("pettingzoo", key="test_adapters_host:Leaving", time_limit=2)
    cut.reset(0)
    cut.step(np.array([1, 1, 1]))
    assert cut.step(np.array([1, 1, 1])).truncated


def test_pettingzoo_games_that_do_not_fit_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    # Agents of that game come and go, and are not known beforehand.
    key = "pettingzoo.test.example_envs.generated_agents_parallel_v0"
    with pytest.raises(UserError, match=r"possible_agents.*fixed list of agents"):
        make_env("pettingzoo", key=key)
    with pytest.raises(UserError, match=r"'json' has no function parallel_env\(\)"):
        make_env("pettingzoo", key="json")
    # Other tests may have imported it, or parts of it.
    for name in {"mpe2", *(name for name in sys.modules if name.startswith("mpe2."))}:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(UserError, match=r"'mpe2.*cannot be imported\. Install it with: pip install 'omg-marl\[envs\]'"):
        make_env("pettingzoo", key="mpe2.simple_spread_v3")


# ------------------------------------------------------------------------------------------------ JaxMARL


class Space(NamedTuple):
    n: int


class Race:
    """JaxMARL's interface: agents count to a goal of their own drawing; `step` would start a new game by itself."""

    num_agents = 2
    agents: ClassVar[list[str]] = ["agent_0", "agent_1"]
    max_steps = 6

    def __init__(self, goal: int = 3, masks: bool = True, world: bool = True) -> None:
        self.goal, self.masks, self.world = goal, masks, world

    def action_space(self, agent: str) -> Space:
        return Space(3 if agent == "agent_0" else 2)

    def reset(self, key: Any) -> tuple[dict[str, Any], Any]:
        state = {"places": jnp.zeros(2), "luck": jax.random.uniform(key), "step": jnp.int32(0)}
        return self._seen(state), state

    def step_env(self, key: Any, state: Any, actions: dict[str, Any]) -> Any:
        moves = jnp.stack([actions[name] for name in self.agents]).astype(jnp.float32)
        state = {**state, "places": state["places"] + moves, "step": state["step"] + 1}
        won = state["places"] >= self.goal
        done = won.any() | (state["step"] >= self.max_steps)
        rewards = {name: moves[seat] for seat, name in enumerate(self.agents)}
        return self._seen(state), state, rewards, {"__all__": done}, {"won": won.astype(jnp.float32)}

    def get_avail_actions(self, state: Any) -> dict[str, Any]:
        if not self.masks:
            raise NotImplementedError
        return {"agent_0": jnp.array([1, 1, 0]), "agent_1": jnp.array([0, 1])}

    def _seen(self, state: Any) -> dict[str, Any]:
        seen = {"agent_0": state["places"][None], "agent_1": jnp.append(state["places"], state["luck"])}
        return {**seen, "world_state": jnp.ones((2, 2)) * state["step"]} if self.world else seen


@pytest.fixture
def jaxmarl(monkeypatch: pytest.MonkeyPatch) -> None:
    def make(key: str, **kwargs: Any) -> Race:
        if key != "race":
            raise ValueError(f"{key} is not in registered jaxmarl environments.")
        return Race(**kwargs)

    monkeypatch.setitem(sys.modules, "jaxmarl", types.SimpleNamespace(make=make))  # type: ignore[arg-type]


def test_jaxmarl_games_play_compiled(jaxmarl: None) -> None:
    env = make_env("jaxmarl", key="race", metrics=["won"])
    spec = env.spec
    assert (spec.n_agents, spec.n_actions, spec.obs_dim, spec.state_dim, spec.episode_limit) == (2, 3, 3, 4, 6)
    rollout = jax.jit(lambda key: play_episodes(env, RandomPlayer(), key, 5, 0.0))(jax.random.key(0))
    batch, stats = jax.device_get((rollout.batch, rollout.stats))
    assert batch is not None
    # Seat 1 can only walk, one place a step: all games end after three steps, seat 1 at the goal.
    assert stats.lengths.tolist() == [3] * 5
    assert batch.terminated.sum(axis=1).tolist() == [1] * 5
    assert batch.reward[:, :3, 1].tolist() == [[1, 1, 1]] * 5
    assert batch.obs[0, 2, 0].tolist() == [*batch.actions[0, :2].sum(axis=0).tolist(), 0], "flat and padded"
    assert len(np.unique(batch.obs[:, 0, 1, 2])) == 5, "every game has luck of its own"
    assert batch.state[0, 2].tolist() == [2, 2, 2, 2]
    assert batch.avail[0, 0].tolist() == [[True, True, False], [False, True, False]]
    assert batch.actions[:, :3].max() == 1
    np.testing.assert_allclose(stats.metrics["won"], (1 + (batch.reward[:, :3, 0].sum(axis=1) >= 3)) / 2)


def test_jaxmarl_without_masks_state_or_end(jaxmarl: None) -> None:
    kwargs = {"goal": 100, "masks": False, "world": False}
    env = make_env("jaxmarl", key="race", kwargs=kwargs, time_limit=4, common_reward=True, reward_scalarisation="mean")
    assert (env.spec.state_dim, env.spec.episode_limit, env.spec.reward_per_agent) == (6, 4, False)
    state, seen = env.reset(jax.random.key(1), 3)
    assert seen.avail[0].tolist() == [[True, True, True], [True, True, False]]
    assert seen.state.tolist() == seen.obs.reshape(3, 6).tolist()
    for time in range(1, 5):
        state, seen, outcome = env.step(jax.random.key(time), state, jnp.array([[2, 1]] * 3))
        assert outcome.reward.tolist() == [1.5] * 3
        assert outcome.truncated.tolist() == [time == 4] * 3
        assert not outcome.terminated.any()


def test_jaxmarl_is_refused_with_a_reason(jaxmarl: None, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match=r"env_args\.key: got 'chess'.*is not in registered jaxmarl environments"):
        make_env("jaxmarl", key="chess")
    env = make_env("jaxmarl", key="race", metrics=["nothing"])
    state, _ = env.reset(jax.random.key(0), 1)
    with pytest.raises(UserError, match=r"env_args\.metrics: got 'nothing'.*Allowed: won"):
        env.step(jax.random.key(0), state, jnp.ones((1, 2), int))
    monkeypatch.setitem(sys.modules, "jaxmarl", None)
    with pytest.raises(UserError, match=r"pip install 'omg-marl\[jaxmarl\]'"):
        make_env("jaxmarl")


def test_the_registry_knows_them() -> None:
    foreign = {name for name, entry in ENVS.items() if entry.traits.foreign}
    assert foreign == {"gymma", "pettingzoo", "jaxmarl"}
    assert {name for name, entry in ENVS.items() if entry.traits.on_host} == {"gymma", "pettingzoo"}
