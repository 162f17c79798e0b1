"""A compiled run that benchmarks let go on for a while, so that several can take turns in one process."""

from __future__ import annotations

import time
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from omg.config import adjust, resolve
from omg.training.program import Program
from omg.training.state import RunState


class Rate(NamedTuple):
    """What was done in some seconds."""

    steps: int
    """Env steps of all seeds together."""
    updates: int
    seconds: float

    @property
    def steps_per_second(self) -> float:
        """Env steps."""
        return self.steps / self.seconds

    @property
    def per_thousand(self) -> float:
        """Updates per 1000 env steps."""
        return 1000 * self.updates / max(self.steps, 1)


class Running:
    """A program and where its run is; every chunk is one round of play and the updates that follow it."""

    def __init__(
        self, algorithm: str, env: str, settings: dict[str, object], seeds: int = 1, has_gpu: bool = False
    ) -> None:
        """Compiles, and trains until there is enough to learn from.

        Args:
            algorithm: of `omg algs`.
            env: of `omg envs`.
            settings: further keys of the configuration.
            seeds: of the run.
            has_gpu: whether there is one.
        """
        # A run that has reached its end goes on computing, but nothing of it counts.
        given = {"test_interval": 1, "t_max": 10**9, **settings, "seeds": seeds}
        config, _ = adjust(resolve(algorithm, env, given).config, has_gpu)
        began = time.perf_counter()
        self.config, self.program = config, Program(config)
        state = self.program.init(jnp.arange(1, seeds + 1, dtype=jnp.uint32))
        self._chunk = self.program.chunk.lower(state).compile()  # type: ignore[attr-defined]
        self.compiled = time.perf_counter() - began
        self.state: RunState = state
        while int(self.state.stored) < self.program.sequences:
            self.advance(0.0)

    def advance(self, seconds: float) -> Rate:
        """Trains for so long, at least one round."""
        before, updates, began = self.played, 0, time.perf_counter()
        while True:
            self.state, log = self._chunk(self.state)
            updates += int(np.asarray(jax.device_get(log.updates)).sum())
            if (taken := time.perf_counter() - began) >= seconds:
                return Rate(self.played - before, updates, taken)

    @property
    def played(self) -> int:
        """Env steps so far, of all seeds."""
        return int(self.state.t_env.numpy().sum())
