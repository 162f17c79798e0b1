"""A built-in game as EPyMARL's `MultiAgentEnv`: PyMARL's methods with Gymnasium's `reset` and `step`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from omg.envs.adapters.pymarl import PyMARLEnv
from omg.envs.base import Env
from omg.errors import UserError, unknown_name

SCALARISATIONS = ("sum", "mean")


class EPyMARLEnv(PyMARLEnv):
    """One game for the runners of EPyMARL since its move to Gymnasium.

    A cut by the time limit is `truncated`, and `episode_limit` in the info besides: EPyMARL's runners take both
    together for an end, and only that word tells them that the values of the last state still count.
    """

    def __init__(
        self, env: Env, seed: int = 0, *, common_reward: bool = True, reward_scalarisation: str = "sum"
    ) -> None:
        """Takes EPyMARL's two words about rewards.

        Args:
            env: a built-in game.
            seed: all randomness.
            common_reward: one reward for the team. False: a list with the reward of each agent.
            reward_scalarisation: in general-sum games, whether the team's reward is the `sum` or the `mean`.
        """
        if reward_scalarisation not in SCALARISATIONS:
            raise unknown_name("reward_scalarisation", str(reward_scalarisation), SCALARISATIONS)
        if not common_reward and not env.spec.reward_per_agent:
            raise UserError(
                f"common_reward: got {common_reward!r}, but {env.spec.name} {env.spec.scenario} has one reward for the "
                "team. Allowed: True."
            )
        super().__init__(env, seed)
        self.common_reward = common_reward
        self._share = env.spec.n_agents if reward_scalarisation == "mean" else 1

    def reset(  # type: ignore[override]
        self, seed: int | None = None, options: dict[str, object] | None = None
    ) -> tuple[list[np.ndarray], dict[str, object]]:
        """Starts the next episode, or the first of another `seed`; there are no options to set.

        Returns:
            the observations [O] of all agents, and an empty info dictionary.
        """
        if options:
            raise UserError(f"options: got {', '.join(options)}, but a game has none to set at a reset.")
        self.seed(seed)
        self._game.reset()
        return self.get_obs(), {}

    def step(  # type: ignore[override]
        self, actions: Sequence[int]
    ) -> tuple[list[np.ndarray], float | list[float], bool, bool, dict[str, float]]:
        """Plays one step.

        Args:
            actions: one legal action per agent; anything of integers (a list, an array, a tensor).

        Returns:
            the observations [O] of all agents, the team's reward or with `common_reward=False` a list of A rewards,
            whether the game ended, whether the time limit cut it, and an info dictionary: the game's metrics, and
            `episode_limit` = True after a cut.
        """
        outcome, info = self._play(actions)
        reward: float | list[float]
        if not self.common_reward:
            reward = [float(one) for one in outcome.reward]
        elif self.spec.reward_per_agent:
            reward = float(outcome.reward.sum()) / self._share
        else:
            reward = float(outcome.reward[0])
        return self.get_obs(), reward, bool(outcome.terminated), bool(outcome.truncated), info
