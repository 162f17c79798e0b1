"""How predators and prey look from above."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from omg.envs.predator_prey.args import OBSTACLE_SIZE, PREDATOR_SIZE, PREY_SIZE, PredatorPreyArgs
from omg.envs.scenes import ENEMY, FOOD, STONE, Piece, Scene, Scenery, ViewPlaces, compass_moves, scene

if TYPE_CHECKING:
    from omg.envs.predator_prey.env import PredatorPreyState


def predator_prey_scenery(args: PredatorPreyArgs) -> Scenery[PredatorPreyState]:
    """A plane from -1.5 to 1.5, and a piece for every body."""
    names = ["predator"] * args.predators + ["prey"] * args.prey + ["obstacle"] * args.obstacles
    looks = {"predator": (ENEMY, PREDATOR_SIZE), "prey": (FOOD, PREY_SIZE), "obstacle": (STONE, OBSTACLE_SIZE)}
    pieces = [
        Piece(name, "" if name == "obstacle" else str(number + 1), *looks[name]) for number, name in enumerate(names)
    ]

    def show(state: PredatorPreyState) -> Scene:
        return scene(state.x, -state.y)

    players = args.predators + args.prey
    # North and south, west and east stand in another order among the actions; a push is felt over several steps.
    moves = {move.name: move for move in compass_moves(_STEP)}
    return Scenery(
        -1.5,
        -1.5,
        3,
        3,
        False,
        tuple(pieces),
        show,
        seats=tuple(range(players)),
        moves=tuple(moves[name] for name in ("stay", "west", "east", "south", "north")),
        in_obs=tuple(_in_obs(args, seat) for seat in range(players)),
    )


_STEP = 0.03
"""About how far a push moves a predator in the step after it."""


def _in_obs(args: PredatorPreyArgs, seat: int) -> ViewPlaces:
    """The own place, which views have as well, and the others as seen from it."""
    players = args.predators + args.prey
    others = tuple(other for other in range(players) if other != seat)
    starts = 4 + 2 * args.obstacles + 2 * np.arange(players - 1)

    def read(views: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        own_x, own_y = views[..., 2:3], views[..., 3:4]
        x = np.concatenate([own_x, own_x + views[..., starts]], axis=-1)
        y = np.concatenate([own_y, own_y + views[..., starts + 1]], axis=-1)
        return x, -y

    return ViewPlaces((seat, *others), read)
