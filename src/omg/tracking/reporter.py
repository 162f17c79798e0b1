"""What a run writes while it runs: metrics.csv, speed.csv, console.log, the progress on the screen, other trackers."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, nullcontext, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn

from omg.config import Config
from omg.errors import UserError
from omg.evaluation.rows import csv_text
from omg.evaluation.tables import MetricRow, SpeedRow
from omg.names import inert
from omg.tracking.folder import RunFolder
from omg.tracking.heartbeat import Heartbeat
from omg.tracking.quiet import quiet_compiler
from omg.tracking.trackers import Exhibit, build_trackers
from omg.training.stopwatch import Speed
from omg.training.summary import Row

_HEADER = csv_text([], MetricRow.names()).encode()
_QUIET_SECONDS = 10.0
"""Without a terminal, progress between tests is a line at most this often; see `Heartbeat` for what comes between."""


class RunReporter:
    """Implements `training.Reporter` for a run folder. Use it as a context manager."""

    def __init__(self, folder: RunFolder, config: Config, console: Console | None = None, quiet: bool = False) -> None:
        self.folder, self.config = folder, config
        self.console = Console(quiet=True) if quiet else console or Console(stderr=True)
        self.log = folder.console_file.open("a", encoding="utf-8")
        self.metrics = folder.metrics_file.open("ab")
        self.speeds = folder.speed_file.open("a", encoding="utf-8")
        if self.speeds.tell() == 0:
            self.speeds.write(csv_text([], SpeedRow.names()))
        self.trackers = build_trackers(folder, config, self.say)
        self.stack = ExitStack()
        self.last_line = -math.inf
        self.newest_speed: Speed | None = None
        self.headline: dict[str, float] = {}
        self.tested_at: int | None = None
        self.doing, self.noting = "", Lock()
        columns = (
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=16),
            TaskProgressColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}"),
        )
        self.progress = Progress(*columns, console=self.console, transient=True, disable=not self.console.is_terminal)
        self.task = self.progress.add_task("starting", total=config.t_max, note="")
        self.heartbeat = Heartbeat(self._still)

    def __enter__(self) -> RunReporter:
        if self.console.is_terminal:
            self.stack.enter_context(quiet_compiler(self.folder.console_file))
        self.progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.heartbeat.close()
        with suppress(OSError):
            self.progress.stop()
        self.stack.close()
        # After a fault of the disk all this may fail again; the first error is the one to tell.
        with suppress(OSError) if error is not None else nullcontext():
            self.trackers.close(self.folder.status(), error)
        for file in (self.log, self.metrics, self.speeds):
            with suppress(OSError) if error is not None else nullcontext():
                file.close()

    def say(self, message: str) -> None:
        """One line for the user and the console log."""
        message = inert(message)
        self._show(message)
        self.log.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {message}\n")
        self.log.flush()

    def _show(self, message: str) -> None:
        self.heartbeat.spoken()
        # A terminal that was closed must not end the run, least of all while it is being saved.
        with suppress(OSError):
            self.progress.console.print(message, highlight=False, markup=False, soft_wrap=True)

    def step(self, title: str) -> None:
        """Shows a step that has no progress of its own."""
        self._note(title)
        self.progress.update(self.task, description=title, total=None)
        self.heartbeat.begin(title)

    def busy(self, title: str) -> None:
        """Remembers what the run does until it reports again; shown only if that takes long."""
        self.heartbeat.begin(title)

    def _still(self, title: str, seconds: float) -> None:
        """Says what has been going on for so long; called from another thread."""
        self._note(title, again=True)
        if self.console.is_terminal:
            self.progress.update(self.task, note=f"{title}, {seconds:.0f} s")
        else:
            self._show(f"{title}: {seconds:.0f} s so far")

    def _note(self, doing: str, *, again: bool = False) -> None:
        """Writes down what the run is at, where that has changed, or `again` as a sign of life."""
        with self.noting:
            if again or doing != self.doing:
                self.doing = doing
                self.folder.set_doing(doing)

    def rows(self, rows: list[Row]) -> None:
        """Appends metrics to the CSV and hands them to the other trackers."""
        text = "".join(f"{row.seed},{row.t_env},{row.name},{row.value!r}\n" for row in rows)
        self.metrics.write(text.encode())
        self.metrics.flush()
        self.trackers.rows(rows)
        if self.config.debug and rows:
            shown = "  ".join(f"{row.name} {row.value:.5g}" for row in rows if row.seed == rows[0].seed)
            self.say(f"seed {rows[0].seed}, t_env {rows[0].t_env:,}: {shown}")

    def speed(self, speed: Speed, headline: dict[str, float]) -> None:
        """Moves the progress bar and records the speed."""
        self.speeds.write(
            f"{speed.t_env},{speed.steps_per_second:.1f},{speed.updates_per_second:.2f},{speed.host_share:.4f}\n"
        )
        self.speeds.flush()
        self.newest_speed, self.headline = speed, headline
        self._move(speed.t_env)
        soon = self.config.t_max if self.tested_at is None else self.tested_at + self.config.test_interval
        if speed.t_env >= min(soon, self.config.t_max):
            return  # A test comes next, and has its own line.
        if self.config.debug or time.monotonic() - self.last_line > _QUIET_SECONDS:
            self._line(speed.t_env, {})

    def tested(self, t_env: int, headline: dict[str, float]) -> None:
        """Shows a test as soon as it is done; each has a line of its own, with the values that it brought."""
        self.headline, self.tested_at = headline, t_env
        self._move(t_env)
        self._line(t_env, headline)

    def _move(self, t_env: int) -> None:
        """Moves the bar; beside it stands the first of the newest test's values, and what more 80 columns hold."""
        self._note("training")
        self.heartbeat.rest()
        words = [f"{name.removesuffix('_mean').replace('_', ' ')} {one:.3f}" for name, one in self.headline.items()][:1]
        note = "  ".join((*words, *self._pace()[:1]))
        self.progress.update(self.task, description="training", total=self.config.t_max, completed=t_env, note=note)

    def _pace(self) -> list[str]:
        """The newest speed in words; nothing before there is one."""
        speed = self.newest_speed
        if speed is None:
            return []
        return [f"{speed.steps_per_second:,.0f} steps/s", f"{speed.updates_per_second:,.1f} updates/s"]

    def _line(self, t_env: int, headline: dict[str, float]) -> None:
        """The progress as a line of the console log and, without a terminal, of the screen."""
        scores = [f"{name} {value:.3f}" for name, value in headline.items()]
        line = "  ".join((f"t_env {t_env:,}/{self.config.t_max:,}", *scores, *self._pace()))
        self.log.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {line}\n")
        self.log.flush()
        self.last_line = time.monotonic()
        if not self.console.is_terminal:
            self._show(line)

    def exhibit(self, make: Callable[[Path], Sequence[Exhibit]]) -> None:
        """Shows trackers what the run has left to look at.

        Args:
            make: draws it into a folder; called only if a tracker takes it. What goes wrong in it ends no run.
        """
        if not self.trackers.exhibiting:
            return
        with TemporaryDirectory(prefix="omg-exhibits-") as scratch:
            try:
                exhibits = make(Path(scratch))
            except (OSError, UserError, ValueError) as error:
                self.say(f"warning: trackers get no curves and games ({' '.join(str(error).split())[:300]}).")
                return
            self.trackers.exhibit(exhibits)

    def position(self) -> int:
        """Bytes of metrics written so far, safely on disk."""
        self.metrics.flush()
        os.fsync(self.metrics.fileno())
        self.trackers.flush()
        return self.folder.metrics_file.stat().st_size

    def rewind(self, position: int) -> None:
        """Cuts the metrics back to `position`; 0 starts them anew."""
        size = self.folder.metrics_file.stat().st_size
        if size < position:
            raise UserError(
                f"{self.folder.metrics_file} is damaged: it has {size} bytes, its checkpoint knows {position}."
            )
        self.metrics.truncate(position)
        if position == 0:
            self.metrics.write(_HEADER)
            self.metrics.flush()
        self.trackers.begin([Row(**row) for row in self.folder.metrics()])
