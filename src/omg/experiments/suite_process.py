"""One part of a suite in a process of its own: `python -m omg.experiments.suite_process FOLDER TITLE JOBS TIE`."""

from __future__ import annotations

import sys
from pathlib import Path

from omg.experiments.suite import do_suite_task
from omg.launchers.serving import serve


def main(folder: str, title: str, jobs: int, tie: str) -> int:
    """What the process does, with so many of its own; returns its exit status. It ends with those in `tie`."""
    return serve(lambda: do_suite_task(Path(folder), title, jobs), tie)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]))
