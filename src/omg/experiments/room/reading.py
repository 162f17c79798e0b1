"""What a pool says of its room, once it was measured: the scale on which agents are seen."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from omg.evaluation.room import Responses, RoomScale, closed_rows
from omg.evaluation.rows import read_rows
from omg.evaluation.tables import ClosedRow, ResponseRow, RoomRow
from omg.experiments.room.keeping import room_folder
from omg.experiments.room.measuring import RESPONSES_FILE, ROOM_FILE
from omg.pools import Pool
from omg.types import Row


def room_rows(pool: str | Path, which: str, metric: str) -> list[RoomRow]:
    """Floor to ceiling of each group of a set that was measured; none where it was not.

    Raises:
        UserError: a table is damaged.
    """
    file = room_folder(Pool.open(pool)) / ROOM_FILE
    rows = read_rows(file, RoomRow) if file.is_file() else []
    return [row for row in rows if (row.set, row.metric) == (which, metric)]


def room_scales(pool: str | Path, which: str, metric: str) -> dict[str, RoomScale]:
    """Group of teams -> floor, best fixed and ceiling with each of its teams."""
    rows = room_rows(pool, which, metric)
    file = room_folder(Pool.open(pool)) / RESPONSES_FILE
    if not rows or not file.is_file():
        return {}
    cells: dict[tuple[str, str], list[ResponseRow]] = {}
    for cell in read_rows(file, ResponseRow):
        if cell.metric == metric:
            cells.setdefault((cell.set, cell.group), []).append(cell)
    return {
        row.group: RoomScale.of(
            Responses.of(cells.get((which, row.group), ())), Responses.of(cells.get((row.chosen_on, row.group), ()))
        )
        for row in rows
    }


def closed_of(pool: str | Path, which: str, metric: str, scores: Iterable[Row]) -> list[ClosedRow]:
    """How much of the room agents close with the teams of a set; nothing where it was not measured with these teams.

    Args:
        pool: whose teams.
        which: the set.
        metric: of the scores.
        scores: columns of `ScoreRow`.
    """
    scales = room_scales(pool, which, metric)
    return closed_rows(scores, metric, scales) if scales else []
