"""A reporter that presses Ctrl-C."""

from __future__ import annotations

import signal
from typing import Any

from omg.tracking import RunReporter
from omg.training.loop import Speed


class Stopping(RunReporter):
    """Presses Ctrl-C after some chunks; put it in place of `api.RunReporter`."""

    def __init__(self, *args: Any, chunks: int, presses: int = 1, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.chunks, self.presses = chunks, presses

    def speed(self, speed: Speed, headline: dict[str, float]) -> None:
        super().speed(speed, headline)
        self.chunks -= 1
        if self.chunks == 0:
            for _ in range(self.presses):
                signal.raise_signal(signal.SIGINT)
