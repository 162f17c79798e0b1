"""Gymnasium games of several agents in EPyMARL's style: tuples of spaces, a list of rewards (`lbforaging`, `rware`).

A game is either registered with Gymnasium, `lbforaging:Foraging-8x8-2p-3f-v3`, or any class or function of a module
that makes one, `my_module:MyGame`. Beyond Gymnasium's own methods two of PyMARL's are used where a game has them:
`get_avail_actions()` and `get_state()`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, Protocol, SupportsFloat, cast

import numpy as np
from pydantic import Field

from omg.envs.adapters.host import GameFaultError, HostEnv, HostStep, Seen, load_module, shared_reward
from omg.envs.adapters.makers import is_known, made, maker_of, method_of, number_of, untold_values
from omg.envs.base import EnvSpec, GameArgs
from omg.errors import UserError
from omg.types import Tree

INSTALL = "pip install 'omg-marl[envs]'"
_PACKAGES = {"Foraging": "lbforaging", "rware": "rware"}
"""Beginning of a registered name -> the package that registers it."""


class SharedArgs(GameArgs):
    """What the adapters of foreign games have in common."""

    key: str = Field(description="name of the game")
    kwargs: Tree = Field({}, description="further arguments of the game, e.g. env_args.kwargs.sight=2")
    common_reward: bool = Field(False, description="one team reward instead of one per seat")
    reward_scalarisation: Literal["sum", "mean"] = Field(
        "sum", description="how common_reward makes one reward of the seats' rewards"
    )
    cut_at_limit: bool = Field(
        True, description="an end at the time limit is a cut, not an end; for games that cannot tell the two apart"
    )
    metrics: tuple[str, ...] = Field((), description="names in the game's info whose last value is logged")

    @property
    def module(self) -> str:
        """The module that building the game imports."""
        raise NotImplementedError

    def doubt(self) -> str | None:
        """See `GameArgs`: a game of a package that is none of the known ones, or arguments beyond a game's rules."""
        if not is_known(self.module):
            return f"env_args.key={self.key!r}, a game that is not on the list of known packages"
        return next((f"env_args.kwargs.{where}" for where in untold_values(self.kwargs)), None)


class GymmaArgs(SharedArgs):
    """`env_args` of `gymma`."""

    key: str = Field(
        "lbforaging:Foraging-8x8-2p-3f-v3", description="Gymnasium's name of the game, or module:class of your own"
    )
    time_limit: int = Field(50, ge=1, le=30_000, description="steps until an episode is cut")

    @property
    def module(self) -> str:
        """See `SharedArgs`; empty for a game that Gymnasium itself must know."""
        module, _, name = self.key.rpartition(":")
        return module or _package_of(name)

    def doubt(self) -> str | None:
        """See `SharedArgs`; Gymnasium knows other games under other names, whatever module is imported first."""
        name = self.key.rpartition(":")[2]
        if self.module != _package_of(name):
            return f"env_args.key={self.key!r}, a game that is not on the list of known packages"
        return super().doubt()


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


class GymGame(Protocol):
    """What is asked of a Gymnasium game of several agents. Ends are one truth value, or one for every seat."""

    @property
    def observation_space(self) -> object:
        """A tuple of spaces, one for every seat."""
        ...

    @property
    def action_space(self) -> object:
        """The same for actions."""
        ...

    def reset(self, *, seed: int) -> tuple[Sequence[object], object]:
        """Observations of all seats, and an info."""
        ...

    def step(
        self, action: list[int]
    ) -> tuple[Sequence[object], object, bool | Iterable[bool], bool | Iterable[bool], Mapping[str, SupportsFloat]]:
        """Observations of all seats, rewards, whether it ended, whether it was cut, and an info."""
        ...


class GymmaGame:
    """One Gymnasium game with a list of observations and rewards."""

    def __init__(self, env: GymGame, args: GymmaArgs) -> None:
        from omg.envs.adapters.spaces import SeatSpaces

        self.env, self.args = env, args
        # Gymnasium's wrappers do not pass on what is not Gymnasium's.
        inner = getattr(env, "unwrapped", env)
        if not isinstance(env.observation_space, Iterable) or not isinstance(env.action_space, Iterable):
            raise UserError(
                f"env_args.key: '{args.key}' has the observation space {env.observation_space} and the action space "
                f"{env.action_space}. Allowed: games with a tuple of spaces, one for every seat."
            )
        self.seats = SeatSpaces(list(env.observation_space), list(env.action_space), f"env_args.key={args.key}")
        self._avail = method_of(inner, "get_avail_actions")
        self._state = method_of(inner, "get_state")
        self.limit = args.time_limit
        # lbforaging ends by itself after so many steps, whatever limit is asked for.
        own_limit = number_of(inner, "_max_episode_steps")
        if own_limit is not None and own_limit > 0:
            self.limit = min(self.limit, own_limit)
        self._steps = 0
        state_dim = self.seats.n_agents * self.seats.obs_dim
        if self._state is not None:
            env.reset(seed=0)
            state_dim = np.asarray(self._state()).size
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
        close = method_of(self.env, "close")
        if close is not None:
            close()

    def _see(self, observations: Sequence[object]) -> Seen:
        obs = self.seats.rows(observations)
        state = obs.ravel() if self._state is None else np.asarray(self._state()).ravel().astype(np.float32)
        if self._avail is None:
            return Seen(obs, state, self.seats.legal(None))
        masks = self._avail()
        if not isinstance(masks, Iterable):
            raise GameFaultError(f"get_avail_actions() gave {masks!r}, not a mask for every seat")
        return Seen(obs, state, self.seats.legal(masks))

    def _paid(self, reward: object) -> np.ndarray | float:
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


def _package_of(name: str) -> str:
    """The package that registers a game with Gymnasium; empty if nobody knows."""
    return next((package for begin, package in _PACKAGES.items() if name.startswith(begin)), "")


def _make(args: GymmaArgs) -> GymGame:
    try:
        import gymnasium
    except ImportError as error:
        raise UserError(
            f"env=gymma needs the package gymnasium, which is not installed. Install it with: {INSTALL}"
        ) from error
    module, name = args.module, args.key.rpartition(":")[2]
    if module:
        install = INSTALL if module == "lbforaging" else f"pip install {module}" if module == "rware" else ""
        found = load_module("env_args.key", args.key, module, install)
        if hasattr(found, name):
            maker = maker_of("env_args.key", args.key, found, name)
            return cast(GymGame, made("env_args.key", args.key, lambda: maker(**args.kwargs)))

    def registered() -> GymGame:
        try:
            return gymnasium.make(name, disable_env_checker=True, max_episode_steps=args.time_limit, **args.kwargs)
        except gymnasium.error.Error as error:
            # Gymnasium's own words: they name the nearest registered games.
            raise UserError(f"env_args.key: got '{args.key}'. {' '.join(str(error).split())}") from error

    return made("env_args.key", args.key, registered)
