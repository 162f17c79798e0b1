"""What the states of all games on a board have in common."""

from __future__ import annotations

from typing import Protocol, TypeVar

from jax import Array


class GridState(Protocol):
    """A `NamedTuple` of small integers with the batch of games first, so that a search tree can hold many."""

    @property
    def player(self) -> Array:
        """[B, A] uint8, cells of the players."""
        ...

    @property
    def blocks(self) -> Array:
        """[B, words] uint32, obstacles as bits (`omg.envs.grid.bits`)."""
        ...

    @property
    def last_action(self) -> Array:
        """[B, A] int8, what was really done; negative at the start and for those who had left before."""
        ...

    @property
    def time(self) -> Array:
        """[B] int16, steps played."""
        ...


State = TypeVar("State", bound=GridState)
