"""How foraging looks from above."""

from __future__ import annotations

from collections.abc import Callable

import jax.numpy as jnp
import numpy as np

from omg.envs.foraging.args import ForagingArgs
from omg.envs.foraging.start import ForagingState
from omg.envs.scenes import FOOD, Move, Piece, Scene, Scenery, ViewPlaces, compass_moves, player_pieces, scene

_NOWHERE = -0.5
"""Rows below this are those of somebody who is not seen."""


def foraging_scenery(args: ForagingArgs, *, sees_all: bool) -> Scenery[ForagingState]:
    """The field, a piece for every seat and for every food; their levels are written on them.

    Args:
        args: of the game.
        sees_all: whether every seat sees the whole field, so that its rows and columns are those of the field.
    """
    pieces = player_pieces(args.players, 0.36)
    pieces += [Piece("food", "", FOOD, 0.3, square=True)] * args.max_food
    seats = tuple(range(args.players))

    def show(state: ForagingState) -> Scene:
        x = jnp.concatenate([state.player_col, state.food_col])
        y = jnp.concatenate([state.player_row, state.food_row])
        level = jnp.concatenate([state.player_level, state.food_level])
        return scene(x + 0.5, y + 0.5, y >= 0, number=level)

    told = sees_all and not args.grid_observation
    width = 3 if args.observe_agent_levels else 2
    return Scenery(
        0,
        0,
        args.cols,
        args.rows,
        True,
        tuple(pieces),
        show,
        seats=seats,
        moves=(*compass_moves(), Move("load")),
        in_obs=tuple(_in_obs(args, width, seat) for seat in seats) if told else (),
        sight=None if sees_all or args.sight is None else float(args.sight),
        sight_square=True,
    )


def _in_obs(args: ForagingArgs, width: int, seat: int) -> ViewPlaces:
    """The other players, behind the foods and the seat itself."""
    others = tuple(other for other in range(args.players) if other != seat)
    starts = 3 * args.max_food + width * np.arange(1, args.players)
    if args.relative_positions:
        return ViewPlaces(others, _reader(starts, 0.0, lowest=None), counted_from=seat)
    return ViewPlaces(others, _reader(starts, 0.5))


def _reader(
    starts: np.ndarray, middle: float, lowest: float | None = _NOWHERE
) -> Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """Reads rows and columns that stand at `starts`; `middle` is added to them, `lowest` is that of who is seen."""

    def read(views: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        row, col = views[..., starts], views[..., starts + 1]
        seen = np.ones(row.shape, bool) if lowest is None else row > lowest
        return np.where(seen, col + middle, np.nan), np.where(seen, row + middle, np.nan)

    return read
