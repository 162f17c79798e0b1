"""What players of a game may be after, as the game's rules know it.

A goal has two names. Its *number* is its place in a belief; its *code* is the row that it has in the input of a
co-player's network. They differ where numbers mean nothing by themselves: the third drift is anywhere on the board, but
the cell of a drift says where to go.

A game with goals has a `GoalSet` of its own, which `GridGame.goals` gives.

Letters in shapes: B games, T steps, A seats, G goals.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic

import jax.numpy as jnp
from jax import Array

from omg.envs.grid.state import State

NO_GOAL = -1


class GoalSet(ABC, Generic[State]):
    """The goals of one configured game."""

    count: int
    """Goals G."""
    width: int
    """Number of codes: rows of a network's input."""
    achievements: int
    """What a player may have achieved in an episode, as far as it is told apart: a number, see `achievement`."""
    alpha: float
    """How much of what is expected of achievements is kept from one episode to the next, unless set otherwise."""
    idle: int | None = None
    """The code of being after nothing, where that is a goal (the last one); achievements then count goals reached."""
    codes_are_cells: bool = False
    """Whether the first codes are the cells of the board: they change when it is turned."""

    @property
    def names(self) -> tuple[str, ...]:
        """What the goals are called, for people."""
        return tuple(f"goal {number + 1}" for number in range(self.count))

    def places(self, state: State) -> tuple[Array, Array]:
        """Where the goals are, x and y [B, G] of middles of cells; NaN, as here, where they have no place."""
        nowhere = jnp.full(self.exists(state).shape, jnp.nan)
        return nowhere, nowhere

    @abstractmethod
    def exists(self, state: State) -> Array:
        """Which goals can still be reached, [B, G] bool."""

    @abstractmethod
    def codes(self, state: State) -> Array:
        """The codes of all goals, [B, G] int32."""

    @abstractmethod
    def reached(self, state: State, actions: Array) -> Array:
        """The number of the goal that every player reaches when `actions` [B, A] are played: [B, A] int32, or -1."""

    @abstractmethod
    def achievement(self, reached: Array) -> Array:
        """What an episode tells of a player: `reached` [B, T, A] -> [B, A] int32 below `achievements`, -1: nothing."""

    def reached_codes(self, state: State, actions: Array) -> Array:
        """The code of the goal that every player reaches, [B, A] int32, or -1."""
        reached = self.reached(state, actions)
        codes = jnp.take_along_axis(self.codes(state), jnp.maximum(reached, 0), axis=1)
        return jnp.where(reached >= 0, codes, NO_GOAL)
