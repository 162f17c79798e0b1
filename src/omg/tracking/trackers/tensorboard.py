"""TensorBoard: event files in the run folder, one log for every seed."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omg.config import Config
from omg.training.summary import Row

if TYPE_CHECKING:
    from omg.tracking.folder import RunFolder


class TensorBoardTracker:
    """Implements `Tracker`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._writers: dict[int, Any] = {}
        self._resumed_after: dict[int, int] = {}

    def begin(self, past: list[Row]) -> None:
        """See `Tracker.begin`."""
        self._resumed_after = {row.seed: row.t_env for row in past}
        if not past:
            shutil.rmtree(self.folder, ignore_errors=True)

    def rows(self, rows: list[Row]) -> None:
        """See `Tracker.rows`."""
        for row in rows:
            self._writer(row.seed).add_scalar(row.name, row.value, row.t_env)

    def flush(self) -> None:
        """See `Tracker.flush`."""
        for writer in self._writers.values():
            writer.flush()

    def close(self, status: str, error: BaseException | None) -> None:
        """See `Tracker.close`."""
        for writer in self._writers.values():
            writer.close()

    def _writer(self, seed: int) -> Any:
        if seed not in self._writers:
            from tensorboardX import SummaryWriter

            path = self.folder / f"seed_{seed}"
            # TensorBoard then hides what the process before wrote past the checkpoint.
            purge_step = self._resumed_after[seed] + 1 if seed in self._resumed_after else None
            # The name of an event file has only the second in it, and one of the same name would be overwritten.
            suffix = f".{len(list(path.glob('events.*')))}"
            self._writers[seed] = SummaryWriter(str(path), purge_step=purge_step, filename_suffix=suffix)
        return self._writers[seed]


def check(config: Config) -> None:
    """TensorBoard's writer is always installed."""


def build(folder: RunFolder, config: Config) -> Mapping[str, TensorBoardTracker]:
    """See `TrackerKind.build`."""
    return {"tensorboard": TensorBoardTracker(folder.tensorboard)}
