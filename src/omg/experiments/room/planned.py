"""The room in a pipeline: whether its pool was measured, and what its agents close of it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from omg.components.files import checksum
from omg.evaluation.rows import read_rows
from omg.evaluation.tables import ClosedRow, RoomRow, ScoreRow
from omg.experiments.room.keeping import ROOM, ROOM_FILE
from omg.experiments.room.reading import closed_of, room_rows
from omg.report.chapters import Chapter
from omg.report.room import below_lines, room_chapter, room_levels

if TYPE_CHECKING:
    from omg.experiments.plan_check import CheckedPlan

CLOSED_FILE = "closed.csv"


def measured_before(checked: CheckedPlan) -> str | None:
    """What tells the room of a pool from another, where no stage of the plan measures it; None without one."""
    if checked.plan.room is not None:
        return None
    given = checked.given_pool
    pools = [checked.pool, *([] if given is None else [given])]
    file = next((pool / ROOM / ROOM_FILE for pool in pools if (pool / ROOM / ROOM_FILE).is_file()), None)
    return None if file is None else checksum(file)


def is_measured(checked: CheckedPlan) -> bool:
    """Whether agents that are evaluated with teams can be seen on the scale of a room."""
    asked = checked.plan.room is not None or measured_before(checked) is not None
    return asked and checked.plan.evaluation.plays_groups


def closed_file(checked: CheckedPlan) -> Path:
    """The table of what agents close of the room."""
    return checked.folder / "evaluation" / CLOSED_FILE


def planned_closed(checked: CheckedPlan, scores: Sequence[ScoreRow]) -> list[ClosedRow]:
    """What agents close of the room with the first set; `scores` are theirs with that set."""
    return closed_of(checked.pool, checked.plan.evaluation.sets[0], checked.metric, scores)


def closed_table(checked: CheckedPlan) -> list[ClosedRow]:
    """The same once it was written; nothing without a room."""
    file = closed_file(checked)
    return read_rows(file, ClosedRow) if is_measured(checked) and file.is_file() else []


def below_best_fixed(checked: CheckedPlan) -> list[str]:
    """One line for every agent of the plan that ends below best fixed; who was not trained is not expected to do so."""
    learned = [row for row in closed_table(checked) if row.agent in checked.agents]
    return below_lines(learned, checked.plan.report.names)


def planned_room(checked: CheckedPlan) -> list[RoomRow]:
    """Floor to ceiling of the first set's groups; nothing where they were not measured."""
    return room_rows(checked.pool, checked.plan.evaluation.sets[0], checked.metric) if is_measured(checked) else []


def planned_levels(checked: CheckedPlan) -> dict[str, dict[str, float]]:
    """Group of the first set -> name and height of what the game allows; nothing where that was not measured."""
    return {row.group: room_levels(row) for row in planned_room(checked)}


def room_chapters(checked: CheckedPlan) -> list[Chapter]:
    """What the report says of the room; nothing where it was not measured."""
    rows = planned_room(checked)
    return [room_chapter(rows, closed_table(checked), checked.plan.report.names)] if rows else []
