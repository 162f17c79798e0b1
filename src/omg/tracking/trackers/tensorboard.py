"""TensorBoard: event files in the run folder, one log for every seed."""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omg.config import Config
from omg.tracking.trackers.base import TrackerKind
from omg.training.summary import Row

if TYPE_CHECKING:
    from omg.tracking.folder import RunFolder

_FLUSH_SECONDS = 10.0
"""How old what TensorBoard shows may be."""


class TensorBoardTracker:
    """Implements `Tracker`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._writers: dict[int, _EventFile] = {}
        self._flushed = 0.0
        self._resumed_after: dict[int, int] = {}

    def begin(self, past: list[Row]) -> None:
        """See `Tracker.begin`."""
        self._resumed_after = {row.seed: row.t_env for row in past}
        if not past:
            shutil.rmtree(self.folder, ignore_errors=True)

    def rows(self, rows: list[Row]) -> None:
        """See `Tracker.rows`."""
        for row in rows:
            self._writer(row.seed).add(row.t_env, row.name, row.value)
        if time.monotonic() - self._flushed > _FLUSH_SECONDS:
            self.flush()

    def flush(self) -> None:
        """See `Tracker.flush`."""
        self._flushed = time.monotonic()
        for writer in self._writers.values():
            writer.events.flush()

    def close(self, status: str, error: BaseException | None) -> None:
        """See `Tracker.close`."""
        for writer in self._writers.values():
            writer.events.close()

    def _writer(self, seed: int) -> _EventFile:
        if seed not in self._writers:
            path = self.folder / f"seed_{seed}"
            # TensorBoard then hides what the process before wrote past the checkpoint.
            purge_step = self._resumed_after[seed] + 1 if seed in self._resumed_after else None
            # The name of an event file has only the second in it, and one of the same name would be overwritten.
            suffix = f".{len(list(path.glob('events.*')))}"
            path.mkdir(parents=True, exist_ok=True)
            self._writers[seed] = _EventFile(path, suffix, purge_step)
        return self._writers[seed]


class _EventFile:
    """tensorboardX's format, written here: its own writer does so in a thread, waits for it and hangs if that fails."""

    def __init__(self, folder: Path, suffix: str, purge_step: int | None) -> None:
        from tensorboardX.event_file_writer import EventsWriter
        from tensorboardX.proto import event_pb2
        from tensorboardX.summary import scalar

        self.events: Any = EventsWriter(str(folder / "events"), suffix)
        self._event, self._scalar = event_pb2.Event, scalar
        if purge_step is not None:
            start = event_pb2.SessionLog(status=event_pb2.SessionLog.START)
            self.events.write_event(event_pb2.Event(wall_time=time.time(), step=purge_step, session_log=start))

    def add(self, step: int, name: str, value: float) -> None:
        """Writes one value."""
        self.events.write_event(self._event(wall_time=time.time(), step=step, summary=self._scalar(name, value)))


def check(config: Config) -> None:
    """TensorBoard's writer is always installed."""


def build(folder: RunFolder, config: Config) -> Mapping[str, TensorBoardTracker]:
    """See `TrackerKind.build`."""
    return {"tensorboard": TensorBoardTracker(folder.tensorboard)}


KIND = TrackerKind(check, build)
"""The line of this tracker in the registry."""
