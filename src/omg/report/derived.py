"""What a report works out from its rows: averaged curves, profiles, measures beside what they would be by chance."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from omg.errors import UserError
from omg.evaluation import bootstrap_interval, per_team, probes, subgoals
from omg.evaluation.comparison import score_matrices
from omg.evaluation.profiles import performance_profile
from omg.evaluation.report_tables import CurveRow, ProfileRow
from omg.evaluation.rows import Seed
from omg.evaluation.tables import MeasureRow, MetricRow, TeamRow
from omg.learners import subgoal_measures
from omg.report.curves import Curve, mean_curve
from omg.report.words import agent_name
from omg.types import Row

_LEVELS = 41
"""Points of a profile."""
_TESTED = {f"test_{one.name}": one for one in subgoal_measures.MEASURES}
_CHANCE = {
    **{one.name: one.chance for one in subgoals.MEASURES},
    **{one.name: one.chance for one in probes.PROBES},
    **{name: one.chance.replace("`", "`test_", 1) for name, one in _TESTED.items()},
}
"""Measure -> what it would be by chance: another measure in backticks, or a text."""
_STAY = {
    "place error of the subgoal": "place error of standing still",
    "future distance of the subgoal": "future distance of standing still",
    "test_subgoal_future_distance": "test_subgoal_present_distance",
}
"""Measure -> the same where everybody stays as they are."""
_UNITS = {name: "in cells or map units" if name.startswith("place") else "in deviations" for name in _STAY}


def curves_by_metric(tables: Mapping[str, Sequence[Row]], first: str) -> dict[str, dict[str, Curve]]:
    """Metric -> label -> mean over seeds, for every test metric that somebody logged; `first` comes first."""
    names = {str(row["name"]) for rows in tables.values() for row in rows}
    tests = sorted(name for name in names if name.startswith("test_") and name != first)
    found: dict[str, dict[str, Curve]] = {}
    for metric in [first, *tests]:
        for label, rows in tables.items():
            own = [row for row in rows if row["name"] == metric]
            if own:
                try:
                    found.setdefault(metric, {})[label] = mean_curve(own, metric, "interval")
                except UserError:  # Its seeds have no steps in common yet.
                    continue
    return found


def curve_rows(curves: Mapping[str, Mapping[str, Curve]]) -> list[CurveRow]:
    """The same as rows."""
    return [
        CurveRow(
            agent=label,
            metric=metric,
            t_env=int(curve.t_env[point]),
            mean=float(curve.mean[point]),
            low=float(curve.low[point]),
            high=float(curve.high[point]),
            seeds=curve.seeds,
        )
        for metric, found in curves.items()
        for label, curve in found.items()
        for point in range(len(curve.t_env))
    ]


def curves_of(rows: Sequence[CurveRow]) -> dict[str, dict[str, Curve]]:
    """Curves again, from such rows."""
    points: dict[tuple[str, str], list[CurveRow]] = {}
    for row in rows:
        points.setdefault((row.metric, row.agent), []).append(row)
    found: dict[str, dict[str, Curve]] = {}
    for (metric, label), own in points.items():
        found.setdefault(metric, {})[label] = curve_from(own, ("t_env", "mean", "low", "high"), own[0].seeds)
    return found


def curve_from(rows: Sequence[Row], columns: tuple[str, str, str, str], seeds: int) -> Curve:
    """A curve from the columns of some rows: where, mean, lower and upper end."""
    where, mean, low, high = (np.asarray([row[name] for row in rows], np.float64) for name in columns)
    return Curve(where, mean, low, high, seeds)


def profile_rows(scores: Sequence[Row], metric: str) -> list[ProfileRow]:
    """Performance profiles of all agents; the levels reach from the lowest to the highest score of a group."""
    matrices = score_matrices(scores, metric)
    found = []
    for group in dict.fromkeys(group for group, _ in matrices):
        own = {agent: matrix.scores for (one, agent), matrix in matrices.items() if one == group}
        ends = [end for scores in own.values() for end in (float(scores.min()), float(scores.max()))]
        levels = np.linspace(min(ends), max(ends), _LEVELS)
        for agent, values in own.items():
            profile = performance_profile(values, levels)
            found += [
                ProfileRow(
                    agent=agent,
                    group=group,
                    metric=metric,
                    level=float(level),
                    share=float(share),
                    low=float(low),
                    high=float(high),
                )
                for level, share, low, high in zip(*profile, strict=True)
            ]
    return found


def team_rows(scores: Sequence[Row]) -> list[TeamRow]:
    """Every agent with every team, by every metric."""
    metrics = dict.fromkeys(str(row["metric"]) for row in scores)
    return [row for metric in metrics for row in per_team(scores, metric)]


def last_measures(label: str, metrics: Sequence[MetricRow]) -> list[MeasureRow]:
    """What the last tests of a training say of its subgoals; nothing of agents that infer none."""
    last: dict[tuple[str, Seed], tuple[int, float]] = {}
    for row in metrics:
        if row.name in _TESTED:
            last[row.name, row.seed] = max((row.t_env, row.value), last.get((row.name, row.seed), (-1, 0.0)))
    found = []
    for name, measure in _TESTED.items():
        values = np.asarray([value for (one, _), (_, value) in last.items() if one == name])
        if not len(values):
            continue
        low, high = bootstrap_interval(values) if len(values) > 2 else (math.nan, math.nan)
        found.append(
            MeasureRow(
                agent=label,
                measure=name,
                value=float(values.mean()),
                low=low,
                high=high,
                seeds=len(values),
                meaning=measure.meaning,
            )
        )
    return found


class Referred(NamedTuple):
    """A measure beside what it would be otherwise."""

    row: MeasureRow
    chance: float
    """NaN where that is no number."""
    chance_words: str
    """What it would be by chance, where that is no number."""
    stay: float
    """If everybody stayed as they are; NaN where that means nothing."""
    chance_name: str = ""
    """The measure that says so."""


def referred(rows: Sequence[Row]) -> list[Referred]:
    """Every measure beside its chance level and what it is if everybody stays; rows have columns of `MeasureRow`."""
    measures = [MeasureRow.of(row) for row in rows]
    values = {(row.agent, row.measure): row.value for row in measures}
    found = []
    for row in measures:
        chance = _CHANCE.get(row.measure, "")
        name = chance.strip("`") if chance.startswith("`") else ""
        level = values.get((row.agent, name), math.nan)
        if chance[:1].isdigit():
            level = float(chance.partition(":")[0])
        stay = values.get((row.agent, _STAY.get(row.measure, "")), math.nan)
        found.append(Referred(row, level, "" if name or chance[:1].isdigit() else chance, stay, name))
    return found


def foresight_sentences(rows: Sequence[Row], names: Mapping[str, str]) -> list[str]:
    """For each agent that infers subgoals, whether these are closer to the future than to assume that all stay."""
    found = []
    for one in referred(rows):
        if math.isnan(one.stay) or one.row.measure not in _STAY:
            continue
        known = not math.isnan(one.chance) and one.chance_name != _STAY[one.row.measure]
        chance = f", by chance {one.chance:.3f}" if known else ""
        verdict = "are closer to the future than" if one.row.value < one.stay else "are no closer to the future than"
        found.append(
            f"The subgoals of {agent_name(one.row.agent, names)} {verdict} “they stay where they are”: distance "
            f"{one.row.value:.3f} against {one.stay:.3f}{chance}, {_UNITS[one.row.measure]}."
        )
    return found
