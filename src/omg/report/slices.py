"""What each tried key is worth: the scores of trials against its values, and how much it matters."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from omg.evaluation.suite_tables import ImportanceRow, SliceRow
from omg.names import is_number
from omg.report.chapters import Chapter
from omg.report.charts import Chart, Line, metric_axis, panel
from omg.report.figures import agent_colours, figure_style
from omg.report.tables import ShownColumn, table_of
from omg.report.words import agent_name, metric_words

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_IMPORTANCE = (
    ShownColumn(ImportanceRow.agent),
    ShownColumn(ImportanceRow.key),
    ShownColumn(ImportanceRow.importance),
    ShownColumn(ImportanceRow.best),
    ShownColumn(ImportanceRow.own),
)
_MOST_LINES = 24
"""Of a panel; more trials are put together, neighbours with neighbours."""
_MOST_PANELS = 40


def slices_chapter(
    slices: Sequence[SliceRow], importance: Sequence[ImportanceRow], names: Mapping[str, str] | None = None
) -> list[Chapter]:
    """What a report says about single keys; nothing where no trial has a score.

    Args:
        slices: of all agents.
        importance: of all agents; none where it is not known.
        names: label -> name of agents.
    """
    rows = [row for row in slices if not math.isnan(row.mean)]
    if not rows:
        return []
    words = (
        "Importance is each key's share of what sets good trials apart from the others (PED-ANOVA, by Optuna); with "
        "few trials it says little."
        if importance
        else "How much each key matters was not computed: it needs Optuna."
    )
    found = Chapter(
        "What each setting is worth",
        lambda colours: draw_slices(rows, names, colours),
        "Scores of trials against the value of one key, whatever the other keys were; the chosen trial is in bold.",
        words,
        "",
        *table_of(importance, _IMPORTANCE, names),
        lambda colours: slices_chart(rows, names or {}, colours),
        {"slices.csv": slices, "importance.csv": importance},
    )
    return [found]


def slices_chart(rows: Sequence[SliceRow], names: Mapping[str, str], colours: Mapping[str, int]) -> Chart:
    """A panel for each key of each agent, a line for each trial in the order of the key's values."""
    words, panels = metric_words(rows[0].metric), []
    places = {agent: place for place, agent in enumerate(dict.fromkeys(row.agent for row in rows))}
    for agent, key in _panels(rows):
        colour = colours.get(agent, places[agent])
        lines = [_line(own, colour) for own in _together(rows, agent, key)]
        panels.append(panel(lines, f"{agent_name(agent, names)}: {key}" if len(places) > 1 else key))
    return Chart("intervals", "scores against the values of each key", [{"x": metric_axis(words), "panels": panels}])


def _panels(rows: Sequence[SliceRow]) -> list[tuple[str, str]]:
    """Agent and key of every panel."""
    return list(dict.fromkeys((row.agent, row.key) for row in rows))[:_MOST_PANELS]


def _together(rows: Sequence[SliceRow], agent: str, key: str) -> list[list[SliceRow]]:
    """The trials of an agent in the order of a key's values, neighbours put together where there are many."""
    own = sorted((row for row in rows if (row.agent, row.key) == (agent, key)), key=lambda row: (row.place, row.trial))
    size = -(-len(own) // _MOST_LINES)
    return [own[first : first + size] for first in range(0, len(own), size)]


def _line(own: Sequence[SliceRow], colour: int) -> Line:
    means = [row.mean for row in own]
    values = list(dict.fromkeys(row.value for row in own))
    several = len(own) > 1
    return Line(
        values[0] if len(values) == 1 else f"{values[0]} to {values[-1]}",
        sum(means) / len(means),
        min(means) if several else math.nan,
        max(means) if several else math.nan,
        colour=colour,
        note=(f"trial{'s' if several else ''} {', '.join(str(row.trial) for row in own)}",),
        strong=any(row.chosen == "yes" for row in own),
    )


@figure_style()
def draw_slices(
    rows: Sequence[SliceRow], names: Mapping[str, str] | None = None, colours: Mapping[str, str] | None = None
) -> Figure:
    """Dots of scores against values, a panel for each key of each agent; arguments as in `slices_chapter`."""
    from matplotlib.figure import Figure

    palette, shown = {**agent_colours(rows), **(colours or {})}, _panels(rows)
    across = min(3, len(shown))
    down = -(-len(shown) // across)
    figure = Figure(figsize=(3.2 * across, 2.6 * down), dpi=150, layout="constrained")
    grid = figure.subplots(down, across, squeeze=False)
    for axes in grid.flat[len(shown) :]:
        axes.remove()
    several = len({agent for agent, _ in shown}) > 1
    for axes, (agent, key) in zip(grid.flat, shown, strict=False):
        own = [row for row in rows if (row.agent, row.key) == (agent, key)]
        axes.plot([row.place for row in own], [row.mean for row in own], "o", color=palette[agent], markersize=5)
        best = [row for row in own if row.chosen == "yes"]
        axes.plot(
            [row.place for row in best],
            [row.mean for row in best],
            "o",
            color=palette[agent],
            markersize=12,
            fillstyle="none",
        )
        least, most = min(row.place for row in own), max(row.place for row in own)
        if 0 < least < most / 20:
            axes.set_xscale("log")
        if any(not is_number(row.value) for row in own):
            ticks = dict(sorted({row.place: row.value for row in own}.items()))
            axes.set_xticks(list(ticks), list(ticks.values()))
        axes.set_xlabel(f"{agent_name(agent, names)}: {key}" if several else key)
        axes.set_ylabel(metric_words(own[0].metric).noun)
    return figure
