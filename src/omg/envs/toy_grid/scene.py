"""How the toy grid looks from above."""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax.numpy as jnp
import numpy as np

from omg.envs.scenes import FOOD, Piece, Scene, Scenery, ViewPlaces, compass_moves, player_pieces, scene
from omg.envs.toy_grid.args import ToyGridArgs

if TYPE_CHECKING:
    from omg.envs.toy_grid.env import ToyGridState


def toy_scenery(args: ToyGridArgs) -> Scenery[ToyGridState]:
    """The two cells that pay, as long as they do, and the two players."""
    goals = np.array(args.goals)
    pieces = [Piece("cell that pays", "", FOOD, 0.42, square=True)] * 2 + player_pieces(2, 0.34)

    def show(state: ToyGridState) -> Scene:
        rows, cols = (jnp.broadcast_to(goals[:, [axis]], state.row.shape) for axis in range(2))
        there = jnp.concatenate([state.pays, jnp.ones_like(state.pays)])
        return scene(jnp.concatenate([cols, state.col]) + 0.5, jnp.concatenate([rows, state.row]) + 0.5, there)

    def read(views: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        last = args.size - 1
        return last * views[..., 1:4:2] + 0.5, last * views[..., 0:4:2] + 0.5

    return Scenery(
        0,
        0,
        args.size,
        args.size,
        True,
        tuple(pieces),
        show,
        seats=(2, 3),
        moves=compass_moves(),
        in_obs=(ViewPlaces((2, 3), read), ViewPlaces((3, 2), read)),
    )
