"""The games. A new one is a module with a pydantic model of its arguments and a class that satisfies `base.Env`.

Add one `EnvEntry` line below and a `config/envs/<name>.yaml`; the contract tests run on it without being touched.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ValidationError

from omg.envs.base import Env, EnvSpec, EnvState, Observation, Outcome
from omg.envs.battle import Battle, BattleArgs
from omg.envs.foraging import Foraging, ForagingArgs
from omg.envs.snowdrift import Snowdrift, SnowdriftArgs
from omg.envs.stag_hunt import StagHunt, StagHuntArgs
from omg.envs.toy_grid import ToyGrid, ToyGridArgs
from omg.errors import UserError, unknown_name

__all__ = ["ENVS", "Env", "EnvEntry", "EnvSpec", "EnvState", "Observation", "Outcome", "make_env", "parse_env_args"]


@dataclass(frozen=True)
class EnvEntry:
    """One line of the registry."""

    args: type[BaseModel]
    """Typed arguments (`env_args`), every field with a help text."""
    build: Callable[[Any], Env]
    """Arguments -> game."""
    summary: str
    """One line for `omg envs`."""


ENVS: dict[str, EnvEntry] = {
    "sc2": EnvEntry(BattleArgs, Battle, "StarCraft micro-battles: SMAC's 23 maps in a built-in simulator"),
    "foraging": EnvEntry(ForagingArgs, Foraging, "Level-based foraging on a grid, general-sum"),
    "stag_hunt": EnvEntry(StagHuntArgs, StagHunt, "Hares for one, stags for two or more, on a board with obstacles"),
    "snowdrift": EnvEntry(SnowdriftArgs, Snowdrift, "Everybody gains from a removed drift, only those who shovel pay"),
    "toy_grid": EnvEntry(ToyGridArgs, ToyGrid, "Two players race for two cells that pay only the first to arrive"),
}


def parse_env_args(name: str, env_args: dict[str, Any]) -> BaseModel:
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
        raise UserError(f"env_args.{key}: got {first['input']!r}. {first['msg']}.") from None


def make_env(name: str, **env_args: Any) -> Env:
    """Builds a game: `make_env("sc2", map_name="8m").spec.n_agents == 8`."""
    return ENVS[name].build(parse_env_args(name, env_args)) if name in ENVS else _unknown(name)


def _unknown(name: str) -> Env:
    raise unknown_name("environment", name, ENVS)
