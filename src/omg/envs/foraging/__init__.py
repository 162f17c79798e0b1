"""Level-based foraging by the rules of the `lbforaging` package, thousands of games at once."""

from typing import TYPE_CHECKING

from omg.envs.foraging.args import ForagingArgs
from omg.registry.later import later

if TYPE_CHECKING:
    from omg.envs.foraging.env import Foraging

__all__ = ["Foraging", "ForagingArgs"]

__getattr__ = later(__name__, {"env": ("Foraging",)})
