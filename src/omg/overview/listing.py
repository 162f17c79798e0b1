"""The table of what is on disk: its rows, which of them are wanted, and in which order."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from omg.errors import UserError, unknown_name
from omg.evaluation.overview_tables import OverviewRow
from omg.overview.finding import Found, find
from omg.overview.runs import Reader
from omg.overview.stages import pipeline_row, pool_row
from omg.types import Json

_RANK = {"running": 0}
"""What is running stands above everything else, unless another order is asked for."""


@dataclass(frozen=True)
class Listed:
    """A row and what it is about."""

    row: OverviewRow
    found: Found
    curve: tuple[float, ...] = ()
    """The tests of a run, for a small picture."""


@dataclass(frozen=True)
class Listing:
    """What some folders hold."""

    listed: list[Listed]
    pages: list[Path]
    """Reports that belong to none of the rows."""
    complete: bool
    """Whether everything was looked at."""

    @property
    def rows(self) -> list[OverviewRow]:
        """The rows alone."""
        return [one.row for one in self.listed]


class Shelf:
    """Folders that are looked at again and again."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self.folders = list(folders)
        self._reader = Reader()

    def look(self) -> Listing:
        """What they hold now: what is running first, then by how long ago it last wrote something.

        Raises:
            UserError: one of the folders is none.
        """
        finding = find(self.folders)
        rows: dict[int, OverviewRow] = {}
        # What lies inside something was found after it, and is needed for its row.
        for found in reversed(finding.found):
            inner = [rows[id(one)] for one in found.inner if id(one) in rows]
            row = self._row(found, inner)
            if row is not None:
                rows[id(found)] = row
        known = [found for found in finding.found if id(found) in rows]
        listed = [Listed(rows[id(found)], found, self._reader.curve(found)) for found in known]
        listed.sort(key=lambda one: (_RANK.get(one.row.status, 1), _sortable(one.row.age)))
        return Listing(listed, finding.pages, finding.complete)

    def _row(self, found: Found, inner: Sequence[OverviewRow]) -> OverviewRow | None:
        if found.kind == "run":
            return self._reader.row(found)
        return pool_row(found, inner) if found.kind == "pool" else pipeline_row(found, inner)


def chosen(listed: Sequence[Listed], conditions: Sequence[str], order: str | None, *, reverse: bool) -> list[Listed]:
    """The rows that are wanted.

    Args:
        listed: in the order that they have by themselves.
        conditions: `column=value`, all of which must hold; a text may have `*` and `?` in it.
        order: a column; None leaves the order as it is.
        reverse: whether the order is turned round.

    Raises:
        UserError: there is no such column.
    """
    pairs = [_condition(one) for one in conditions]
    wanted = [one for one in listed if all(_holds(one.row[name], value) for name, value in pairs)]
    if order is not None:
        key = _column("--sort", order)
        wanted.sort(key=lambda one: _sortable(one.row[key]))
    return wanted[::-1] if reverse else wanted


def _condition(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign:
        raise UserError(f"--where: got '{text}'; expected column=value, e.g. --where status=running.")
    return _column("--where", name), value


def _column(option: str, name: str) -> str:
    if name not in OverviewRow.names():
        raise unknown_name(f"column ({option})", name, OverviewRow.names())
    return name


def _holds(cell: Json, value: str) -> bool:
    if isinstance(cell, str):
        return fnmatchcase(cell, value)
    try:
        return float(cell) == float(value) or (math.isnan(cell) and math.isnan(float(value)))
    except ValueError:
        return False


def _sortable(cell: Json) -> tuple[int, Json]:
    """Texts in their order, numbers in theirs, what is unknown at the end."""
    if isinstance(cell, str):
        return (0, cell) if cell else (1, "")
    return (1, 0.0) if math.isnan(cell) else (0, cell)


def plain_row(row: OverviewRow) -> dict[str, Json]:
    """A row as JSON has it, which knows no nan."""
    return {name: None if isinstance(cell, float) and not math.isfinite(cell) else cell for name, cell in row.items()}
