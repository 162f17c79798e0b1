"""Snowdrift on a board: everybody gains from a cleared road, and only those who shovel pay."""

from typing import TYPE_CHECKING

from omg.envs.snowdrift.args import SnowdriftArgs
from omg.registry.later import later

if TYPE_CHECKING:
    from omg.envs.snowdrift.env import Snowdrift, SnowdriftState

__all__ = ["Snowdrift", "SnowdriftArgs", "SnowdriftState"]

__getattr__ = later(__name__, {"env": ("Snowdrift", "SnowdriftState")})
