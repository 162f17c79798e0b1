"""Snowdrift on a board: everybody gains from a cleared road, and only those who shovel pay."""

from omg.envs.snowdrift.args import SnowdriftArgs
from omg.envs.snowdrift.env import Snowdrift, SnowdriftState

__all__ = ["Snowdrift", "SnowdriftArgs", "SnowdriftState"]
