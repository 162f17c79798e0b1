"""Where the units of a battle start."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from omg.envs.battle.maps import BattleMap, formation

Places = tuple[Array, Array, Array, Array]
"""x and y of the allies, x and y of the enemies, each [n, B]."""


def standard(battle_map: BattleMap, batch: int) -> Places:
    """Two blocks that face each other, the allies in the west."""
    sides = []
    for units, sign in ((battle_map.ally_units, 1.0), (battle_map.enemy_units, -1.0)):
        x, y = formation(units, sign)
        x = x - sign * battle_map.separation / 2
        sides += [jnp.repeat(jnp.asarray(values)[:, None], batch, axis=1) for values in (x, y)]
    return sides[0], sides[1], sides[2], sides[3]


def scattered(battle_map: BattleMap, key: Array, batch: int) -> Places:
    """Half of the games surrounded, half reflected: no open-loop plan fits all of them."""
    which, surround_key, reflect_key = jax.random.split(key, 3)
    surrounded = jax.random.bernoulli(which, 0.5, (batch,))
    pairs = zip(_surrounded(battle_map, surround_key, batch), _reflected(battle_map, reflect_key, batch), strict=True)
    places = [jnp.where(surrounded[None], first, second) for first, second in pairs]
    return places[0], places[1], places[2], places[3]


def _surrounded(battle_map: BattleMap, key: Array, batch: int) -> Places:
    """The allies in the centre, the enemies in up to four groups around them."""
    allies, enemies = len(battle_map.ally_units), len(battle_map.enemy_units)
    x, y = formation(battle_map.ally_units, 1.0)
    turn, jitter_a, jitter_e = jax.random.split(key, 3)
    spread = jax.random.uniform(jitter_a, (2, allies, batch), minval=-0.5, maxval=0.5)
    groups = min(4, enemies)
    angle = jax.random.uniform(turn, (1, batch), maxval=2 * np.pi)
    angle = angle + 2 * np.pi * (np.arange(enemies) % groups)[:, None] / groups
    away = min(battle_map.half_width, battle_map.half_height) * 0.7
    scatter = jax.random.uniform(jitter_e, (2, enemies, batch), minval=-1.5, maxval=1.5)
    return (
        spread[0] + x[:, None],
        spread[1] + y[:, None],
        away * jnp.cos(angle) + scatter[0],
        away * jnp.sin(angle) + scatter[1],
    )


def _reflected(battle_map: BattleMap, key: Array, batch: int) -> Places:
    """The allies anywhere in the western half, the enemies their mirror image (extra units anywhere in the east)."""
    allies, enemies = len(battle_map.ally_units), len(battle_map.enemy_units)
    count = max(allies, enemies)
    x_key, y_key = jax.random.split(key)
    x = jax.random.uniform(x_key, (count, batch), minval=0.2, maxval=0.75) * battle_map.half_width
    y = jax.random.uniform(y_key, (count, batch), minval=-0.6, maxval=0.6) * battle_map.half_height
    return -x[:allies], y[:allies], x[:enemies], y[:enemies]
