"""A reporter that presses Ctrl-C, and runs that were stopped so."""

from __future__ import annotations

import functools
import signal
from typing import Any

import pytest

from omg import api
from omg.config import Config
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


def stopped_and_resumed(config: Config, chunks: int) -> api.Run:
    """A run that was stopped after some chunks and then brought to its end."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(api, "RunReporter", functools.partial(Stopping, chunks=chunks))
        stopped = api.train_config(config, quiet=True)
    assert stopped.status == "interrupted"
    run = api.resume(stopped.folder, quiet=True)
    assert run.status == "finished"
    return run
