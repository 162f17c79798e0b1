"""Following a run: the lines of its log, or of its metrics, from the last few on until the run ends."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path

from omg.errors import UserError
from omg.names import inert
from omg.overview.finding import find
from omg.overview.reading import open_plain, read_part
from omg.overview.runs import run_status

MOST_LINES = 100_000
_PART = 1_000_000
"""Bytes that are read at once."""
_LONGEST_LINE = 4_000
_MOST_BACK = 64_000_000
"""Bytes from the end in which the last lines are looked for."""


def followed_run(folder: Path) -> Path:
    """The run that somebody means by a folder: itself, or the only one in it that is running.

    Raises:
        UserError: there is none, or several are running.
    """
    finding = find([folder])
    if any(one.path == folder and one.kind == "run" for one in finding.found):
        return folder
    runs = [one for one in finding.found if one.kind == "run"]
    running = [one for one in runs if run_status(one.path)[0] == "running"]
    if len(running) == 1:
        return running[0].path
    if not runs:
        raise UserError(f"{folder}: this is no run, and there is none in it.")
    several = ", ".join(inert(one.shown) for one in running[:5])
    raise UserError(
        f"{folder}: this is no run; {len(running)} of the {len(runs)} in it are running. Choose one: "
        f"{several or inert(runs[0].shown)}."
    )


def follow(run: Path, lines: int, metric: str | None, rest: Callable[[], None]) -> Iterator[str]:
    """The last lines of a run's log, and all that come until it ends.

    Args:
        run: its folder.
        lines: how many of what is there already.
        metric: rows of the metrics with such names (`*` and `?` stand for any letters) instead of the log.
        rest: waits a moment when there is nothing new.

    Yields:
        Lines without their ends, as they may be shown.

    Raises:
        UserError: the run has no such file.
    """
    file = run / ("console.log" if metric is None else "metrics.csv")
    handle = open_plain(file)
    if handle is None:
        raise UserError(f"{run}: it has no {file.name} that can be read.")
    os.close(handle)
    size = file.lstat().st_size
    begin = max(0, size - _MOST_BACK)
    whole, place = _whole_lines(read_part(file, begin, size - begin), begin)
    yield from _wanted(whole, metric)[len(_wanted(whole, metric)) - lines :] if lines else ()
    while True:
        # Asked first: what is written before a run says that it is over is not lost.
        over = run_status(run)[0] != "running"
        part = read_part(file, place, _PART)
        found, further = _whole_lines(part, place)
        yield from _wanted(found, metric)
        if further == place and len(part) == _PART:  # A line as long as that is none of ours.
            further = place + _PART
        if further == place and over:
            return
        if further == place:
            rest()
        # A resumed run cuts its metrics back to its checkpoint.
        place = min(further, _size(file))


def _size(file: Path) -> int:
    try:
        return file.lstat().st_size
    except OSError:
        return 0


def _whole_lines(data: bytes, begin: int) -> tuple[list[bytes], int]:
    """The lines in some bytes that have an end, and where the first one without begins."""
    lines = data.split(b"\n")
    return lines[:-1], begin + len(data) - len(lines[-1])


def _wanted(lines: list[bytes], metric: str | None) -> list[str]:
    texts = [inert(line[:_LONGEST_LINE].decode("utf-8", "replace")) for line in lines]
    if metric is None:
        return texts
    rows = [text.split(",") for text in texts]
    return [
        f"t_env {int(row[1]):,}  seed {row[0]}  {row[2]} {row[3]}"
        for row in rows
        if len(row) == 4 and row[1].isdecimal() and len(row[1]) < 20 and fnmatchcase(row[2], metric)
    ]


def wait() -> None:
    """Until there may be something new."""
    time.sleep(0.3)
