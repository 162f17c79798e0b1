"""Players that follow fixed rules: partners that need no training, and the floor of every comparison.

A new one is a `base.ScriptedPlayer` and comes with a function `env -> player` that builds it for a game.
Add a line to SCRIPTED; the tests of legal play then run on it without being touched.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from omg.controllers.scripted.rules import RULES
from omg.errors import UserError
from omg.registry import Entry, Registry, ScriptTraits

if TYPE_CHECKING:
    from omg.controllers.scripted.base import ScriptedPlayer


_Build = Callable[[Any], "ScriptedPlayer"]
_Entries = dict[str, Entry[_Build, ScriptTraits]]


def _scripts(env: str, module: str, summaries: dict[str, str]) -> _Entries:
    """The scripts of one game and module: each is a function `env -> player` of its own name."""
    traits = ScriptTraits(envs=(env,))
    return {
        name: Entry(f"omg.controllers.scripted.{module}:{name}", traits, summary) for name, summary in summaries.items()
    }


def _corner_scripts() -> _Entries:
    """The scripts of `rendezvous`: one for each line of `RULES`."""
    traits = ScriptTraits(envs=("rendezvous",))
    return {name: Entry(partial(_corner_script, name), traits, summary) for name, (_, summary) in RULES.items()}


def _corner_script(name: str, env: Any) -> ScriptedPlayer:
    """Like every part, imported when it is asked for."""
    from omg.controllers.scripted.rendezvous import corner_script

    return corner_script(name, env)


SCRIPTED: Registry[_Build, ScriptTraits] = Registry(
    "script",
    {
        "random": Entry("omg.controllers.scripted.base:random_player", ScriptTraits(), "any legal action"),
        **_scripts(
            "sc2",
            "battle",
            {
                "attack_nearest": "attacks the nearest enemy, walks towards it",
                "attack_weakest": "attacks the enemy with the least health left",
                "stand": "stays where it is and attacks whoever comes",
                "focus_fire": "attacks the enemy of the lowest number",
                "kiter": "attacks the nearest enemy and steps back in turn, by chance",
                "coward": "keeps away from enemies, attacks while it is healthy",
            },
        ),
        **_scripts(
            "foraging",
            "foraging",
            {
                "nearest_food": "walks to the nearest food and loads",
                "highest_food": "walks to the highest food it can lift",
                "own_level": "takes what it can lift alone, else joins others",
                "left_food": "walks to the food furthest to the left",
                "right_food": "walks to the food furthest to the right",
                "top_food": "walks to the food furthest up",
                "bottom_food": "walks to the food furthest down",
                "left_right_food": "goes left and right in turn, round by round",
                "right_left_food": "goes right and left in turn, round by round",
                "top_bottom_food": "goes up and down in turn, round by round",
                "bottom_top_food": "goes down and up in turn, round by round",
            },
        ),
        **_scripts(
            "stag_hunt",
            "grid",
            {
                "nearest_stag": "walks to the nearest stag and hunts it",
                "nearest_hare": "walks to the nearest hare and hunts it",
            },
        ),
        **_scripts(
            "stag_hunt",
            "grid_partners",
            {
                "nearest_prey": "walks to the nearest prey, stag or hare",
                "stag_in_company": "hunts stags while another is near, else hares",
                "joins_other": "walks to the nearest player, hunts a stag with it",
                "hare_after_waiting": "stays for a third of the game, then hunts hares",
                "stag_after_waiting": "stays for a third of the game, then hunts stags",
                "stag_then_hare": "hunts stags for a third of the game, then hares",
            },
        ),
        **_scripts(
            "snowdrift",
            "grid",
            {
                "nearest_drift": "walks to the nearest drift and shovels",
                "never_shovels": "walks about and leaves the work to others",
            },
        ),
        **_scripts(
            "snowdrift",
            "grid_partners",
            {
                "north_drift": "shovels in the upper half of the board only",
                "south_drift": "shovels in the lower half of the board only",
                "west_drift": "shovels in the left half of the board only",
                "east_drift": "shovels in the right half of the board only",
                "drift_in_return": "shovels once somebody has begun",
                "drift_in_company": "shovels while another is near, else walks about",
                "drift_after_waiting": "stays for a third of the game, then shovels",
                "drift_then_never": "shovels for a third of the game, then walks about",
                "never_then_drift": "walks about for a third of the game, then shovels",
            },
        ),
        **_scripts(
            "toy_grid",
            "toy",
            {
                "go_top": "walks to the top cell by any shortest way",
                "go_bottom": "walks to the bottom cell by any shortest way",
                "go_planned": "walks to the cell drawn for it at the start",
                "show_top": "walks to the top row first, then to the top cell",
                "show_bottom": "walks to the bottom row first, then to the bottom cell",
                "hide_top": "walks to the middle first, then to the top cell",
                "hide_bottom": "walks to the middle first, then to the bottom cell",
            },
        ),
        **_corner_scripts(),
    },
)
"""Word of pools -> what it means. Built from the game: it may read its options and layout, and refuses those it cannot
play with."""


def scripted_names(env_name: str) -> list[str]:
    """The scripts that can play the game `env_name`."""
    return [name for name, entry in SCRIPTED.items() if not entry.traits.envs or env_name in entry.traits.envs]


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
    envs = SCRIPTED[name].traits.envs
    if envs and env_name not in envs:
        raise UserError(
            f"Script '{name}' plays {' and '.join(envs)}, but the game is {env_name}. "
            f"Allowed: {', '.join(scripted_names(env_name))}."
        )
