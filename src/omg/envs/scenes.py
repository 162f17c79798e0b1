"""What a game looks like from above: scenery with pieces on it, for replays.

A game that can be shown has a method `scenery` (`Shown`), beside its rules; one without it has no replays. Every piece
that a game can show has a number; what changes is where it is, whether it is there, its health and the number written
on it. Letters in shapes: B games, N pieces.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, NamedTuple, Protocol, TypeVar, runtime_checkable

import jax.numpy as jnp
from jax import Array

from omg.envs.grid.picture import COLOURS

ALLY, ENEMY, STONE, FOOD = "#0b6fb8", "#c02f3a", "#4a4f57", "#2a8c4a"
"""Colours that several games use."""

State = TypeVar("State")


class Scene(NamedTuple):
    """How the pieces stand at one moment."""

    x: Array
    """[B, N] float32."""
    y: Array
    """[B, N] float32, downwards."""
    there: Array
    """[B, N] bool."""
    health: Array
    """[B, N] float32, 0 to 1."""
    number: Array
    """[B, N] float32, written on the piece; NaN for its own label."""


@dataclass(frozen=True)
class Piece:
    """What does not change about a piece."""

    name: str
    label: str
    colour: str
    size: float
    """Radius, or half of a square's side."""
    square: bool = False


@dataclass(frozen=True)
class Scenery(Generic[State]):
    """A field and the pieces that may be on it."""

    left: float
    top: float
    width: float
    height: float
    cells: bool
    """Whether it is a board of cells of size 1."""
    pieces: tuple[Piece, ...]
    show: Callable[[State], Scene]
    """State of the games -> how they stand."""


@runtime_checkable
class Shown(Protocol):
    """What a game has besides `Env` if there is a picture of it."""

    def scenery(self) -> Scenery:
        """The field and its pieces; `Scenery.show` takes the game's own state."""
        ...


def scenery_of(env: object) -> Scenery | None:
    """The scenery of a game; None where there is no picture of it."""
    return env.scenery() if isinstance(env, Shown) else None


def scene(
    x: Array, y: Array, there: Array | None = None, health: Array | None = None, number: Array | None = None
) -> Scene:
    """Arrays [N, B] as a scene; what is left out is full health, everything there, no number."""
    x, y = jnp.asarray(x, jnp.float32).T, jnp.asarray(y, jnp.float32).T
    return Scene(
        x,
        y,
        jnp.ones(x.shape, bool) if there is None else there.T,
        jnp.ones(x.shape) if health is None else health.T,
        jnp.full(x.shape, jnp.nan) if number is None else jnp.asarray(number, jnp.float32).T,
    )


def player_pieces(count: int, size: float) -> list[Piece]:
    """A piece for every seat, with its number from 1 and its colour."""
    return [Piece(f"player {seat + 1}", str(seat + 1), COLOURS[seat % len(COLOURS)], size) for seat in range(count)]
