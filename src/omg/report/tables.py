"""Rows as the tables that people read, on the screen and on pages: what is shown of which kind of row, and how.

Columns, their headings and their formats stand in `omg.evaluation.tables`. Here they are chosen and put in order.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from omg.evaluation.rows import AnyColumn, TableRow
from omg.evaluation.suite_tables import BudgetRow
from omg.evaluation.tables import ComparisonRow, MeasureRow, SelfPlayRow, SummaryRow
from omg.report.words import agent_name, group_name, metric_words, minus

Style = Literal["plain", "named", "beside", "inside", "bracketed", "bare"]
"""A value by itself; with whose it is behind it; with its interval in a further cell, in square brackets or in round
ones behind it; or as it is, a number where it is one."""
Names = Mapping[str, str]
"""Label -> name of agents."""
Cells = tuple[Sequence[str], list[Sequence[str]]]
"""Head and lines of a table."""

_NOTHING = "\N{EN DASH}"
_INTERVAL = "95 % interval"


class ShownColumn(NamedTuple):
    """A column as a table shows it."""

    column: AnyColumn
    style: Style = "plain"
    heading: str = ""
    """Instead of its own."""


SCORES = (
    ShownColumn(SummaryRow.agent),
    ShownColumn(SummaryRow.mean, "beside"),
    ShownColumn(SummaryRow.iqm, "beside"),
    ShownColumn(SummaryRow.worst, "named"),
    ShownColumn(SummaryRow.seeds),
    ShownColumn(SummaryRow.teams),
    ShownColumn(SummaryRow.episodes),
)
"""How each agent does with one group, on a page."""
SHORT_SCORES = (
    ShownColumn(SummaryRow.agent, "bare"),
    ShownColumn(SummaryRow.group),
    ShownColumn(SummaryRow.mean, "inside"),
    ShownColumn(SummaryRow.iqm),
    ShownColumn(SummaryRow.worst, "named"),
    ShownColumn(SummaryRow.seeds, "bare"),
    ShownColumn(SummaryRow.teams, "bare"),
)
"""The same with all groups, on the screen."""
SHORTEST_SCORES = (
    ShownColumn(SummaryRow.agent),
    ShownColumn(SummaryRow.mean, "inside"),
    ShownColumn(SummaryRow.worst, heading="worst"),
)
"""The same with one group, beside a comparison."""
SHORT_DIFFERENCES = (
    ShownColumn(ComparisonRow.agent, "bare"),
    ShownColumn(ComparisonRow.group),
    ShownColumn(ComparisonRow.difference, "inside"),
    ShownColumn(ComparisonRow.p_improvement, "bare"),
    ShownColumn(ComparisonRow.verdict),
)
"""Who is better, on the screen."""
SELF_PLAY_SCORES = (
    ShownColumn(SelfPlayRow.agent),
    ShownColumn(SelfPlayRow.mean, "inside"),
    ShownColumn(SelfPlayRow.lowest),
    ShownColumn(SelfPlayRow.highest),
    ShownColumn(SelfPlayRow.seeds),
    ShownColumn(SelfPlayRow.steps),
)
"""How each agent does in all seats."""
BUDGETS = (
    ShownColumn(BudgetRow.agent),
    ShownColumn(BudgetRow.share),
    ShownColumn(BudgetRow.steps),
    ShownColumn(BudgetRow.mean, "inside"),
    ShownColumn(BudgetRow.closed, "inside"),
    ShownColumn(BudgetRow.seeds),
)
"""How each agent does after shares of its training."""
MEASURES = (
    ShownColumn(MeasureRow.agent),
    ShownColumn(MeasureRow.measure),
    ShownColumn(MeasureRow.value, "beside"),
    ShownColumn(MeasureRow.meaning),
)
"""What subgoals know."""


def differences(rows: Sequence[ComparisonRow]) -> tuple[ShownColumn, ...]:
    """Who is better, on a page."""
    # Where all comparisons are about one agent, its name would only make the table wider.
    several = len({row.agent for row in rows}) > 1
    unit = "difference, points" if all(metric_words(row.metric).share for row in rows) else ""
    return (
        ShownColumn(ComparisonRow.group),
        *([ShownColumn(ComparisonRow.agent)] if several else []),
        ShownColumn(ComparisonRow.baseline),
        ShownColumn(ComparisonRow.difference, "beside", unit),
        ShownColumn(ComparisonRow.p_improvement, "bracketed"),
        ShownColumn(ComparisonRow.verdict),
    )


def table_of(
    rows: Sequence[TableRow], columns: Sequence[ShownColumn], names: Names | None = None, metric: str = ""
) -> Cells:
    """Head and lines of a table.

    Args:
        rows: of the kind that the columns are of.
        columns: what is shown.
        names: label -> name of agents.
        metric: whose words the headings have; that of the first row unless given.
    """
    head, lines = screen_table_of(rows, columns, names, metric)
    return head, [[str(cell) for cell in line] for line in lines]


def screen_table_of(
    rows: Sequence[TableRow], columns: Sequence[ShownColumn], names: Names | None = None, metric: str = ""
) -> tuple[Sequence[str], list[Sequence[str | float]]]:
    """The same with the numbers of `bare` columns as numbers, which a screen sets to the right."""
    noun = metric_words(metric or str(rows[0].get("metric", "")) if rows else metric).noun
    head: list[str] = []
    for shown in columns:
        heading = (shown.heading or shown.column.heading).replace("{metric}", noun)
        head.append(f"{heading} [95 %]" if shown.style == "inside" else heading)
        head += [_INTERVAL] if shown.style == "beside" else []
    return head, [[text for shown in columns for text in cells(row, shown, names)] for row in rows]


def cells(row: TableRow, shown: ShownColumn, names: Names | None = None) -> list[str | float]:
    """What a table shows of one column of a row: one cell, or with the interval beside it two."""
    column = shown.column
    if shown.style == "bare":
        return [row[column.name]]
    value = _written(row, column, names)
    if shown.style == "named":
        return [f"{value} ({row[column.named_by]})"]
    if shown.style == "plain" or column.interval is None:
        return [value]
    low, high = (float(row[end]) for end in column.interval)
    ends = [] if math.isnan(low) or math.isnan(high) else [_end(row, column, low), _end(row, column, high)]
    if shown.style == "inside":
        return [f"{value} [{', '.join(ends)}]" if ends else value]
    interval = " to ".join(ends) or _NOTHING
    return [f"{value} ({interval})"] if shown.style == "bracketed" else [value, interval]


def _written(row: TableRow, column: AnyColumn, names: Names | None) -> str:
    value = row.get(column.name, "")
    if isinstance(value, float) and math.isnan(value):
        return _NOTHING
    match column.form:
        case "agent":
            return agent_name(value, names)
        case "group":
            return group_name(value)
        case "score":
            return metric_words(row["metric"]).value(value)
        case "count":
            return f"{value:,}"
        case "percent":
            return f"{value:.0%}"
        case "speed":
            return f"{value:,.0f}"
        case "text" | "number":
            return str(value)
    return _end(row, column, value)


def _end(row: TableRow, column: AnyColumn, value: float) -> str:
    """A number as it stands in an interval, without its unit."""
    match column.form:
        case "score":
            return metric_words(row["metric"]).bare(value)
        case "difference":
            return metric_words(row["metric"]).signed(value)
        case "measure":
            return minus(f"{value:.3f}")
    return minus(f"{value:.2f}")
