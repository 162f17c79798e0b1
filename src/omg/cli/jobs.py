"""The option `--jobs` of commands that do several things at once."""

from __future__ import annotations

import os
from typing import Annotated

import typer

MOST_SEED = 2**31 - 1
MOST_EPISODES = 1_000_000
"""That a command plays, with each partner or in all."""

JobsOption = Annotated[
    int,
    typer.Option(min=1, max=1000, help="Runs trained at once, each in its own process; more than 1 for a large GPU."),
]
TasksOption = Annotated[
    int,
    typer.Option(
        min=1,
        max=1000,
        help="Runs, evaluations and adaptations done at once, each in its own process; more than 1 for a large GPU.",
    ),
]


def share_gpu(jobs: int) -> None:
    """Leaves the GPU's memory to the other processes, too; JAX reads this once, when it starts."""
    if jobs > 1:
        os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
