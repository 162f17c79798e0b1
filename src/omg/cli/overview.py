"""Commands that look at what is on disk: runs, tail. They answer without loading JAX, and open no game."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich import box
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from omg.cli.tables import print_lines
from omg.errors import UserError
from omg.names import inert

if TYPE_CHECKING:
    from omg.evaluation.overview_tables import OverviewRow
    from omg.overview.listing import Listing, Shelf

RESULTS = Path("results")
"""Where runs are kept unless told otherwise."""
PORT = 8300
_STYLES = {"running": "bold cyan", "finished": "green", "stopped": "green", "interrupted": "yellow", "failed": "red"}
_LEAST_IMPORTANT = ("kind", "left", "algorithm", "game", "note", "name", "steps/s", "age")
"""Columns that a narrow terminal does without, in this order."""
_MOST_NOTE = 44
_FOLDER = 40
"""Letters of a line that the folder should have at least, if it needs them."""
_PAD = 2


def runs(
    folders: Annotated[
        list[Path] | None, typer.Argument(metavar="[FOLDER]...", help="Where to look, at any depth (results).")
    ] = None,
    where: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN=VALUE", help="Only such rows; * stands for any letters; may be repeated."),
    ] = None,
    sort: Annotated[str | None, typer.Option(metavar="COLUMN", help="Order; running ones first, then by age.")] = None,
    reverse: Annotated[bool, typer.Option("--reverse", help="The other way round.")] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Show it again and again, until Ctrl-C.")] = False,
    every: Annotated[float, typer.Option(min=0.2, max=3600, help="Seconds between two looks of --watch.")] = 2.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, all columns.")] = False,
    csv: Annotated[Path | None, typer.Option("--csv", metavar="FILE", help="Also write all columns here.")] = None,
    serve: Annotated[
        bool, typer.Option("--serve", help="Show it with all reports in a browser of this machine, until Ctrl-C.")
    ] = False,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Of --serve; 0: any that is free.")] = PORT,
) -> None:
    """Show the runs, pipelines, suites and pools on disk: how far they are, how fast, how good.

    Running ones are shown live. Nothing in the folders is run, opened or changed. Columns for --where and --sort are
    those of the table and of docs/tables.md.
    """
    from omg.overview.listing import Shelf, chosen

    if sum((watch, as_json, serve)) > 1:
        raise UserError("--watch, --json, --serve: give one of them.")
    if csv is not None and (watch or serve):
        raise UserError("--csv: goes with a table that is shown once, without --watch and --serve.")
    shelf = Shelf(_folders(folders))
    if serve:
        _serve(shelf, port)
        return

    def look() -> tuple[Listing, list[OverviewRow]]:
        listing = shelf.look()
        return listing, [one.row for one in chosen(listing.listed, where or (), sort, reverse=reverse)]

    listing, rows = look()
    if as_json:
        from omg.overview.listing import plain_row

        print(json.dumps([plain_row(row) for row in rows], indent=2))
    elif watch:
        _watch(look, every)
    else:
        _console().print(_shown(listing, rows, _console()))
    if csv is not None:
        from omg.evaluation.overview_tables import OverviewRow
        from omg.evaluation.rows import write_rows

        write_rows(csv, rows, OverviewRow.names())


def tail(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run, or one in which one run is running.")],
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, max=100_000, help="How many of the last lines.")] = 10,
    metric: Annotated[
        str | None, typer.Option(metavar="NAME", help="These metrics instead of the log; * stands for any letters.")
    ] = None,
) -> None:
    """Follow the log of a run until it ends."""
    from omg.overview.following import follow, followed_run, wait

    for line in follow(followed_run(run), lines, metric, wait):
        print_lines(line)


def _folders(given: Sequence[Path] | None) -> list[Path]:
    if given:
        return list(given)
    if not RESULTS.is_dir():
        raise UserError("There is no folder 'results' here. Say where to look, e.g. omg runs FOLDER.")
    return [RESULTS]


def _serve(shelf: Shelf, port: int) -> None:
    from omg.overview.server import serve

    with serve(shelf, port) as server:
        print_lines(
            f"Open in a browser of this machine: {server.address}",
            "Only this machine can ask, and only who has this address. Ctrl-C ends it.",
        )
        server.serve_forever()


def _console() -> Console:
    console = Console()
    if not console.is_terminal:
        console.width = 100_000
    return console


def _watch(look: Callable[[], tuple[Listing, list[OverviewRow]]], every: float) -> None:
    """The table again and again: in its place in a terminal, one below the other elsewhere."""
    console = _console()
    if not console.is_terminal:
        while True:
            console.print(_shown(*look(), console))
            time.sleep(every)
    with Live(_shown(*look(), console), console=console, auto_refresh=False, vertical_overflow="crop") as live:
        while True:
            time.sleep(every)
            live.update(_shown(*look(), console), refresh=True)


def _shown(listing: Listing, rows: Sequence[OverviewRow], console: Console) -> Group:
    """The table with a line above it that says what it comes to."""
    lines = [Text(_summary(listing, rows), "italic")]
    if not listing.complete:
        lines.append(Text("There is more: so many files that not all were looked at. Name a folder further inside."))
    return Group(*lines, *([_table(rows, console)] if rows else []))


def _summary(listing: Listing, rows: Sequence[OverviewRow]) -> str:
    """`3 running, 12 finished`."""
    counts = {status: sum(row.status == status for row in rows) for status in _STYLES}
    words = ", ".join(f"{number} {status}" for status, number in counts.items() if number)
    hidden = len(listing.listed) - len(rows)
    more = f" ({hidden} not shown)" if hidden else ""
    return f"{words or ('nothing of that kind' if hidden else 'no runs here')}{more}"


def _table(rows: Sequence[OverviewRow], console: Console) -> Table:
    lines = [_cells(row) for row in rows]
    widths = {name: max(len(name), *(len(line[name]) for line in lines)) + _PAD for name in lines[0]}
    # The folder is what one goes on with: it may be folded, but is never cut.
    widths["folder"] = min(widths["folder"], _FOLDER)
    names = [name for name in widths if name in ("status", "folder") or any(line[name] for line in lines)]
    for name in _LEAST_IMPORTANT:
        if name in names and sum(widths[one] for one in names) > console.width - _PAD:
            names.remove(name)
    table = Table(box=box.SIMPLE_HEAD)
    numbers = ("done", "steps/s", "left", "last", "best", "age")
    for name in names:
        table.add_column(
            name, justify="right" if name in numbers else "left", no_wrap=name != "folder", overflow="fold"
        )
    for line in lines:
        styles = {"status": _STYLES.get(line["status"], "")}
        table.add_row(*(Text(inert(line[name]), styles.get(name, "")) for name in names))
    return table


def _cells(row: OverviewRow) -> dict[str, str]:
    """A row in words, by heading."""
    note = row.note if len(row.note) <= _MOST_NOTE else f"{row.note[: _MOST_NOTE - 3]}..."
    return {
        "status": row.status,
        "done": "" if math.isnan(row.done) else f"{row.done:.0%}",
        "last": _score(row.last),
        "best": _score(row.best),
        "steps/s": "" if math.isnan(row.steps) else f"{row.steps:,.0f}",
        "left": duration(row.left),
        "age": duration(row.age),
        "name": row.name,
        "algorithm": row.algorithm if row.algorithm != row.name else "",
        "game": row.game,
        "kind": row.kind,
        "note": note,
        "folder": row.folder,
    }


def _score(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.3f}"


def duration(seconds: float) -> str:
    """A time in its largest unit: `40 s`, `12 min`, `5 h`, `3 d`."""
    if math.isnan(seconds):
        return ""
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * size or (unit == "d" and seconds >= size):
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
