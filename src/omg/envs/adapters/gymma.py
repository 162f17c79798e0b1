"""Gymnasium games of several agents in EPyMARL's style: tuples of spaces, a list of rewards (`lbforaging`, `rware`).

A game is either registered with Gymnasium, `lbforaging:Foraging-8x8-2p-3f-v3`, or any class or function of a module
that makes one, `my_module:MyGame`. Beyond Gymnasium's own methods two of PyMARL's are used where a game has them:
`get_avail_actions()` and `get_state()`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from omg.envs.adapters.host import GameFaultError, HostEnv, HostStep, Seen, load_module, shared_reward
from omg.envs.base import EnvSpec
from omg.errors import UserError

INSTALL = "pip install 'omg-marl[envs]'"
_PACKAGES = {"Foraging": "lbforaging", "rware": "rware"}
"""Beginning of a registered name -> the package that registers it."""


class SharedArgs(BaseModel):
    """What the adapters of foreign games have in common."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    kwargs: dict[str, Any] = Field({}, description="further arguments of the game, e.g. env_args.kwargs.sight=2")
    common_reward: bool = Field(False, description="one team reward instead of one per seat")
    reward_scalarisation: Literal["sum", "mean"] = Field(
        "sum", description="how common_reward makes one reward of the seats' rewards"
    )
    cut_at_limit: bool = Field(
        True, description="an end at the time limit is a cut, not an end; for games that cannot tell the two apart"
    )
    metrics: tuple[str, ...] = Field((), description="names in the game's info whose last value is logged")


class GymmaArgs(SharedArgs):
    """`env_args` of `gymma`."""

    key: str = Field(
        "lbforaging:Foraging-8x8-2p-3f-v3", description="Gymnasium's name of the game, or module:class of your own"
    )
    time_limit: int = Field(50, ge=1, le=30_000, description="steps until an episode is cut")


class GymmaEnv(HostEnv):
    """A configured Gymnasium game."""

    def __init__(self, args: GymmaArgs) -> None:
        self.args = args
        game = self.open()
        self.spec = game.spec
        game.close()
        self.about = f"gymma: {args.key}, played in Python"

    def open(self) -> GymmaGame:
        """One more game."""
        return GymmaGame(_make(self.args), self.args)


class GymmaGame:
    """One Gymnasium game with a list of observations and rewards."""

    def __init__(self, env: Any, args: GymmaArgs) -> None:
        from omg.envs.adapters.spaces import SeatSpaces

        self.env, self.args = env, args
        inner = env.unwrapped if hasattr(env, "unwrapped") else env
        if not isinstance(env.observation_space, Iterable) or not isinstance(env.action_space, Iterable):
            raise UserError(
                f"env_args.key: '{args.key}' has the observation space {env.observation_space} and the action space "
                f"{env.action_space}. Allowed: games with a tuple of spaces, one for every seat."
            )
        self.seats = SeatSpaces(list(env.observation_space), list(env.action_space), f"env_args.key={args.key}")
        self._avail = getattr(inner, "get_avail_actions", None)
        self._state = getattr(inner, "get_state", None)
        self.limit = args.time_limit
        # lbforaging ends by itself after so many steps, whatever limit is asked for.
        own_limit = getattr(inner, "_max_episode_steps", None)
        if isinstance(own_limit, int) and own_limit > 0:
            self.limit = min(self.limit, own_limit)
        self._steps = 0
        state_dim = self.seats.n_agents * self.seats.obs_dim
        if self._state is not None:
            env.reset(seed=0)
            state_dim = int(np.size(self._state()))
        self.spec = EnvSpec(
            name="gymma",
            scenario=scenario_name(args.key),
            n_agents=self.seats.n_agents,
            n_actions=self.seats.n_actions,
            obs_dim=self.seats.obs_dim,
            state_dim=state_dim,
            episode_limit=self.limit,
            reward_per_agent=not args.common_reward,
            metrics=tuple(args.metrics),
        )

    def reset(self, seed: int) -> Seen:
        """See `HostGame`."""
        self._steps = 0
        observations, _ = self.env.reset(seed=seed)
        return self._see(observations)

    def step(self, actions: np.ndarray) -> HostStep:
        """See `HostGame`."""
        observations, reward, ended, truncated, info = self.env.step(self.seats.chosen(actions))
        self._steps += 1
        terminated = all(ended) if isinstance(ended, Iterable) else bool(ended)
        cut = all(truncated) if isinstance(truncated, Iterable) else bool(truncated)
        if self._steps >= self.limit:
            cut = not terminated or self.args.cut_at_limit
        metrics = [float(info.get(name, 0.0)) for name in self.args.metrics]
        return HostStep(self._see(observations), self._paid(reward), terminated and not cut, cut, metrics)

    def close(self) -> None:
        """See `HostGame`."""
        if hasattr(self.env, "close"):
            self.env.close()

    def _see(self, observations: Any) -> Seen:
        obs = self.seats.rows(observations)
        state = obs.ravel() if self._state is None else np.ravel(self._state()).astype(np.float32)
        return Seen(obs, state, self.seats.legal(None if self._avail is None else self._avail()))

    def _paid(self, reward: Any) -> np.ndarray | float:
        rewards = np.asarray(reward, np.float32)
        if self.args.common_reward:
            return float(rewards) if rewards.ndim == 0 else shared_reward(rewards, self.args.reward_scalarisation)
        if rewards.ndim == 0:
            raise GameFaultError("the game pays one reward to all seats; set env_args.common_reward=True")
        return rewards


def scenario_name(key: str) -> str:
    """The last part of a game's name, in letters that may stand in a folder's name."""
    last = key.rpartition(":")[2]
    return "".join(letter if letter.isalnum() or letter in "-_." else "-" for letter in last) or "game"


def _make(args: GymmaArgs) -> Any:
    try:
        import gymnasium
    except ImportError as error:
        raise UserError(
            f"env=gymma needs the package gymnasium, which is not installed. Install it with: {INSTALL}"
        ) from error
    module, _, name = args.key.rpartition(":")
    if not module:
        module = next((package for begin, package in _PACKAGES.items() if name.startswith(begin)), "")
    if module:
        install = INSTALL if module == "lbforaging" else f"pip install {module}" if module == "rware" else ""
        found = load_module("env_args.key", args.key, module, install)
        if callable(getattr(found, name, None)):
            return getattr(found, name)(**args.kwargs)
    try:
        return gymnasium.make(name, disable_env_checker=True, max_episode_steps=args.time_limit, **args.kwargs)
    except gymnasium.error.Error as error:
        # Gymnasium's own words: they name the nearest registered games.
        raise UserError(f"env_args.key: got '{args.key}'. {' '.join(str(error).split())}") from error
