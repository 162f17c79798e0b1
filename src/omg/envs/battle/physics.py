"""One game tick of a battle: choose targets, shoot, walk, collide, heal, recover.

Every array is batch-minor: units lead, the batch of games is the last axis ([n, B], pairs are [n, m, B]). Sums and
minima then run over leading axes and every inner loop is a contiguous vector over games, which is what makes the
simulator fast on one CPU core. Coordinates are centred on the map, so that a mirrored position is an exact change of
sign. A side is treated alike whether it is ours or the enemy's: it is *commanded* (orders come from actions) or
*scripted* (attack-move towards a rally point).
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from omg.envs.battle import units
from omg.envs.battle.units import Matchup, SideTable

ACQUISITION_RANGE = 9.0
"""A scripted unit picks targets within this distance."""
_INDEX_BITS = 63
_NEVER = jnp.iinfo(jnp.int32).max


class Units(NamedTuple):
    """The changing part of one side's units, each [n, B] float32."""

    x: Array
    y: Array
    hp: Array
    shield: Array
    cooldown: Array
    """Ticks until the weapon can fire again."""
    energy: Array
    calm: Array
    """Ticks since the unit was last hurt."""

    @property
    def alive(self) -> Array:
        """[n, B] bool."""
        return self.hp > 0


class Orders(NamedTuple):
    """What a side's units are told to do during one step."""

    to_x: Array
    """[n, B] where to walk when there is nothing to attack."""
    to_y: Array
    walks: Array
    """[n, B] bool, whether there is somewhere to walk to at all."""
    attack: Array
    """[n, m, B] bool, at most one target per unit."""
    heal: Array
    """[h, n, B] bool, the h healers' patients on their own side."""


class Offsets(NamedTuple):
    """Geometry from every unit of one side to every unit of the other, [n, m, B]."""

    dx: Array
    dy: Array
    squared: Array

    def swapped(self) -> Offsets:
        """The same pairs seen from the other side."""
        return Offsets(-self.dx.swapaxes(0, 1), -self.dy.swapaxes(0, 1), self.squared.swapaxes(0, 1))


class Contact(NamedTuple):
    """Constants of collisions between all units of both sides, [n, n, 1]."""

    inverse_squared: np.ndarray
    """1 / (sum of the two radii)²."""
    weight: np.ndarray
    """How much of the push the first unit takes: 1/4, or 0 for flyers, for the immobile and for the unit itself."""


def contacts(tables: tuple[SideTable, ...]) -> Contact:
    """Collision constants of the given sides, in their order."""
    radius = np.concatenate([table.radius for table in tables])
    ground = np.concatenate([table.ground for table in tables])
    mobile = np.concatenate([table.mobile for table in tables])
    inverse = 1.0 / np.square(radius[:, None] + radius[None])
    weight = 0.25 * (ground * mobile)[:, None] * ground[None]
    weight[np.arange(len(radius)), np.arange(len(radius))] = 0.0
    return Contact(inverse.astype(np.float32), weight.astype(np.float32))


def pairs_between(a: Units, b: Units) -> Offsets:
    """Offsets from the units of `a` to the units of `b`."""
    dx = b.x[None] - a.x[:, None]
    dy = b.y[None] - a.y[:, None]
    return Offsets(dx, dy, dx * dx + dy * dy)


def nearest(squared: Array, candidates: Array, keep: Array) -> Array:
    """For each row the candidate at the smallest distance, as a one-hot mask.

    Args:
        squared: [n, m, B] squared distances.
        candidates: [n, m, B] bool, who may be chosen.
        keep: [n, m, B] bool, a choice that wins regardless of distance.

    Returns:
        [n, m, B] bool with at most one true entry per row. Distances are compared as integers whose lowest bits hold
        the index: one vectorised minimum, ties broken by index.
    """
    index = jnp.arange(squared.shape[1], dtype=jnp.int32)[None, :, None]
    rank = (jax.lax.bitcast_convert_type(squared, jnp.int32) & ~_INDEX_BITS) | index
    rank = jnp.where(candidates, rank, _NEVER)
    rank = jnp.where(keep, index - _INDEX_BITS - 1, rank)
    best = rank.min(axis=1, keepdims=True)
    return (rank == best) & (best != _NEVER)


def script_targets(me: Units, other: Units, pairs: Offsets, matchup: Matchup, previous: Array) -> Array:
    """Targets of a scripted side, [n, m, B] bool.

    A unit keeps its target while it lives and stays in sight, unless it would have to walk and something else is in
    reach or it has just been hurt; then, and without a target, it takes the nearest it can hit.
    """
    visible = other.alive[None] & matchup.can_hit & (pairs.squared < ACQUISITION_RANGE**2)
    reach = visible & (pairs.squared <= matchup.reach_squared)
    settled = (me.calm > 1.0) & ~reach.any(axis=1)
    keep = previous & visible & (reach | settled[:, None])
    return nearest(pairs.squared, visible, keep) & me.alive[:, None]


def script_patients(me: Units, table: SideTable) -> Array:
    """The nearest hurt biological unit of each scripted healer, [h, n, B] bool."""
    rows = np.asarray(table.healers)
    dx = me.x[None] - me.x[rows][:, None]
    dy = me.y[None] - me.y[rows][:, None]
    hurt = me.alive & (me.hp < table.hp) & (table.biological > 0)
    candidates = jnp.broadcast_to(hurt[None], dx.shape)
    return nearest(dx * dx + dy * dy, candidates, jnp.zeros_like(candidates))


class Volley(NamedTuple):
    """What one side's weapons do in one tick."""

    engaged: Array
    """[n, B] bool, target in reach: the unit stands."""
    fired: Array
    """[n, B] bool."""
    raw: Array
    """[m, B] damage to the other side before armour."""
    armoured: Array
    """[m, B] damage to the other side after armour."""
    exploded: Array
    """[n, B] bool, units that died by their own attack."""


def volley(me: Units, other: Units, pairs: Offsets, matchup: Matchup, table: SideTable, attack: Array) -> Volley:
    """Fires every ready weapon whose target is in reach. `attack`: [n, m, B] bool."""
    constants = (jnp.asarray(matchup.can_hit), jnp.asarray(matchup.reach_squared))
    engaged = me.alive & jax.lax.platform_dependent(
        attack, other.alive, pairs.squared, *constants, cpu=_reached_by_unit, default=_reached_by_pair
    )
    fired = engaged & (me.cooldown <= 0)
    # Who fires has its one target in reach.
    shots = attack & fired[:, None]
    exploded = jnp.zeros_like(fired)
    if matchup.splash_rows or matchup.blast_rows:
        ground = other.alive & jnp.any(matchup.can_hit, axis=0)
        rows = [shots[i] for i in range(table.n)]
        for i in matchup.splash_rows:
            rows[i] = _line_hits(pairs, i, shots[i], table.units[i].line_splash) & ground & fired[i]
        for i in matchup.blast_rows:
            # Reach is measured to the edge of the target, as for ordinary weapons.
            blast = table.units[i].blast_radius - table.units[i].range - table.units[i].radius
            within = jnp.sqrt(pairs.squared[i]) <= jnp.sqrt(matchup.reach_squared[i]) + blast
            rows[i] = within & ground & fired[i]
            exploded = exploded.at[i].set(fired[i])
        shots = jnp.stack(rows)
    armoured = _damage(shots, matchup.armoured)
    raw = armoured if np.array_equal(matchup.raw, matchup.armoured) else _damage(shots, matchup.raw)
    return Volley(engaged, fired, raw, armoured, exploded)


# Reductions over pairs come in two forms: all pairs at once, a few large kernels for a GPU; and one unit after the
# other, because a CPU vectorises elementwise loops over games but not reductions (8m: 2.5 against 3.0 us per env step).


def _reached_by_pair(attack: Array, alive: Array, squared: Array, can_hit: Array, reach: Array) -> Array:
    """Whether a unit's target is alive and in reach, [n, B]."""
    return (attack & alive[None] & can_hit & (squared <= reach)).any(axis=1)


def _reached_by_unit(attack: Array, alive: Array, squared: Array, can_hit: Array, reach: Array) -> Array:
    def look(found: Array, target: tuple[Array, ...]) -> tuple[Array, None]:
        chosen, target_alive, target_squared, target_can_hit, target_reach = target
        return found | (chosen & target_alive[None] & target_can_hit & (target_squared <= target_reach)), None

    targets = (attack.swapaxes(0, 1), alive, *(array.swapaxes(0, 1) for array in (squared, can_hit, reach)))
    return jax.lax.scan(look, jnp.zeros(attack.shape[::2], bool), targets)[0]


def _damage(shots: Array, amounts: np.ndarray) -> Array:
    """Sum over all attackers of the damage [n, m, 1] of their shots [n, m, B], [m, B]."""

    def by_pair(shots: Array) -> Array:
        return jnp.sum(jnp.where(shots, amounts, 0.0), axis=0)

    def by_unit(shots: Array) -> Array:
        def add(sums: Array, attacker: tuple[Array, Array]) -> tuple[Array, None]:
            return sums + jnp.where(attacker[0], attacker[1], 0.0), None

        return jax.lax.scan(add, jnp.zeros(shots.shape[1:], jnp.float32), (shots, jnp.asarray(amounts)))[0]

    return jax.lax.platform_dependent(shots, cpu=by_unit, default=by_pair)


def _line_hits(pairs: Offsets, row: int, shot: Array, size: tuple[float, float]) -> Array:
    """Units of the other side in a bar across the line of fire through the target of unit `row`, [m, B] bool."""
    across_half, along_half = size
    dx, dy = pairs.dx[row], pairs.dy[row]
    target_x = jnp.sum(jnp.where(shot, dx, 0.0), axis=0)
    target_y = jnp.sum(jnp.where(shot, dy, 0.0), axis=0)
    inverse = jax.lax.rsqrt(target_x**2 + target_y**2 + 1e-9)
    off_x, off_y = dx - target_x, dy - target_y
    along = jnp.abs(off_x * target_x + off_y * target_y) * inverse
    across = jnp.abs(off_x * target_y - off_y * target_x) * inverse
    return (along <= along_half) & (across <= across_half)


def walk(
    me: Units, table: SideTable, pairs: Offsets, orders: Orders, engaged: Array, standing: Array
) -> tuple[Array, Array]:
    """New positions ([n, B], [n, B]) before collisions: towards the target if there is one, else to the destination.

    `standing` [n, B]: units with something better to do than walk (healing in range).
    """
    chasing, chase_x, chase_y = jax.lax.platform_dependent(
        orders.attack, pairs.dx, pairs.dy, cpu=_chase_by_unit, default=_chase_by_pair
    )
    go_x = jnp.where(chasing, chase_x, orders.to_x - me.x)
    go_y = jnp.where(chasing, chase_y, orders.to_y - me.y)
    inverse = jax.lax.rsqrt(go_x**2 + go_y**2 + 1e-12)
    moves = me.alive & (chasing | orders.walks) & ~engaged & ~standing
    share = jnp.minimum(table.stride * inverse, 1.0) * moves
    return me.x + go_x * share, me.y + go_y * share


def _chase_by_pair(attack: Array, dx: Array, dy: Array) -> tuple[Array, Array, Array]:
    """Whether a unit has a target, and the way to it, [n, B] each."""
    chase_x = jnp.sum(jnp.where(attack, dx, 0.0), axis=1)
    chase_y = jnp.sum(jnp.where(attack, dy, 0.0), axis=1)
    return attack.any(axis=1), chase_x, chase_y


def _chase_by_unit(attack: Array, dx: Array, dy: Array) -> tuple[Array, Array, Array]:
    def look(found: tuple[Array, Array, Array], target: tuple[Array, ...]) -> tuple[tuple[Array, Array, Array], None]:
        chosen, to_x, to_y = target
        return (found[0] | chosen, jnp.where(chosen, to_x, found[1]), jnp.where(chosen, to_y, found[2])), None

    nowhere = jnp.zeros(attack.shape[::2], dx.dtype)
    targets = tuple(array.swapaxes(0, 1) for array in (attack, dx, dy))
    return jax.lax.scan(look, (jnp.zeros(nowhere.shape, bool), nowhere, nowhere), targets)[0]


def push_apart(x: Array, y: Array, alive: Array, contact: Contact) -> tuple[Array, Array]:
    """Moves overlapping ground units away from each other.

    With contact distance R and d < R each of the two moves by d (1 - d²/R²) / 4, which near contact is half of the
    overlap. This law needs no square root, and deep overlaps do not explode.

    Args:
        x: [n, B] positions of all units of both sides.
        y: likewise.
        alive: [n, B] bool.
        contact: constants of all pairs.
    """
    push_x, push_y = jax.lax.platform_dependent(
        x, y, alive, cpu=partial(_push_by_unit, contact), default=partial(_push_by_pair, contact)
    )
    return jnp.where(alive, x - push_x, x), jnp.where(alive, y - push_y, y)


def _push_by_pair(contact: Contact, x: Array, y: Array, alive: Array) -> tuple[Array, Array]:
    """Displacements of all units, [n, B] each."""
    dx = x[None] - x[:, None]
    dy = y[None] - y[:, None]
    overlap = jnp.maximum(1.0 - (dx * dx + dy * dy) * contact.inverse_squared, 0.0)
    amount = jnp.where(alive[None], overlap * contact.weight, 0.0)
    return jnp.sum(dx * amount, axis=1), jnp.sum(dy * amount, axis=1)


def _push_by_unit(contact: Contact, x: Array, y: Array, alive: Array) -> tuple[Array, Array]:
    def one(pushed: tuple[Array, Array], unit: tuple[Array, ...]) -> tuple[tuple[Array, Array], None]:
        unit_x, unit_y, unit_alive, inverse_squared, weight = unit
        dx, dy = unit_x[None] - x, unit_y[None] - y
        overlap = jnp.maximum(1.0 - (dx * dx + dy * dy) * inverse_squared, 0.0)
        amount = jnp.where(unit_alive[None], overlap * weight, 0.0)
        return (pushed[0] + dx * amount, pushed[1] + dy * amount), None

    constants = (contact.inverse_squared.swapaxes(0, 1), contact.weight.swapaxes(0, 1))
    start = (jnp.zeros_like(x), jnp.zeros_like(y))
    return jax.lax.scan(one, start, (x, y, alive, *(jnp.asarray(constant) for constant in constants)))[0]


def hurt(me: Units, table: SideTable, raw: Array, armoured: Array, healed: Array | float) -> Units:
    """Applies damage (shields first, then health less armour), healing and recovery to one side."""
    hit = raw > 0
    calm = jnp.where(hit, 0.0, me.calm + 1.0)
    shield, lost = me.shield, armoured
    if table.has_shields:
        absorbed = jnp.minimum(shield, raw)
        lost = armoured * (raw - absorbed) / jnp.maximum(raw, 1e-6)
        rested = calm > units.SHIELD_DELAY
        shield = jnp.minimum(shield - absorbed + jnp.where(rested, units.SHIELD_REGENERATION, 0.0), table.shield)
    recovered = healed + table.regeneration if table.regenerates else healed
    hp = jnp.where(me.alive, jnp.maximum(jnp.minimum(me.hp + recovered, table.hp) - lost, 0.0), 0.0)
    if table.has_shields:
        shield = jnp.where(hp > 0, shield, 0.0)
    return me._replace(hp=hp, shield=shield, calm=calm)


def heal(me: Units, table: SideTable, patients: Array) -> tuple[Array, Units, Array]:
    """Heals the patients in range.

    Args:
        me: the side.
        table: its constants.
        patients: [h, n, B] bool.

    Returns:
        Points healed [n, B], the side with energy spent, and which units [n, B] stand because they heal.
    """
    rows = np.asarray(table.healers)
    dx = me.x[None] - me.x[rows][:, None]
    dy = me.y[None] - me.y[rows][:, None]
    reach = units.HEAL_RANGE + table.radius[rows][:, None] + table.radius[None]
    needy = me.alive & (me.hp < table.hp) & (table.biological > 0)
    cost = units.HEAL_RATE * units.HEAL_ENERGY_PER_POINT
    able = me.alive[rows] & (me.energy[rows] >= cost)
    works = patients & needy[None] & (dx * dx + dy * dy <= reach**2) & able[:, None]
    working = works.any(axis=1)
    energy = me.energy[rows] - jnp.where(working, cost, 0.0) + units.ENERGY_REGENERATION
    standing = jnp.zeros_like(me.alive).at[rows].set(working)
    spent = me._replace(energy=me.energy.at[rows].set(jnp.minimum(energy, units.MAX_ENERGY)))
    return jnp.sum(jnp.where(works, units.HEAL_RATE, 0.0), axis=0), spent, standing


def follow_patients(me: Units, table: SideTable, orders: Orders) -> Orders:
    """Sends healers to their patients; a scripted healer without one stays with its side."""
    rows = jnp.asarray(table.healers)
    has = orders.heal.any(axis=1)
    to_x = jnp.where(has, jnp.sum(jnp.where(orders.heal, me.x[None], 0.0), axis=1), orders.to_x[rows])
    to_y = jnp.where(has, jnp.sum(jnp.where(orders.heal, me.y[None], 0.0), axis=1), orders.to_y[rows])
    return orders._replace(
        to_x=orders.to_x.at[rows].set(to_x),
        to_y=orders.to_y.at[rows].set(to_y),
        walks=orders.walks.at[rows].set(orders.walks[rows] | has),
    )
