"""Scores against the length of training, and the share of the room that they close."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from omg.evaluation.comparison import score_matrices
from omg.evaluation.room import share_closed
from omg.evaluation.statistics import score_interval
from omg.evaluation.suite_tables import BudgetRow, BudgetScoreRow


class Marks(NamedTuple):
    """Where a score stands, in the units of its metric; NaN where it was not measured."""

    floor: float = math.nan
    """A random legal player."""
    best_fixed: float = math.nan
    """The best single strategy, chosen without the players it is judged with."""
    ceiling: float = math.nan
    """Answering everybody as if known."""
    optimum: float = math.nan
    """The exact value of answering an unknown player, in games that are small enough."""

    @property
    def room(self) -> float:
        """What there is to gain from knowing the others."""
        return self.ceiling - self.best_fixed

    def closed(self, score: float) -> float:
        """The share of the room that a score closes; NaN where there is none."""
        return share_closed(score, self.best_fixed, self.ceiling)


def budget_rows(rows: Iterable[BudgetScoreRow], metric: str, marks: Mapping[str, Marks]) -> list[BudgetRow]:
    """How every agent does after every share of its training.

    Args:
        rows: tidy scores of one set.
        metric: which metric.
        marks: group -> what the game allows with this set, by this metric; without them no share is closed.

    Returns:
        One row per group, agent and share, with intervals over seeds.
    """
    shares: dict[float, list[BudgetScoreRow]] = {}
    for row in rows:
        if row.metric == metric:
            shares.setdefault(row.share, []).append(row)
    table = []
    for share, own in shares.items():
        for (group, agent), matrix in score_matrices(own, metric).items():
            mine = [row for row in own if row.agent == agent and row.group == group]
            allowed = marks.get(group, Marks())
            found = score_interval(matrix.scores, "mean", "seeds")
            table.append(
                BudgetRow(
                    set=mine[0].set,
                    agent=agent,
                    group=group,
                    metric=metric,
                    share=share,
                    steps=round(float(np.mean([row.steps for row in mine]))),
                    seeds=len(matrix.seeds),
                    mean=found.value,
                    low=found.low,
                    high=found.high,
                    closed=allowed.closed(found.value),
                    closed_low=allowed.closed(found.low),
                    closed_high=allowed.closed(found.high),
                )
            )
    order = {label: place for place, label in enumerate(dict.fromkeys(row.agent for row in table))}
    return sorted(table, key=lambda row: (row.group, order[row.agent], row.share))
