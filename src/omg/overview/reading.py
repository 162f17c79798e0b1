"""Files that may be a stranger's, up to a bound and never waiting: pipes, devices and links are as good as no file."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

from omg.disk import DamagedFileError, read_json
from omg.types import Tree

try:
    import fcntl
except ImportError:  # Windows: whether a process works on a folder is judged by how old its files are.
    fcntl = None  # type: ignore[assignment]

_FLAGS = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


def open_plain(path: Path) -> int | None:
    """A file descriptor of an ordinary file; None of anything else, links included."""
    try:
        handle = os.open(path, _FLAGS)
    except (OSError, ValueError):
        return None
    if stat.S_ISREG(os.fstat(handle).st_mode):
        return handle
    os.close(handle)
    return None


def read_part(path: Path, begin: int, most: int) -> bytes:
    """At most `most` bytes of a file from `begin` on, counted from its end where that is negative."""
    handle = open_plain(path)
    if handle is None:
        return b""
    with os.fdopen(handle, "rb") as file, suppress(OSError):
        size = os.fstat(file.fileno()).st_size
        file.seek(max(0, size + begin) if begin < 0 else begin)
        return file.read(most)
    return b""


def read_tree(path: Path, most: int = 1_000_000) -> Tree:
    """The mapping in a JSON file; an empty one where there is none."""
    handle = open_plain(path)
    if handle is None:
        return {}
    os.close(handle)
    try:
        value = read_json(path, most)
    except (OSError, DamagedFileError):
        return {}
    return value if isinstance(value, dict) else {}


def is_worked_on(folder: Path) -> bool | None:
    """Whether a process has the lock of a folder, as it has as long as it lives; None where nobody can say."""
    if fcntl is None:
        return None
    lock = folder / ".lock"
    handle = open_plain(lock)
    if handle is None:
        return None if lock.is_file() and not os.access(lock, os.R_OK) else False
    try:
        # Shared and for a moment: whoever wants the folder at that moment tries again (`RunFolder.lock`).
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        fcntl.flock(handle, fcntl.LOCK_UN)
    except BlockingIOError:
        return True
    except OSError:
        return None
    finally:
        os.close(handle)
    return False


def signature(paths: tuple[Path, ...]) -> tuple[tuple[int, int], ...]:
    """Size and time of files: as long as they are the same, so is what was read."""
    found = []
    for path in paths:
        try:
            about = path.lstat()
        except (OSError, ValueError):
            found.append((-1, -1))
            continue
        found.append((about.st_size, about.st_mtime_ns))
    return tuple(found)


def newest(paths: tuple[Path, ...]) -> float:
    """When the newest of some files was written, in seconds since 1970; 0 where there is none."""
    return max((time for size, time in signature(paths) if size >= 0), default=0) / 1e9
