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


def _corner_script(name: str, env: Any) -> ScriptedPlayer:
    """Like every part, imported when it is asked for."""
    from omg.controllers.scripted.rendezvous import corner_script

    return corner_script(name, env)


_BATTLE, _FORAGING = ScriptTraits(envs=("sc2",)), ScriptTraits(envs=("foraging",))
_RENDEZVOUS = ScriptTraits(envs=("rendezvous",))
_STAG_HUNT, _SNOWDRIFT = ScriptTraits(envs=("stag_hunt",)), ScriptTraits(envs=("snowdrift",))

SCRIPTED: Registry[Callable[[Any], ScriptedPlayer], ScriptTraits] = Registry(
    "script",
    {
        "random": Entry(
            "omg.controllers.scripted.base:random_player",
            ScriptTraits(),
            "any legal action",
        ),
        "attack_nearest": Entry(
            "omg.controllers.scripted.battle:attack_nearest", _BATTLE, "attacks the nearest enemy, walks towards it"
        ),
        "attack_weakest": Entry(
            "omg.controllers.scripted.battle:attack_weakest", _BATTLE, "attacks the enemy with the least health left"
        ),
        "stand": Entry(
            "omg.controllers.scripted.battle:stand",
            _BATTLE,
            "stays where it is and attacks whoever comes",
        ),
        "nearest_food": Entry(
            "omg.controllers.scripted.foraging:nearest_food", _FORAGING, "walks to the nearest food and loads"
        ),
        "highest_food": Entry(
            "omg.controllers.scripted.foraging:highest_food", _FORAGING, "walks to the highest food it can lift"
        ),
        "own_level": Entry(
            "omg.controllers.scripted.foraging:own_level", _FORAGING, "takes what it can lift alone, else joins others"
        ),
        "nearest_stag": Entry(
            "omg.controllers.scripted.grid:nearest_stag", _STAG_HUNT, "walks to the nearest stag and hunts it"
        ),
        "nearest_hare": Entry(
            "omg.controllers.scripted.grid:nearest_hare", _STAG_HUNT, "walks to the nearest hare and hunts it"
        ),
        "nearest_drift": Entry(
            "omg.controllers.scripted.grid:nearest_drift", _SNOWDRIFT, "walks to the nearest drift and shovels"
        ),
        "never_shovels": Entry(
            "omg.controllers.scripted.grid:never_shovels", _SNOWDRIFT, "walks about and leaves the work to others"
        ),
        **{name: Entry(partial(_corner_script, name), _RENDEZVOUS, summary) for name, (_, summary) in RULES.items()},
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
