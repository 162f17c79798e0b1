"""What a side sees and may do: SMAC's observation, state and action-mask layout, computed batch-minor.

A *view* is always "me against other". The enemy's view of a battle mirrors the field left to right, so that a policy
trained on one side can play the other.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax import Array

from omg.envs.battle.args import BattleArgs
from omg.envs.battle.maps import BattleMap
from omg.envs.battle.physics import Offsets, Orders, Units, pairs_between
from omg.envs.battle.units import MAX_ENERGY, SideTable
from omg.envs.places import NumberPlace

SIGHT_RANGE = 9.0
SHOOT_RANGE = 6.0
NO_OP, STOP, NORTH, SOUTH, EAST, WEST = range(6)
FIRST_TARGET = 6


class Layout:
    """The fixed part of one side's view: tables, options and sizes."""

    def __init__(
        self, me: SideTable, other: SideTable, battle_map: BattleMap, args: BattleArgs, episode_limit: int
    ) -> None:
        self.me, self.other, self.map, self.args = me, other, battle_map, args
        self.episode_limit = episode_limit
        self.n_actions = FIRST_TARGET + other.n
        self.others_of = np.asarray([[j for j in range(me.n) if j != i] for i in range(me.n)], np.int32)
        move = 4 + (8 if args.obs_pathing_grid else 0)
        enemy = 4 + self.body_size(other, args.obs_all_health)
        friend = 4 + self.body_size(me, args.obs_all_health) + (self.n_actions if args.obs_last_action else 0)
        own = self.body_size(me, args.obs_own_health)
        clock = 1 if args.obs_timestep_number else 0
        self.obs_dim = move + other.n * enemy + (me.n - 1) * friend + own + clock
        self.state_dim = self._state_dim()

    @staticmethod
    def body_size(table: SideTable, health: bool) -> int:
        """How many features tell of a unit's health, shield and type."""
        return (1 + table.has_shields if health else 0) + table.type_bits.shape[1]

    @property
    def unit_dim(self) -> int:
        """Numbers of one own unit in the state, which begins with all of them."""
        if self.args.obs_instead_of_state:
            return self.obs_dim
        return 4 + self.me.has_shields + int(self.me.type_bits.shape[1])

    @property
    def unit_place(self) -> NumberPlace | None:
        """Where the numbers of one own unit in the state say that it is; see `_state_rows`."""
        if self.args.obs_instead_of_state:
            return None
        return NumberPlace(x=2, y=3, x_scale=2 * self.map.half_width, y_scale=-2 * self.map.half_height, alive=0)

    def _state_dim(self) -> int:
        size = self.me.n * self.unit_dim
        if self.args.obs_instead_of_state:
            return size
        size += self.other.n * (3 + self.other.has_shields + self.other.type_bits.shape[1])
        size += self.me.n * self.n_actions if self.args.state_last_action else 0
        return size + (1 if self.args.state_timestep_number else 0)


def legal_actions(layout: Layout, me: Units, other: Units, pairs: Offsets) -> Array:
    """The action mask [n, U, B] bool: no-op for the dead only, moves inside the field, targets in shooting range."""
    alive = me.alive
    step = layout.args.move_amount / 2
    moves = [
        me.y + step < layout.map.half_height,
        me.y - step > -layout.map.half_height,
        me.x + step < layout.map.half_width,
        me.x - step > -layout.map.half_width,
    ]
    targets = other.alive[None] & (pairs.squared <= SHOOT_RANGE**2)
    for row in layout.me.healers:
        targets = targets.at[row].set(_patients_in_range(layout, me, row))
    fixed = jnp.stack([~alive, alive, *(alive & move for move in moves)], axis=1)
    return jnp.concatenate([fixed, targets & alive[:, None]], axis=1)


def _patients_in_range(layout: Layout, me: Units, row: int) -> Array:
    """Which own units healer `row` may heal, [m, B]: SMAC numbers them like enemies, so only the first m fit."""
    dx, dy = me.x - me.x[row], me.y - me.y[row]
    patients = me.alive & (dx * dx + dy * dy <= SHOOT_RANGE**2) & jnp.asarray(layout.me.combat)[:, None]
    missing = max(0, layout.other.n - layout.me.n)
    return jnp.pad(patients[: layout.other.n], ((0, missing), (0, 0)))


def orders_from_actions(layout: Layout, me: Units, actions: Array) -> Orders:
    """Translates actions [n, B] of a commanded side into orders."""
    reach = layout.args.move_amount
    step_x = (actions == EAST).astype(jnp.float32) - (actions == WEST)
    step_y = (actions == NORTH).astype(jnp.float32) - (actions == SOUTH)
    to_x = jnp.clip(me.x + reach * step_x, -layout.map.half_width, layout.map.half_width)
    to_y = jnp.clip(me.y + reach * step_y, -layout.map.half_height, layout.map.half_height)
    walks = (actions >= NORTH) & (actions <= WEST)
    targets = jnp.arange(layout.other.n, dtype=actions.dtype)[None, :, None]
    attack = actions[:, None] - FIRST_TARGET == targets
    heal = jnp.zeros((0, layout.me.n, actions.shape[1]), bool)
    if layout.me.healers:
        rows = jnp.asarray(layout.me.healers)
        attack = attack.at[rows].set(False)
        patients = jnp.arange(layout.me.n, dtype=actions.dtype)[None, :, None]
        heal = actions[rows][:, None] - FIRST_TARGET == patients
    return Orders(to_x, to_y, walks, attack, heal)


def observations(layout: Layout, me: Units, other: Units, last_actions: Array, time: Array) -> tuple[Array, Array]:
    """Per-seat observations [n, O, B] float32 and action masks [n, U, B] bool."""
    args = layout.args
    pairs = pairs_between(me, other)
    legal = legal_actions(layout, me, other, pairs)
    batch = me.x.shape[1]
    blocks = [legal[:, NORTH : WEST + 1]]
    if args.obs_pathing_grid:
        blocks.append(_pathing(layout, me) & me.alive[:, None])
    seen = other.alive[None] & me.alive[:, None] & (pairs.squared < SIGHT_RANGE**2)
    foes = [legal[:, FIRST_TARGET:] & seen, *_relative(pairs, seen)]
    foes += _bodies(layout.other, other, slice(None), seen, args.obs_all_health)
    blocks.append(jnp.stack([jnp.asarray(f, jnp.float32) for f in foes], axis=2).reshape(layout.me.n, -1, batch))
    if layout.me.n > 1:
        blocks.append(_friends(layout, me, last_actions))
    own = [jnp.where(me.alive, feature, 0.0) for feature in _own(layout, me)]
    if own:
        blocks.append(jnp.stack(own, axis=1))
    if args.obs_timestep_number:
        clock = time[None, None] / layout.episode_limit
        blocks.append(jnp.where(me.alive[:, None], clock, 0.0))
    return jnp.concatenate([jnp.asarray(block, jnp.float32) for block in blocks], axis=1), legal


def _relative(pairs: Offsets, seen: Array) -> list[Array]:
    """Distance and offsets over the sight range, zero where unseen."""
    scale = 1.0 / SIGHT_RANGE
    values = (jnp.sqrt(pairs.squared) * scale, pairs.dx * scale, pairs.dy * scale)
    return [jnp.where(seen, value, 0.0) for value in values]


def _bodies(table: SideTable, side: Units, index: object, seen: Array, health: bool) -> list[Array]:
    """Health, shield and type bits of other units as [n, m, B] features."""

    def spread(values: Array) -> Array:
        chosen = values[index]
        return chosen if chosen.ndim == 3 else chosen[None]

    features = []
    if health:
        features.append(jnp.where(seen, spread(side.hp / table.hp), 0.0))
        if table.has_shields:
            features.append(jnp.where(seen, spread(side.shield / np.maximum(table.shield, 1e-6)), 0.0))
    for bit in range(table.type_bits.shape[1]):
        features.append(jnp.where(seen, spread(jnp.asarray(table.type_bits[:, bit : bit + 1])), 0.0))
    return features


def _friends(layout: Layout, me: Units, last_actions: Array) -> Array:
    """Features of the other units of the own side, [n, (n - 1) * F, B]."""
    index = layout.others_of
    dx, dy = me.x[index] - me.x[:, None], me.y[index] - me.y[:, None]
    pairs = Offsets(dx, dy, dx * dx + dy * dy)
    seen = me.alive[index] & me.alive[:, None] & (pairs.squared < SIGHT_RANGE**2)
    features = [seen.astype(jnp.float32), *_relative(pairs, seen)]
    features += _bodies(layout.me, me, index, seen, layout.args.obs_all_health)
    if layout.args.obs_last_action:
        theirs = last_actions[index]
        features += [(seen & (theirs == action)).astype(jnp.float32) for action in range(layout.n_actions)]
    return jnp.stack(features, axis=2).reshape(layout.me.n, -1, me.x.shape[1])


def _own(layout: Layout, me: Units) -> list[Array]:
    features = []
    if layout.args.obs_own_health:
        features.append(me.hp / layout.me.hp)
        if layout.me.has_shields:
            features.append(me.shield / np.maximum(layout.me.shield, 1e-6))
    bits = layout.me.type_bits
    return features + [jnp.broadcast_to(bits[:, k : k + 1], me.hp.shape) for k in range(bits.shape[1])]


def _pathing(layout: Layout, me: Units) -> Array:
    """Whether the eight points around a unit, half a move away, lie inside the field, [n, 8, B]."""
    step = layout.args.move_amount / 2
    offsets = [(0, 1), (0, -1), (1, 0), (-1, 0), (1, 1), (-1, -1), (1, -1), (-1, 1)]
    inside = [
        (jnp.abs(me.x + step * ox) < layout.map.half_width) & (jnp.abs(me.y + step * oy) < layout.map.half_height)
        for ox, oy in offsets
    ]
    return jnp.stack(inside, axis=1)


def global_state(layout: Layout, me: Units, other: Units, last_actions: Array, time: Array, obs: Array) -> Array:
    """SMAC's state [S, B]: every own unit, every enemy unit, all last actions.

    `obs` [n, O, B] is used for `obs_instead_of_state` only.
    """
    batch = me.x.shape[1]
    if layout.args.obs_instead_of_state:
        return obs.reshape(-1, batch)
    weapon = me.cooldown / layout.me.cooldown_scale
    for row in layout.me.healers:
        weapon = weapon.at[row].set(me.energy[row] / MAX_ENERGY)
    parts = [_state_rows(layout, layout.me, me, [weapon]), _state_rows(layout, layout.other, other, [])]
    if layout.args.state_last_action:
        actions = jnp.arange(layout.n_actions, dtype=last_actions.dtype)[None, :, None]
        parts.append((last_actions[:, None] == actions).astype(jnp.float32).reshape(-1, batch))
    if layout.args.state_timestep_number:
        parts.append((time / layout.episode_limit)[None].astype(jnp.float32))
    return jnp.concatenate(parts)


def _state_rows(layout: Layout, table: SideTable, side: Units, extra: list[Array]) -> Array:
    position = [side.x / (2 * layout.map.half_width), side.y / (2 * layout.map.half_height)]
    features = [side.hp / table.hp, *extra, *position]
    if table.has_shields:
        features.append(side.shield / np.maximum(table.shield, 1e-6))
    bits = table.type_bits
    features += [jnp.broadcast_to(bits[:, k : k + 1], side.hp.shape) for k in range(bits.shape[1])]
    rows = jnp.where(side.alive[:, None], jnp.stack(features, axis=1), 0.0)
    return rows.reshape(-1, side.x.shape[1])
