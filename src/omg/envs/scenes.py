"""What a game looks like from above: scenery with pieces on it, for replays.

A game that can be shown has a method `scenery` (`Shown`), beside its rules; one without it has no replays. Every piece
that a game can show has a number; what changes is where it is, whether it is there, its health and the number written
on it. A game also says which piece each seat moves, what its actions are called, and where its views tell the places of
pieces. Letters in shapes: B games, N pieces, J pieces that a view speaks of, W numbers of a view.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, NamedTuple, Protocol, TypeVar, runtime_checkable

import jax.numpy as jnp
import numpy as np
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
    shield: Array
    """[B, N] float32, 0 to 1; 0 without one."""
    cooldown: Array
    """[B, N] float32, game time until it can shoot again; 0 where it never does."""


@dataclass(frozen=True)
class Piece:
    """What does not change about a piece."""

    name: str
    label: str
    colour: str
    size: float
    """Radius, or half of a square's side."""
    square: bool = False
    reach: float | None = None
    """How far it can shoot from its place; None: it does not shoot."""


@dataclass(frozen=True)
class Move:
    """An action: what it is called, how far it moves the player (y downwards), and the piece that it is done to."""

    name: str
    dx: float = 0.0
    dy: float = 0.0
    piece: int | None = None


@dataclass(frozen=True)
class ViewPlaces:
    """Where views, or what is decoded as one, tell the places of pieces."""

    pieces: tuple[int, ...]
    """J pieces."""
    read: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]
    """Views [..., W] -> x and y [..., J], NaN where a piece is not shown; in NumPy, for games that are over."""
    counted_from: int | None = None
    """The piece from whose place they are counted; None: they are places on the field."""


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
    seats: tuple[int, ...] = ()
    """The piece that each seat moves; empty: the game does not say."""
    moves: tuple[Move, ...] = ()
    """Its actions; empty: the game does not say."""
    in_obs: tuple[ViewPlaces, ...] = ()
    """What the observation of each seat tells; empty: of no seat."""
    sight: float | None = None
    """How far seats see from their own piece; None: everything."""
    sight_square: bool = False
    """Whether they see a square, `sight` cells to each side, and no circle."""


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
    x: Array,
    y: Array,
    there: Array | None = None,
    health: Array | None = None,
    number: Array | None = None,
    shield: Array | None = None,
    cooldown: Array | None = None,
) -> Scene:
    """Arrays [N, B] as a scene; what is left out is full health, everything there, no number, shield or weapon."""
    x, y = jnp.asarray(x, jnp.float32).T, jnp.asarray(y, jnp.float32).T
    return Scene(
        x,
        y,
        jnp.ones(x.shape, bool) if there is None else there.T,
        jnp.ones(x.shape) if health is None else health.T,
        jnp.full(x.shape, jnp.nan) if number is None else jnp.asarray(number, jnp.float32).T,
        jnp.zeros(x.shape) if shield is None else jnp.asarray(shield, jnp.float32).T,
        jnp.zeros(x.shape) if cooldown is None else jnp.asarray(cooldown, jnp.float32).T,
    )


def player_pieces(count: int, size: float) -> list[Piece]:
    """A piece for every seat, with its number from 1 and its colour."""
    return [Piece(f"player {seat + 1}", str(seat + 1), COLOURS[seat % len(COLOURS)], size) for seat in range(count)]


COMPASS = (("stay", 0, 0), ("north", 0, -1), ("south", 0, 1), ("west", -1, 0), ("east", 1, 0))
"""Name and direction of the five actions that most of the games on cells begin with."""
COMPASS_STEPS = tuple((dx, dy) for _, dx, dy in COMPASS)
"""The same without names: columns and rows."""


def compass_moves(step: float = 1.0) -> tuple[Move, ...]:
    """The five of `COMPASS`, `step` far each."""
    return tuple(Move(name, step * dx, step * dy) for name, dx, dy in COMPASS)


def marked_places(pictures: np.ndarray, width: int) -> tuple[np.ndarray, np.ndarray]:
    """The mean place of what is marked in pictures of chances [..., J, cells]: x and y [..., J] of middles of cells.

    Cells are weighed by their odds, by which a prior's decoder tells places from each other; NaN where nothing is
    likely to be marked.
    """
    chance = np.clip(pictures, 1e-6, 1.0 - 1e-6)
    odds = chance / (1.0 - chance)
    share = odds / odds.sum(axis=-1, keepdims=True)
    cells = np.arange(pictures.shape[-1])
    shown = pictures.sum(axis=-1) >= 0.5
    x, y = ((share * (axis + 0.5)).sum(axis=-1) for axis in (cells % width, cells // width))
    return np.where(shown, x, np.nan), np.where(shown, y, np.nan)
