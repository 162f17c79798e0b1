"""Scores against the length of training as a figure and a chapter of the report."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from omg.evaluation.budget import Marks
from omg.evaluation.suite_tables import BudgetRow
from omg.report.chapters import Chapter
from omg.report.charts import Axis, Chart, metric_axis, series
from omg.report.charts import marks as levels
from omg.report.derived import curve_from
from omg.report.style import INK, SHAPES, agent_colours, figure_style
from omg.report.tables import BUDGETS, table_of
from omg.report.words import agent_name, group_name, metric_words

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MARKS = {
    "floor": "random player",
    "best_fixed": "best fixed strategy",
    "optimum": "exact optimum",
    "ceiling": "partner known",
}
"""Field of `Marks` -> what its line is called."""


def budget_chapter(
    rows: Sequence[BudgetRow], marks: Mapping[str, Marks], names: Mapping[str, str] | None = None
) -> Chapter:
    """What a report says about scores after shares of the training.

    Args:
        rows: of one set and one metric.
        marks: group -> what the game allows; empty where no room was measured.
        names: label -> name of agents.
    """
    measured = any(not math.isnan(row.closed) for row in rows)
    sentences = ["Every agent as it was after shares of its training, with the same teams; 95 % intervals over seeds."]
    sentences += [marks_words(own, rows[0].metric, group) for group, own in marks.items()]
    words = " ".join(sentences)
    # Without a room there is no share of it to show.
    shown = [column for column in BUDGETS if measured or column.column is not BudgetRow.closed]
    return Chapter(
        "How soon",
        lambda colours: draw_budget(rows, marks, names, colours),
        "Scores against the share of the training; dashed lines are what the game allows.",
        words,
        "",
        *table_of(rows, shown, names),
        lambda colours: budget_chart(rows, marks, names or {}, colours),
        {"budget.csv": rows},
    )


def budget_chart(
    rows: Sequence[BudgetRow], marks: Mapping[str, Marks], names: Mapping[str, str], colours: Mapping[str, int]
) -> Chart:
    """The score of every agent against the share of its training, a panel for each group, with the marks."""
    words, panels = metric_words(rows[0].metric), []
    for group in dict.fromkeys(row.group for row in rows):
        lines = []
        for place, agent in enumerate(dict.fromkeys(row.agent for row in rows)):
            own = [row for row in rows if (row.agent, row.group) == (agent, group)]
            curve = curve_from(own, ("share", "mean", "low", "high"), max((row.seeds for row in own), default=0))
            lines.append(series(agent_name(agent, names), colours.get(agent, place), curve))
        panels.append({"title": group_name(group), "series": lines, "marks": levels(named_marks(marks, group))})
    across = Axis(title="share of the training", short="of the training", factor=100.0, digits=0, unit=" %", low=0.0)
    view = {"x": across, "y": metric_axis(words), "panels": panels}
    return Chart("lines", f"{words.noun} against the length of training", [view])


def named_marks(marks: Mapping[str, Marks], group: str) -> dict[str, float]:
    """Name and height of what the game allows with a group; NaN where that is not known."""
    own = marks.get(group, Marks())
    return {text: float(getattr(own, name)) for name, text in _MARKS.items()}


def room_answer(rows: Sequence[BudgetRow], marks: Mapping[str, Marks], names: Mapping[str, str] | None = None) -> str:
    """How much of the room every agent closes in the end, in one sentence; nothing where no room was measured.

    Args:
        rows: of one set and one metric; those of the first group that has marks are told.
        marks: group -> what the game allows.
        names: label -> name of agents.
    """
    last = [row for row in rows if row.share == 1.0 and row.group in marks and not math.isnan(row.closed)]
    own = [row for row in last if row.group == last[0].group]
    if not own:
        return ""
    allowed, value = marks[own[0].group], metric_words(own[0].metric).value
    over = "" if all(math.isnan(row.closed_low) for row in own) else " (95 % intervals over seeds)"
    agents = [f"{agent_name(row.agent, names)} closes {_percent(row)}" for row in own]
    best = ""
    if not math.isnan(allowed.optimum):
        share = allowed.closed(allowed.optimum)
        best = f"; with a partner who is not known, {100 * share:.0f} % ({value(allowed.optimum)}) is the exact optimum"
    return (
        f"Of the room between the best fixed strategy ({value(allowed.best_fixed)}) and a known partner "
        f"({value(allowed.ceiling)}), {', '.join(agents)}{over}{best}."
    )


def _percent(row: BudgetRow) -> str:
    """The share that an agent closes, with its interval over seeds where there is one."""
    ends = "" if math.isnan(row.closed_low) else f" [{100 * row.closed_low:.0f}, {100 * row.closed_high:.0f}]"
    return f"{100 * row.closed:.0f} %{ends}".replace("-", "\N{MINUS SIGN}")


def marks_words(marks: Marks, metric: str, group: str) -> str:
    """Floor, best fixed strategy, optimum and ceiling in a sentence."""
    value = metric_words(metric).value
    known = {text: float(getattr(marks, name)) for name, text in _MARKS.items()}
    parts = [f"{text} {value(number)}" for text, number in known.items() if not math.isnan(number)]
    return f"{group_name(group).capitalize()}: {', '.join(parts)}."


@figure_style()
def draw_budget(
    rows: Sequence[BudgetRow],
    marks: Mapping[str, Marks],
    names: Mapping[str, str] | None = None,
    colours: Mapping[str, str] | None = None,
) -> Figure:
    """One panel per group: the score of every agent against the share of its training, and the marks.

    Args:
        rows: of one set and one metric.
        marks: group -> what the game allows.
        names: label -> name of agents.
        colours: label -> colour; by order of appearance when left out.
    """
    from matplotlib.figure import Figure

    groups = list(dict.fromkeys(row.group for row in rows))
    palette = {**agent_colours(rows), **(colours or {})}
    figure = Figure(figsize=(max(6.0, 4.2 * len(groups)), 3.6), dpi=150, layout="constrained")
    panels = figure.subplots(1, len(groups), squeeze=False, sharey=True)
    for group, axes in zip(groups, panels.flat, strict=True):
        labels = list(dict.fromkeys(row.agent for row in rows if row.group == group))
        for place, label in enumerate(labels):
            own = [row for row in rows if (row.agent, row.group) == (label, group)]
            # Side by side, so that equal ones can be told apart.
            moved = 0.012 * (place - (len(labels) - 1) / 2)
            _draw_agent(axes, own, (palette[label], SHAPES[place % len(SHAPES)]), agent_name(label, names), moved)
        draw_marks(axes, marks.get(group, Marks()))
        axes.set_title(group_name(group), loc="left", fontweight="bold")
        axes.set_xlabel("share of the training")
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
        axes.set_xticks(sorted({row.share for row in rows}))
        axes.set_xlim(0, max(row.share for row in rows) * 1.05)
    panels[0, 0].set_ylabel(metric_words(rows[0].metric).noun)
    handles, labels = panels[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
    return figure


def draw_marks(axes: Axes, marks: Marks) -> None:
    """Dashed lines with their names at the left end."""
    from matplotlib.patheffects import withStroke

    for name, text in _MARKS.items():
        height = float(getattr(marks, name))
        if math.isnan(height):
            continue
        solid = name == "optimum"
        axes.axhline(height, color=INK, linewidth=1.0, linestyle="-" if solid else (0, (4, 3)), alpha=0.6)
        named = axes.annotate(
            text, (0.01, height), xycoords=("axes fraction", "data"), xytext=(0, 2), textcoords="offset points",
            fontsize="small", color=INK, path_effects=[withStroke(linewidth=2.5, foreground="white")], zorder=5,
        )  # fmt: skip
        named.set_in_layout(False)


def _draw_agent(axes: Axes, rows: Sequence[BudgetRow], look: tuple[str, str], name: str, moved: float) -> None:
    shares, means = [row.share + moved for row in rows], [row.mean for row in rows]
    below = [0.0 if math.isnan(row.low) else row.mean - row.low for row in rows]
    above = [0.0 if math.isnan(row.high) else row.high - row.mean for row in rows]
    colour, shape = look
    axes.errorbar(
        *(shares, means), yerr=[below, above], color=colour, label=name, marker=shape, markersize=4.5, linewidth=1.6,
        capsize=2,
    )  # fmt: skip
