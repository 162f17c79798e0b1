"""Level-based foraging by the rules of the `lbforaging` package, thousands of games at once."""

from omg.envs.foraging.args import ForagingArgs
from omg.envs.foraging.env import Foraging

__all__ = ["Foraging", "ForagingArgs"]
