"""How a game on a board looks from above."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

import jax.numpy as jnp
import numpy as np
from jax import Array

from omg.envs.scenes import STONE, Piece, Scene, Scenery, player_pieces, scene

if TYPE_CHECKING:
    from omg.envs.grid.game import GridGame

BLOCK = (STONE, 0.5)
"""Colour and size of an obstacle."""


class Placed(Protocol):
    """What is asked of a state besides what its game says about it."""

    @property
    def player(self) -> Array:
        """[B, A] integers, the cells of the players."""
        ...


def board_scenery(game: GridGame, looks: Mapping[str, tuple[str, float]]) -> Scenery[Placed]:
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

    def show(state: Placed) -> Scene:
        pictures = jnp.concatenate([game.block_map(state), *game.pictures(state)], axis=1)
        games = pictures.shape[0]
        fixed = [
            jnp.broadcast_to(np.tile(axis, len(kinds)), (games, len(kinds) * board.cells)) for axis in (cols, rows)
        ]
        player = state.player.astype(jnp.int32)
        x = jnp.concatenate([fixed[0], player % board.width], axis=1)
        y = jnp.concatenate([fixed[1], player // board.width], axis=1)
        return scene(x.T + 0.5, y.T + 0.5, jnp.concatenate([pictures, game.there(state)], axis=1).T)

    return Scenery(0, 0, board.width, board.height, True, tuple(pieces), show)
