"""`idv_rnn`, `idv_conv`: a network once per seat with separate parameters, run as one batched product."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from omg.modules.agents.base import AgentSizes
from omg.modules.agents.conv import ConvAgent
from omg.modules.agents.inputs import wrong_features
from omg.modules.agents.rnn import RNNAgent

Network = RNNAgent | ConvAgent


class IndividualAgent(eqx.Module):
    """One network per seat; a subclass names which."""

    network: ClassVar[Callable[..., Network]]
    """Builds the network of one seat."""
    seats: Network
    """Stacked: every array has a leading axis A."""
    sizes: AgentSizes = eqx.field(static=True)

    def __init__(self, sizes: AgentSizes, *, key: Array):
        self.sizes = sizes
        build = type(self).network
        self.seats = jax.vmap(lambda seat_key: build(sizes, key=seat_key))(jax.random.split(key, sizes.n_agents))

    def initial(self, batch: int, seats: int | None = None) -> Array:
        """Zeros, [B, A, W]."""
        return self.seats.initial(batch, seats)

    def embed(self, obs: Array, last_action: Array, features: Array | None = None, seats: Array | None = None) -> Array:
        """See `AgentNetwork.embed`: [..., A or 1, O], [..., A], [..., A, F] -> [..., A, W2]."""
        if (features is None) != (self.sizes.feature_dim == 0):
            raise wrong_features(self.sizes, features)
        x = self.weigh_inputs(obs, last_action, seats)
        return self.activate(x if features is None else x + self.weigh_features(features, seats), seats)

    def weigh_inputs(self, obs: Array, last_action: Array, seats: Array | None = None) -> Array:
        """[..., A or 1, O], [..., A] -> [..., A, W1]."""
        # The last action travels as one more column of the observation, so that both are cut by seat alike.
        obs = jnp.broadcast_to(obs, (*last_action.shape, obs.shape[-1]))
        rows = jnp.concatenate([obs, last_action[..., None].astype(obs.dtype)], axis=-1)
        everyone = jnp.arange(self.sizes.n_agents)

        def weigh(net: Network, rows: Array, seat: Array) -> Array:
            return net.weigh_inputs(rows[..., None, :-1], rows[..., None, -1].astype(jnp.int32), seat[None])[..., 0, :]

        return self._by_seat(lambda nets, x: _over_seats(weigh, nets, x, everyone), seats, rows)

    def weigh_features(self, features: Array, seats: Array | None = None) -> Array:
        """[..., A, F] -> [..., A, W1]."""
        return self._by_seat(lambda nets, x: _over_seats(_weigh_features, nets, x), seats, features)

    def activate(self, x: Array, seats: Array | None = None) -> Array:
        """[..., A, W1] -> [..., A, W2]."""
        return self._by_seat(lambda nets, x: _over_seats(_activate, nets, x), seats, x)

    def step(self, gates_in: Array, h: Array, seats: Array | None = None) -> Array:
        """[..., A, W2], [..., A, W] -> [..., A, W]."""
        over_seats = jax.vmap(_step, in_axes=(0, -2, -2), out_axes=-2)
        return self._by_seat(over_seats, seats, gates_in, h)

    def unroll(self, gates_in: Array, h0: Array | None = None, seats: Array | None = None) -> Array:
        """[B, T, A, W2], [B, A, W] -> [B, T, A, W]."""
        over_seats = jax.vmap(_unroll, in_axes=(0, -2, -2), out_axes=-2)
        if h0 is None:
            h0 = self.initial(gates_in.shape[0], gates_in.shape[-2])
        return self._by_seat(over_seats, seats, gates_in, h0)

    def head(self, h: Array, seats: Array | None = None) -> Array:
        """[..., A, W] -> [..., A, U]."""
        return self._by_seat(lambda nets, x: _over_seats(_head, nets, x), seats, h)

    def _by_seat(self, run: Callable[..., Array], seats: Array | None, *rows: Array) -> Array:
        """Runs each row [..., m, inputs] through the network of its seat.

        With `seats` given, the networks of all seats are run on every row and the right one is picked afterwards:
        copying each row's weights instead would move far more memory than these small products cost.
        """
        if seats is None:
            return run(self.seats, *rows)
        every = run(self.seats, *(jnp.repeat(values[..., None, :], self.sizes.n_agents, axis=-2) for values in rows))
        index = jnp.broadcast_to(seats, every.shape[:-2])[..., None, None]
        return jnp.take_along_axis(every, index, axis=-2)[..., 0, :]


class IndividualRNNAgent(IndividualAgent):
    """`rnn`, one per seat."""

    network = RNNAgent
    seats: RNNAgent


class IndividualConvAgent(IndividualAgent):
    """`conv`, one per seat."""

    network = ConvAgent
    seats: ConvAgent


def _weigh_features(net: Network, features: Array) -> Array:
    return net.weigh_features(features)


def _activate(net: Network, x: Array) -> Array:
    return net.activate(x)


def _step(net: Network, gates_in: Array, h: Array) -> Array:
    return net.step(gates_in, h)


def _unroll(net: Network, gates_in: Array, h0: Array) -> Array:
    return net.unroll(gates_in, h0)


def _head(net: Network, h: Array) -> Array:
    return net.head(h)


def _over_seats(function: Callable[..., Array], nets: Network, rows: Array, *per_seat: Array) -> Array:
    """[..., A, inputs] -> [..., A, outputs], network by network."""
    return jax.vmap(function, in_axes=(0, -2, *(0 for _ in per_seat)), out_axes=-2)(nets, rows, *per_seat)
