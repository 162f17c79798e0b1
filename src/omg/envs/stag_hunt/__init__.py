"""Stag hunt on a board: a stag takes two, a hare does not."""

from typing import TYPE_CHECKING

from omg.envs.stag_hunt.args import MAPS, StagHuntArgs
from omg.registry.later import later

if TYPE_CHECKING:
    from omg.envs.stag_hunt.env import StagHunt, StagHuntState

__all__ = ["MAPS", "StagHunt", "StagHuntArgs", "StagHuntState"]

__getattr__ = later(__name__, {"env": ("StagHunt", "StagHuntState")})
