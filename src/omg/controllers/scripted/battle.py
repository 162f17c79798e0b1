"""Scripted soldiers for `sc2`. They see what SMAC's observation shows a unit, and no more.

Every action gets a score, and the legal action with the highest one is taken: a target beats any step, a step towards
the goal beats standing, standing beats a step away. No-op comes last, so only the dead take it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from omg.components.selectors import greedy
from omg.controllers.scripted.base import ScriptedPlayer
from omg.envs.battle.observe import Layout
from omg.envs.battle.units import Matchup
from omg.errors import UserError

_DISTANCE, _DX, _DY, _HEALTH, _SHIELD = 1, 2, 3, 4, 5
"""Columns of a unit's features; the one before them tells whether it can be attacked or seen."""
_TARGET_SCORE = 4.0
"""Lifts every target above every step: steps score between -1 and 1."""
_NEVER = -9.0
_STEPS_BACK = 0.5
"""How often a kiter steps back from an enemy within reach."""
_HEALTHY = 0.5
"""Share of its health above which a coward still shoots."""
_TIE_WEIGHT = 1e-3
"""What distance counts beside health: it decides between equals only."""


@dataclass(frozen=True)
class Block:
    """Where units stand in an observation: `count` times `width` features from `start` on."""

    start: int
    count: int
    width: int

    def read(self, obs: Array) -> Array:
        """The units' features, [N, m, O] -> [N, m, count, width]."""
        part = obs[..., self.start : self.start + self.count * self.width]
        return part.reshape(*obs.shape[:-1], self.count, self.width)


@dataclass(frozen=True)
class BattleLayout:
    """What a script must know of a map and its options; all of it can be hashed, so that it is part of the program."""

    enemies: Block
    friends: Block
    full_strength: tuple[tuple[float, float], ...]
    """Health and shield of each enemy at the start."""
    can_hit: tuple[tuple[bool, ...], ...]
    """[seat][enemy]: marauders cannot shoot at medivacs, though SMAC lets them try."""
    is_healer: tuple[bool, ...]
    """[seat]."""
    own_health: int | None
    """Where the own health stands in an observation; None where it is not observed."""
    shows_health: bool
    enemy_shields: bool


def battle_layout(view: Layout) -> BattleLayout:
    """Reads the layout off the simulator's own description of what a side sees."""
    args, me, other = view.args, view.me, view.other
    enemies = Block(4 + (8 if args.obs_pathing_grid else 0), other.n, 4 + view.body_size(other, args.obs_all_health))
    friend_width = 4 + view.body_size(me, args.obs_all_health) + (view.n_actions if args.obs_last_action else 0)
    friends = Block(enemies.start + enemies.count * enemies.width, me.n - 1, friend_width)
    own = friends.start + friends.count * friends.width
    after = view.body_size(me, args.obs_own_health) + (1 if args.obs_timestep_number else 0)
    assert own + after == view.obs_dim, "the observation has another layout"
    return BattleLayout(
        enemies=enemies,
        friends=friends,
        full_strength=tuple((unit.hp, unit.shield) for unit in other.units),
        can_hit=tuple(tuple(bool(hit) for hit in row) for row in Matchup(me, other).can_hit[..., 0]),
        is_healer=tuple(unit.heals for unit in me.units),
        own_health=own if args.obs_own_health else None,
        shows_health=args.obs_all_health,
        enemy_shields=other.has_shields,
    )


class BattleScript(ScriptedPlayer):
    """Attacks whom it can, and otherwise walks to the nearest enemy in sight, or east where none is in sight.

    Healers heal the most hurt ally in reach and otherwise walk to the nearest one in sight.
    """

    layout: BattleLayout = eqx.field(static=True)
    weakest_first: bool = eqx.field(static=True, default=False)
    """Targets by the health and shield they have left instead of by distance."""
    walks: bool = eqx.field(static=True, default=True)

    def choose(self, obs: Array, avail: Array, seats: Array, key: Array) -> Array:
        """See `ScriptedPlayer.choose`; chance plays no part."""
        return self._act(self._fight(obs, seats), obs, avail, seats)

    def _act(self, intent: _Intent, obs: Array, avail: Array, seats: Array) -> Array:
        """The legal action [N, m] that fits best what fighters want; healers heal."""
        if any(self.layout.is_healer):
            heals = jnp.asarray(self.layout.is_healer)[seats][..., None]
            pairs = zip(self._heal(obs, seats), intent, strict=True)
            intent = _Intent(*(jnp.where(heals, healing, fighting) for healing, fighting in pairs))
        dx, dy = intent.dx, intent.dy
        never = jnp.full_like(dx, _NEVER)
        # In the order of the actions: no-op, stop, the steps north, south, east and west, the targets.
        steps = [dy, -dy, dx, -dx] if self.walks else [never] * 4
        return greedy(jnp.concatenate([never, jnp.zeros_like(dx), *steps, intent.targets], axis=-1), avail)

    def _fight(self, obs: Array, seats: Array) -> _Intent:
        layout = self.layout
        enemies = layout.enemies.read(obs)
        can_hit = jnp.asarray(layout.can_hit)[seats]
        targets = jnp.where(can_hit, _TARGET_SCORE + self._value(enemies), _NEVER)
        dx, dy = _towards_nearest(enemies, can_hit, otherwise=(1.0, 0.0))
        return _Intent(dx, dy, targets)

    def _value(self, enemies: Array) -> Array:
        """How good a target every enemy is, [N, m, enemies] between -2 and 0."""
        if self.weakest_first:
            return -_TIE_WEIGHT * enemies[..., _DISTANCE] - self._strength(enemies)
        return -enemies[..., _DISTANCE]

    def _strength(self, enemies: Array) -> Array:
        """Health and shield left as a share of the strongest enemy's, [N, m, enemies]."""
        full = np.asarray(self.layout.full_strength, np.float32)
        left = enemies[..., _HEALTH] * full[:, 0]
        if self.layout.enemy_shields:
            left += enemies[..., _SHIELD] * full[:, 1]
        return left / full.sum(axis=1).max()

    def _heal(self, obs: Array, seats: Array) -> _Intent:
        """Friends are listed without the seat itself, targets of healers are numbered by seat."""
        layout = self.layout
        friends = layout.friends.read(obs)
        patients = jnp.arange(layout.enemies.count)
        slot = jnp.clip(patients - (patients > seats[..., None]), 0, layout.friends.count - 1)
        patient = jnp.take_along_axis(friends, slot[..., None], axis=2)
        value = -_TIE_WEIGHT * patient[..., _DISTANCE]
        if layout.shows_health:
            value -= patient[..., _HEALTH]
        dx, dy = _towards_nearest(friends, True, otherwise=(0.0, 0.0))
        return _Intent(dx, dy, _TARGET_SCORE + value)


class FocusScript(BattleScript):
    """Attacks the first living enemy within reach by number: all who do so shoot at the same one without a word."""

    def _value(self, enemies: Array) -> Array:
        return jnp.broadcast_to(-jnp.arange(self.layout.enemies.count) / self.layout.enemies.count, enemies.shape[:-1])


class KiterScript(BattleScript):
    """Attacks the nearest enemy, and in half of the steps in which one is within reach steps back from it instead.

    A weapon is ready again after about two steps. No observation tells when it is, so chance decides.
    """

    def choose(self, obs: Array, avail: Array, seats: Array, key: Array) -> Array:
        """See `ScriptedPlayer.choose`."""
        attack, back = self._either(obs, avail, seats)
        return jnp.where(jax.random.bernoulli(key, _STEPS_BACK, attack.shape), back, attack)

    def probabilities(self, obs: Array, avail: Array, seats: Array) -> Array:
        """See `ScriptedPlayer.probabilities`."""
        attack, back = (jax.nn.one_hot(choice, avail.shape[-1]) for choice in self._either(obs, avail, seats))
        return (1.0 - _STEPS_BACK) * attack + _STEPS_BACK * back

    def _either(self, obs: Array, avail: Array, seats: Array) -> tuple[Array, Array]:
        """What it does to attack and what to get away, each [N, m]; the same where nobody is within reach."""
        plain, enemies = self._fight(obs, seats), self.layout.enemies.read(obs)
        dx, dy = _towards_nearest(enemies, True, otherwise=(0.0, 0.0))
        away = _Intent(-dx, -dy, jnp.full_like(plain.targets, _NEVER))
        reach = jnp.any(enemies[..., 0] > 0, axis=-1, keepdims=True)
        intent = _Intent(*(jnp.where(reach, back, usual) for back, usual in zip(away, plain, strict=True)))
        return self._act(plain, obs, avail, seats), self._act(intent, obs, avail, seats)


class CowardScript(BattleScript):
    """Goes away from the nearest enemy in sight; attacks whom it can reach as long as it is healthy. Seeks nobody."""

    def _fight(self, obs: Array, seats: Array) -> _Intent:
        health = obs[..., self.layout.own_health, None]
        dx, dy = _towards_nearest(self.layout.enemies.read(obs), True, otherwise=(0.0, 0.0))
        targets = jnp.where(health > _HEALTHY, super()._fight(obs, seats).targets, _NEVER)
        return _Intent(-dx, -dy, targets)


class _Intent(NamedTuple):
    """Where a unit wants to go, and how much it likes every target."""

    dx: Array
    """[N, m, 1]."""
    dy: Array
    """[N, m, 1]."""
    targets: Array
    """[N, m, enemies], scores of the actions from `FIRST_TARGET` on."""


def _towards_nearest(units: Array, matters: Array | bool, otherwise: tuple[float, float]) -> tuple[Array, Array]:
    """The way to the nearest unit in sight over the sight range, two arrays [N, m, 1]; `otherwise` if there is none.

    Args:
        units: [N, m, count, width] features; zeros for units out of sight.
        matters: [N, m, count] bool, which units count.
        otherwise: x and y of the way when nobody is in sight.
    """
    seen = (units[..., _DISTANCE] > 0) & matters
    nearest = jnp.argmin(jnp.where(seen, units[..., _DISTANCE], jnp.inf), axis=-1)
    way = jnp.take_along_axis(units, nearest[..., None, None], axis=2)[..., 0, :]
    found = jnp.any(seen, axis=-1, keepdims=True)
    dx = jnp.where(found, way[..., _DX : _DX + 1], otherwise[0])
    dy = jnp.where(found, way[..., _DY : _DY + 1], otherwise[1])
    return dx, dy


def attack_nearest(env: Any) -> BattleScript:
    """Attacks the nearest enemy within reach."""
    return BattleScript(battle_layout(env.layout))


def attack_weakest(env: Any) -> BattleScript:
    """Attacks the enemy within reach that has the least health and shield left."""
    if not env.args.obs_all_health:
        raise UserError(
            "Script 'attack_weakest': got env_args.obs_all_health=False, but it must see the enemies' health. "
            "Allowed: env_args.obs_all_health=True, or the script attack_nearest."
        )
    return BattleScript(battle_layout(env.layout), weakest_first=True)


def stand(env: Any) -> BattleScript:
    """Stays where it is and attacks the nearest enemy that comes within reach."""
    return BattleScript(battle_layout(env.layout), walks=False)


def focus_fire(env: Any) -> FocusScript:
    """Attacks the enemy within reach that has the lowest number."""
    return FocusScript(battle_layout(env.layout))


def kiter(env: Any) -> KiterScript:
    """Attacks the nearest enemy, and steps back every now and then while one is within reach."""
    return KiterScript(battle_layout(env.layout))


def coward(env: Any) -> CowardScript:
    """Keeps away from enemies; while it has more than half of its health it attacks those within reach."""
    if not env.args.obs_own_health:
        raise UserError(
            "Script 'coward': got env_args.obs_own_health=False, but it must see its own health. "
            "Allowed: env_args.obs_own_health=True, or the script kiter."
        )
    return CowardScript(battle_layout(env.layout))
