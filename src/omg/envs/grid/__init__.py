"""What the games on a small board with obstacles share: sets of cells as bits, starts, views, pictures.

Not a game itself. `stag_hunt` and `snowdrift` are made of it; another game of this kind is a subclass of `GridGame`.
"""

from typing import TYPE_CHECKING

from omg.envs.grid.args import GridArgs, check_room
from omg.registry.later import later

if TYPE_CHECKING:
    from omg.envs.grid.game import GridGame, GridState
    from omg.envs.grid.goals import GoalSet
    from omg.envs.grid.view import MapView
    from omg.envs.grid.walking import DOWN, LEFT, MOVES, RIGHT, STAY, UP

__all__ = [
    "DOWN",
    "LEFT",
    "MOVES",
    "RIGHT",
    "STAY",
    "UP",
    "GoalSet",
    "GridArgs",
    "GridGame",
    "GridState",
    "MapView",
    "check_room",
]

__getattr__ = later(
    __name__,
    {
        "game": ("GridGame", "GridState"),
        "goals": ("GoalSet",),
        "view": ("MapView",),
        "walking": ("DOWN", "LEFT", "MOVES", "RIGHT", "STAY", "UP"),
    },
)
