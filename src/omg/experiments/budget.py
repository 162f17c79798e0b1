"""What a pipeline's agents reach after shares of their training, and what the game would have allowed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from omg.evaluation.budget import Marks, budget_rows
from omg.evaluation.rows import read_rows, write_rows
from omg.evaluation.suite_tables import BudgetRow, BudgetScoreRow
from omg.experiments.room.reading import room_rows
from omg.report.budget import budget_chapter, room_answer
from omg.report.chapters import Chapter

if TYPE_CHECKING:
    from omg.experiments.plan_check import CheckedPlan


def budget_files(checked: CheckedPlan) -> tuple[Path, ...]:
    """What `write_budget_tables` makes; nothing where the plan does not ask for shares of the training."""
    folder = checked.folder / "evaluation"
    return (folder / "budget_scores.csv", folder / "budget.csv") if checked.plan.evaluation.at else ()


def room_marks(pool: Path, pool_set: str, metric: str) -> dict[str, Marks]:
    """Group of teams -> floor, best fixed, ceiling and optimum with a set of a pool; nothing where no room is known."""
    rows = room_rows(pool, pool_set, metric)
    return {row.group: Marks(row.floor, row.best_fixed, row.ceiling, row.exact) for row in rows}


def write_budget_tables(checked: CheckedPlan, scores: Sequence[BudgetScoreRow]) -> None:
    """Writes the scores after shares of the training and their summary, of the verdict's metric."""
    files = budget_files(checked)
    if not files:
        return
    write_rows(files[0], scores, BudgetScoreRow.names())
    rows: list[BudgetRow] = []
    for name in checked.plan.evaluation.sets:
        own = [row for row in scores if row.set == name]
        rows += budget_rows(own, checked.metric, room_marks(checked.pool, name, checked.metric))
    write_rows(files[1], rows, BudgetRow.names())


def budget_summary(checked: CheckedPlan) -> list[BudgetRow]:
    """How every agent does after shares of its training, with the first set; nothing where it was not asked for."""
    files = budget_files(checked)
    rows = read_rows(files[1], BudgetRow) if files else []
    return [row for row in rows if row.set == checked.plan.evaluation.sets[0]]


def budget_chapters(checked: CheckedPlan) -> list[Chapter]:
    """What the report says about that."""
    rows, marks = budget_summary(checked), marks_of(checked)
    return [budget_chapter(rows, marks, checked.plan.report.names)] if rows else []


def planned_answer(checked: CheckedPlan) -> str:
    """How much of the room every agent closes, in one sentence; nothing where that is not known."""
    return room_answer(budget_summary(checked), marks_of(checked), checked.plan.report.names)


def marks_of(checked: CheckedPlan) -> Mapping[str, Marks]:
    """Group of teams -> what the game allows with the first set; nothing where no room was measured."""
    return room_marks(checked.pool, checked.plan.evaluation.sets[0], checked.metric)
