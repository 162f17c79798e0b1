"""Scripted players of `rendezvous`: each goes to the corner that its rule gives for the round, by any shortest way.

They read their own cell and the number of the round, and neither the other player nor anything that happened before.
"""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jax import Array

from omg.controllers.scripted.composing import AnyOfScript, steps_closer
from omg.controllers.scripted.rules import RULES


class CornerScript(AnyOfScript):
    """Walks a shortest way to a corner and stays there; where a step in either axis leads closer, either is taken."""

    size: int = eqx.field(static=True)
    """Rows and columns of the board."""
    goals: Array
    """[rounds, 2] int32, row and column of the corner it goes to."""

    def good(self, obs: Array, avail: Array, seats: Array) -> Array:
        """See `AnyOfScript.good`."""
        cell = jnp.argmax(obs[..., : self.size**2], axis=-1)
        goal = self.goals[jnp.argmax(obs[..., -len(self.goals) :], axis=-1)]
        return steps_closer(goal[..., 0] - cell // self.size, goal[..., 1] - cell % self.size)


def corner_script(name: str, env: Any) -> CornerScript:
    """The script `name` of `RULES` for a game of `rendezvous`."""
    args, (rule, _) = env.args, RULES[name]
    goals = [args.corners[rule.corner(number, args.rounds)] for number in range(args.rounds)]
    return CornerScript(args.size, jnp.asarray(goals, jnp.int32))
