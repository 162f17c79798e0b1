"""Predator-prey: slow predators hunt fast prey among round obstacles."""

from typing import TYPE_CHECKING

from omg.envs.predator_prey.args import PredatorPreyArgs
from omg.registry.later import later

if TYPE_CHECKING:
    from omg.envs.predator_prey.env import PredatorPrey

__all__ = ["PredatorPrey", "PredatorPreyArgs"]

__getattr__ = later(__name__, {"env": ("PredatorPrey",)})
