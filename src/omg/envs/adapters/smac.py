"""The real StarCraft II through the `smac` package: the same maps, options and numbers as the built-in simulator.

Every game is a StarCraft II process of its own, started at the first reset of that game and ended with its worker.
SMAC restarts a game that has crashed and reports the episode as over with an empty info; here such an episode is lost
and counted, so that no learner ever sees its end.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np

from omg.envs.adapters.host import GameFaultError, HostEnv, HostStep, Seen
from omg.envs.base import Env, EnvSpec
from omg.envs.battle import MAPS, Battle, BattleArgs
from omg.envs.battle.observe import Layout
from omg.envs.battle.simulate import BattleRules
from omg.errors import UserError, unknown_name
from omg.names import file_name

METRICS = ("battle_won", "dead_allies", "dead_enemies")
INSTALL = "pip install 'omg-marl[sc2]'"
_NOT_SMACS = ("backend", "start", "episode_limit", "map_name")
"""Options of `sc2` that SMAC's constructor does not take, or takes under a rule of its own."""
_NEWER = ("obs_timestep_number", "state_timestep_number", "heuristic_ai", "heuristic_rest")
"""Options that older releases of SMAC do not have; they are passed on only when they differ from their default."""


def build_sc2(args: BattleArgs) -> Env:
    """The battle that `backend` asks for; `auto` takes the real game where it is installed, else the simulator."""
    return RealBattle(args) if is_real(args) else Battle(args)


def is_real(args: BattleArgs) -> bool:
    """Whether `backend` asks for the real game, or gets it because it is there."""
    return args.backend == "starcraft" or (args.backend == "auto" and starcraft_missing() is None)


def game_folder() -> Path:
    """Where StarCraft II is looked for: `SC2PATH`, else the usual place."""
    return Path(os.environ.get("SC2PATH") or Path.home() / "StarCraftII")


def starcraft_missing() -> str | None:
    """Why the real game cannot be played here, in one or two sentences; None when it can."""
    if importlib.util.find_spec("smac") is None:
        return f"the package smac (StarCraft Multi-Agent Challenge) is not installed. Install it with: {INSTALL}."
    try:
        module = importlib.import_module("smac.env")
    except ImportError as error:
        return f"the package smac cannot be imported ({error}). Install SMAC with: {INSTALL}."
    if not hasattr(module, "StarCraft2Env"):
        return f"the installed package smac is another one of that name. Install SMAC with: {INSTALL}."
    folder = game_folder()
    if not folder.is_dir():
        given = "SC2PATH names it" if os.environ.get("SC2PATH") else "SC2PATH is not set"
        return (
            f"StarCraft II is not in {folder} ({given}). Install the game (on Linux Blizzard's headless version), set "
            f"SC2PATH to its folder, and put SMAC's maps into its folder Maps/SMAC_Maps."
        )
    return None


class StarCraft(Protocol):
    """What is asked of SMAC's `StarCraft2Env`."""

    timeouts: int
    """Episodes that its time limit has ended so far."""

    def get_env_info(self) -> Mapping[str, int]:
        """Sizes of the game."""
        ...

    def reset(self) -> object:
        """Starts an episode."""
        ...

    def step(self, actions: Sequence[int]) -> tuple[float, bool, Mapping[str, float]]:
        """Reward, whether the episode is over, and an info."""
        ...

    def get_obs(self) -> Sequence[np.ndarray]:
        """What every unit sees."""
        ...

    def get_state(self) -> np.ndarray:
        """The global state."""
        ...

    def get_avail_actions(self) -> Sequence[Sequence[int]]:
        """Legal actions of every unit."""
        ...

    def save_replay(self) -> object:
        """Writes the last episode to a file."""
        ...

    def close(self) -> object:
        """Ends the game."""
        ...


class RealBattle(HostEnv):
    """A configured map of the real game."""

    saves_replays = True
    instead = "use env_args.backend=sim, the built-in simulator"

    def __init__(self, args: BattleArgs) -> None:
        missing = starcraft_missing()
        if missing is not None:
            raise UserError(f"env_args.backend: got 'starcraft', but {missing} Or use backend=sim, the simulator.")
        if args.map_name not in MAPS:
            raise unknown_name("map (env_args.map_name)", args.map_name, MAPS)
        if args.start != "standard":
            raise UserError(
                f"env_args.start: got '{args.start}', which the real game cannot honour. Allowed with backend "
                f"starcraft: 'standard'."
            )
        self.args = args
        env = make_starcraft(args, None)
        info = env.get_env_info()
        limit = int(info["episode_limit"])
        if args.episode_limit is not None and args.episode_limit > limit:
            raise UserError(
                f"env_args.episode_limit: got {args.episode_limit}, but the map {args.map_name} ends after {limit} "
                f"steps. Allowed with backend starcraft: at most {limit}."
            )
        rules = BattleRules(MAPS[args.map_name], args.step_mul)
        # The simulator's state is laid out as the real game's.
        layout = Layout(rules.ally, rules.enemy, rules.map, args, limit)
        self.spec = EnvSpec(
            name="sc2",
            scenario=args.map_name,
            n_agents=int(info["n_agents"]),
            n_actions=int(info["n_actions"]),
            obs_dim=int(info["obs_shape"]),
            state_dim=int(info["state_shape"]),
            episode_limit=args.episode_limit or limit,
            metrics=METRICS,
            success_metric="battle_won",
            seat_blocks=((0, layout.unit_dim),),
            seat_places=layout.unit_place,
        )
        self.about = f"sc2: the real StarCraft II in {game_folder()}"

    def open(self) -> RealGame:
        """One more game; StarCraft II itself starts at its first reset."""
        return RealGame(self.args, self.spec)


class RealGame:
    """One StarCraft II process."""

    def __init__(self, args: BattleArgs, spec: EnvSpec) -> None:
        self.args, self.spec = args, spec
        self._env: StarCraft | None = None
        self._steps = 0
        self._timeouts = 0

    def reset(self, seed: int) -> Seen:
        """Starts an episode. The game takes a seed only when it is started, so `seed` counts at the first reset."""
        if self._env is None:
            self._env = make_starcraft(self.args, seed)
        self._steps, self._timeouts = 0, self._env.timeouts
        self._env.reset()
        return self._see(self._env)

    def step(self, actions: np.ndarray) -> HostStep:
        """See `HostGame`."""
        if self._env is None:
            raise GameFaultError("StarCraft II has not been started: call reset() first")
        reward, over, info = self._env.step([int(action) for action in actions])
        self._steps += 1
        if over and "battle_won" not in info:
            raise GameFaultError("StarCraft II crashed")
        by_limit = self._env.timeouts > self._timeouts or bool(info.get("episode_limit"))
        cut = (over and by_limit) or (not over and self._steps >= self.spec.episode_limit)
        metrics = [float(info.get(name, 0.0)) for name in METRICS]
        return HostStep(self._see(self._env), float(reward), bool(over) and not cut, cut, metrics)

    def save_replay(self) -> None:
        """Writes the replay of the episode just played to `replay_dir`, or to the game's own folder."""
        if self._env is not None:
            self._env.save_replay()

    def close(self) -> None:
        """Ends StarCraft II."""
        if self._env is not None:
            self._env.close()

    @staticmethod
    def _see(env: StarCraft) -> Seen:
        obs = np.asarray(env.get_obs(), np.float32)
        state = np.asarray(env.get_state(), np.float32)
        return Seen(obs, state, np.asarray(env.get_avail_actions(), bool))


def make_starcraft(args: BattleArgs, seed: int | None) -> StarCraft:
    """SMAC's `StarCraft2Env` with the options of `sc2`; starts no game yet."""
    if args.replay_prefix:
        file_name("env_args.replay_prefix", args.replay_prefix)
    given = {name: value for name, value in args.model_dump().items() if name not in _NOT_SMACS}
    for name in _NEWER:
        if given[name] == type(args).model_fields[name].default:
            del given[name]
    module = importlib.import_module("smac.env")
    try:
        made: StarCraft = module.StarCraft2Env(map_name=args.map_name, seed=seed, **given)
    except TypeError as error:
        raise UserError(f"env_args: the installed SMAC does not take these options: {error}.") from error
    return made
