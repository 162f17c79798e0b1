"""How a battle looks from above."""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax.numpy as jnp
import numpy as np

from omg.envs.battle.simulate import BattleRules
from omg.envs.scenes import ALLY, ENEMY, Piece, Scene, Scenery, scene

if TYPE_CHECKING:
    from omg.envs.battle.env import World


def battle_scenery(rules: BattleRules) -> Scenery[World]:
    """The map, and a piece for every unit: the allies, then the enemies."""
    battle_map = rules.map
    full = np.concatenate([rules.ally.hp + rules.ally.shield, rules.enemy.hp + rules.enemy.shield])
    pieces = [
        Piece(unit.name, str(number + 1), colour, unit.radius)
        for units, colour in ((battle_map.ally_units, ALLY), (battle_map.enemy_units, ENEMY))
        for number, unit in enumerate(units)
    ]

    def show(world: World) -> Scene:
        both = [jnp.concatenate(values) for values in zip(world.ally, world.enemy, strict=True)]
        x, y, health, shield = both[:4]
        return scene(x, -y, health > 0, (jnp.maximum(health, 0) + shield) / full.reshape(-1, 1))

    half_width, half_height = battle_map.half_width, battle_map.half_height
    return Scenery(-half_width, -half_height, 2 * half_width, 2 * half_height, False, tuple(pieces), show)
