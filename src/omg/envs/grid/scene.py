"""How a game on a board looks from above."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import jax.numpy as jnp
import numpy as np

from omg.envs.grid.board import MOVED
from omg.envs.grid.state import State
from omg.envs.grid.view import own_first
from omg.envs.scenes import (
    STONE,
    Move,
    Piece,
    Scene,
    Scenery,
    ViewPlaces,
    marked_places,
    player_pieces,
    scene,
)

if TYPE_CHECKING:
    from omg.envs.grid.game import GridGame

BLOCK = (STONE, 0.5)
"""Colour and size of an obstacle."""


def board_scenery(game: GridGame[State], looks: Mapping[str, tuple[str, float]]) -> Scenery[State]:
    """One piece of each kind for every cell, there or not, and the players.

    Args:
        game: the game.
        looks: colour and size of each kind in `game.pieces` but the obstacles.
    """
    board, kinds = game.board, game.pieces
    known = {"block": BLOCK, **looks}
    pieces = [Piece(kind, "", *known[kind], square=True) for kind in kinds for _ in range(board.cells)]
    pieces += player_pieces(game.args.players, 0.3)
    rows, cols = np.divmod(np.arange(board.cells), board.width)

    def show(state: State) -> Scene:
        games = len(state.player)
        pictures = game.drawn(state)[1].reshape(games, -1)
        fixed = [
            jnp.broadcast_to(np.tile(axis, len(kinds)), (games, len(kinds) * board.cells)) for axis in (cols, rows)
        ]
        player = state.player.astype(jnp.int32)
        x = jnp.concatenate([fixed[0], player % board.width], axis=1)
        y = jnp.concatenate([fixed[1], player // board.width], axis=1)
        return scene(x.T + 0.5, y.T + 0.5, jnp.concatenate([pictures, game.there(state)], axis=1).T)

    players = game.args.players
    first = len(kinds) * board.cells

    def read(views: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        pictures = views[..., : players * board.cells].reshape(*views.shape[:-1], players, board.cells)
        return marked_places(pictures, board.width)

    return Scenery(
        0,
        0,
        board.width,
        board.height,
        True,
        tuple(pieces),
        show,
        seats=tuple(range(first, first + players)),
        moves=tuple(Move(name, *MOVED.get(name, (0, 0))) for name in game.actions),
        in_obs=tuple(ViewPlaces(tuple(int(first + other) for other in order), read) for order in own_first(players)),
    )
