"""`idv_rnn`: the network of `rnn` once per seat with separate parameters, run as one batched product."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from omg.modules.agents.base import AgentSizes
from omg.modules.agents.rnn import RNNAgent


class IndividualRNNAgent(eqx.Module):
    """One network per seat."""

    seats: RNNAgent
    """Stacked: every array has a leading axis A."""
    sizes: AgentSizes = eqx.field(static=True)

    def __init__(self, sizes: AgentSizes, *, key: Array):
        self.sizes = sizes
        self.seats = jax.vmap(lambda seat_key: RNNAgent(sizes, key=seat_key))(jax.random.split(key, sizes.n_agents))

    def initial(self, batch: int) -> Array:
        """Zeros, [B, A, H]."""
        return jnp.zeros((batch, self.sizes.n_agents, self.sizes.hidden_dim))

    def embed(self, obs: Array, last_action: Array, features: Array | None = None) -> Array:
        """See `Agent.embed`: [..., A or 1, O], [..., A], [..., A, F] -> [..., A, 3H]."""
        obs = jnp.broadcast_to(obs, (*last_action.shape, obs.shape[-1]))

        def embed_seat(net: RNNAgent, obs: Array, last: Array, extra: Array | None, seat: Array) -> Array:
            return net.input_gates(net.first_layer(obs, last, extra, seat))

        over_seats = jax.vmap(embed_seat, in_axes=(0, -2, -1, -2, 0), out_axes=-2)
        return over_seats(self.seats, obs, last_action, features, jnp.arange(self.sizes.n_agents))

    def step(self, gates_in: Array, h: Array) -> Array:
        """[..., A, 3H], [..., A, H] -> [..., A, H]."""
        return jax.vmap(RNNAgent.step, in_axes=(0, -2, -2), out_axes=-2)(self.seats, gates_in, h)

    def unroll(self, gates_in: Array, h0: Array) -> Array:
        """[B, T, A, 3H], [B, A, H] -> [B, T, A, H]."""
        return jax.vmap(RNNAgent.unroll, in_axes=(0, 2, 1), out_axes=2)(self.seats, gates_in, h0)

    def head(self, h: Array) -> Array:
        """[..., A, H] -> [..., A, U]."""
        return jax.vmap(RNNAgent.head, in_axes=(0, -2), out_axes=-2)(self.seats, h)
