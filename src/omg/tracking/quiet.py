"""XLA's remarks about itself go to the console log, not across the progress bar.

XLA writes to the process's standard error by itself, at the level of errors, what no user can act on: that a compiled
program from the cache names features of the processor which it does not know by that name, and that an instruction
takes long to fold. Everything else that arrives there is passed on.

The reader is a process of its own: what a dying process writes last is passed on even so. It is this very file, run
as a script without the rest of the package.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

REMARKS = (b"cpu_aot_loader.cc", b"slow_operation_alarm.cc")
"""The files of XLA whose remarks are kept from the screen."""
_HEADER = re.compile(rb"^(?:[IWEF]\d{4} |\d{4}-\d\d-\d\d .*: [IWEF] )")
"""How a message of XLA begins."""


@contextmanager
def quiet_compiler(log: Path) -> Iterator[None]:
    """Passes standard error through a filter that appends XLA's remarks to `log`.

    Python's own `sys.stderr` goes past it, straight to where it went before.
    """
    try:
        place = sys.stderr.fileno()
    except (AttributeError, OSError, ValueError):  # Not a real one: it is being captured.
        place = -1
    if place != 2:
        yield
        return
    sys.stderr.flush()
    before, python = os.dup(2), sys.stderr
    reader = subprocess.Popen(
        [sys.executable, "-I", "-S", __file__, str(log)],
        stdin=subprocess.PIPE,
        stderr=before,
        start_new_session=True,  # Ctrl-C is for the run, not for its reader.
    )
    assert reader.stdin is not None
    with os.fdopen(os.dup(before), "w", buffering=1, encoding=python.encoding, errors=python.errors) as direct:
        os.dup2(reader.stdin.fileno(), 2)
        reader.stdin.close()
        sys.stderr = direct
        try:
            yield
        finally:
            sys.stderr = python
            os.dup2(before, 2)
            os.close(before)
            # A process that the run has started may still have the other end; then the reader ends with it.
            with suppress(subprocess.TimeoutExpired):
                reader.wait(timeout=1)


def sort_messages(source: BinaryIO, screen: BinaryIO, log: BinaryIO) -> None:
    """Reads lines until the end: remarks of XLA go to `log`, all others to `screen`.

    The lines that follow a remark belong to it up to the next header, or until nothing is left to read at once.
    """
    remark = False
    while chunk := source.read1(1 << 16):  # type: ignore[attr-defined]
        for line in chunk.splitlines(keepends=True):
            if _HEADER.match(line):
                remark = any(name in line for name in REMARKS)
            (log if remark else screen).write(line)
        remark = remark and not chunk.endswith(b"\n")
        screen.flush()
        log.flush()


if __name__ == "__main__":
    with open(sys.argv[1], "ab") as kept:
        sort_messages(sys.stdin.buffer, sys.stderr.buffer, kept)
