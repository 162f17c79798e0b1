"""Parts of nothing, quickly started: a module for processes of launchers, and how its parts are asked for."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from omg.launchers import Job, Needs

MODULE = '''
import errno, os, sys, time
from pathlib import Path
from omg.errors import UserError
from omg.launchers.serving import serve


def count(folder, how):
    """Counts to ten, from where it was; its file says how far it is, whatever happens."""
    file = Path(folder, "made", f"{how}.txt")
    file.parent.mkdir(exist_ok=True)
    number = int(file.read_text()) if file.exists() else 0
    print(f"from {number}", flush=True)
    first = not Path(folder, "made", f"{how}.again").exists()
    if first:
        Path(folder, "made", f"{how}.again").touch()
    try:
        while number < 10 or how == "endless":
            number += 1
            fresh = file.with_suffix(".new")
            fresh.write_text(str(number))
            fresh.replace(file)
            if number == 5 and how == "killed" and first:
                os.kill(os.getpid(), 9)
            if how == "full" and first:
                raise OSError(errno.ENOSPC, "No space left on device", "/scratch/x")
            if how == "refused":
                raise UserError("lr: got -1")
            time.sleep(0.02)
    finally:
        Path(folder, "made", f"{how}.nodes").open("a").write(os.environ.get("RAY_RAYLET_PID", "none") + "\\\\n")


if __name__ == "__main__":
    folder, how, tie = sys.argv[1:]
    sys.exit(serve(lambda: count(folder, how), tie))
'''.replace("\\\\n", "\\n")


def offer_parts(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets processes find the module."""
    (folder / "counting_parts.py").write_text(MODULE)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")]))


def part(how: str) -> Job:
    """A part that counts to ten and ends well, or not: `killed`, `full` (its disk, once), `refused`, `endless`."""
    made = tuple(f"made/{how}.{ending}" for ending in ("txt", "again", "nodes"))
    return Job(how, "counting_parts", (how,), Needs(), makes=made)
