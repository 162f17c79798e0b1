"""The 23 SMAC maps: who fights whom, for how long, and where they start."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from omg.envs.battle.units import (
    BANELING,
    COLOSSUS,
    HYDRALISK,
    MARAUDER,
    MARINE,
    MEDIVAC,
    SPINE_CRAWLER,
    STALKER,
    ZEALOT,
    ZERGLING,
    UnitType,
)

Force = tuple[tuple[UnitType, int], ...]


@dataclass(frozen=True)
class BattleMap:
    """One scenario. Units are listed in SMAC's order (by type, then position)."""

    name: str
    allies: Force
    enemies: Force
    episode_limit: int
    half_width: float = 16.0
    half_height: float = 16.0
    separation: float = 14.0
    """Distance between the centres of the two formations."""

    @property
    def ally_units(self) -> tuple[UnitType, ...]:
        """One entry per allied unit."""
        return _units(self.allies)

    @property
    def enemy_units(self) -> tuple[UnitType, ...]:
        """One entry per enemy unit."""
        return _units(self.enemies)


def _units(force: Force) -> tuple[UnitType, ...]:
    return tuple(unit for unit, count in force for _ in range(count))


def _marines(count: int) -> Force:
    return ((MARINE, count),)


def _mmm(marauders: int, marines: int) -> Force:
    return ((MARAUDER, marauders), (MARINE, marines), (MEDIVAC, 1))


def _stalkers_zealots(stalkers: int, zealots: int) -> Force:
    return ((STALKER, stalkers), (ZEALOT, zealots))


_ALL = [
    BattleMap("3m", _marines(3), _marines(3), 60),
    BattleMap("8m", _marines(8), _marines(8), 120),
    BattleMap("25m", _marines(25), _marines(25), 150),
    BattleMap("5m_vs_6m", _marines(5), _marines(6), 70),
    BattleMap("8m_vs_9m", _marines(8), _marines(9), 120),
    BattleMap("10m_vs_11m", _marines(10), _marines(11), 150),
    BattleMap("27m_vs_30m", _marines(27), _marines(30), 180),
    BattleMap("MMM", _mmm(2, 7), _mmm(2, 7), 150),
    BattleMap("MMM2", _mmm(2, 7), _mmm(3, 8), 180),
    BattleMap("2s3z", _stalkers_zealots(2, 3), _stalkers_zealots(2, 3), 120),
    BattleMap("3s5z", _stalkers_zealots(3, 5), _stalkers_zealots(3, 5), 150),
    BattleMap("3s5z_vs_3s6z", _stalkers_zealots(3, 5), _stalkers_zealots(3, 6), 170),
    BattleMap("3s_vs_3z", ((STALKER, 3),), ((ZEALOT, 3),), 150),
    BattleMap("3s_vs_4z", ((STALKER, 3),), ((ZEALOT, 4),), 200),
    BattleMap("3s_vs_5z", ((STALKER, 3),), ((ZEALOT, 5),), 250),
    BattleMap(
        "1c3s5z", ((COLOSSUS, 1), *_stalkers_zealots(3, 5)), ((COLOSSUS, 1), *_stalkers_zealots(3, 5)), 180
    ),
    BattleMap("2m_vs_1z", _marines(2), ((ZEALOT, 1),), 150),
    BattleMap("corridor", ((ZEALOT, 6),), ((ZERGLING, 24),), 400),
    BattleMap("6h_vs_8z", ((HYDRALISK, 6),), ((ZEALOT, 8),), 150),
    BattleMap("2s_vs_1sc", ((STALKER, 2),), ((SPINE_CRAWLER, 1),), 300),
    BattleMap("so_many_baneling", ((ZEALOT, 7),), ((BANELING, 32),), 100),
    BattleMap("bane_vs_bane", ((BANELING, 4), (ZERGLING, 20)), ((BANELING, 4), (ZERGLING, 20)), 200),
    BattleMap("2c_vs_64zg", ((COLOSSUS, 2),), ((ZERGLING, 64),), 400, separation=18.0),
]  # fmt: skip

MAPS: dict[str, BattleMap] = {battle_map.name: battle_map for battle_map in _ALL}


def formation(units: tuple[UnitType, ...], depth_sign: float) -> tuple[np.ndarray, np.ndarray]:
    """Offsets (x [n], y [n]) of a block of units around its centre, short-ranged units in front.

    `depth_sign` is +1 for a side that faces east and -1 for one that faces west; the two blocks of equal forces are
    exact mirror images.
    """
    count = len(units)
    rows = min(count, max(2, math.ceil(math.sqrt(2 * count))))
    columns = math.ceil(count / rows)
    spacing = max(1.0, 2 * max(unit.radius for unit in units) + 0.1)
    front_first = sorted(range(count), key=lambda i: (units[i].heals, units[i].range, i))
    x, y = np.zeros(count, np.float32), np.zeros(count, np.float32)
    for place, unit in enumerate(front_first):
        column, row = divmod(place, rows)
        in_column = min(rows, count - column * rows)
        x[unit] = depth_sign * spacing * ((columns - 1) / 2 - column)
        y[unit] = spacing * (row - (in_column - 1) / 2)
    return x, y
