"""One part of a suite in a process of its own: `python -m omg.experiments.suite_process FOLDER TITLE LAUNCHER TIE`."""

from __future__ import annotations

import sys
from pathlib import Path

from omg.experiments.suite import do_suite_task
from omg.launchers import LauncherSettings
from omg.launchers.serving import serve


def main(folder: str, title: str, launcher: str, tie: str) -> int:
    """What the process does; returns its exit status. It ends with those that `tie` names."""
    settings = LauncherSettings.model_validate_json(launcher)
    return serve(lambda: do_suite_task(Path(folder), title, settings), tie)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
