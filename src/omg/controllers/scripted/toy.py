"""Scripted players of `toy_grid` as members of pools. They walk as `omg.envs.toy_grid.players` do."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import Array

from omg.controllers.scripted.composing import AnyOfScript
from omg.envs.toy_grid.env import BOTTOM, EAST, NORTH, SOUTH, TOP, WEST
from omg.envs.toy_grid.players import path_probabilities, planned_goal


class RaceScript(AnyOfScript):
    """Walks a shortest way to one of the two cells and stays there."""

    goals: Array | None
    """[rounds] int32, `TOP` or `BOTTOM` in every round; None: always the one of its plan."""
    first: Array
    """[U] bool, steps that it takes before all others while they lead closer; none: no step comes first."""

    def good(self, obs: Array, avail: Array, seats: Array) -> Array:
        """See `AnyOfScript.good`."""
        closer = path_probabilities(obs, self._goal(obs)) > 0
        preferred = closer & self.first
        return jnp.where(jnp.any(preferred, axis=-1, keepdims=True), preferred, closer)

    def _goal(self, obs: Array) -> Array | int:
        if self.goals is None:
            return planned_goal(obs)
        if len(self.goals) == 1:
            return self.goals[0]
        return self.goals[jnp.argmax(obs[..., -len(self.goals) :], axis=-1)]


_ACROSS, _ALONG = (NORTH, SOUTH), (WEST, EAST)
"""Steps that show to which cell one goes, and steps that do not."""


def go_top(env: Any) -> RaceScript:
    """Walks to the top cell by any shortest way."""
    return _race(env, (TOP,))


def go_bottom(env: Any) -> RaceScript:
    """Walks to the bottom cell by any shortest way."""
    return _race(env, (BOTTOM,))


def go_planned(env: Any) -> RaceScript:
    """Walks to the cell that the game drew for its seat."""
    return RaceScript(None, _steps(env, ()))


def show_top(env: Any) -> RaceScript:
    """Walks to the top row first, so that its goal shows at once."""
    return _race(env, (TOP,), _ACROSS)


def show_bottom(env: Any) -> RaceScript:
    """Walks to the bottom row first, so that its goal shows at once."""
    return _race(env, (BOTTOM,), _ACROSS)


def hide_top(env: Any) -> RaceScript:
    """Walks to the middle of the board first, so that its goal shows late."""
    return _race(env, (TOP,), _ALONG)


def hide_bottom(env: Any) -> RaceScript:
    """Walks to the middle of the board first, so that its goal shows late."""
    return _race(env, (BOTTOM,), _ALONG)


def alternate_top(env: Any) -> RaceScript:
    """Like `hide_top` in the first round, like `hide_bottom` in the second, and so on."""
    return _race(env, (TOP, BOTTOM), _ALONG)


def alternate_bottom(env: Any) -> RaceScript:
    """Like `hide_bottom` in the first round, like `hide_top` in the second, and so on."""
    return _race(env, (BOTTOM, TOP), _ALONG)


def _race(env: Any, goals: tuple[int, ...], first: tuple[int, ...] = ()) -> RaceScript:
    """Walks to the cells in turn, round by round."""
    in_turn = [goals[number % len(goals)] for number in range(env.args.rounds)]
    return RaceScript(jnp.asarray(in_turn, jnp.int32), _steps(env, first))


def _steps(env: Any, actions: tuple[int, ...]) -> Array:
    """[U] bool, true for the actions named."""
    return jnp.isin(jnp.arange(env.spec.n_actions), jnp.asarray(actions, jnp.int32))
