"""`rnn`: one recurrent network shared by all seats, PyMARL's Linear -> ReLU -> GRU -> Linear."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array

from omg.modules.agents.base import AgentSizes
from omg.modules.agents.inputs import InputAgent
from omg.modules.layers import Linear
from omg.modules.recurrent import gru_cell, unroll_rows


class RNNAgent(InputAgent):
    """The shared network. G is 3W: the input projections of the recurrent unit's gates."""

    input_gates: Linear
    """[W, 3W]."""
    hidden_gates: Linear
    """[W, 3W]."""
    fc2: Linear
    """[W, U]."""

    def __init__(self, sizes: AgentSizes, *, key: Array):
        keys = jax.random.split(key, 4)
        self.sizes = sizes
        self.fc1 = Linear(sizes.input_dim, sizes.hidden_dim, key=keys[0])
        self.input_gates = Linear(sizes.hidden_dim, 3 * sizes.hidden_dim, key=keys[1])
        self.hidden_gates = Linear(sizes.hidden_dim, 3 * sizes.hidden_dim, key=keys[2])
        self.fc2 = Linear(sizes.hidden_dim, sizes.n_actions, key=keys[3])

    def initial(self, batch: int, seats: int | None = None) -> Array:
        """Zeros, [B, A, W]."""
        return jnp.zeros((batch, self.sizes.n_agents if seats is None else seats, self.sizes.hidden_dim))

    def activate(self, x: Array, seats: Array | None = None) -> Array:
        """[..., W1] -> [..., 3W]; the same for every seat."""
        return self.input_gates(jax.nn.relu(x))

    def step(self, gates_in: Array, h: Array, seats: Array | None = None) -> Array:
        """[..., 3W], [..., W] -> [..., W]; the same for every seat."""
        return gru_cell(gates_in, h, self.hidden_gates.weight, self.hidden_gates.bias)

    def unroll(self, gates_in: Array, h0: Array | None = None, seats: Array | None = None) -> Array:
        """[B, T, ..., 3W], [B, ..., W] -> [B, T, ..., W]; the same for every seat."""
        if h0 is None:
            h0 = jnp.zeros((gates_in.shape[0], *gates_in.shape[2:-1], self.sizes.hidden_dim))
        return unroll_rows(gates_in, h0, self.hidden_gates.weight, self.hidden_gates.bias)

    def head(self, h: Array, seats: Array | None = None) -> Array:
        """[..., W] -> [..., U]; the same for every seat."""
        return self.fc2(h)
