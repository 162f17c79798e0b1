"""Performance profiles, and how much worse players do with others than with themselves."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from omg.evaluation.report_tables import GapRow
from omg.evaluation.statistics import DRAWS, FEWEST, bootstrap_interval, widened_tail
from omg.evaluation.tables import CrossPlayRow
from omg.types import Row


class Profile(NamedTuple):
    """A performance profile at P levels."""

    levels: np.ndarray
    """[P] scores."""
    share: np.ndarray
    """[P] share of all trainings and teams that score more than that."""
    low: np.ndarray
    """[P] lower ends of the 95 % intervals over seeds; NaN with too few."""
    high: np.ndarray
    """[P] upper ends."""


def performance_profile(scores: np.ndarray, levels: np.ndarray, *, draws: int = DRAWS, seed: int = 0) -> Profile:
    """How many of an agent's trainings and teams score more than each level; the intervals resample seeds.

    Args:
        scores: [seeds, teams] mean over episodes.
        levels: [P] scores, ascending.
        draws: number of resamples.
        seed: of the resampling.
    """
    scores = np.asarray(scores, np.float64)
    above = (scores[:, :, None] > levels).mean(axis=1)  # [seeds, P]
    share = above.mean(axis=0)
    count = len(scores)
    if count < FEWEST:
        nothing = np.full_like(share, np.nan)
        return Profile(levels, share, nothing, nothing)
    drawn = above[np.random.default_rng(seed).integers(count, size=(draws, count))].mean(axis=1)
    tail = widened_tail(0.95, count, count - 1)
    low, high = np.quantile(drawn, [tail, 1 - tail], axis=0)
    return Profile(levels, share, low, high)


def self_play_gaps(rows: Iterable[Row]) -> list[GapRow]:
    """How much less each player reaches among copies of others than among copies of itself.

    Args:
        rows: columns of `CrossPlayRow`; players who were not played with themselves, or with nobody else, are left out.

    Returns:
        One row per player and metric. The intervals resample the others: another choice of team-mates.
    """
    cells: dict[tuple[str, str], dict[str, float]] = {}
    for row in map(CrossPlayRow.of, rows):
        cells.setdefault((row.metric, row.agent), {})[row.mate] = row.mean
    found = []
    for (metric, agent), own in cells.items():
        others = np.asarray([mean for mate, mean in own.items() if mate != agent])
        if agent not in own or not len(others):
            continue
        low, high = bootstrap_interval(others) if len(others) >= FEWEST else (np.nan, np.nan)
        alone = own[agent]
        found.append(
            GapRow(
                agent=agent,
                metric=metric,
                mates=len(others),
                self_play=alone,
                cross_play=float(others.mean()),
                gap=alone - float(others.mean()),
                low=alone - float(high),
                high=alone - float(low),
            )
        )
    return found
