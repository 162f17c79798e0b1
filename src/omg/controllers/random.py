"""A player that takes any legal action: the floor of every comparison."""

from __future__ import annotations

from typing import TYPE_CHECKING

import equinox as eqx
from jax import Array

from omg.components.selectors import random_legal

if TYPE_CHECKING:
    from omg.envs.base import Observation


class RandomPolicy(eqx.Module):
    """All legal actions are equally likely; remembers nothing, stores nothing. Satisfies `base.Policy`."""

    def initial(self, batch: int, key: Array | None = None) -> None:
        """No memory."""

    def act(
        self, observation: Observation, memory: None, key: Array, epsilon: Array | float
    ) -> tuple[Array, None, dict[str, Array]]:
        """Draws actions [B, A] int32; `epsilon` makes no difference."""
        return random_legal(observation.avail, key), None, {}

    def lineup(self, memory: None) -> None:
        """One player in all seats."""
