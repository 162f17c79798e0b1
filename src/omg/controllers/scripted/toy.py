"""Scripted players of `toy_grid` as members of pools. They walk as `omg.envs.toy_grid.players` do."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jax import Array

from omg.controllers.scripted.composing import AnyOfScript
from omg.envs.toy_grid.env import BOTTOM, EAST, NORTH, SOUTH, TOP, WEST
from omg.envs.toy_grid.players import path_probabilities, planned_goal


class RaceScript(AnyOfScript):
    """Walks a shortest way to one of the two cells and stays there."""

    goal: int | None = eqx.field(static=True)
    """`TOP` or `BOTTOM`; None: the one of its plan."""
    first: tuple[int, ...] = eqx.field(static=True, default=())
    """Steps that it takes before all others while they lead closer; empty: none comes first."""

    def good(self, obs: Array, avail: Array, seats: Array) -> Array:
        """See `AnyOfScript.good`."""
        closer = path_probabilities(obs, planned_goal(obs) if self.goal is None else self.goal) > 0
        preferred = closer & jnp.isin(jnp.arange(closer.shape[-1]), jnp.asarray(self.first, jnp.int32))
        return jnp.where(jnp.any(preferred, axis=-1, keepdims=True), preferred, closer)


def go_top(env: Any) -> RaceScript:
    """Walks to the top cell by any shortest way."""
    return RaceScript(TOP)


def go_bottom(env: Any) -> RaceScript:
    """Walks to the bottom cell by any shortest way."""
    return RaceScript(BOTTOM)


def go_planned(env: Any) -> RaceScript:
    """Walks to the cell that the game drew for its seat."""
    return RaceScript(None)


def show_top(env: Any) -> RaceScript:
    """Walks to the top row first, so that its goal shows at once."""
    return RaceScript(TOP, (NORTH, SOUTH))


def show_bottom(env: Any) -> RaceScript:
    """Walks to the bottom row first, so that its goal shows at once."""
    return RaceScript(BOTTOM, (NORTH, SOUTH))


def hide_top(env: Any) -> RaceScript:
    """Walks to the middle of the board first, so that its goal shows late."""
    return RaceScript(TOP, (WEST, EAST))


def hide_bottom(env: Any) -> RaceScript:
    """Walks to the middle of the board first, so that its goal shows late."""
    return RaceScript(BOTTOM, (WEST, EAST))
