"""Printing rows of results."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Literal

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from omg.names import inert
from omg.types import Row

if TYPE_CHECKING:
    from omg.report.terminal import Screen

_ENDLESS = 100_000
"""Columns of an output that no terminal shows."""


def print_table(title: str, columns: Sequence[str], *groups: Sequence[Sequence[object]]) -> None:
    """Prints groups of rows under a title; numbers stand to the right, long texts wrap.

    What a row is about stands in its first column and is never broken. Where no terminal is, nothing is: lines are as
    long as they need to be, for `grep` and files.
    """
    rows = [row for group in groups for row in group]
    console = Console()
    if not console.is_terminal:
        console.width = _ENDLESS
    # Text, not str: square brackets in names and values are not markup.
    table = Table(box=box.SIMPLE_HEAD)
    for index, column in enumerate(columns):
        numeric = all(isinstance(row[index], int | float) and not isinstance(row[index], bool) for row in rows)
        side: Literal["left", "right"] = "right" if numeric and rows else "left"
        table.add_column(_text(column), justify=side, overflow="fold", no_wrap=index == 0)
    for group in groups:
        for row in group:
            table.add_row(*(_text(shown(value)) for value in row))
        table.add_section()
    # By itself: as a part of the table it would be broken where the table ends.
    console.print(_text(title, "italic"), soft_wrap=True)
    console.print(table)


def print_rows(title: str, rows: Iterable[Row]) -> None:
    """Prints rows given as mappings; the columns are all keys in the order in which they first occur."""
    rows = list(rows)
    columns = list(dict.fromkeys(key for row in rows for key in row))
    print_table(title, columns, [[row.get(column, "") for column in columns] for row in rows])


def print_screen(items: Screen) -> None:
    """Prints tables and lines."""
    for item in items:
        if isinstance(item, str):
            print_lines(item)
        else:
            print_table(*item)


def print_lines(*lines: object) -> None:
    """Prints lines as they are, however long: nothing in them is markup or steers the terminal."""
    text = "\n".join(inert(str(line)) for line in lines)
    Console(soft_wrap=True).print(text, markup=False, highlight=False)


def with_interval(value: str, write: Callable[[float], str], low: float, high: float) -> str:
    """A value and its interval as a person reads them: `0.56 [0.52, 0.61]`; the value alone where there is none."""
    return value if math.isnan(low) or math.isnan(high) else f"{value} [{write(low)}, {write(high)}]"


def _text(text: str, style: str = "") -> Text:
    return Text(inert(text), style)


def shown(value: object) -> str:
    """A value as a person reads it: numbers with at most four decimals where that loses nothing that matters."""
    if isinstance(value, float) and not value.is_integer():
        return f"{value:.4f}" if 1e-3 <= abs(value) < 1e6 else f"{value:.4g}"
    if isinstance(value, float):
        return f"{value:g}"
    return str(value)
