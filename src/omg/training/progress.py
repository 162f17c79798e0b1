"""The host's side of a run's state: when it tested, logged and saved last, and with what result."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from pydantic import TypeAdapter

from omg.errors import UserError
from omg.types import Json


@dataclass
class Progress:
    """The host's side of a run's state; goes into checkpoints as JSON."""

    last_test: int = -1
    last_log: int = 0
    last_diagnosis: int = 0
    last_save: int = 0
    tested_at: list[int] = field(default_factory=list)
    """Steps of each seed at its newest test."""
    newest_test: list[dict[str, float]] = field(default_factory=list)
    """What that test brought."""
    best: dict[str, float] = field(default_factory=dict)
    """Seed -> best test value of the success metric."""
    streak: int = 0
    """Consecutive tests that reached `early_stop_value`."""
    given_up: str = ""
    """Why the newest test ends the run (`early_stop_at`); empty if it does not."""
    summary: dict[str, list[dict[str, int | float]]] = field(default_factory=dict)
    """`Summary.dump`."""
    record: int = 0
    """`Reporter.position` when the checkpoint was written."""


_ADAPTER = TypeAdapter(Progress)


def read_progress(stored: Json, seeds: int, where: Path) -> Progress:
    """The counters of a checkpoint, if they are those of a run with so many seeds.

    Args:
        stored: what its JSON file holds.
        seeds: number of seeds of the run.
        where: the folder of the run's checkpoints, for the message.

    Raises:
        UserError: they are not.
    """
    try:
        progress = _ADAPTER.validate_python(stored)
        if {len(progress.tested_at), len(progress.newest_test), *map(len, progress.summary.values())} != {seeds}:
            raise ValueError(f"it is not of {seeds} seed(s)")
    except ValueError as error:
        reason = " ".join(str(error).split()[:30])
        raise UserError(f"The newest checkpoint in {where} is damaged: host.json: {reason}.") from None
    return progress
