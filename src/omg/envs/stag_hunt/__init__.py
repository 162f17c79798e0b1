"""Stag hunt on a board: a stag takes two, a hare does not."""

from omg.envs.stag_hunt.args import MAPS, StagHuntArgs
from omg.envs.stag_hunt.env import StagHunt, StagHuntState

__all__ = ["MAPS", "StagHunt", "StagHuntArgs", "StagHuntState"]
