"""`dueling`: a feed-forward network with separate value and advantage, the D3QN of small grid games."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array

from omg.modules.agents.base import AgentSizes
from omg.modules.agents.inputs import InputAgent
from omg.modules.layers import Linear


class DuelingAgent(InputAgent):
    """Linear -> ReLU -> Linear -> ReLU, then Q = V + advantage - mean advantage.

    There is no memory: G and H are the width of the second layer, half that of the first, and the recurrence passes
    its input on.
    """

    fc2: Linear
    """[first width, H]."""
    value: Linear
    """[H, 1]."""
    advantage: Linear
    """[H, U]."""

    def __init__(self, sizes: AgentSizes, *, key: Array):
        keys = jax.random.split(key, 4)
        self.sizes = sizes
        self.fc1 = Linear(sizes.input_dim, sizes.hidden_dim, key=keys[0])
        self.fc2 = Linear(sizes.hidden_dim, self._width(), key=keys[1])
        self.value = Linear(self._width(), 1, key=keys[2])
        self.advantage = Linear(self._width(), sizes.n_actions, key=keys[3])

    def _width(self) -> int:
        return max(self.sizes.hidden_dim // 2, 1)

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
        advantage = self.advantage(h)
        return self.value(h) + advantage - advantage.mean(axis=-1, keepdims=True)
