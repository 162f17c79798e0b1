"""One environment step of a battle: `step_mul` ticks of both sides under their orders."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array

from omg.envs.battle import physics
from omg.envs.battle.maps import BattleMap
from omg.envs.battle.physics import Orders, Units
from omg.envs.battle.units import Matchup, SideTable

# Weapon cooldowns vary by -1 to +2 ticks, as in the game; this is the only chance in a fight.
_DELAY_BITS, _DELAY_SHIFT = 3, -1.0


class BattleRules:
    """All constants of one battle: both sides, both matchups, the size of the field."""

    def __init__(self, battle_map: BattleMap, ticks: int) -> None:
        self.map = battle_map
        self.ticks = ticks
        self.ally = SideTable(battle_map.ally_units)
        self.enemy = SideTable(battle_map.enemy_units)
        self.ally_attacks = Matchup(self.ally, self.enemy)
        self.enemy_attacks = Matchup(self.enemy, self.ally)
        self.contact = physics.contacts((self.ally, self.enemy))


def play_ticks(
    rules: BattleRules,
    key: Array,
    ally: Units,
    enemy: Units,
    ally_orders: Orders,
    enemy_orders: Orders,
    scripted: tuple[bool, bool],
) -> tuple[Units, Units, Array, Array]:
    """Plays the ticks of one step.

    Args:
        rules: constants of the battle.
        key: draws the variation of weapon cooldowns.
        ally: our side, arrays [n, B].
        enemy: the other side.
        ally_orders: our orders; for a scripted side `attack` is its previous target and the rest its rally point.
        enemy_orders: the other side's orders.
        scripted: whether (allies, enemies) choose their own targets each tick.

    Returns:
        Both sides and both attack masks [n, m, B] after the last tick.
    """
    count = rules.ally.n + rules.enemy.n
    words = jax.random.bits(key, (count, ally.x.shape[1]), jnp.uint32)

    def tick(carry: tuple[Units, Units, Array, Array], index: Array) -> tuple[tuple[Units, Units, Array, Array], None]:
        ally, enemy, ally_attack, enemy_attack = carry
        shift = (2 * index % 32).astype(jnp.uint32)
        delay = ((words >> shift) & _DELAY_BITS).astype(jnp.float32) + _DELAY_SHIFT
        pairs = physics.pairs_between(ally, enemy)
        ally_view = (ally, enemy, pairs, rules.ally_attacks)
        enemy_view = (enemy, ally, pairs.swapped(), rules.enemy_attacks)
        if scripted[0]:
            ally_attack = physics.script_targets(*ally_view, ally_attack)
        if scripted[1]:
            enemy_attack = physics.script_targets(*enemy_view, enemy_attack)
        a_orders = _tick_orders(ally, enemy, rules.ally, ally_orders, ally_attack, scripted[0])
        e_orders = _tick_orders(enemy, ally, rules.enemy, enemy_orders, enemy_attack, scripted[1])
        a_volley = physics.volley(*ally_view, rules.ally, a_orders.attack)
        e_volley = physics.volley(*enemy_view, rules.enemy, e_orders.attack)
        ally, a_moved, a_healed = _move(ally, rules.ally, pairs, a_orders, a_volley, delay[: rules.ally.n])
        enemy, e_moved, e_healed = _move(enemy, rules.enemy, enemy_view[2], e_orders, e_volley, delay[rules.ally.n :])
        x = jnp.concatenate([a_moved[0], e_moved[0]])
        y = jnp.concatenate([a_moved[1], e_moved[1]])
        alive = jnp.concatenate([ally.alive, enemy.alive])
        x, y = physics.push_apart(x, y, alive, rules.contact)
        x = jnp.clip(x, -rules.map.half_width, rules.map.half_width)
        y = jnp.clip(y, -rules.map.half_height, rules.map.half_height)
        n = rules.ally.n
        ally = physics.hurt(ally._replace(x=x[:n], y=y[:n]), rules.ally, e_volley.raw, e_volley.armoured, a_healed)
        enemy = physics.hurt(enemy._replace(x=x[n:], y=y[n:]), rules.enemy, a_volley.raw, a_volley.armoured, e_healed)
        ally = _explode(ally, rules.ally_attacks, a_volley.exploded)
        enemy = _explode(enemy, rules.enemy_attacks, e_volley.exploded)
        return (ally, enemy, ally_attack, enemy_attack), None

    start = (ally, enemy, ally_orders.attack, enemy_orders.attack)
    # A GPU waits between ticks for as long as some of their kernels take; two at a time are compiled in little more.
    unroll = 1 if jax.default_backend() == "cpu" else 2
    end, _ = jax.lax.scan(tick, start, jnp.arange(rules.ticks), unroll=unroll)
    return end


def _tick_orders(me: Units, other: Units, table: SideTable, orders: Orders, attack: Array, scripted: bool) -> Orders:
    """The step's orders brought up to date: dead targets dropped, healers sent to their patients."""
    orders = orders._replace(attack=attack & other.alive[None])
    if table.healers:
        if scripted:
            combat = me.alive & jnp.asarray(table.combat)[:, None]
            share = combat / jnp.maximum(combat.sum(axis=0), 1)
            rows = jnp.asarray(table.healers)
            orders = orders._replace(
                heal=physics.script_patients(me, table),
                to_x=orders.to_x.at[rows].set(jnp.sum(me.x * share, axis=0)),
                to_y=orders.to_y.at[rows].set(jnp.sum(me.y * share, axis=0)),
            )
        else:
            orders = orders._replace(heal=orders.heal & me.alive[None])
        orders = physics.follow_patients(me, table, orders)
    return orders


def _move(
    me: Units, table: SideTable, pairs: physics.Offsets, orders: Orders, shot: physics.Volley, delay: Array
) -> tuple[Units, tuple[Array, Array], Array | float]:
    """Healing, weapon cooldown and walking of one side; positions are returned apart, before collisions."""
    healed: Array | float = 0.0
    standing = jnp.zeros_like(shot.engaged)
    if table.healers:
        healed, me, standing = physics.heal(me, table, orders.heal)
    moved = physics.walk(me, table, pairs, orders, shot.engaged, standing)
    cooldown = jnp.maximum(jnp.where(shot.fired, table.cooldown + delay, me.cooldown) - 1.0, 0.0)
    return me._replace(cooldown=cooldown), moved, healed


def _explode(me: Units, matchup: Matchup, exploded: Array) -> Units:
    if not matchup.blast_rows:
        return me
    return me._replace(hp=jnp.where(exploded, 0.0, me.hp))
