"""Rows of tables: dictionaries whose columns are declared once, with their type, heading, format and meaning.

    class CellRow(TableRow):
        agent: Field[str] = text("agent", "who played", form="agent")
        mean: Field[float] = real("mean", "over all episodes")

    row = CellRow(agent="iql", mean=0.5)   # row.mean is a float; row["mean"], dict(row) and json.dumps(row) work, too
    CellRow.names()                        # ["agent", "mean"]: the head of the CSV file
    CellRow.mean.heading                   # what a column is called where people read it

Rows stay dictionaries because users hand them to pandas, JSON and their own code.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Generic, Literal, SupportsFloat, SupportsInt, TypeVar, dataclass_transform, overload

from omg.disk import write_text
from omg.errors import UserError
from omg.names import cell
from omg.types import Row

T = TypeVar("T")
R = TypeVar("R", bound="TableRow")
Seed = int | str
"""A training seed, or what else tells trainings apart."""

Form = Literal[
    "text", "agent", "group", "score", "difference", "share", "percent", "measure", "count", "speed", "number"
]
"""How a value is written for people: as it is; as the name of an agent or a group; as a score or a difference in the
words of its metric; with two decimals; in percent; with three decimals; as a whole number; as one without its decimals;
or as the number it is."""


class Column(Generic[T]):
    """What there is to know about one column of a kind of row."""

    def __init__(
        self,
        heading: str,
        meaning: str,
        read: Callable[[object], T],
        form: Form,
        *,
        name: str = "",
        interval: tuple[str, str] | None = None,
        named_by: str = "",
        first: bool = False,
    ) -> None:
        self.heading, self.meaning, self.read, self.form = heading, meaning, read, form
        self.name, self.interval, self.named_by, self.first = name, interval, named_by, first


AnyColumn = Column[Any]


class Field(Column[T]):
    """A column as an attribute: of a kind of row it is the column, of a row its value."""

    def __set_name__(self, owner: type, attribute: str) -> None:
        self.name = self.name or attribute

    @overload
    def __get__(self, row: None, owner: type) -> Column[T]: ...

    @overload
    def __get__(self, row: TableRow, owner: type) -> T: ...

    def __get__(self, row: TableRow | None, owner: type) -> Column[T] | T:
        if row is None:
            return self
        value: T = row[self.name]
        return value

    def __set__(self, row: TableRow, value: T) -> None:
        row[self.name] = value


def text(heading: str, meaning: str, *, form: Form = "text", name: str = "", first: bool = False) -> Field[str]:
    """A column of words.

    Args:
        heading: what it is called on the screen and on pages; `{metric}` stands for the metric's own words.
        meaning: one line for the documentation.
        form: how it is written for people.
        name: of the column in files; that of the attribute unless given.
        first: whether it stands before the columns of the kind of row that this one extends.
    """
    return Field(heading, meaning, str, form, name=name, first=first)


def whole(heading: str, meaning: str, *, form: Form = "count", name: str = "") -> Field[int]:
    """A column of whole numbers; see `text`."""
    return Field(heading, meaning, _whole, form, name=name)


def real(
    heading: str,
    meaning: str,
    *,
    form: Form = "number",
    name: str = "",
    interval: tuple[str, str] | None = None,
    named_by: str = "",
) -> Field[float]:
    """A column of numbers; see `text`.

    Args:
        heading: see `text`.
        meaning: see `text`.
        form: see `text`.
        name: see `text`.
        interval: the columns with the ends of its interval.
        named_by: the column that says whose value it is.
    """
    return Field(heading, meaning, _real, form, name=name, interval=interval, named_by=named_by)


def label(heading: str, meaning: str) -> Field[Seed]:
    """A column of training seeds: numbers, or whatever else tells trainings apart."""
    return Field(heading, meaning, _label, "text")


@dataclass_transform(kw_only_default=True, field_specifiers=(text, whole, real, label))
class TableRow(dict[str, Any]):
    """A row of any table. By itself it has the columns of all kinds of rows, none of which must be there."""

    _columns: ClassVar[dict[str, AnyColumn]] = {}

    def __init_subclass__(cls) -> None:
        """Collects the columns, in the order of the file."""
        super().__init_subclass__()
        own = {column.name: column for column in vars(cls).values() if isinstance(column, Field)}
        inherited = {} if cls.__base__ is TableRow else cls._columns
        leading = {name: column for name, column in own.items() if column.first}
        cls._columns = {**leading, **inherited, **own}
        TableRow._columns.update({name: column for name, column in own.items() if name not in TableRow._columns})

    def __init__(self, **values: object) -> None:
        """A value for every attribute that is a column."""
        kind = type(self)
        named = {getattr(kind, attribute).name: value for attribute, value in values.items()}
        if set(named) != set(self._columns):
            different = ", ".join(sorted(set(named) ^ set(self._columns)))
            raise TypeError(f"{kind.__name__} has the columns {', '.join(self._columns)}: {different}")
        super().__init__((name, named[name]) for name in self._columns)

    @classmethod
    def names(cls) -> list[str]:
        """Names of the columns, in the order of the file."""
        return list(cls._columns)

    @classmethod
    def columns(cls) -> list[AnyColumn]:
        """The columns, in the order of the file."""
        return list(cls._columns.values())

    @classmethod
    def of(cls: type[R], row: Row) -> R:
        """A row that somebody gave: numbers may be text, columns may be missing, and others may be there.

        Raises:
            ValueError: a number is none.
        """
        if isinstance(row, cls):
            return row
        made = cls.__new__(cls)
        for name, value in row.items():
            made[name] = cls._columns[name].read(value) if name in cls._columns else value
        return made

    @classmethod
    def extended(cls: type[R], row: TableRow, **more: object) -> R:
        """A row of this kind from one of the kind that it extends and the values of the further columns."""
        made = cls.__new__(cls)
        made.update((name, more[name] if name in more else row[name]) for name in cls._columns)
        return made


def csv_text(rows: Iterable[Row], columns: Sequence[str]) -> str:
    """Rows as the text of a CSV file; no text in it is taken for a formula."""
    file = io.StringIO()
    writer = csv.DictWriter(file, fieldnames=columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows({key: cell(value) for key, value in row.items()} for row in rows)
    return file.getvalue()


def write_rows(path: Path, rows: Iterable[Row], columns: Sequence[str]) -> None:
    """Writes rows as CSV, atomically; the columns are there even without rows.

    Raises:
        UserError: the file cannot be written.
    """
    text = csv_text(rows, columns)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, text)
    except OSError as error:
        raise UserError(f"{path} cannot be written: {error.strerror or error}.") from None


@overload
def read_rows(path: Path) -> list[TableRow]: ...


@overload
def read_rows(path: Path, kind: type[R]) -> list[R]: ...


def read_rows(path: Path, kind: type[TableRow] = TableRow) -> Sequence[TableRow]:
    """Reads what `write_rows` wrote, numbers as numbers.

    Args:
        path: the file.
        kind: of its rows; their columns must all be there. Without it any columns may.

    Raises:
        UserError: the file is gone or damaged, or is no such table.
    """
    try:
        with path.open(encoding="utf-8", newline="") as file:
            reader = csv.DictReader(file)
            missing = (
                [] if kind is TableRow else [name for name in kind.names() if name not in (reader.fieldnames or ())]
            )
            if missing:
                raise ValueError(f"it has no column '{missing[0]}'")
            return [kind.of(_whole_line(row, reader.line_num)) for row in reader]
    except (OSError, ValueError, csv.Error) as error:
        raise UserError(f"{path} cannot be read: {error}.") from None


def _whole_line(row: Mapping[str, str], number: int) -> Row:
    """The row, if it has a cell for each column and no more; the reader marks both by None."""
    if None in row or None in row.values():
        raise ValueError(f"line {number} has not as many cells as the first")
    return row


def _whole(value: object) -> int:
    if isinstance(value, str | SupportsInt):
        return int(value)
    raise ValueError(f"got {value!r}, expected a whole number")


def _real(value: object) -> float:
    if value is None:
        return math.nan
    if isinstance(value, str | SupportsFloat):
        return float(value)
    raise ValueError(f"got {value!r}, expected a number")


def _label(value: object) -> Seed:
    if isinstance(value, int):
        return value
    try:
        return int(str(value))
    except ValueError:
        return str(value)
