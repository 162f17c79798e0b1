"""Two players, two reward cells, and only the first to arrive is paid: small enough for tables of values."""

from typing import TYPE_CHECKING

from omg.envs.toy_grid.args import ToyGridArgs
from omg.registry.later import later

if TYPE_CHECKING:
    from omg.envs.toy_grid.env import ToyGrid
    from omg.envs.toy_grid.players import PLAYERS, Player, go_bottom, go_planned, go_top

__all__ = ["PLAYERS", "Player", "ToyGrid", "ToyGridArgs", "go_bottom", "go_planned", "go_top"]

__getattr__ = later(
    __name__, {"env": ("ToyGrid",), "players": ("PLAYERS", "Player", "go_bottom", "go_planned", "go_top")}
)
