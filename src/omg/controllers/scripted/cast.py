"""One player that can be any script of its game, and is told which.

A program is compiled for each structure of players. As members of a pool all scripts of a game have this one, so that
teams of other scripts are other data and need no other compilation.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from omg.controllers.scripted import build_scripted, scripted_names
from omg.controllers.scripted.base import ScriptedPlayer
from omg.errors import UserError


class CastScript(ScriptedPlayer):
    """Acts like one of its parts. Scripts are cheap: all parts act, and one counts."""

    parts: tuple[ScriptedPlayer, ...]
    """One of each structure: its own script, and somebody for each of the others."""
    which: Array
    """[] int32, its own among the parts."""

    def choose(self, obs: Array, avail: Array, seats: Array, key: Array) -> Array:
        """See `ScriptedPlayer.choose`."""
        # Of choices by the same key only one is ever heard.
        return jnp.stack([part.choose(obs, avail, seats, key) for part in self.parts])[self.which]

    def probabilities(self, obs: Array, avail: Array, seats: Array) -> Array:
        """See `ScriptedPlayer.probabilities`."""
        return jnp.stack([part.probabilities(obs, avail, seats) for part in self.parts])[self.which]


def build_cast(name: str, env: Any) -> CastScript:
    """Builds a scripted player of the structure that all scripts of the game share.

    Args:
        name: a key of `SCRIPTED`.
        env: the game, from `omg.envs.make_env`.

    Raises:
        UserError: there is no such script, or it does not play this game.
    """
    own = build_scripted(name, env)
    parts: dict[object, ScriptedPlayer] = {}
    for other in scripted_names(env.spec.name):
        try:
            script = build_scripted(other, env)
        except UserError:  # A script that plays other layouts of the game.
            continue
        parts.setdefault(_structure(script), script)
    # In the registry's order, whoever it is.
    parts[_structure(own)] = own
    return CastScript(tuple(parts.values()), jnp.int32(list(parts).index(_structure(own))))


def _structure(script: ScriptedPlayer) -> object:
    leaves, structure = jax.tree.flatten(script)
    return structure, tuple(jnp.shape(leaf) for leaf in leaves)
