"""The sc2 battle simulator: SMAC's maps, observations, actions and rewards over its own physics, batched in JAX."""

from omg.envs.battle.args import BattleArgs
from omg.envs.battle.duel import Duel
from omg.envs.battle.env import Battle
from omg.envs.battle.maps import MAPS

__all__ = ["MAPS", "Battle", "BattleArgs", "Duel"]
