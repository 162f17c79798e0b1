"""`omg` in processes of its own."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from helpers.tiny import GAME, SETTINGS

PROGRAM = "import sys; from omg.cli import main; sys.exit(main(sys.argv[1:]))"
SAVE_OFTEN = {"test_interval": 60, "save_model_interval": 30}


class Process:
    """`omg` in a process of its own."""

    def __init__(self, *words: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    def wait_until(self, condition: Callable[[], bool]) -> None:
        """Returns when the condition holds or the process has ended."""
        deadline = time.monotonic() + 60
        while self.process.poll() is None and not condition():
            assert time.monotonic() < deadline, "the process hangs"
            time.sleep(0.001)

    def end(self) -> tuple[int, str]:
        """Waits for the end: exit code and what was printed."""
        shown, _ = self.process.communicate(timeout=60)
        return self.process.returncode, shown


def command(results: Path, **changes: Any) -> list[str]:
    """The words of `omg train` for the tiny run."""
    settings = {**SETTINGS, **SAVE_OFTEN, **changes, "local_results_path": results}
    settings |= {f"env_args.{key}": value for key, value in GAME.items()}
    return ["train", "--config=iql", "--env-config=foraging", "with", *(f"{k}={v}" for k, v in settings.items())]


def only_run(results: Path) -> Path | None:
    return next(results.iterdir(), None) if results.is_dir() else None


def size_of_metrics(results: Path) -> int:
    folder = only_run(results)
    path = folder / "metrics.csv" if folder else None
    return path.stat().st_size if path and path.exists() else 0
