"""Trials key by key: what each setting was beside the score, and how much each key matters."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from omg.evaluation.suite_tables import ImportanceRow, SliceRow, TrialRow
from omg.experiments.search import Range
from omg.experiments.trials import drawn, search_of, space_of, tried

if TYPE_CHECKING:
    from omg.experiments.plan_check import CheckedPlan


def slice_rows(checked: CheckedPlan, label: str, rows: Sequence[TrialRow]) -> list[SliceRow]:
    """What every tried key was in every trial, beside the score."""
    config = checked.agents[label]
    found = []
    for row in rows:
        settings = drawn(checked, label, row.trial)
        for key, values in space_of(checked.plan, label).items():
            value = settings.get(key, getattr(config, key, None))
            number = isinstance(value, int | float) and not isinstance(value, bool)
            found.append(
                SliceRow(
                    agent=label,
                    key=key,
                    trial=row.trial,
                    value=shown(value),
                    place=float(str(value)) if number else _place(values, value),
                    metric=row.metric,
                    mean=row.mean,
                    chosen=row.chosen,
                )
            )
    return found


def shown(value: object) -> str:
    """A setting in tables; the files of rounds have all its digits."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _place(values: Sequence[object] | Range, value: object) -> float:
    """Where a value that is no number stands among those that are tried."""
    return float(list(values).index(value)) if not isinstance(values, Range) and value in values else math.nan


def importance_rows(checked: CheckedPlan, label: str, rows: Sequence[TrialRow]) -> list[ImportanceRow]:
    """How much every tried key matters, the most important one first."""
    assert checked.plan.tune is not None
    search = search_of(checked.plan, label, checked.agents[label])
    found = search.importance(tried(checked, label, rows))
    best = next(row.trial for row in rows if row.chosen == "yes")
    settings = {**search.own, **drawn(checked, label, best)}
    return [
        ImportanceRow(agent=label, key=key, importance=share, best=shown(settings[key]), own=shown(search.own[key]))
        for key, share in sorted(found.items(), key=lambda item: -item[1])
    ]
