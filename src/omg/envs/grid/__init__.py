"""What the games on a small board with obstacles share: sets of cells as bits, starts, views, pictures.

Not a game itself. `stag_hunt` and `snowdrift` are made of it; another game of this kind is a subclass of `GridGame`.
"""

from omg.envs.grid.args import GridArgs, check_room
from omg.envs.grid.game import DOWN, LEFT, MOVES, RIGHT, STAY, UP, GridGame
from omg.envs.grid.view import MapView

__all__ = ["DOWN", "LEFT", "MOVES", "RIGHT", "STAY", "UP", "GridArgs", "GridGame", "MapView", "check_room"]
