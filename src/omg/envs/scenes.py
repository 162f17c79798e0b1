"""What a game looks like from above: a stage with pieces on it, for replays. A game without a line here has none.

Every piece that a game can show has a number; what changes is where it is, whether it is there, its health and the
number written on it. Letters in shapes: B games, N pieces.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from omg.envs.grid.picture import COLOURS
from omg.envs.predator_prey.env import OBSTACLE_SIZE, PREDATOR_SIZE, PREY_SIZE

_ALLY, _ENEMY, _STONE, _FOOD, _STAG = "#0b6fb8", "#c02f3a", "#4a4f57", "#2a8c4a", "#8b5a2b"


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
class Stage:
    """A field and the pieces that may be on it."""

    left: float
    top: float
    width: float
    height: float
    cells: bool
    """Whether it is a board of cells of size 1."""
    pieces: tuple[Piece, ...]
    show: Callable[[Any], Scene]
    """State of the games -> how they stand."""


def stage_of(env: Any) -> Stage | None:
    """The stage of a game; None where there is no picture of it."""
    build = _STAGES.get(env.spec.name)
    return None if build is None else build(env)


def shown_games() -> tuple[str, ...]:
    """The games that have a stage."""
    return tuple(_STAGES)


def _scene(x: Any, y: Any, there: Any = None, health: Any = None, number: Any = None) -> Scene:
    """Arrays [N, B] as a scene; what is left out is full health, everything there, no number."""
    x, y = jnp.asarray(x, jnp.float32).T, jnp.asarray(y, jnp.float32).T
    there = jnp.ones(x.shape, bool) if there is None else there.T
    health = jnp.ones(x.shape) if health is None else health.T
    number = jnp.full(x.shape, jnp.nan) if number is None else jnp.asarray(number, jnp.float32).T
    return Scene(x, y, there, health, number)


def _battle(env: Any) -> Stage:
    battle_map = env.rules.map
    full = np.concatenate([env.rules.ally.hp + env.rules.ally.shield, env.rules.enemy.hp + env.rules.enemy.shield])
    pieces = [
        Piece(unit.name, label, colour, unit.radius)
        for units, colour in ((battle_map.ally_units, _ALLY), (battle_map.enemy_units, _ENEMY))
        for label, unit in ((str(number + 1), unit) for number, unit in enumerate(units))
    ]

    def show(world: Any) -> Scene:
        both = [jnp.concatenate(values) for values in zip(world.ally, world.enemy, strict=True)]
        x, y, health, shield = both[:4]
        return _scene(x, -y, health > 0, (jnp.maximum(health, 0) + shield) / full.reshape(-1, 1))

    half_width, half_height = battle_map.half_width, battle_map.half_height
    return Stage(-half_width, -half_height, 2 * half_width, 2 * half_height, False, tuple(pieces), show)


def _foraging(env: Any) -> Stage:
    args = env.args
    pieces = [Piece(f"player {seat + 1}", str(seat + 1), _colour(seat), 0.36) for seat in range(args.players)]
    pieces += [Piece("food", "", _FOOD, 0.3, square=True)] * args.max_food

    def show(state: Any) -> Scene:
        x = jnp.concatenate([state.player_col, state.food_col])
        y = jnp.concatenate([state.player_row, state.food_row])
        level = jnp.concatenate([state.player_level, state.food_level])
        return _scene(x + 0.5, y + 0.5, y >= 0, number=level)

    return Stage(0, 0, args.cols, args.rows, True, tuple(pieces), show)


def _predator_prey(env: Any) -> Stage:
    args = env.args
    names = ["predator"] * args.predators + ["prey"] * args.prey + ["obstacle"] * args.obstacles
    looks = {"predator": (_ENEMY, PREDATOR_SIZE), "prey": (_FOOD, PREY_SIZE), "obstacle": (_STONE, OBSTACLE_SIZE)}
    pieces = [
        Piece(name, "" if name == "obstacle" else str(number + 1), *looks[name]) for number, name in enumerate(names)
    ]
    return Stage(-1.5, -1.5, 3, 3, False, tuple(pieces), lambda state: _scene(state.x, -state.y))


def _toy_grid(env: Any) -> Stage:
    size, goals = env.args.size, np.array(env.args.goals)
    pieces = [Piece("cell that pays", "", _FOOD, 0.42, square=True)] * 2
    pieces += [Piece(f"player {seat + 1}", str(seat + 1), _colour(seat), 0.34) for seat in range(2)]

    def show(state: Any) -> Scene:
        rows, cols = (jnp.broadcast_to(goals[:, [axis]], state.row.shape) for axis in range(2))
        there = jnp.concatenate([state.pays, jnp.ones_like(state.pays)])
        return _scene(jnp.concatenate([cols, state.col]) + 0.5, jnp.concatenate([rows, state.row]) + 0.5, there)

    return Stage(0, 0, size, size, True, tuple(pieces), show)


def _grid(env: Any) -> Stage:
    """Boards with obstacles and pieces: one piece of each kind for every cell, there or not, and the players."""
    board, kinds = env.board, env.pieces
    looks = {"block": (_STONE, 0.5), "stag": (_STAG, 0.4), "hare": ("#b8a68c", 0.3), "drift": ("#7fa8c4", 0.4)}
    pieces = [Piece(kind, "", *looks[kind], square=True) for kind in kinds for _ in range(board.cells)]
    pieces += [Piece(f"player {seat + 1}", str(seat + 1), _colour(seat), 0.3) for seat in range(env.args.players)]
    rows, cols = np.divmod(np.arange(board.cells), board.width)

    def show(state: Any) -> Scene:
        pictures = jnp.concatenate([env.block_map(state), *env.pictures(state)], axis=1)
        games = pictures.shape[0]
        fixed = [
            jnp.broadcast_to(np.tile(axis, len(kinds)), (games, len(kinds) * board.cells)) for axis in (cols, rows)
        ]
        player = state.player.astype(jnp.int32)
        x = jnp.concatenate([fixed[0], player % board.width], axis=1)
        y = jnp.concatenate([fixed[1], player // board.width], axis=1)
        return _scene(x.T + 0.5, y.T + 0.5, jnp.concatenate([pictures, env.there(state)], axis=1).T)

    return Stage(0, 0, board.width, board.height, True, tuple(pieces), show)


def _colour(seat: int) -> str:
    return COLOURS[seat % len(COLOURS)]


_STAGES: dict[str, Callable[[Any], Stage]] = {
    "sc2": _battle,
    "foraging": _foraging,
    "predator_prey": _predator_prey,
    "toy_grid": _toy_grid,
    "stag_hunt": _grid,
    "snowdrift": _grid,
}
