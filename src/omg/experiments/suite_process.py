"""One part of a suite in a process of its own: `python -m omg.experiments.suite_process FOLDER TITLE PARENT`."""

from __future__ import annotations

import sys
from pathlib import Path

from omg.experiments.processes import serve
from omg.experiments.suite import do_suite_task


def main(folder: str, title: str, parent: int) -> int:
    """What the process does; returns its exit status. It ends with `parent`, which started it."""
    return serve(lambda: do_suite_task(Path(folder), title), parent)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
