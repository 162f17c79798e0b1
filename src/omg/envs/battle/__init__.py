"""The sc2 battle simulator: SMAC's maps, observations, actions and rewards over its own physics, batched in JAX."""

from typing import TYPE_CHECKING

from omg.envs.battle.args import BattleArgs
from omg.envs.battle.maps import MAPS
from omg.registry.later import later

if TYPE_CHECKING:
    from omg.envs.battle.duel import Duel
    from omg.envs.battle.env import Battle

__all__ = ["MAPS", "Battle", "BattleArgs", "Duel"]

__getattr__ = later(__name__, {"duel": ("Duel",), "env": ("Battle",)})
