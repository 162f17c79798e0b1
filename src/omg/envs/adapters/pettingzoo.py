"""A built-in game as a PettingZoo `ParallelEnv`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from omg.envs.adapters.single import SingleGame, Stretch
from omg.envs.base import Env
from omg.errors import UserError

try:
    from gymnasium import spaces
    from pettingzoo import ParallelEnv
except ImportError as error:
    raise UserError(
        "api=pettingzoo needs the packages pettingzoo and gymnasium, which are not installed. "
        "Install them with: pip install 'omg-marl[envs]'"
    ) from error

AgentObservation = dict[str, np.ndarray]


class PettingZooEnv(ParallelEnv[str, AgentObservation, int]):
    """Seats are `agent_0`, `agent_1`, …; all of them stay in the game until it ends.

    An observation is a dictionary: `observation` [O] float32 and `action_mask` [U] int8, 1 for legal actions, which
    `action_space(agent).sample(mask)` accepts as it is. An illegal or missing action is replaced by the legal action
    with the lowest number (standing still in the built-in games) and reported as `illegal_action` in that agent's
    info. Infos also hold the game's metrics. In games with one team reward every agent is given that reward. A unit
    that is dead in sc2 remains an agent, with no-op as its only legal action, because the team's reward goes on.
    """

    def __init__(self, env: Env, seed: int = 0, render_mode: str | None = None) -> None:
        spec = env.spec
        self._game = SingleGame(env, seed)
        modes = self._game.render_modes
        self.metadata = {
            "name": f"{spec.name}_{spec.scenario}",
            "render_modes": modes,
            "render_fps": 4,
            "is_parallelizable": True,
        }
        if render_mode is not None and render_mode not in modes:
            allowed = ", ".join(modes) or "none: there is no picture of it"
            raise UserError(f"render_mode: got '{render_mode}' for {spec.name}. Allowed: {allowed}.")
        self.render_mode = render_mode
        self.spec = spec
        self.possible_agents = [f"agent_{seat}" for seat in range(spec.n_agents)]
        self.agents: list[str] = []
        self.state_space = _numbers(spec.state_dim)
        self.observation_spaces = {
            agent: spaces.Dict(
                {
                    "observation": _numbers(spec.obs_dim),
                    "action_mask": spaces.Box(0, 1, (spec.n_actions,), np.int8),
                }
            )
            for agent in self.possible_agents
        }
        self.action_spaces: dict[str, spaces.Discrete] = {
            agent: spaces.Discrete(spec.n_actions) for agent in self.possible_agents
        }

    def observation_space(self, agent: str) -> spaces.Dict:
        """The space of one agent's observation dictionary."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> spaces.Discrete:
        """The actions 0 … U - 1; which of them are legal is in the observation's `action_mask`."""
        return self.action_spaces[agent]

    def reset(
        self, seed: int | None = None, options: dict[str, object] | None = None
    ) -> tuple[dict[str, AgentObservation], dict[str, dict[str, float]]]:
        """Starts the next episode, or the first of another `seed`; there are no options to set."""
        if seed is not None:
            self._game.restart(seed)
        self._game.reset()
        self.agents = list(self.possible_agents)
        return self._observations(), {agent: {} for agent in self.agents}

    def step(
        self, actions: dict[str, int]
    ) -> tuple[
        dict[str, AgentObservation], dict[str, float], dict[str, bool], dict[str, bool], dict[str, dict[str, float]]
    ]:
        """Plays one step; returns observations, rewards, terminations, truncations and infos by agent."""
        strangers = sorted(set(actions) - set(self.possible_agents))
        if strangers:
            raise ValueError(f"No agent is called {strangers[0]!r}; there are {', '.join(self.possible_agents)}.")
        legal = self._game.seen.avail
        chosen = np.array([actions.get(agent, -1) for agent in self.possible_agents])
        in_range = (chosen >= 0) & (chosen < self.spec.n_actions)
        illegal = ~(in_range & legal[np.arange(len(chosen)), np.where(in_range, chosen, 0)])
        outcome = self._game.step(np.where(illegal, legal.argmax(axis=1), chosen))
        metrics = {name: float(value) for name, value in outcome.metrics.items()}
        names = self.possible_agents
        result = (
            self._observations(),
            {agent: float(reward) for agent, reward in zip(names, outcome.reward, strict=True)},
            dict.fromkeys(names, bool(outcome.terminated)),
            dict.fromkeys(names, bool(outcome.truncated)),
            {agent: {**metrics, "illegal_action": bool(flag)} for agent, flag in zip(names, illegal, strict=True)},
        )
        if self._game.over:
            self.agents = []
        return result

    def step_many(self, actions: Mapping[str, Sequence[int]]) -> Stretch:
        """Plays several steps at once, until the game is over: one compiled program instead of a call for each.

        For action sequences that are known beforehand: random play, replays, plans to be judged.

        Args:
            actions: agent -> its actions of T steps; all of the same length, at least 1. What is illegal when its step
                comes is replaced as in `step`.

        Returns:
            what happened in the steps that were played, as arrays [N, ...] in the order of `possible_agents`.
        """
        strangers = sorted(set(actions) ^ set(self.possible_agents))
        counts = {len(own) for own in actions.values()}
        if strangers or len(counts) != 1 or 0 in counts:
            raise ValueError(f"Give {', '.join(self.possible_agents)} equally many actions each, at least one.")
        columns = [np.asarray(actions[agent], np.int32) for agent in self.possible_agents]
        stretch = self._game.step_many(np.stack(columns, axis=1))
        if self._game.over:
            self.agents = []
        return stretch

    def state(self) -> np.ndarray:
        """The global state, [S] float32."""
        return self._game.seen.state

    def render(self) -> np.ndarray | str | None:
        """How the game stands, as `render_mode` says.

        `rgb_array`: an image [height, width, 3] uint8; `ansi`: a text, of games on a board; None: nothing is drawn.
        """
        return self._game.render(self.render_mode)

    def close(self) -> None:
        """Frees nothing: the game holds no outside resources."""

    def _observations(self) -> dict[str, AgentObservation]:
        seen = self._game.seen
        return {
            agent: {"observation": obs, "action_mask": avail.astype(np.int8)}
            for agent, obs, avail in zip(self.possible_agents, seen.obs, seen.avail, strict=True)
        }


def _numbers(size: int) -> spaces.Box:
    return spaces.Box(-np.inf, np.inf, (size,), np.float32)
