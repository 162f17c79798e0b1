"""Tables as Parquet files, for those who have pyarrow; the rows are those of the CSV files."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from types import ModuleType

from omg.components.files import write_bytes
from omg.errors import UserError
from omg.evaluation.rows import R
from omg.types import Row

_MOST_BYTES = 256_000_000


def write_parquet(path: Path, rows: Iterable[Row], kind: type[R]) -> None:
    """Writes rows as Parquet, atomically, with the columns of their kind.

    Raises:
        UserError: pyarrow is not installed, or the file cannot be written.
    """
    arrow, parquet = _pyarrow()
    given = [kind.of(row) for row in rows]
    types = {str: arrow.string(), int: arrow.int64(), float: arrow.float64()}
    columns = {column.name: [row[column.name] for row in given] for column in kind.columns()}
    fields = [(name, types[_type_of(values)]) for name, values in columns.items()]
    data = {name: [_cast(value, _type_of(values)) for value in values] for name, values in columns.items()}
    sink = arrow.BufferOutputStream()
    parquet.write_table(arrow.table(data, schema=arrow.schema(fields)), sink)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_bytes(path, sink.getvalue().to_pybytes())
    except OSError as error:
        raise UserError(f"{path} cannot be written: {error.strerror or error}.") from None


def read_parquet(path: Path, kind: type[R]) -> list[R]:
    """Reads what `write_parquet` wrote.

    Raises:
        UserError: pyarrow is not installed, or the file is gone, too large or damaged, or is no such table.
    """
    arrow, parquet = _pyarrow()
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise ValueError(f"it has more than {_MOST_BYTES:,} bytes")
        table = parquet.read_table(path, memory_map=False)
        missing = [name for name in kind.names() if name not in table.column_names]
        if missing:
            raise ValueError(f"it has no column '{missing[0]}'")
        return [kind.of(row) for row in table.select(kind.names()).to_pylist()]
    except (OSError, ValueError, arrow.ArrowException) as error:
        raise UserError(f"{path} cannot be read: {' '.join(str(error).split())}.") from None


def _pyarrow() -> tuple[ModuleType, ModuleType]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise UserError(
            "Parquet needs the package pyarrow, which is not installed. Install it with: "
            "pip install omg-marl[parquet]. "
            "Without it the same tables are written as CSV."
        ) from None
    return pyarrow, parquet


def _type_of(values: list[object]) -> type:
    """The type that a column has: numbers where all are, whole ones where all are, otherwise text."""
    if any(isinstance(value, str) for value in values) or not values:
        return str
    return int if all(isinstance(value, int) for value in values) else float


def _cast(value: object, kind: type) -> object:
    return str(value) if kind is str else value
