"""`rnn`: one recurrent network shared by all seats, PyMARL's Linear -> ReLU -> GRU -> Linear."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from omg.modules.agents.base import AgentSizes
from omg.modules.layers import Linear, rows_times, select_rows
from omg.modules.recurrent import gru_cell, gru_unroll


class RNNAgent(eqx.Module):
    """The shared network. G is 3H: the input projections of the recurrent unit's gates."""

    fc1: Linear
    """[input_dim, H]; rows in the order obs, last action, seat, features."""
    input_gates: Linear
    """[H, 3H]."""
    hidden_gates: Linear
    """[H, 3H]."""
    fc2: Linear
    """[H, U]."""
    sizes: AgentSizes = eqx.field(static=True)

    def __init__(self, sizes: AgentSizes, *, key: Array):
        keys = jax.random.split(key, 4)
        self.sizes = sizes
        self.fc1 = Linear(sizes.input_dim, sizes.hidden_dim, key=keys[0])
        self.input_gates = Linear(sizes.hidden_dim, 3 * sizes.hidden_dim, key=keys[1])
        self.hidden_gates = Linear(sizes.hidden_dim, 3 * sizes.hidden_dim, key=keys[2])
        self.fc2 = Linear(sizes.hidden_dim, sizes.n_actions, key=keys[3])

    def initial(self, batch: int) -> Array:
        """Zeros, [B, A, H]."""
        return jnp.zeros((batch, self.sizes.n_agents, self.sizes.hidden_dim))

    def embed(self, obs: Array, last_action: Array, features: Array | None = None) -> Array:
        """See `Agent.embed`: [..., A or 1, O], [..., A], [..., A, F] -> [..., A, 3H]."""
        x = self.first_layer(obs, last_action, features, jnp.arange(self.sizes.n_agents))
        # Only with neither last action nor seat among the inputs can an axis of one seat have survived.
        x = jnp.broadcast_to(x, (*x.shape[:-2], self.sizes.n_agents, x.shape[-1]))
        return self.input_gates(x)

    def first_layer(self, obs: Array, last_action: Array, features: Array | None, seats: Array) -> Array:
        """Linear and ReLU over [obs | last action | seat | features], part by part and without building that input.

        Args:
            obs: [..., O].
            last_action: [...] integers, -1 for none.
            features: [..., F] or None.
            seats: Integers, broadcastable to [...].

        Returns:
            [..., H].
        """
        if (features is None) != (self.sizes.feature_dim == 0):
            raise ValueError(f"features given: {features is not None}; feature_dim is {self.sizes.feature_dim}")
        weight, row = self.fc1.weight, self.sizes.obs_dim
        constant = self.fc1.bias
        x = rows_times(obs, weight[:row])
        if self.sizes.use_last_action:
            x = x + select_rows(weight[row : row + self.sizes.n_actions], last_action)
            row += self.sizes.n_actions
        if self.sizes.use_agent_id:
            constant = constant + weight[row + seats]
            row += self.sizes.n_agents
        if features is not None:
            x = x + rows_times(features, weight[row:])
        return jax.nn.relu(x + constant)

    def step(self, gates_in: Array, h: Array) -> Array:
        """[..., 3H], [..., H] -> [..., H]."""
        return gru_cell(gates_in, h, self.hidden_gates.weight, self.hidden_gates.bias)

    def unroll(self, gates_in: Array, h0: Array) -> Array:
        """[B, T, ..., 3H], [B, ..., H] -> [B, T, ..., H]."""
        batch, time = gates_in.shape[:2]
        time_first = jnp.swapaxes(gates_in, 0, 1).reshape(time, -1, gates_in.shape[-1])
        rows = h0.reshape(-1, h0.shape[-1])
        states = gru_unroll(time_first, rows, self.hidden_gates.weight, self.hidden_gates.bias)
        return jnp.swapaxes(states.reshape(time, batch, *h0.shape[1:]), 0, 1)

    def head(self, h: Array) -> Array:
        """[..., H] -> [..., U]."""
        return self.fc2(h)
