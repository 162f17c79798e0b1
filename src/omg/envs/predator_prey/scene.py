"""How predators and prey look from above."""

from __future__ import annotations

from typing import TYPE_CHECKING

from omg.envs.predator_prey.args import OBSTACLE_SIZE, PREDATOR_SIZE, PREY_SIZE, PredatorPreyArgs
from omg.envs.scenes import ENEMY, FOOD, STONE, Piece, Scene, Scenery, scene

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

    return Scenery(-1.5, -1.5, 3, 3, False, tuple(pieces), show)
