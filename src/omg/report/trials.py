"""The trials of all agents as a chapter of the report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from omg.evaluation.suite_tables import TrialRow
from omg.report.chapters import Chapter
from omg.report.charts import Chart, Line, metric_axis, panel
from omg.report.style import agent_colours, figure_style
from omg.report.tables import ShownColumn, table_of
from omg.report.words import agent_name, metric_words

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TRIALS = (
    ShownColumn(TrialRow.agent),
    ShownColumn(TrialRow.trial),
    ShownColumn(TrialRow.settings),
    ShownColumn(TrialRow.mean),
    ShownColumn(TrialRow.seeds),
    ShownColumn(TrialRow.steps),
    ShownColumn(TrialRow.chosen),
)
"""The trials of all agents."""


def trials_chapter(rows: Sequence[TrialRow], names: Mapping[str, str] | None = None) -> Chapter:
    """What a report says about the trials.

    Args:
        rows: of all agents.
        names: label -> name of agents.
    """
    stopped = any(row.chosen in ("stopped", "diverged") for row in rows)
    return Chapter(
        "Trials",
        lambda colours: draw_trials(rows, names, colours),
        "What each choice of settings reached; that of the plan is number 0, and the one that was chosen is in bold.",
        "Every agent had the same number of trials, judged with the validation partners alone. "
        + ("Without a score: trials that their own tests ended early, and those that diverged. " if stopped else "")
        + "Agents that are trained afterwards have the settings that did best.",
        "",
        *table_of(rows, TRIALS, names),
        lambda colours: trials_chart(rows, names or {}, colours),
        {"trials.csv": rows},
    )


def trials_chart(rows: Sequence[TrialRow], names: Mapping[str, str], colours: Mapping[str, int]) -> Chart:
    """A line for each trial of each agent; `colours` are label -> number."""
    words, panels = metric_words(rows[0].metric), []
    for place, agent in enumerate(dict.fromkeys(row.agent for row in rows)):
        lines = [
            Line(
                f"trial {row.trial}",
                row.mean,
                colour=colours.get(agent, place),
                note=(row.settings or "settings of the plan",),
                strong=row.chosen == "yes",
            )
            for row in rows
            if row.agent == agent
        ]
        panels.append(panel(lines, agent_name(agent, names)))
    return Chart("intervals", "what each trial reached", [{"x": metric_axis(words), "panels": panels}])


@figure_style()
def draw_trials(
    rows: Sequence[TrialRow], names: Mapping[str, str] | None = None, colours: Mapping[str, str] | None = None
) -> Figure:
    """A column of dots for each agent; arguments as in `trials_chapter`, and label -> colour."""
    from matplotlib.figure import Figure

    palette = {**agent_colours(rows), **(colours or {})}
    agents = list(dict.fromkeys(row.agent for row in rows))
    figure = Figure(figsize=(max(5.0, 1.1 * len(agents)), 3.0), dpi=150, layout="constrained")
    axes = figure.subplots()
    for place, agent in enumerate(agents):
        for row in (row for row in rows if row.agent == agent):
            axes.plot(place, row.mean, "s" if row.trial == 0 else "o", color=palette[agent], markersize=5)
            if row.chosen == "yes":
                axes.plot(place, row.mean, "o", color=palette[agent], markersize=12, fillstyle="none")
    axes.set_xticks(range(len(agents)), [agent_name(agent, names) for agent in agents], rotation=20, ha="right")
    axes.set_xlim(-0.6, len(agents) - 0.4)
    axes.set_ylabel(metric_words(rows[0].metric).noun)
    return figure
