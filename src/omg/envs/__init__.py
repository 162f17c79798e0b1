"""The games. A new one is a module with a pydantic model of its arguments and a class that satisfies `base.Env`.

Add one `EnvEntry` line below and a `config/envs/<name>.yaml`; the contract tests run on it without being touched.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from pydantic import ValidationError

from omg.envs.base import Env, EnvSpec, EnvState, GameArgs, Observation, Outcome
from omg.envs.trust import check_word
from omg.errors import UserError, abridged, unknown_name

__all__ = [
    "ENVS",
    "Env",
    "EnvEntry",
    "EnvSpec",
    "EnvState",
    "GameArgs",
    "Observation",
    "Outcome",
    "check_stored_game",
    "make_env",
    "make_stored_env",
    "parse_env_args",
    "plays_on_host",
]


@dataclass(frozen=True)
class EnvEntry:
    """One line of the registry. Modules are named, and imported when asked for: worker processes need no JAX."""

    module: str
    """Where the two names below are found, under `omg.envs`."""
    args_name: str
    build_name: str
    summary: str
    """One line for `omg envs`."""
    foreign: bool = False
    """Whether it stands for the games of another package, which is imported when one of them is built."""
    on_host: bool = False
    """Of games of another package: whether they are no JAX programs. Of others their options say it."""
    searchable: bool = False
    """Whether players can search it: a `grid.GridGame`, whose positions can be read off the global state."""

    @property
    def args(self) -> type[GameArgs]:
        """Typed arguments (`env_args`), every field with a help text."""
        return getattr(import_module(f"omg.envs.{self.module}"), self.args_name)

    @property
    def build(self) -> Callable[[Any], Env]:
        """Arguments -> game."""
        return getattr(import_module(f"omg.envs.{self.module}"), self.build_name)


ENVS: dict[str, EnvEntry] = {
    "sc2": EnvEntry(
        "adapters.smac", "BattleArgs", "build_sc2", "StarCraft micro-battles: SMAC's 23 maps in a built-in simulator"
    ),
    "foraging": EnvEntry("foraging", "ForagingArgs", "Foraging", "Level-based foraging on a grid, general-sum"),
    "predator_prey": EnvEntry(
        "predator_prey", "PredatorPreyArgs", "PredatorPrey", "Slow predators hunt fast prey: MPE's simple_tag"
    ),
    "stag_hunt": EnvEntry(
        "stag_hunt",
        "StagHuntArgs",
        "StagHunt",
        "Hares for one, stags for two or more, on a board with obstacles",
        searchable=True,
    ),
    "snowdrift": EnvEntry(
        "snowdrift",
        "SnowdriftArgs",
        "Snowdrift",
        "Everybody gains from a removed drift, only those who shovel pay",
        searchable=True,
    ),
    "toy_grid": EnvEntry(
        "toy_grid", "ToyGridArgs", "ToyGrid", "Two players race for two cells that pay only the first to arrive"
    ),
    "gymma": EnvEntry(
        "adapters.gymma",
        "GymmaArgs",
        "GymmaEnv",
        "Gymnasium games of several agents: lbforaging, rware, your own",
        foreign=True,
        on_host=True,
    ),
    "pettingzoo": EnvEntry(
        "adapters.zoo",
        "PettingZooArgs",
        "ParallelZooEnv",
        "Any PettingZoo parallel environment",
        foreign=True,
        on_host=True,
    ),
    "jaxmarl": EnvEntry(
        "adapters.jaxmarl",
        "JaxMARLArgs",
        "build_jaxmarl",
        "JaxMARL's games (SMAX, MPE, Overcooked, STORM, Hanabi), compiled",
        foreign=True,
    ),
}


def parse_env_args(name: str, env_args: dict[str, Any]) -> GameArgs:
    """Validates `env_args` for environment `name`; raises `UserError` that names the key."""
    if name not in ENVS:
        raise unknown_name("environment", name, ENVS)
    model = ENVS[name].args
    for key in env_args:
        if key not in model.model_fields:
            raise unknown_name(f"option of {name}", f"env_args.{key}", (f"env_args.{k}" for k in model.model_fields))
    try:
        return model(**env_args)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        raise UserError(f"env_args.{key}: got {abridged(first['input'])}. {first['msg']}.") from None


def make_env(name: str, **env_args: Any) -> Env:
    """Builds a game: `make_env("sc2", map_name="8m").spec.n_agents == 8`."""
    return ENVS[name].build(parse_env_args(name, env_args)) if name in ENVS else _unknown(name)


def check_stored_game(source: object, name: str, env_args: dict[str, Any]) -> None:
    """Refuses a game that a file names and only the user may name; opens nothing. See `omg.envs.trust`.

    Args:
        source: the file, for the message.
        name: of the environment.
        env_args: its options.
    """
    check_word(source, parse_env_args(name, env_args).doubt(), env_args.get("key"))


def make_stored_env(source: object, name: str, env_args: dict[str, Any]) -> Env:
    """Builds the game that a file names, if it may: arguments as in `check_stored_game`."""
    check_stored_game(source, name, env_args)
    return make_env(name, **env_args)


def plays_on_host(name: str, env_args: dict[str, Any]) -> bool:
    """Whether a configured game is no JAX program; builds nothing."""
    entry = ENVS[name]
    return entry.on_host if entry.foreign else parse_env_args(name, env_args).on_host()


def _unknown(name: str) -> Env:
    raise unknown_name("environment", name, ENVS)
