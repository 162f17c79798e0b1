"""Training that has gone astray: losses and networks that are no numbers any more."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import jax.numpy as jnp
import numpy as np

from omg.components.files import name_leaves
from omg.errors import UserError

if TYPE_CHECKING:
    from omg.config import Config
    from omg.training.state import IterationLog, RunState


class DivergedError(UserError):
    """Training of a seed has gone astray."""

    def __init__(self, message: str, seed: int, t_env: int) -> None:
        super().__init__(message)
        self.seed, self.t_env = seed, t_env


def check_losses(log: IterationLog, config: Config, newest: Callable[[], Path | None]) -> None:
    """Stops at a loss that is not a number; the last checkpoint was written before it happened.

    Args:
        log: of one chunk, [I, Z, ...].
        config: of the run.
        newest: the newest checkpoint of the run, if there is one.
    """
    for name, values in log.learner.items():
        bad = np.argwhere(~np.isfinite(values) & log.active)
        if len(bad):
            iteration, index = int(bad[0][0]), int(bad[0][1])
            t_env = int(log.t_env.numpy()[iteration, index])
            saved = newest()
            kept = f"The last good checkpoint is {saved}" if saved else "No checkpoint had been written yet"
            raise DivergedError(
                f"Training diverged: {name} = {values[iteration, index]} for seed {config.seed + index} near t_env "
                f"{t_env:,}. {kept}; try a smaller lr (now {config.lr}) or grad_norm_clip "
                f"(now {config.grad_norm_clip}).",
                config.seed + index,
                t_env,
            )


def check_state(state: RunState) -> None:
    """Stops when anything that learning changes is not a number (key `debug`)."""
    for name, leaf in name_leaves(state.learner).items():
        if jnp.issubdtype(leaf.dtype, jnp.floating) and bool(jnp.isnan(leaf).any()):
            raise UserError(
                f"debug: {name} holds NaN after the round that ended at t_env {int(state.t_env.numpy().min()):,}. The "
                f"last metrics before it are in metrics.csv; try a smaller lr or grad_norm_clip."
            )
