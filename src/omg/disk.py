"""Files that are written whole, and JSON that may be a stranger's: what needs nothing but Python.

A file is first written beside its place under a name that starts with `.writing-`, brought to the disk, and then
renamed. The names are fixed, so what a killed process leaves behind is overwritten by the next one.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
from collections.abc import Iterable
from pathlib import Path

from omg.types import Json, Tree

WRITING = ".writing-"
_MOST_LEVELS = 64
"""Of a JSON file; ours have fewer than ten."""


class DamagedFileError(ValueError):
    """A file is not what it claims to be; the message says where."""


def write_text(path: Path, text: str, *, durable: bool = True) -> None:
    """Replaces `path` by `text` atomically; `durable` as in `write_bytes`."""
    write_bytes(path, text.encode("utf-8"), durable=durable)


def write_bytes(path: Path, data: bytes, *, durable: bool = True) -> None:
    """Replaces `path` by `data` atomically.

    Args:
        path: the file.
        data: what it is to hold.
        durable: whether to wait until it would outlast a power cut.
    """
    staging = path.with_name(WRITING + path.name)
    try:
        if staging.is_symlink():  # Written through, it would change a file elsewhere.
            staging.unlink()
        with staging.open("wb") as file:
            file.write(data)
            file.flush()
            if durable:
                os.fsync(file.fileno())
        os.replace(staging, path)
    except BaseException as error:
        # What went wrong is told, not what that makes impossible in turn.
        with contextlib.suppress(OSError):
            staging.unlink()
        if isinstance(error, OSError):
            error.filename, error.filename2 = str(path), None
        raise


def write_json(path: Path, value: Json, *, durable: bool = True) -> None:
    """Replaces `path` by `value` as JSON, atomically; `durable` as in `write_bytes`."""
    write_text(path, json.dumps(value, indent=2, sort_keys=True) + "\n", durable=durable)


def read_json(path: Path, most_bytes: int = 64_000_000) -> Json:
    """The value of a JSON file.

    Raises:
        OSError: the file cannot be read.
        DamagedFileError: it is no JSON, or too large or too deep to be ours.
    """
    check_regular(path)
    size = path.stat().st_size
    if size > most_bytes:
        raise DamagedFileError(f"it has {size:,} bytes; allowed: at most {most_bytes:,}")
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise DamagedFileError(f"{type(error).__name__}: {error}") from None
    level = [value]
    for _ in range(_MOST_LEVELS):
        level = [inner for outer in level if isinstance(outer, dict | list) for inner in _inside(outer)]
        if not level:
            return value
    raise DamagedFileError(f"it is nested more than {_MOST_LEVELS} levels deep")


def _inside(value: Tree | list[Json]) -> Iterable[Json]:
    return value.values() if isinstance(value, dict) else value


def check_regular(path: Path) -> None:
    """Refuses what is no ordinary file: reading a pipe or a device may never end.

    Raises:
        OSError: there is nothing.
        DamagedFileError: it is something else.
    """
    if not stat.S_ISREG(path.stat().st_mode):
        raise DamagedFileError("it is no ordinary file")
