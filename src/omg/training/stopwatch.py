"""How fast a run goes."""

from __future__ import annotations

import time
from typing import NamedTuple


class Speed(NamedTuple):
    """How fast the run has gone since it was started or resumed; kept apart from the metrics, which repeat exactly."""

    t_env: int
    """Smallest number of steps over all seeds."""
    steps_per_second: float
    """Environment steps of all seeds together."""
    updates_per_second: float
    """Gradient updates of all seeds together."""
    host_share: float
    """Share of the time that was not spent in the compiled programs."""


class Stopwatch:
    """Adds up the time of the training chunks, inside and around the compiled program; tests and saves do not count."""

    def __init__(self) -> None:
        self.inside = self.around = 0.0
        self.steps = self.updates = 0
        self.started = self.ended = 0.0

    def start(self) -> None:
        """A chunk begins."""
        self.started = time.perf_counter()

    def stop(self, host_seconds: float) -> None:
        """It is done; so many of its seconds were spent outside compiled programs."""
        self.ended = time.perf_counter()
        self.inside += self.ended - self.started - host_seconds
        self.around += host_seconds

    def count(self, steps: int, updates: int) -> None:
        """What it brought, with the time since it was done."""
        self.steps += steps
        self.updates += updates
        self.around += time.perf_counter() - self.ended

    def speed(self, t_env: int) -> Speed:
        """So far."""
        total = max(self.inside + self.around, 1e-9)
        return Speed(t_env, self.steps / total, self.updates / total, self.around / total)
