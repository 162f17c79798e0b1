"""Players that follow fixed rules: partners that need no training, and the floor of every comparison.

A new one is a `base.ScriptedPlayer` and comes with a function `env -> player` that builds it for a game.
Add a line to SCRIPTED; the tests of legal play then run on it without being touched.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from omg.controllers.scripted import battle, foraging, grid
from omg.controllers.scripted.base import RandomPlayer, ScriptedPlayer
from omg.errors import UserError, unknown_name

__all__ = [
    "SCRIPTED",
    "RandomPlayer",
    "ScriptedEntry",
    "ScriptedPlayer",
    "build_scripted",
    "check_script",
    "scripted_names",
]


@dataclass(frozen=True)
class ScriptedEntry:
    """One line of the registry."""

    envs: tuple[str, ...]
    """Names of the games it can play; empty: all."""
    build: Callable[[Any], ScriptedPlayer]
    """Game -> player; may read the game's options and layout, and refuses those it cannot play with."""
    summary: str
    """One line for lists."""


SCRIPTED: dict[str, ScriptedEntry] = {
    "random": ScriptedEntry((), lambda env: RandomPlayer(), "any legal action"),
    "attack_nearest": ScriptedEntry(("sc2",), battle.attack_nearest, "attacks the nearest enemy, walks towards it"),
    "attack_weakest": ScriptedEntry(("sc2",), battle.attack_weakest, "attacks the enemy with the least health left"),
    "stand": ScriptedEntry(("sc2",), battle.stand, "stays where it is and attacks whoever comes"),
    "nearest_food": ScriptedEntry(("foraging",), foraging.nearest_food, "walks to the nearest food and loads"),
    "highest_food": ScriptedEntry(("foraging",), foraging.highest_food, "walks to the highest food it can lift"),
    "own_level": ScriptedEntry(("foraging",), foraging.own_level, "takes what it can lift alone, else joins others"),
    "nearest_stag": ScriptedEntry(("stag_hunt",), grid.nearest_stag, "walks to the nearest stag and hunts it"),
    "nearest_hare": ScriptedEntry(("stag_hunt",), grid.nearest_hare, "walks to the nearest hare and hunts it"),
    "nearest_drift": ScriptedEntry(("snowdrift",), grid.nearest_drift, "walks to the nearest drift and shovels"),
    "never_shovels": ScriptedEntry(("snowdrift",), grid.never_shovels, "walks about and leaves the work to others"),
}


def scripted_names(env_name: str) -> list[str]:
    """The scripts that can play the game `env_name`."""
    return [name for name, entry in SCRIPTED.items() if not entry.envs or env_name in entry.envs]


def build_scripted(name: str, env: Any) -> ScriptedPlayer:
    """Builds a scripted player for a game.

    Args:
        name: a key of `SCRIPTED`.
        env: the game, from `omg.envs.make_env`.

    Raises:
        UserError: there is no such script, or it does not play this game.
    """
    check_script(name, env.spec.name)
    return SCRIPTED[name].build(env)


def check_script(name: str, env_name: str) -> None:
    """Refuses a script that there is not, or that does not play the game `env_name`."""
    if name not in SCRIPTED:
        raise unknown_name("script", name, SCRIPTED)
    entry = SCRIPTED[name]
    if entry.envs and env_name not in entry.envs:
        raise UserError(
            f"Script '{name}' plays {' and '.join(entry.envs)}, but the game is {env_name}. "
            f"Allowed: {', '.join(scripted_names(env_name))}."
        )
