"""How foraging looks from above."""

from __future__ import annotations

import jax.numpy as jnp

from omg.envs.foraging.args import ForagingArgs
from omg.envs.foraging.start import ForagingState
from omg.envs.scenes import FOOD, Piece, Scene, Scenery, player_pieces, scene


def foraging_scenery(args: ForagingArgs) -> Scenery[ForagingState]:
    """The field, a piece for every seat and for every food; their levels are written on them."""
    pieces = player_pieces(args.players, 0.36)
    pieces += [Piece("food", "", FOOD, 0.3, square=True)] * args.max_food

    def show(state: ForagingState) -> Scene:
        x = jnp.concatenate([state.player_col, state.food_col])
        y = jnp.concatenate([state.player_row, state.food_row])
        level = jnp.concatenate([state.player_level, state.food_level])
        return scene(x + 0.5, y + 0.5, y >= 0, number=level)

    return Scenery(0, 0, args.cols, args.rows, True, tuple(pieces), show)
