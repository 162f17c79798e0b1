"""What every learner provides."""

from __future__ import annotations

from typing import Any, Protocol

from jax import Array

from omg.components import EpisodeBatch
from omg.controllers import Policy

LearnerState = Any
"""A pytree of arrays with everything that learning changes: parameters, targets, optimiser, counters."""


class Learner(Protocol):
    """Pure functions; the object itself holds only settings."""

    def init(self, key: Array) -> LearnerState:
        """The state before the first update."""
        ...

    def update(self, state: LearnerState, batch: EpisodeBatch, episode: Array | int) -> tuple[LearnerState, dict]:
        """One gradient update.

        Args:
            state: From `init` or the update before.
            batch: Sampled episodes.
            episode: Scalar integer, episodes collected so far in the whole run.

        Returns:
            The new state, and metrics as float32 scalars by name (the same names at every update).
        """
        ...

    def policy(self, state: LearnerState) -> Policy:
        """The policy that is being learned, to act with."""
        ...
