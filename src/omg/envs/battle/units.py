"""The unit table: what each StarCraft unit is, in the game's own figures at speed "faster" (22.4 ticks per second)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

TICKS_PER_SECOND = 22.4
SHIELD_REGENERATION = 2.0 / TICKS_PER_SECOND
"""Shield points per tick, once a unit was left alone for `SHIELD_DELAY` ticks."""
SHIELD_DELAY = 10.0 * TICKS_PER_SECOND
ZERG_REGENERATION = 0.27 / TICKS_PER_SECOND
HEAL_RATE = 12.6 / TICKS_PER_SECOND
HEAL_RANGE = 4.0
HEAL_ENERGY_PER_POINT = 1.0 / 3.0
START_ENERGY = 50.0
MAX_ENERGY = 200.0
ENERGY_REGENERATION = 0.7875 / TICKS_PER_SECOND
MINIMUM_DAMAGE = 0.5


@dataclass(frozen=True)
class UnitType:
    """One kind of unit. Distances in game cells, times in game seconds."""

    name: str
    hp: float
    radius: float
    speed: float
    shield: float = 0.0
    armour: float = 0.0
    damage: float = 0.0
    attacks: int = 1
    bonus: float = 0.0
    bonus_against: str = ""
    cooldown: float = 1.0
    range: float = 0.1
    attributes: tuple[str, ...] = ()
    cooldown_scale: float = 1.0
    """What SMAC divides the remaining cooldown (in ticks) by in the global state."""
    flying: bool = False
    hits_air: bool = False
    heals: bool = False
    line_splash: tuple[float, float] = (0.0, 0.0)
    """Half length across and half width along the line of fire that is also hit; zeros: single target."""
    blast_radius: float = 0.0
    """A unit that explodes: everything of the other side within this radius is hit and the unit dies."""
    zerg: bool = False

    @property
    def splashes(self) -> bool:
        """Whether one shot can hurt more than its target."""
        return self.blast_radius > 0 or self.line_splash[0] > 0


MARINE = UnitType(
    "marine", hp=45, radius=0.375, speed=3.15, damage=6, cooldown=0.61, range=5, attributes=("light", "biological"),
    cooldown_scale=15, hits_air=True,
)  # fmt: skip
MARAUDER = UnitType(
    "marauder", hp=125, radius=0.5625, speed=3.15, armour=1, damage=10, bonus=10, bonus_against="armoured",
    cooldown=1.07, range=6, attributes=("armoured", "biological"), cooldown_scale=25,
)  # fmt: skip
MEDIVAC = UnitType(
    "medivac", hp=150, radius=0.75, speed=3.5, armour=1, attributes=("armoured", "mechanical"), cooldown_scale=200,
    flying=True, heals=True,
)  # fmt: skip
STALKER = UnitType(
    "stalker", hp=80, shield=80, radius=0.625, speed=4.13, armour=1, damage=13, bonus=5, bonus_against="armoured",
    cooldown=1.34, range=6, attributes=("armoured", "mechanical"), cooldown_scale=35, hits_air=True,
)  # fmt: skip
ZEALOT = UnitType(
    "zealot", hp=100, shield=50, radius=0.5, speed=3.15, armour=1, damage=8, attacks=2, cooldown=0.86, range=0.1,
    attributes=("light", "biological"), cooldown_scale=22,
)  # fmt: skip
COLOSSUS = UnitType(
    "colossus", hp=200, shield=150, radius=1.0, speed=3.15, armour=1, damage=10, attacks=2, bonus=5,
    bonus_against="light", cooldown=1.07, range=7, attributes=("armoured", "mechanical", "massive"), cooldown_scale=24,
    line_splash=(1.4, 0.5),
)  # fmt: skip
HYDRALISK = UnitType(
    "hydralisk", hp=90, radius=0.625, speed=3.15, damage=12, cooldown=0.59, range=5,
    attributes=("light", "biological"), cooldown_scale=10, hits_air=True, zerg=True,
)  # fmt: skip
ZERGLING = UnitType(
    "zergling", hp=35, radius=0.375, speed=4.13, damage=5, cooldown=0.497, range=0.1,
    attributes=("light", "biological"), cooldown_scale=11, zerg=True,
)  # fmt: skip
BANELING = UnitType(
    "baneling", hp=30, radius=0.375, speed=3.5, damage=16, bonus=19, bonus_against="light", cooldown=0.59, range=0.25,
    attributes=("biological",), cooldown_scale=1, blast_radius=2.2, zerg=True,
)  # fmt: skip
SPINE_CRAWLER = UnitType(
    "spine_crawler", hp=300, radius=1.125, speed=0.0, armour=2, damage=25, bonus=5, bonus_against="armoured",
    cooldown=1.32, range=7, attributes=("armoured", "biological", "structure"), cooldown_scale=1, zerg=True,
)  # fmt: skip


def damage_per_volley(attacker: UnitType, target: UnitType, armoured: bool) -> float:
    """Damage of one volley of `attacker` on `target`: hits x (base + bonus - armour), at least 0.5 per hit.

    `armoured=False` gives what shields take (shields have no armour).
    """
    hit = attacker.damage + (attacker.bonus if attacker.bonus_against in target.attributes else 0.0)
    if armoured:
        hit = max(hit - target.armour, MINIMUM_DAMAGE)
    return attacker.attacks * hit if attacker.damage > 0 else 0.0


class SideTable:
    """Per-unit constants of one side as columns [n, 1], ready to broadcast against batch-minor arrays [n, B]."""

    def __init__(self, units: tuple[UnitType, ...]) -> None:
        self.units = units
        self.n = len(units)

        def column(values: list[float]) -> np.ndarray:
            return np.asarray(values, np.float32)[:, None]

        self.hp = column([unit.hp for unit in units])
        self.shield = column([unit.shield for unit in units])
        self.radius = column([unit.radius for unit in units])
        self.stride = column([unit.speed / TICKS_PER_SECOND for unit in units])
        self.cooldown = column([unit.cooldown * TICKS_PER_SECOND for unit in units])
        self.cooldown_scale = column([unit.cooldown_scale for unit in units])
        self.ground = column([not unit.flying for unit in units])
        self.mobile = column([unit.speed > 0 for unit in units])
        self.regeneration = column([ZERG_REGENERATION if unit.zerg else 0.0 for unit in units])
        self.biological = column(["biological" in unit.attributes for unit in units])
        self.has_shields = bool(self.shield.any())
        self.regenerates = bool(self.regeneration.any())
        self.healers = tuple(i for i, unit in enumerate(units) if unit.heals)
        self.armed = column([unit.damage > 0 for unit in units])
        self.combat = np.asarray([not unit.heals for unit in units])
        """[n]; a side with only healers left has lost."""
        self.type_names = tuple(dict.fromkeys(unit.name for unit in units))
        bits = len(self.type_names) if len(self.type_names) > 1 else 0
        self.type_bits = np.zeros((self.n, bits), np.float32)
        if bits:
            for i, unit in enumerate(units):
                self.type_bits[i, self.type_names.index(unit.name)] = 1.0


class Matchup:
    """Constants of every (attacker, target) pair of two sides, [n_attackers, n_targets, 1]."""

    def __init__(self, attackers: SideTable, targets: SideTable) -> None:
        def pairs(value: object) -> np.ndarray:
            rows = [[value(a, t) for t in targets.units] for a in attackers.units]  # type: ignore[operator]
            return np.asarray(rows, np.float32)[:, :, None]

        self.raw = pairs(lambda a, t: damage_per_volley(a, t, armoured=False))
        self.armoured = pairs(lambda a, t: damage_per_volley(a, t, armoured=True))
        self.reach_squared = pairs(lambda a, t: (a.range + a.radius + t.radius) ** 2)
        self.can_hit = pairs(lambda a, t: a.damage > 0 and (a.hits_air or not t.flying)) > 0
        self.splash_rows = tuple(i for i, unit in enumerate(attackers.units) if unit.line_splash[0] > 0)
        self.blast_rows = tuple(i for i, unit in enumerate(attackers.units) if unit.blast_radius > 0)
