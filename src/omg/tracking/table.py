"""A small tidy table: rows of plain values, as CSV on disk; hand it to pandas or Polars when you like."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, overload

from omg.components.files import write_text
from omg.errors import UserError
from omg.evaluation.rows import Column, csv_text
from omg.evaluation.tables import MetricRow
from omg.types import Json, Row

if TYPE_CHECKING:
    from pandas import DataFrame

T = TypeVar("T")
RowT = TypeVar("RowT", bound=Row)

_SHOWN = 5
"""Rows that the `repr` of a table shows."""


class Table(Sequence[RowT]):
    """Rows with the same columns.

    >>> table = Table([{"seed": 1, "t_env": 10, "name": "loss", "value": 0.5}])
    >>> table.where(name="loss").column("value")
    [0.5]
    """

    def __init__(self, rows: Sequence[RowT]) -> None:
        self._rows = list(rows)

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, index: int) -> RowT: ...

    @overload
    def __getitem__(self, index: slice) -> list[RowT]: ...

    def __getitem__(self, index: int | slice) -> RowT | list[RowT]:
        return self._rows[index]

    def __iter__(self) -> Iterator[RowT]:
        return iter(self._rows)

    def __repr__(self) -> str:
        """How many rows of what there are, and the first of them."""
        lines = [self.columns, *([_shown(row.get(name)) for name in self.columns] for row in self._rows[:_SHOWN])]
        widths = [max(len(line[place]) for line in lines) for place in range(len(self.columns))]
        text = [f"Table({len(self)} row{'' if len(self) == 1 else 's'}: {', '.join(self.columns)})"]
        for line in lines if self._rows else []:
            text.append("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
        return "\n".join(text + ["..."] * (len(self) > _SHOWN))

    @property
    def columns(self) -> list[str]:
        """Column names, in order."""
        return list(self._rows[0]) if self._rows else []

    @overload
    def column(self, name: str) -> list[Json]: ...

    @overload
    def column(self, name: Column[T]) -> list[T]: ...

    def column(self, name: str | Column[T]) -> list[Json]:
        """All values of one column, given by its name or as a kind of row has it, `MetricRow.value`."""
        key = name if isinstance(name, str) else name.name
        return [row[key] for row in self._rows]

    def where(self, **equals: object) -> Table[RowT]:
        """The rows whose columns equal the given values."""
        return Table([row for row in self._rows if all(row.get(key) == value for key, value in equals.items())])

    def last(self, **equals: object) -> Json:
        """The `value` of the last matching row, or None."""
        found = self.where(**equals)
        return found[-1]["value"] if len(found) else None

    def to_pandas(self) -> DataFrame:
        """The table as a `pandas.DataFrame`.

        Raises:
            UserError: pandas is not installed; nothing else here needs it.
        """
        try:
            import pandas
        except ImportError:
            raise UserError(
                "to_pandas: needs the package pandas, which is not installed. Install it with: pip install pandas. "
                "Without it, list(table) has the rows as dictionaries and table.write_csv(PATH) writes them."
            ) from None
        return pandas.DataFrame(self._rows, columns=self.columns)

    def write_csv(self, path: Path) -> None:
        """Writes the table atomically."""
        write_text(path, csv_text(self._rows, self.columns))


def _shown(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def read_metrics(path: Path) -> Table[MetricRow]:
    """Reads `metrics.csv`; a last line that was cut off is left out."""
    rows = []
    if path.is_file():
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True)
        for number, line in enumerate(lines[1:], start=2):
            if not line.endswith("\n"):
                break
            try:
                seed, t_env, name, value = line.rstrip("\n").split(",")
                rows.append(MetricRow(seed=int(seed), t_env=int(t_env), name=name, value=float(value)))
            except ValueError:
                raise UserError(f"{path} is damaged: line {number} is not '{','.join(MetricRow.names())}'.") from None
    return Table(rows)
