"""Any PettingZoo parallel environment as a game to train in (the other way round, see `pettingzoo`).

The seats are `possible_agents`. A seat whose agent has not come yet, or has left, sees zeros, is paid nothing and can
only play action 0. Masks are taken from the observation (`action_mask`) or from the info.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, SupportsFloat, cast

import numpy as np
from pydantic import Field

from omg.envs.adapters.gymma import INSTALL, SharedArgs, scenario_name
from omg.envs.adapters.host import GameFaultError, HostEnv, HostStep, Seen, load_module, shared_reward
from omg.envs.adapters.makers import made, maker_of
from omg.envs.base import EnvSpec
from omg.errors import UserError

if TYPE_CHECKING:
    from gymnasium.spaces import Space

Infos = Mapping[str, Mapping[str, SupportsFloat]]


class PettingZooArgs(SharedArgs):
    """`env_args` of `pettingzoo`."""

    key: str = Field(
        "mpe2.simple_spread_v3", description="module with parallel_env(), or module:function that makes the game"
    )
    time_limit: int = Field(25, ge=1, le=30_000, description="steps until an episode is cut")

    @property
    def module(self) -> str:
        """See `SharedArgs`."""
        return self.key.partition(":")[0]


class ParallelZooEnv(HostEnv):
    """A configured PettingZoo parallel environment."""

    def __init__(self, args: PettingZooArgs) -> None:
        self.args = args
        game = self.open()
        self.spec = game.spec
        game.close()
        self.about = f"pettingzoo: {args.key}, played in Python"

    def open(self) -> ParallelZooGame:
        """One more game."""
        key = self.args.key
        module, name = self.args.module, key.partition(":")[2] or "parallel_env"
        found = load_module("env_args.key", key, module, _install(module))
        if not hasattr(found, name):
            raise UserError(
                f"env_args.key: got '{key}', but '{module}' has no function {name}(). Allowed: a module with "
                f"parallel_env(), or module:function."
            )
        maker = maker_of("env_args.key", key, found, name)
        game = made("env_args.key", key, lambda: maker(**self.args.kwargs))
        return ParallelZooGame(cast(ZooGame, game), self.args)


class ZooGame(Protocol):
    """What is asked of a PettingZoo parallel environment; names are those of its agents."""

    @property
    def possible_agents(self) -> Sequence[str]:
        """Who may take part."""
        ...

    @property
    def agents(self) -> Sequence[str]:
        """Who takes part at the moment."""
        ...

    def observation_space(self, agent: str) -> Space:
        """What an agent may see."""
        ...

    def action_space(self, agent: str) -> Space:
        """What an agent may do."""
        ...

    def reset(self, *, seed: int) -> tuple[Mapping[str, object], Infos]:
        """Observations and infos."""
        ...

    def step(
        self, actions: dict[str, int]
    ) -> tuple[Mapping[str, object], Mapping[str, float], Mapping[str, bool], Mapping[str, bool], Infos]:
        """Observations, rewards, who is at an end, who was cut, and infos."""
        ...

    def state(self) -> np.ndarray:
        """The global state; `NotImplementedError` where there is none."""
        ...

    def close(self) -> None:
        """Frees what it holds."""
        ...


class ParallelZooGame:
    """One PettingZoo game."""

    def __init__(self, env: ZooGame, args: PettingZooArgs) -> None:
        from omg.envs.adapters.spaces import SeatSpaces

        self.env, self.args = env, args
        if not hasattr(env, "possible_agents"):
            raise UserError(
                f"env_args.key: '{args.key}' does not say who can take part (possible_agents). Allowed: parallel "
                f"environments with a fixed list of agents."
            )
        self.names = list(env.possible_agents)
        self.seats = SeatSpaces(
            [env.observation_space(name) for name in self.names],
            [env.action_space(name) for name in self.names],
            f"env_args.key={args.key}",
        )
        self._steps = 0
        self._has_state, state_dim = self._look_for_state()
        self.spec = EnvSpec(
            name="pettingzoo",
            scenario=scenario_name(args.key.rpartition(".")[2]),
            n_agents=self.seats.n_agents,
            n_actions=self.seats.n_actions,
            obs_dim=self.seats.obs_dim,
            state_dim=state_dim,
            episode_limit=args.time_limit,
            reward_per_agent=not args.common_reward,
            metrics=tuple(args.metrics),
        )

    def reset(self, seed: int) -> Seen:
        """See `HostGame`."""
        self._steps = 0
        observations, infos = self.env.reset(seed=seed)
        return self._see(observations, infos)

    def step(self, actions: np.ndarray) -> HostStep:
        """See `HostGame`."""
        chosen = dict(zip(self.names, self.seats.chosen(actions), strict=True))
        observations, rewards, ended, truncated, infos = self.env.step({name: chosen[name] for name in self.env.agents})
        self._steps += 1
        paid = np.array([rewards.get(name, 0.0) for name in self.names], np.float32)
        over = not self.env.agents
        cut = over and any(truncated.values()) and not all(ended.values())
        if self._steps >= self.args.time_limit:
            cut = not over or cut or self.args.cut_at_limit
        share = self.args.common_reward
        return HostStep(
            self._see(observations, infos),
            shared_reward(paid, self.args.reward_scalarisation) if share else paid,
            over and not cut,
            cut,
            [self._measured(name, infos) for name in self.args.metrics],
        )

    def close(self) -> None:
        """See `HostGame`."""
        self.env.close()

    def _see(self, observations: Mapping[str, object], infos: Infos) -> Seen:
        strangers = [name for name in observations if name not in self.names]
        if strangers:
            raise GameFaultError(f"an observation for {strangers[0]!r}, who is none of the possible agents")
        obs = self.seats.rows([observations.get(name) for name in self.names])
        state = np.ravel(self.env.state()).astype(np.float32) if self._has_state else obs.ravel()
        avail = np.zeros((self.seats.n_agents, self.seats.n_actions), bool)
        present = set(self.env.agents)
        for seat, name in enumerate(self.names):
            if name not in present:
                avail[seat, 0] = True
                continue
            mask = _mask_of(observations.get(name), infos.get(name))
            avail[seat] = self.seats.all_legal[seat]
            if mask is not None:
                if mask.size != self.seats.counts[seat]:
                    raise GameFaultError(f"'{name}' has a mask of {mask.size} actions")
                avail[seat, : self.seats.counts[seat]] = np.asarray(mask, bool)
        return Seen(obs, state, avail)

    def _look_for_state(self) -> tuple[bool, int]:
        """Whether the game has a global state, and its size (else the observations of all seats make one)."""
        self.env.reset(seed=0)
        try:
            return True, int(np.size(self.env.state()))
        except (NotImplementedError, AttributeError):
            return False, self.seats.n_agents * self.seats.obs_dim

    def _measured(self, metric: str, infos: Infos) -> float:
        values = [float(info[metric]) for info in infos.values() if metric in info]
        return float(np.mean(values)) if values else 0.0


def _mask_of(observation: object, info: object) -> np.ndarray | None:
    for source in (observation, info):
        if isinstance(source, dict) and "action_mask" in source:
            return np.asarray(source["action_mask"])
    return None


def _install(module: str) -> str:
    package = module.partition(".")[0]
    return INSTALL if package in ("mpe2", "pettingzoo") else ""
