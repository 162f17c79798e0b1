"""One part of a suite in a process of its own: `python -m omg.experiments.suite_process FOLDER TITLE JOBS PARENT`."""

from __future__ import annotations

import sys
from pathlib import Path

from omg.experiments.processes import serve
from omg.experiments.suite import do_suite_task


def main(folder: str, title: str, jobs: int, parent: int) -> int:
    """What the process does, with so many of its own; returns its exit status. It ends with `parent`, its starter."""
    return serve(lambda: do_suite_task(Path(folder), title, jobs), parent)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
