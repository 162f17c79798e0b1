"""Charts of a page: what is drawn, as plain data. The script in `assets/` draws it and reads it out.

A chart has views, of which one is shown at a time; a view has panels, side by side. Numbers are those of the tables;
axes say how they are written.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, NotRequired, TypedDict

from omg.evaluation.report_tables import ProfileRow
from omg.evaluation.tables import ComparisonRow, OffsetRow, ScoreRow, SummaryRow
from omg.names import inert
from omg.report.curves import Curve
from omg.report.derived import Referred
from omg.report.words import MetricWords, agent_name, counted, group_name, metric_words
from omg.types import Row

_DIGITS = 7
"""Significant digits of drawn numbers; no screen shows more."""
_LOOKS = {"better": "better", "worse": "worse", "no difference shown": "unshown"}


class Axis(TypedDict):
    """How the numbers of an axis are written."""

    title: str
    short: NotRequired[str]
    """Behind or before a single number."""
    factor: NotRequired[float]
    """From the stored number to the one shown."""
    digits: NotRequired[int]
    unit: NotRequired[str]
    steps: NotRequired[bool]
    """Thousands and millions as `k` and `M`."""
    least: NotRequired[float]
    """Between two of its ticks."""
    low: NotRequired[float]
    """Where the axis begins, unless it follows from the numbers."""
    high: NotRequired[float]


class NamedLevel(TypedDict):
    """A line across a panel, and its name."""

    at: float
    name: str


@dataclass(frozen=True)
class Chart:
    """A chart of a page."""

    kind: Literal["lines", "intervals", "map"]
    label: str
    """What it shows, for those who cannot see it."""
    views: Sequence[Mapping[str, Any]]
    choose: str = ""
    """What is chosen among several views."""

    def data(self) -> dict[str, Any]:
        """What the script reads."""
        return {"kind": self.kind, "label": inert(self.label), "views": self.views, "choose": self.choose}


class Line(NamedTuple):
    """One thing with its interval."""

    name: str
    value: float
    low: float = math.nan
    high: float = math.nan
    colour: int = 0
    look: str = ""
    """Instead of a colour: `better`, `worse` or `unshown`."""
    worst: float = math.nan
    note: Sequence[str] = ()
    strong: bool = False


def number(value: float) -> float | None:
    """A number as the script reads it; None where there is none."""
    if not math.isfinite(value):
        return None
    return float(f"{value:.{_DIGITS}g}")


def metric_axis(words: MetricWords, title: str = "", *, whole: bool = False) -> Axis:
    """An axis of scores.

    Args:
        words: how the metric is written.
        title: instead of its noun.
        whole: shares have an axis from 0 to 1.
    """
    axis = Axis(title=inert(title or words.noun), digits=1 if words.share else 2)
    if words.share:
        axis |= {"factor": 100.0, "unit": " %"}
        if whole:
            axis |= {"low": -0.02, "high": 1.02}
    return axis


STEPS: Axis = {"title": "environment steps", "short": "steps", "steps": True}


def series(name: str, colour: int, curve: Curve, *, step: bool = False, most: int = 400) -> dict[str, Any]:
    """A curve as the script draws it; of long ones so many points, evenly chosen, with the first and the last."""
    count = len(curve.t_env)
    kept = range(count) if count <= most else sorted({round(place * (count - 1) / (most - 1)) for place in range(most)})
    found: dict[str, Any] = {
        "name": inert(name),
        "colour": colour,
        "x": [number(float(curve.t_env[index])) for index in kept],
        "y": [number(float(curve.mean[index])) for index in kept],
        "step": step,
    }
    if curve.seeds > 1:
        found["low"] = [number(float(curve.low[index])) for index in kept]
        found["high"] = [number(float(curve.high[index])) for index in kept]
    return found


def marks(levels: Mapping[str, float]) -> list[NamedLevel]:
    """Lines across a panel, the lowest first; those that are not known are left out."""
    known = sorted((value, name) for name, value in levels.items() if not math.isnan(value))
    return [NamedLevel(at=value, name=name) for value, name in known]


def span(kind: Literal["below", "room"], start: float, end: float) -> dict[str, Any]:
    """A stretch of an axis."""
    return {"kind": kind, "from": start, "to": end}


def line_data(line: Line) -> dict[str, Any]:
    """A thing with its interval as the script draws it."""
    found: dict[str, Any] = {"name": inert(line.name), "value": number(line.value), "colour": line.colour}
    for key in ("low", "high", "worst"):
        found[key] = number(getattr(line, key))
    if line.look:
        found["look"] = line.look
    if line.note:
        found["note"] = [inert(text) for text in line.note]
    if line.strong:
        found["strong"] = True
    return found


def panel(
    lines: Iterable[Line], title: str = "", levels: Sequence[NamedLevel] = (), spans: Sequence[Any] = ()
) -> dict[str, Any]:
    """Lines under one heading."""
    return {"title": inert(title), "rows": [line_data(line) for line in lines], "marks": levels, "spans": spans}


def groups_chart(
    rows: Sequence[SummaryRow],
    names: Mapping[str, str],
    colours: Mapping[str, int],
    levels: Mapping[str, Mapping[str, float]],
    *,
    worst: bool = True,
) -> Chart:
    """How each agent does, a panel for each group, with what the game allows.

    Args:
        rows: of one metric.
        names: label -> name of agents.
        colours: label -> number of its colour.
        levels: group -> name and height of each mark, such as the floor.
        worst: whether the team that each agent does worst with is drawn.
    """
    words = metric_words(rows[0].metric)
    panels = []
    for group in dict.fromkeys(row.group for row in rows):
        lines = [
            Line(
                agent_name(row.agent, names),
                row.mean,
                row.low,
                row.high,
                colours.get(row.agent, 0),
                worst=row.worst if worst else math.nan,
                note=(
                    f"IQM {words.value(row.iqm)}",
                    *([f"worst with {row.worst_team}: {words.value(row.worst)}"] if worst else []),
                    f"{counted(row.seeds, 'seed')}, {counted(row.teams, 'team')}, {row.episodes:,} episodes",
                ),
            )
            for row in rows
            if row.group == group
        ]
        panels.append(panel(lines, group_name(group), marks(levels.get(group, {}))))
    return Chart("intervals", f"{words.noun} of every agent by group", [{"x": metric_axis(words), "panels": panels}])


def differences_chart(rows: Sequence[ComparisonRow], names: Mapping[str, str]) -> Chart:
    """Paired differences with their intervals, and how likely an improvement is; `rows` are of one metric."""
    words = metric_words(rows[0].metric)
    unit = f"difference in {words.noun}" + (", percentage points" if words.share else "")
    axis = Axis(title=inert(unit), short="difference", digits=1 if words.share else 3)
    if words.share:
        axis["factor"] = 100.0
    several = len({row.agent for row in rows}) > 1
    difference, chance = [], []
    for group in dict.fromkeys(row.group for row in rows):
        own = [row for row in rows if row.group == group]
        versus = [_versus(row, names, several) for row in own]
        found = [
            Line(name, row.difference, row.low, row.high, look=_LOOKS[row.verdict], note=_sample(row))
            for name, row in zip(versus, own, strict=True)
        ]
        likely = [
            Line(name, row.p_improvement, row.p_low, row.p_high, look=_LOOKS[row.verdict], note=_sample(row))
            for name, row in zip(versus, own, strict=True)
        ]
        difference.append(panel(found, group_name(group)))
        chance.append(panel(likely, group_name(group), [NamedLevel(at=0.5, name="neither")]))
    shares = Axis(title="probability of improvement", short="P", digits=2, low=-0.02, high=1.02)
    views = [
        {"name": "difference", "x": axis, "panels": difference},
        {"name": "probability of improvement", "x": shares, "panels": chance},
    ]
    return Chart("intervals", f"differences of {words.noun} with intervals", views)


def _versus(row: ComparisonRow, names: Mapping[str, str], several: bool) -> str:
    against = f"against {agent_name(row.baseline, names)}"
    return f"{agent_name(row.agent, names)} {against}" if several else against


def _sample(row: ComparisonRow) -> tuple[str, ...]:
    return (row.verdict, f"{row.seeds} against {row.baseline_seeds} seeds, {row.teams} teams")


def curves_chart(
    curves: Mapping[str, Mapping[str, Curve]],
    names: Mapping[str, str],
    colours: Mapping[str, int],
    levels: Mapping[str, float] | None = None,
) -> Chart:
    """Learning curves; one of several metrics is shown at a time.

    Args:
        curves: metric -> label -> curve, the most important metric first.
        names: label -> name of agents.
        colours: label -> number of its colour.
        levels: name and height of each mark on the first metric, such as the floor.
    """
    views = []
    for place, (metric, found) in enumerate(curves.items()):
        words = metric_words(metric.removeprefix("test_").removesuffix("_mean"))
        lines = [series(agent_name(label, names), colours.get(label, 0), curve) for label, curve in found.items()]
        part = {"title": "", "series": lines, "marks": marks(levels or {}) if place == 0 else []}
        title = f"{words.noun} in tests" if metric.startswith("test_") else words.noun
        views.append({"name": metric, "x": STEPS, "y": metric_axis(words, title, whole=True), "panels": [part]})
    return Chart("lines", "learning curves", views, "Metric")


def cross_play_chart(
    rows: Iterable[Row],
    metric: str,
    names: Mapping[str, str],
    label: str = "cross-play",
    between: str = "with",
) -> Chart:
    """Every agent with every kind of team-mates; rows have `agent`, `team`, `mean` and perhaps `note`."""
    words, found = metric_words(metric), list(rows)
    agents = list(dict.fromkeys(str(row["agent"]) for row in found))
    teams = list(dict.fromkeys(str(row["team"]) for row in found))
    cells = {(str(row["agent"]), str(row["team"])): number(ScoreRow.of(row).mean) for row in found}
    notes = {(str(row["agent"]), str(row["team"])): inert(str(row["note"])) for row in found if row.get("note")}
    part = {
        "title": "",
        "rows": [agent_name(agent, names) for agent in agents],
        "columns": [agent_name(team, names) for team in teams],
        "cells": [[cells.get((agent, team)) for team in teams] for agent in agents],
        "between": between,
    }
    if notes:
        part["notes"] = [[notes.get((agent, team)) for team in teams] for agent in agents]
    axis = metric_axis(words)
    if words.share:
        axis |= {"low": 0.0, "high": 1.0}
    return Chart("map", label, [{"value": axis, "panels": [part]}])


def offsets_chart(rows: Sequence[OffsetRow], names: Mapping[str, str], colours: Mapping[str, int]) -> Chart:
    """How many steps ahead the selected subgoals lay, as shares of all selections of an agent."""
    lines = []
    for agent in dict.fromkeys(row.agent for row in rows):
        own = sorted((row for row in rows if row.agent == agent), key=lambda row: row.offset)
        whole = max(1, sum(row.count for row in own))
        lines.append(
            {
                "name": agent_name(agent, names),
                "colour": colours.get(agent, 0),
                "x": [row.offset for row in own],
                "y": [number(row.count / whole) for row in own],
            }
        )
    axis = Axis(title="selected subgoals", factor=100.0, digits=1, unit=" %", low=0.0)
    across = Axis(title="steps ahead", short="steps ahead", digits=0, least=1.0)
    part = {"title": "", "series": lines, "marks": []}
    return Chart("lines", "how far ahead the selected subgoals lie", [{"x": across, "y": axis, "panels": [part]}])


def profiles_chart(rows: Sequence[ProfileRow], names: Mapping[str, str], colours: Mapping[str, int]) -> Chart:
    """How many trainings and teams reach more than each level; a panel for each group."""
    words, panels = metric_words(rows[0].metric), []
    for group in dict.fromkeys(row.group for row in rows):
        lines = []
        for agent in dict.fromkeys(row.agent for row in rows if row.group == group):
            own = [row for row in rows if (row.agent, row.group) == (agent, group)]
            lines.append(
                {
                    "name": agent_name(agent, names),
                    "colour": colours.get(agent, 0),
                    "x": [number(row.level) for row in own],
                    "y": [number(row.share) for row in own],
                    "low": [number(row.low) for row in own],
                    "high": [number(row.high) for row in own],
                    "step": True,
                }
            )
        panels.append({"title": group_name(group), "series": lines, "marks": []})
    across = metric_axis(words)
    across["short"] = inert(words.noun)
    up = Axis(title="share above", factor=100.0, digits=0, unit=" %", low=-0.02, high=1.02)
    return Chart("lines", "performance profiles", [{"x": across, "y": up, "panels": panels}])


def measures_chart(found: Sequence[Referred], names: Mapping[str, str], colours: Mapping[str, int]) -> Chart | None:
    """Measures beside what they would be by chance and if everybody stayed; None where nothing can be drawn."""
    panels: list[dict[str, Any]] = []
    families = dict.fromkeys(one.chance_name for one in found if one.chance_name)
    for family in families:
        lines: list[Line] = []
        for agent in dict.fromkeys(one.row.agent for one in found):
            own = [one for one in found if one.row.agent == agent]
            whose = agent_name(agent, names)
            lines += [
                Line(f"{whose}: {one.row.measure}", one.row.value, one.row.low, one.row.high, colours.get(agent, 0))
                for one in own
                if one.chance_name == family
            ]
            lines += [
                Line(f"{whose}: {family}", one.row.value, one.row.low, one.row.high, look="unshown")
                for one in own
                if one.row.measure == family
            ]
        if lines:
            panels.append(panel(lines, family))
    axis = Axis(title="value of the measure", short="value", digits=3)
    return Chart("intervals", "what subgoals know", [{"x": axis, "panels": panels}]) if panels else None
