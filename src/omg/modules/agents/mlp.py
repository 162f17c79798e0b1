"""`mlp`: a plain feed-forward network without memory."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array

from omg.modules.agents.base import AgentSizes
from omg.modules.agents.inputs import InputAgent
from omg.modules.layers import Linear


class MLPAgent(InputAgent):
    """Linear -> ReLU -> Linear -> ReLU -> Linear.

    There is no memory: G and H are the width of the second layer, and the recurrence passes its input on.
    """

    fc2: Linear
    """[first width, H]."""
    fc3: Linear
    """[H, U]."""

    def __init__(self, sizes: AgentSizes, *, key: Array):
        keys = jax.random.split(key, 3)
        self.sizes = sizes
        self.fc1 = Linear(sizes.input_dim, sizes.hidden_dim, key=keys[0])
        self.fc2 = Linear(sizes.hidden_dim, self._width(), key=keys[1])
        self.fc3 = Linear(self._width(), sizes.n_actions, key=keys[2])

    def _width(self) -> int:
        return self.sizes.hidden_dim if self.sizes.second_dim is None else self.sizes.second_dim

    def initial(self, batch: int, seats: int | None = None) -> Array:
        """Zeros, [B, A, H]."""
        return jnp.zeros((batch, self.sizes.n_agents if seats is None else seats, self._width()))

    def activate(self, x: Array, seats: Array | None = None) -> Array:
        """[..., W] -> [..., H]; the same for every seat."""
        return jax.nn.relu(self.fc2(jax.nn.relu(x)))

    def step(self, gates_in: Array, h: Array, seats: Array | None = None) -> Array:
        """[..., H], [..., H] -> [..., H]: the input itself."""
        return gates_in

    def unroll(self, gates_in: Array, h0: Array, seats: Array | None = None) -> Array:
        """[B, T, ..., H], [B, ..., H] -> [B, T, ..., H]: the input itself."""
        return gates_in

    def head(self, h: Array, seats: Array | None = None) -> Array:
        """[..., H] -> [..., U]."""
        return self.fc3(h)
