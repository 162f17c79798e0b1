"""Two players, two reward cells, and only the first to arrive is paid: small enough for tables of values."""

from omg.envs.toy_grid.args import ToyGridArgs
from omg.envs.toy_grid.env import ToyGrid
from omg.envs.toy_grid.players import PLAYERS, Player, go_bottom, go_planned, go_top

__all__ = ["PLAYERS", "Player", "ToyGrid", "ToyGridArgs", "go_bottom", "go_planned", "go_top"]
