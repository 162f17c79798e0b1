"""Where players are, read off the part of one seat in the global state: what decoded subgoals are compared by.

A game says in `EnvSpec.seat_places` how the numbers of one seat (its parts of `EnvSpec.seat_blocks`, one behind the
other) tell its place. Places are in the units of the game's scenery: cells or map units, x to the right, y downwards.
The same works for numbers that were decoded from a subgoal, which are never quite what a game would say.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from jax import Array


class Positions(NamedTuple):
    """Where some seats are."""

    x: Array
    """[...] float32."""
    y: Array
    """[...] float32, downwards."""
    there: Array
    """[...] bool, whether the seat is in the game; of decoded numbers, whether they say so."""


@dataclass(frozen=True)
class NumberPlace:
    """Two of the numbers are the place, up to scale."""

    x: int
    """Index of the number that grows to the right."""
    y: int
    """Index of the other."""
    x_scale: float = 1.0
    y_scale: float = 1.0
    """Negative where the number grows upwards."""
    offset: float = 0.0
    """Added to both: 0.5 where the numbers count cells, whose middle is meant."""
    alive: int | None = None
    """Index of a number that is above 0 as long as the seat is in the game; None: it always is."""

    @property
    def leaves(self) -> bool:
        """Whether a seat may leave the game before it is over."""
        return self.alive is not None

    def read(self, numbers: Array) -> Positions:
        """Of one seat's numbers [..., W]."""
        import jax.numpy as jnp  # Not above: whoever only describes games does not wait for JAX.

        x = numbers[..., self.x] * self.x_scale + self.offset
        y = numbers[..., self.y] * self.y_scale + self.offset
        there = jnp.ones(x.shape, bool) if self.alive is None else numbers[..., self.alive] > 0
        return Positions(x, y, there)


@dataclass(frozen=True)
class CellPlace:
    """The numbers begin with a picture of cells, row by row, with a one in the cell of the seat."""

    height: int
    width: int
    leaves = True
    """See `NumberPlace.leaves`."""

    def read(self, numbers: Array) -> Positions:
        """Of one seat's numbers [..., W]: the middle of what is in the picture, so that a guess may lie between cells.

        Numbers below zero count as nothing. An empty picture shows nobody; its place is the middle of the field.
        """
        import jax.numpy as jnp

        cells = self.height * self.width
        weight = jnp.maximum(numbers[..., :cells], 0.0)
        total = weight.sum(axis=-1)
        rows, columns = np.divmod(np.arange(cells), self.width)
        share = jnp.where(total[..., None] > 0, weight / jnp.maximum(total, 1e-9)[..., None], 1.0 / cells)
        return Positions((share * (columns + 0.5)).sum(axis=-1), (share * (rows + 0.5)).sum(axis=-1), total > 0.5)


SeatPlace = NumberPlace | CellPlace
"""How one seat's numbers tell its place; plain data, so that games with equal ones are equal."""


@dataclass(frozen=True)
class SeatCells:
    """How a seat's view tells on which cells of a board everybody is, what steps do, and which round it is."""

    height: int
    width: int
    start: int
    """Where the numbers of the seats begin: the own ones first, then those of the others in the order of seats."""
    numbers: int
    """How many there are of each seat."""
    place: SeatPlace
    """What they mean."""
    moves: tuple[tuple[int, int], ...]
    """Of every action, how many columns and rows it leads further where nothing is in the way."""
    rounds: int = 1
    """With more than one, views end with the round as one-hot."""

    @property
    def cells(self) -> int:
        """Of the board, row by row."""
        return self.height * self.width

    def standing(self, views: Array, seats: int) -> Array:
        """The cells on which everybody stands: views [..., O] of games for so many -> [..., seats] int32."""
        import jax.numpy as jnp

        by_seat = views[..., self.start : self.start + seats * self.numbers]
        x, y, _ = self.place.read(by_seat.reshape(*views.shape[:-1], seats, self.numbers))
        return self._cell(jnp.floor(x), jnp.floor(y))

    def landing(self, cells: Array, actions: Array) -> Array:
        """Where actions lead from cells, both [...] integers: [...] int32. Nobody leaves the board."""
        import jax.numpy as jnp

        across, down = jnp.asarray(self.moves, jnp.int32).T
        return self._cell(cells % self.width + across[actions], cells // self.width + down[actions])

    def round_number(self, views: Array) -> Array:
        """[..., O] -> [...] int32, from 0."""
        import jax.numpy as jnp

        if self.rounds == 1:
            return jnp.zeros(views.shape[:-1], jnp.int32)
        return jnp.argmax(views[..., -self.rounds :], axis=-1).astype(jnp.int32)

    def _cell(self, column: Array, row: Array) -> Array:
        import jax.numpy as jnp

        row, column = jnp.clip(row, 0, self.height - 1), jnp.clip(column, 0, self.width - 1)
        return (row * self.width + column).astype(jnp.int32)
