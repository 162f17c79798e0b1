"""The tables of a report as texts, and the lines that explain them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from omg.evaluation.profiles import self_play_gaps
from omg.evaluation.report_tables import GapRow, SettingRow, TrainingRow
from omg.evaluation.tables import ComparisonRow, CrossPlayRow, MeasureRow, SummaryRow, TeamRow
from omg.report.derived import referred, team_rows
from omg.report.inputs import ReportInput, by_metric
from omg.report.tables import MEASURES, SCORES, Cells, ShownColumn, cells, differences, table_of
from omg.report.words import LAST_TEST

SELF_PLAY_WORDS = (
    "Agents that learned in all seats: mean over seeds of what the last test of each found, its 95 % interval over "
    "seeds, the lowest and the highest seed."
)
_TESTS = tuple(column for column in SCORES if column.column not in (SummaryRow.worst, SummaryRow.teams))
_TEAMS = (
    ShownColumn(TeamRow.agent),
    ShownColumn(TeamRow.group),
    ShownColumn(TeamRow.team),
    ShownColumn(TeamRow.metric),
    ShownColumn(TeamRow.mean, heading="mean"),
    ShownColumn(TeamRow.lowest, heading="lowest seed"),
    ShownColumn(TeamRow.highest, heading="highest seed"),
    ShownColumn(TeamRow.seeds),
)
_GAPS = (
    ShownColumn(GapRow.agent),
    ShownColumn(GapRow.self_play),
    ShownColumn(GapRow.cross_play),
    ShownColumn(GapRow.gap, "beside"),
    ShownColumn(GapRow.mates),
)
_RUNS = tuple(ShownColumn(column) for column in TrainingRow.columns())
_SETTINGS = tuple(ShownColumn(column) for column in SettingRow.columns())


def score_table(report: ReportInput, group: str) -> Cells:
    """How each agent does with one group."""
    rows = [SummaryRow.of(row) for row in report.summary if row["group"] == group]
    return table_of(rows, _TESTS if group == LAST_TEST else SCORES, report.names, report.metric)


def team_table(report: ReportInput) -> Cells:
    """How each agent does with each team."""
    return table_of(team_rows(report.scores), _TEAMS, report.names)


def difference_table(report: ReportInput) -> Cells:
    """Who is better."""
    rows = [ComparisonRow.of(row) for rows in by_metric(report.comparison).values() for row in rows]
    return table_of(rows, differences(rows), report.names)


def gap_table(report: ReportInput) -> Cells | None:
    """How much worse players do with others than with themselves; None where nobody was played with itself."""
    rows = [CrossPlayRow.of({"mate": row["team"], "metric": report.metric, **row}) for row in report.cross_play]
    gaps = self_play_gaps(rows)
    return table_of(gaps, _GAPS, report.names) if gaps else None


def diagnostic_table(report: ReportInput) -> Cells:
    """What the subgoals know, beside what would be known by chance and if everybody stayed."""
    (*_, meaning), shown = MEASURES, MEASURES[:-1]
    head, _ = table_of([], shown, report.names)
    lines: list[Sequence[str]] = []
    for one in referred(report.diagnostics):
        own = [str(text) for column in shown for text in cells(MeasureRow.of(one.row), column, report.names)]
        chance = one.chance_words if math.isnan(one.chance) else f"{one.chance:.3f}"
        stay = "" if math.isnan(one.stay) else f"{one.stay:.3f}"
        lines.append([*own, chance or "\N{EN DASH}", stay or "\N{EN DASH}", str(one.row.get("meaning", ""))])
    return [*head, "by chance", "if all stay", meaning.column.heading], lines


def run_table(report: ReportInput) -> Cells:
    """How far every run is, how fast it was, and what it took."""
    return table_of(list(report.runs), _RUNS, report.names)


def setting_table(report: ReportInput) -> Cells:
    """What differs between runs and from the defaults."""
    return table_of(list(report.settings), _SETTINGS)


def reading(report: ReportInput) -> list[str]:
    """How to read the numbers."""
    over = {str(row["interval_over"]) for row in report.comparison}
    if not report.summary:
        lines = [
            "A seed is one training of an agent. Intervals of self-play resample seeds: another set of trainings.",
            "P(improvement) is how often a training of the agent does better than a training of the baseline, with its "
            "95 % interval; 0.5 means neither.",
        ]
        if report.adaptation:
            others = "seeds and co-players" if "seeds and teams" in over else "seeds: these co-players only"
            lines.append(
                f"In the first episodes all agents meet the same co-players, from the same starts; intervals of "
                f"differences resample {others}."
            )
        return lines
    if report.groups == [LAST_TEST]:
        return [
            "A seed is one training of an agent. The numbers are those of the last test of each seed, with whoever it "
            "was trained with; intervals resample seeds: another set of trainings.",
            "Agents that were trained with different partners, or tested in different games, cannot be compared.",
        ]
    lines = [
        "A seed is one training of an agent. A team is one choice of team-mates that the agent has never met in "
        "training. All agents play with the same teams, from the same starts.",
        "IQM is the interquartile mean: the mean of the middle half of all seeds and teams.",
        "P(improvement) is how often a training of the agent does better than a training of the baseline with the same "
        "team, with its 95 % interval; 0.5 means neither.",
        "Intervals of scores resample seeds: another set of trainings, the same teams.",
    ]
    if "seeds and teams" in over:
        lines.append(
            "Intervals of differences resample seeds and teams: other trainings, other teams of the same kind."
        )
    if "seeds" in over:
        lines.append("Where it says “these teams only”, too few teams were played to say anything about other teams.")
    return lines
