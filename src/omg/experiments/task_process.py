"""Tasks of a pipeline in a process of their own: `python -m omg.experiments.task_process FOLDER TITLE... TIE`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from omg.experiments.pipeline import do_tasks
from omg.launchers.serving import serve


def main(folder: str, titles: Sequence[str], tie: str) -> int:
    """What the process does; returns its exit status. It ends with those that `tie` names."""
    return serve(lambda: do_tasks(Path(folder), titles), tie)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:-1], sys.argv[-1]))
