"""Predator-prey: slow predators hunt fast prey among round obstacles."""

from omg.envs.predator_prey.args import PredatorPreyArgs
from omg.envs.predator_prey.env import PredatorPrey

__all__ = ["PredatorPrey", "PredatorPreyArgs"]
