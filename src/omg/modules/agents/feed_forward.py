"""What agents without memory share: two layers, and a recurrence that passes its input on."""

from __future__ import annotations

from abc import abstractmethod

import jax
import jax.numpy as jnp
from jax import Array

from omg.modules.agents.inputs import InputAgent
from omg.modules.layers import Linear


class FeedForwardAgent(InputAgent):
    """Linear -> ReLU -> Linear -> ReLU; G and W are the width of the second layer."""

    fc2: Linear
    """[first width, W]."""

    @abstractmethod
    def _width(self) -> int:
        """W."""

    def initial(self, batch: int, seats: int | None = None) -> Array:
        """Zeros, [B, A, W]."""
        return jnp.zeros((batch, self.sizes.n_agents if seats is None else seats, self._width()))

    def activate(self, x: Array, seats: Array | None = None) -> Array:
        """[..., W1] -> [..., W]; the same for every seat."""
        return jax.nn.relu(self.fc2(jax.nn.relu(x)))

    def step(self, gates_in: Array, h: Array, seats: Array | None = None) -> Array:
        """[..., W], [..., W] -> [..., W]: the input itself."""
        return gates_in

    def unroll(self, gates_in: Array, h0: Array | None = None, seats: Array | None = None) -> Array:
        """[B, T, ..., W], [B, ..., W] -> [B, T, ..., W]: the input itself."""
        return gates_in
