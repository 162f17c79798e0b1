"""How rendezvous looks from above."""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax.numpy as jnp
import numpy as np

from omg.envs.rendezvous.args import RendezvousArgs
from omg.envs.scenes import (
    FOOD,
    STONE,
    Piece,
    Scene,
    Scenery,
    ViewPlaces,
    compass_moves,
    marked_places,
    player_pieces,
    scene,
)

if TYPE_CHECKING:
    from omg.envs.rendezvous.env import RendezvousState


_ASIDE, _BELOW, _ABOVE = 0.24, 0.18, 0.28
"""How far from the middle of their cell players stand to the left and right of it, and below; the counter above it."""


def rendezvous_scenery(args: RendezvousArgs) -> Scenery[RendezvousState]:
    """The corners, how often they have met (in the middle of the board), and the players, side by side in a cell."""
    corners = np.array(args.corners)
    pieces = [Piece("corner", "", FOOD, 0.48, square=True)] * len(corners)
    pieces += [Piece("rounds met", "", STONE, 0.2, square=True), *player_pieces(2, 0.2)]

    def show(state: RendezvousState) -> Scene:
        games = state.row.shape[1]
        rows, cols = (jnp.broadcast_to(corners[:, [axis]] + 0.5, (len(corners), games)) for axis in range(2))
        middle = jnp.full((1, games), args.middle + 0.5)
        aside = np.array([[-_ASIDE], [_ASIDE]])
        x = jnp.concatenate([cols, middle, state.col + 0.5 + aside])
        y = jnp.concatenate([rows, middle - _ABOVE, state.row + 0.5 + _BELOW])
        return scene(x, y, number=jnp.full(x.shape, jnp.nan).at[len(corners)].set(state.met))

    first, cells = len(corners) + 1, args.size**2

    def reader(order: tuple[int, int]) -> ViewPlaces:
        aside = np.array([(-_ASIDE, _ASIDE)[seat] for seat in order])

        def read(views: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            x, y = marked_places(views[..., : 2 * cells].reshape(*views.shape[:-1], 2, cells), args.size)
            return x + aside, y + _BELOW

        return ViewPlaces(tuple(first + seat for seat in order), read)

    return Scenery(
        0,
        0,
        args.size,
        args.size,
        True,
        tuple(pieces),
        show,
        seats=(first, first + 1),
        moves=compass_moves(),
        in_obs=(reader((0, 1)), reader((1, 0))),
    )
