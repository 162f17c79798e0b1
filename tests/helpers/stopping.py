"""A reporter that presses Ctrl-C, runs that were stopped so, and programs that several runs share."""

from __future__ import annotations

import functools
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from omg import api
from omg.config import Config
from omg.envs import Env
from omg.tracking import RunReporter
from omg.training.program import Program
from omg.training.stopwatch import Speed


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


@contextmanager
def shared_programs() -> Iterator[None]:
    """Runs of the same configuration share one program inside, so that it is traced and compiled only once.

    Not for configurations that name files which change in between.
    """
    programs: dict[str, Program] = {}
    build_new = api.build_program

    def build(config: Config, env: Env | None = None) -> Program:
        settings = config.model_dump_json()
        if settings not in programs:
            programs[settings] = build_new(config, env)
        return programs[settings]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(api, "build_program", build)
        yield


def whole_and_stopped(config: Config, chunks: int) -> tuple[api.Run, api.Run]:
    """A run from its beginning to its end, and the same run stopped after some chunks."""
    with shared_programs():
        whole = api.train_config(config, quiet=True)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(api, "RunReporter", functools.partial(Stopping, chunks=chunks))
            stopped = api.train_config(config, quiet=True)
    assert whole.status == "finished"
    assert stopped.status == "interrupted"
    return whole, stopped


def whole_and_resumed(config: Config, chunks: int) -> tuple[api.Run, api.Run]:
    """A run from its beginning to its end, and the same run stopped after some chunks and then brought to its end.

    The program of the resumed one is built from what is on disk, as another process would, unless `shared_programs`
    are around.
    """
    whole, stopped = whole_and_stopped(config, chunks)
    resumed = api.resume(stopped.folder, quiet=True)
    assert resumed.status == "finished"
    return whole, resumed
