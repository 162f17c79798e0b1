"""`jsonl`: every metric as a line of JSON, `metrics.jsonl` in the run's folder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from omg.components.files import write_text
from omg.config import Config
from omg.tracking.folder import RunFolder
from omg.tracking.trackers.base import TrackerKind
from omg.training.summary import Row


class JSONLinesTracker:
    """Implements `omg.tracking.trackers.Tracker`."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def begin(self, past: list[Row]) -> None:
        """Begins the file anew with what the run goes on from: a run that crashed wrote more than it had saved."""
        write_text(self.file, "".join(map(_line, past)))

    def rows(self, rows: list[Row]) -> None:
        """Adds a line for each metric."""
        with self.file.open("a", encoding="utf-8") as file:
            file.writelines(map(_line, rows))

    def flush(self) -> None:
        """Nothing waits: every call of `rows` closes the file."""

    def close(self, status: str, error: BaseException | None) -> None:
        """Says how the run ended."""
        with self.file.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"status": status}) + "\n")


def _line(row: Row) -> str:
    return json.dumps({"seed": row.seed, "t_env": row.t_env, "name": row.name, "value": row.value}) + "\n"


def check(config: Config) -> None:
    """Nothing is needed that is not there."""


def build(folder: RunFolder, config: Config) -> Mapping[str, JSONLinesTracker]:
    """See `TrackerKind.build`."""
    return {"jsonl": JSONLinesTracker(folder.path / "metrics.jsonl")}


KIND = TrackerKind(check, build)
