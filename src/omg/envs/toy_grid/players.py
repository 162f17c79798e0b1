"""Scripted players of the toy grid: pure functions from what a seat observes to an action.

They walk a shortest path. Where a step in either axis brings them closer, both are equally likely, so that one goal
has many paths; once there, they stay. All of them read the board from the observation alone and fit any size.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import Array

from omg.envs.toy_grid.env import BOTTOM, TOP

Player = Callable[[Array, Array], Array]
"""Observations of one seat [..., 7] and a random key -> actions [...] int32, always legal."""

_SAME = 1e-3
"""Coordinates are multiples of 1 / (size - 1), which is at least 0.01: anything below this is rounding."""
_PLAN = 6
"""Index of the plan in an observation."""


def path_probabilities(obs: Array, goal: Array | int) -> Array:
    """How likely a player who walks to a goal takes each action.

    Args:
        obs: [..., 7] observations of one seat; only its own row and column are read.
        goal: [...] or scalar, `TOP` or `BOTTOM`.

    Returns:
        [..., 5] float32, which sums to 1: the steps that bring the player closer share it equally.
    """
    down = jnp.where(jnp.asarray(goal) == BOTTOM, 1.0, 0.0) - obs[..., 0]
    right = 0.5 - obs[..., 1]
    # In the order of the actions: stay, north, south, west, east.
    steps = (down < -_SAME, down > _SAME, right < -_SAME, right > _SAME)
    arrived = ~(steps[0] | steps[1] | steps[2] | steps[3])
    closer = jnp.stack([arrived, *steps], axis=-1)
    return closer / jnp.sum(closer, axis=-1, keepdims=True)


def go_top(obs: Array, key: Array) -> Array:
    """Walks to the top cell: obs [..., 7] -> actions [...] int32."""
    return _walk(obs, key, TOP)


def go_bottom(obs: Array, key: Array) -> Array:
    """Walks to the bottom cell: obs [..., 7] -> actions [...] int32."""
    return _walk(obs, key, BOTTOM)


def go_planned(obs: Array, key: Array) -> Array:
    """Walks to the cell that the game drew for this seat at its start: obs [..., 7] -> actions [...] int32."""
    return _walk(obs, key, planned_goal(obs))


def planned_goal(obs: Array) -> Array:
    """The cell that the game drew for a seat: observations [..., 7] -> [...] int32, `TOP` or `BOTTOM`."""
    return jnp.round(obs[..., _PLAN]).astype(jnp.int32)


PLAYERS: dict[str, Player] = {"go_top": go_top, "go_bottom": go_bottom, "go_planned": go_planned}
"""By name."""


def _walk(obs: Array, key: Array, goal: Array | int) -> Array:
    return jax.random.categorical(key, jnp.log(path_probabilities(obs, goal))).astype(jnp.int32)
