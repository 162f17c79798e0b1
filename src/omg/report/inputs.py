"""What a report is made of: rows of tables and a few words; nothing in it plays or trains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from omg.errors import UserError
from omg.evaluation.comparison import compare, summarise
from omg.evaluation.report_tables import SettingRow, TrainingRow
from omg.evaluation.tables import OffsetRow
from omg.report.chapters import Chapter
from omg.report.curves import Curve
from omg.report.self_play import compare_without_teams
from omg.report.style import agent_order
from omg.types import Row


@dataclass(frozen=True)
class ShownGame:
    """A recorded game that is played on the page."""

    title: str
    """Which one it is: the best, the median, the worst."""
    page: str
    """The player, a page of our own that stands inside this one."""


@dataclass(frozen=True)
class ReportInput:
    """Everything a report is made of; only the first four fields are needed, and parts that are empty are left out."""

    title: str
    metric: str
    """The metric that the verdict is about, e.g. `battle_won`."""
    summary: Sequence[Row]
    """Columns of `SummaryRow`, as `omg.evaluation.summarise` returns them; empty without an evaluation."""
    comparison: Sequence[Row]
    """Columns of `ComparisonRow`, as `omg.evaluation.compare` returns them.

    The first pair of agent and baseline is the one in the headline.
    """
    lead: str = ""
    """A sentence that stands before everything else, also before the title."""
    question: str = "Does modelling the others help here?"
    answer: str = ""
    """The answer where nobody is compared with anybody."""
    remark: str = ""
    """What to bear in mind, below the answer."""
    names: Mapping[str, str] = field(default_factory=dict)
    """Label -> name of agents."""
    scores: Sequence[Row] = ()
    """Columns of `ScoreRow`: what the summary is made of, of all metrics."""
    levels: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Group -> name and height of what the game allows: floor, best fixed, ceiling; where a room was measured."""
    curves: Mapping[str, Mapping[str, Curve]] = field(default_factory=dict)
    """Metric of the training -> label -> mean over seeds; the most important metric first."""
    curves_levels: Mapping[str, float] = field(default_factory=dict)
    """The same for the tests of the training, where these were played with the partners of the room."""
    self_play: Sequence[Row] = ()
    """Rows of agents that learned in all seats; see `omg.report.self_play`."""
    cross_play: Sequence[Row] = ()
    """Rows with `agent`, `team` and `mean` of `metric`."""
    offsets: Sequence[Row] = ()
    """Columns of `OffsetRow`."""
    diagnostics: Sequence[Row] = ()
    """Columns of `MeasureRow`; ends of an interval that are None or NaN: there is none."""
    warnings: Sequence[str] = ()
    """Sentences that must be read before the answer."""
    chapters: Sequence[Chapter] = ()
    """Further parts, which stand before who is better."""
    adaptation: Chapter | None = None
    """First episodes with new co-players."""
    games: Sequence[ShownGame] = ()
    """Recorded games: the best, the median and the worst."""
    runs: Sequence[TrainingRow] = ()
    """The trainings: how far, how fast."""
    settings: Sequence[SettingRow] = ()
    """What differs between them and from the defaults."""
    trainings: Sequence[str] = ()
    """The commands that repeat them."""
    commands: Sequence[str] = ()
    """The commands that repeat all this, in order."""
    versions: Mapping[str, str] = field(default_factory=dict)
    machine: str = ""
    notes: Sequence[str] = ()
    """Further paragraphs about how it was run, in plain text."""

    def require(self) -> None:
        """Refuses a report without anything to say.

        Raises:
            UserError: there is neither a comparison nor an answer.
        """
        if not self.comparison and not self.answer:
            raise UserError("report: there are no scores to compare. Evaluate at least two agents with the same teams.")

    @property
    def agents(self) -> list[str]:
        """Labels in the order of their colours, which are the same throughout."""
        return agent_order(
            [*self.summary, *({"agent": label} for found in self.curves.values() for label in found), *self.offsets]
        )

    @property
    def far_offsets(self) -> list[OffsetRow]:
        """How far ahead the selected subgoals lie; nothing where only what comes next can be selected."""
        rows = [OffsetRow.of(row) for row in self.offsets]
        return rows if any(row.offset > 1 for row in rows) else []

    @property
    def groups(self) -> list[str]:
        """Of the summary."""
        return list(dict.fromkeys(str(row["group"]) for row in self.summary))


def report_input(
    title: str,
    scores: Sequence[Row],
    metric: str,
    agent: str,
    baselines: Sequence[str],
    *,
    lower_is_better: bool = False,
    **parts: Any,
) -> ReportInput:
    """The input of a report from tidy rows: summary and comparison are worked out here.

    Args:
        title: heading of the page.
        scores: tidy score rows; see `omg.evaluation.comparison`. Without any the agents are compared by the parts
            `self_play` and `adaptation`.
        metric: what the verdict is about.
        agent: the agent in question.
        baselines: what it is compared with, the most important one first.
        lower_is_better: for metrics such as the number of steps.
        parts: further fields of `ReportInput`.
    """
    if not scores:
        chapter = parts.get("adaptation")
        played = parts.get("self_play", ()), () if chapter is None else chapter.scores
        comparison = compare_without_teams(agent, baselines, *played, lower_is_better=lower_is_better)
        return ReportInput(title, metric, [], comparison, **parts)
    summary = summarise(scores, metric, lower_is_better=lower_is_better)
    comparison = compare(scores, metric, agent, baselines, lower_is_better=lower_is_better) if baselines else []
    return ReportInput(title, metric, summary, comparison, scores=scores, **parts)


def by_metric(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Rows by their metric, in the order in which these first appear: each has a figure of its own."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(str(row["metric"]), []).append(row)
    return found
