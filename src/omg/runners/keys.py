"""Settings of runners; they are read where the game is no JAX program."""

from __future__ import annotations

from pydantic import Field

from omg.registry.keys import Keys
from omg.registry.kinds import Few, Many, Real


class WorkerKeys(Keys):
    """Worker processes, for games that are no JAX programs."""

    workers: Few | None = Field(
        None, ge=1, description="runner=parallel: processes that the games are spread over; None: one per core"
    )
    worker_timeout: Real = Field(
        30.0,
        gt=0,
        description="runner=parallel: seconds for a step of a worker's games; a reset may take 10 times as long",
    )


class FailureKeys(Keys):
    """Games that fail."""

    worker_failures: Many = Field(
        10, ge=0, description="Failures of games in a row, without a whole round between them, that a run endures"
    )


class RunnerSections(WorkerKeys, FailureKeys):
    """All sections of runners, as the configuration has them; the last is shown first."""
