"""How a battle looks from above."""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax.numpy as jnp
import numpy as np

from omg.envs.battle.observe import SIGHT_RANGE, Layout
from omg.envs.battle.simulate import BattleRules
from omg.envs.battle.units import TICKS_PER_SECOND
from omg.envs.scenes import ALLY, ENEMY, Move, Piece, Scene, Scenery, ViewPlaces, scene

if TYPE_CHECKING:
    from omg.envs.battle.env import World

_UNSEEN = 0.03
"""Distance, in sight ranges, below which a view shows nobody: units do not stand on each other."""


def battle_scenery(rules: BattleRules, layout: Layout) -> Scenery[World]:
    """The map, and a piece for every unit: the allies, then the enemies.

    Args:
        rules: of the battle.
        layout: of what the allies see.
    """
    battle_map = rules.map
    full_health = np.concatenate([rules.ally.hp, rules.enemy.hp])
    full_shield = np.maximum(np.concatenate([rules.ally.shield, rules.enemy.shield]), 1e-6)
    pieces = [
        Piece(unit.name, str(number + 1), colour, unit.radius, reach=unit.range + unit.radius if unit.damage else None)
        for units, colour in ((battle_map.ally_units, ALLY), (battle_map.enemy_units, ENEMY))
        for number, unit in enumerate(units)
    ]

    def show(world: World) -> Scene:
        both = [jnp.concatenate(values) for values in zip(world.ally, world.enemy, strict=True)]
        x, y, health, shield, cooldown = both[:5]
        return scene(
            x,
            -y,
            health > 0,
            jnp.maximum(health, 0) / full_health,
            shield=jnp.maximum(shield, 0) / full_shield,
            cooldown=jnp.maximum(cooldown, 0) / TICKS_PER_SECOND,
        )

    half_width, half_height = battle_map.half_width, battle_map.half_height
    allies, step = rules.ally.n, layout.args.move_amount
    moves = [Move("no-op"), Move("stop"), Move("north", 0, -step), Move("south", 0, step), Move("east", step)]
    moves += [Move("west", -step)]
    moves += [Move(f"target {number + 1}", piece=allies + number) for number in range(rules.enemy.n)]
    return Scenery(
        -half_width,
        -half_height,
        2 * half_width,
        2 * half_height,
        False,
        tuple(pieces),
        show,
        seats=tuple(range(allies)),
        moves=tuple(moves[: layout.n_actions]),
        sight=SIGHT_RANGE,
        in_obs=tuple(_in_obs(layout, seat) for seat in range(allies)),
    )


def _in_obs(layout: Layout, seat: int) -> ViewPlaces:
    """Enemies and friends in sight, counted from the own place: each begins with a flag, distance, dx and dy."""
    allies, enemies, args = layout.me.n, layout.other.n, layout.args
    enemy = 4 + layout.body_size(layout.other, args.obs_all_health)
    friend = 4 + layout.body_size(layout.me, args.obs_all_health) + (layout.n_actions if args.obs_last_action else 0)
    begin = 4 + (8 if args.obs_pathing_grid else 0)
    starts = begin + enemy * np.arange(enemies)
    starts = np.concatenate([starts, begin + enemy * enemies + friend * np.arange(allies - 1)])
    pieces = (*range(allies, allies + enemies), *(int(other) for other in layout.others_of[seat]))

    def read(views: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        seen = views[..., starts + 1] > _UNSEEN
        x, y = SIGHT_RANGE * views[..., starts + 2], -SIGHT_RANGE * views[..., starts + 3]
        return np.where(seen, x, np.nan), np.where(seen, y, np.nan)

    return ViewPlaces(pieces, read, counted_from=seat)
