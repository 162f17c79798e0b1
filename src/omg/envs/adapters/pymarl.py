"""A built-in game as PyMARL's `MultiAgentEnv`: the same methods, argument and return types, without PyMARL itself."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from omg.envs.adapters.single import SingleGame
from omg.envs.base import Env, Outcome
from omg.errors import UserError


class PyMARLEnv:
    """One game for PyMARL's runners; those of EPyMARL today take `epymarl.EPyMARLEnv`.

    In general-sum games the reward is the sum over all agents, because PyMARL knows only team rewards; the single
    rewards are in the info as `agent_0_reward` and so on, for runners that add numbers up by name.
    """

    def __init__(self, env: Env, seed: int = 0) -> None:
        self.spec = env.spec
        self.n_agents = env.spec.n_agents
        self.n_actions = env.spec.n_actions
        self.episode_limit = env.spec.episode_limit
        self._game = SingleGame(env, seed)
        self._episodes = 0
        self._timeouts = 0
        self._metric_sums = dict.fromkeys(env.spec.metrics, 0.0)

    def reset(self) -> tuple[list[np.ndarray], np.ndarray]:
        """Starts the next episode; returns the observations of all agents and the state."""
        self._game.reset()
        return self.get_obs(), self.get_state()

    def step(self, actions: Sequence[int]) -> tuple[float, bool, dict[str, float]]:
        """Plays one step.

        Args:
            actions: one legal action per agent; anything of integers (a list, an array, a tensor).

        Returns:
            the team's reward, whether the episode is over, and an info dictionary: the game's metrics as numbers, and
            `episode_limit` = True if the time limit ended the episode, which PyMARL takes as "not terminated".
        """
        outcome, info = self._play(actions)
        if self.spec.reward_per_agent:
            info |= {f"agent_{seat}_reward": float(reward) for seat, reward in enumerate(outcome.reward)}
        reward = outcome.reward.sum() if self.spec.reward_per_agent else outcome.reward[0]
        return float(reward), self._game.over, info

    def get_obs(self) -> list[np.ndarray]:
        """The observations [O] float32 of all agents."""
        return list(self._game.seen.obs)

    def get_obs_agent(self, agent_id: int) -> np.ndarray:
        """The observation [O] float32 of one agent."""
        return self._game.seen.obs[agent_id]

    def get_obs_size(self) -> int:
        """The length of an observation."""
        return self.spec.obs_dim

    def get_state(self) -> np.ndarray:
        """The global state [S] float32."""
        return self._game.seen.state

    def get_state_size(self) -> int:
        """The length of the state."""
        return self.spec.state_dim

    def get_avail_actions(self) -> list[list[int]]:
        """For each agent, 1 for every legal action and 0 for the others."""
        return self._game.seen.avail.astype(int).tolist()

    def get_avail_agent_actions(self, agent_id: int) -> list[int]:
        """1 for every legal action of one agent and 0 for the others."""
        return self._game.seen.avail[agent_id].astype(int).tolist()

    def get_total_actions(self) -> int:
        """The number of actions, legal or not."""
        return self.n_actions

    def get_env_info(self) -> dict[str, int]:
        """The sizes PyMARL builds its networks and buffers from."""
        return {
            "state_shape": self.get_state_size(),
            "obs_shape": self.get_obs_size(),
            "n_actions": self.n_actions,
            "n_agents": self.n_agents,
            "episode_limit": self.episode_limit,
        }

    def get_stats(self) -> dict[str, float]:
        """Episodes so far: SMAC's counts where battles can be won, else each metric's mean at the end of episodes."""
        if "battle_won" in self._metric_sums:
            won = self._metric_sums["battle_won"]
            return {
                "battles_won": won,
                "battles_game": self._episodes,
                "battles_draw": self._timeouts,
                "win_rate": won / max(self._episodes, 1),
                "timeouts": self._timeouts,
                "restarts": 0,
            }
        means = {f"{name}_mean": total / max(self._episodes, 1) for name, total in self._metric_sums.items()}
        return {"episodes": self._episodes, "timeouts": self._timeouts, **means}

    def seed(self, seed: int | None = None) -> int:
        """The seed; a given one begins its sequence of episodes at the next `reset`."""
        if seed is not None:
            self._game.restart(seed)
        return self._game.seed

    def render(self) -> np.ndarray | None:
        """How the game stands as an image, [height, width, 3] uint8; None where there is no picture of it."""
        image = self._game.render("rgb_array")
        return image if isinstance(image, np.ndarray) else None

    def close(self) -> None:
        """Frees nothing: the game holds no outside resources."""

    def save_replay(self) -> None:
        """Refused: only the real StarCraft II writes replay files."""
        raise UserError(
            f"save_replay: '{self.spec.name}' is a built-in simulator and writes no StarCraft II replays. "
            "`omg watch RUN` shows a game of a trained agent."
        )

    def _play(self, actions: Sequence[int]) -> tuple[Outcome, dict[str, float]]:
        """One step, with one reward per seat [A], and the info that every runner reads."""
        outcome = self._game.step(self._checked(actions))
        info: dict[str, float] = {name: float(value) for name, value in outcome.metrics.items()}
        if outcome.truncated:
            info["episode_limit"] = True
        if self._game.over:
            self._count(outcome)
        return outcome, info

    def _checked(self, actions: Sequence[int]) -> np.ndarray:
        chosen = np.array([int(action) for action in actions])
        if len(chosen) != self.n_agents:
            raise ValueError(f"Got {len(chosen)} actions for {self.n_agents} agents.")
        avail = self._game.seen.avail
        for agent, action in enumerate(chosen):
            if not 0 <= action < self.n_actions or not avail[agent, action]:
                raise ValueError(
                    f"Agent {agent} cannot perform action {action}; legal are {np.flatnonzero(avail[agent]).tolist()}."
                )
        return chosen

    def _count(self, outcome: Outcome) -> None:
        self._episodes += 1
        self._timeouts += int(outcome.truncated)
        for name, value in outcome.metrics.items():
            self._metric_sums[name] += float(value)
