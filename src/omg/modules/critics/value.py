"""`rnn`, `mlp`, `conv`, `idv_conv`: what the game is worth to a seat, with and without memory of what came before."""

from __future__ import annotations

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from omg.modules.critics.base import CriticSizes, alternatives, weigh_inputs
from omg.modules.critics.inputs import SeatNetworks
from omg.modules.layers import Linear
from omg.modules.recurrent import forgetting, gru_cell, turned, unroll_rows


class RecurrentCritic(eqx.Module):
    """Linear -> ReLU -> GRU -> Linear, from the first slot of the episodes on."""

    fc1: Linear
    """[input, W]."""
    input_gates: Linear
    """[W, 3W]."""
    hidden_gates: Linear
    """[W, 3W]."""
    value: Linear
    """[W, 1]."""
    sizes: CriticSizes = eqx.field(static=True)

    def __init__(self, sizes: CriticSizes, *, key: Array):
        keys = jax.random.split(key, 4)
        self.sizes = sizes
        self.fc1 = Linear(sizes.input_dim, sizes.hidden_dim, key=keys[0])
        self.input_gates = Linear(sizes.hidden_dim, 3 * sizes.hidden_dim, key=keys[1])
        self.hidden_gates = Linear(sizes.hidden_dim, 3 * sizes.hidden_dim, key=keys[2])
        self.value = Linear(sizes.hidden_dim, 1, key=keys[3])

    def __call__(self, inputs: Sequence[Array], seats: Array | None = None, breaks: Array | None = None) -> Array:
        """See `Critic.__call__`: inputs -> [B, T, m]."""
        return turned(self.value(turned(self._remember(inputs, breaks)))[..., 0])

    def try_features(self, inputs: Sequence[Array], features: Array, seats: Array | None = None) -> Array:
        """See `Critic.try_features`: inputs and [B, T', K, m, width] -> [B, T', K, m]."""
        hidden, steps = self._remember(inputs), features.shape[1]
        before = jnp.concatenate([jnp.zeros_like(hidden[:, :1]), hidden[:, : steps - 1]], axis=1)
        tried = weigh_inputs(self.fc1, self.sizes, [*alternatives(inputs[:-1], steps), features])
        gates_in = self.input_gates(jax.nn.relu(tried))
        hidden = gru_cell(gates_in, before[:, :, None], self.hidden_gates.weight, self.hidden_gates.bias)
        return self.value(hidden)[..., 0]

    def _remember(self, inputs: Sequence[Array], breaks: Array | None = None) -> Array:
        """The recurrent state after each slot, [B, T, m, W]."""
        given = [turned(one) for one in inputs]
        gates_in = turned(self.input_gates(jax.nn.relu(weigh_inputs(self.fc1, self.sizes, given))))
        if breaks is not None:
            gates_in = forgetting(gates_in, breaks)
        batch, _, seats, _ = gates_in.shape
        start = jnp.zeros((batch, seats, self.sizes.hidden_dim))
        return unroll_rows(gates_in, start, self.hidden_gates.weight, self.hidden_gates.bias)


class ValueHead(eqx.Module):
    """A layer on what a recurrent network of somebody else's remembers: it cannot say what other features are worth."""

    value: Linear
    """[W, 1]."""

    def __init__(self, hidden_dim: int, *, key: Array):
        self.value = Linear(hidden_dim, 1, key=key)

    def __call__(self, inputs: Sequence[Array], seats: Array | None = None, breaks: Array | None = None) -> Array:
        """The only input is the recurrent state, [B, T, m, W] -> [B, T, m]."""
        (hidden,) = inputs
        return turned(self.value(turned(hidden))[..., 0])


class FeedForwardCritic(eqx.Module):
    """Linear -> ReLU -> Linear -> ReLU -> Linear."""

    fc1: Linear
    """[input, W]."""
    fc2: Linear
    """[W, second width]."""
    value: Linear
    """[second width, 1]."""
    sizes: CriticSizes = eqx.field(static=True)

    def __init__(self, sizes: CriticSizes, *, key: Array):
        keys = jax.random.split(key, 3)
        second = sizes.hidden_dim if sizes.second_dim is None else sizes.second_dim
        self.sizes = sizes
        self.fc1 = Linear(sizes.input_dim, sizes.hidden_dim, key=keys[0])
        self.fc2 = Linear(sizes.hidden_dim, second, key=keys[1])
        self.value = Linear(second, 1, key=keys[2])

    def __call__(self, inputs: Sequence[Array], seats: Array | None = None, breaks: Array | None = None) -> Array:
        """See `Critic.__call__`: inputs -> [B, T, m]."""
        hidden = jax.nn.relu(weigh_inputs(self.fc1, self.sizes, inputs))
        return self.value(jax.nn.relu(self.fc2(hidden)))[..., 0]

    def try_features(self, inputs: Sequence[Array], features: Array, seats: Array | None = None) -> Array:
        """See `Critic.try_features`: inputs and [B, T', K, m, width] -> [B, T', K, m]."""
        return self([*alternatives(inputs[:-1], features.shape[1]), features])


class ConvCritic(eqx.Module):
    """An `InputsNetwork`: convolutions over the map, if there is one, then the layers of `mlp`."""

    networks: SeatNetworks

    def __init__(self, sizes: CriticSizes, *, key: Array):
        self.networks = SeatNetworks(sizes, 1, n_agents=self._networks(sizes), key=key)

    @staticmethod
    def _networks(sizes: CriticSizes) -> int | None:
        """Number of networks; None for one that all seats share."""
        return None

    @property
    def value(self) -> Linear:
        """[W, 1], or [A, W, 1]."""
        return self.networks.networks.value

    def __call__(self, inputs: Sequence[Array], seats: Array | None = None, breaks: Array | None = None) -> Array:
        """See `Critic.__call__`: inputs -> [B, T, m]."""
        return self.networks(inputs, seats)[..., 0]

    def try_features(self, inputs: Sequence[Array], features: Array, seats: Array | None = None) -> Array:
        """See `Critic.try_features`: inputs and [B, T', K, m, width] -> [B, T', K, m]."""
        tried = [*alternatives(inputs[:-1], features.shape[1]), features]
        return self(tried, None if seats is None else seats[:, :, None])


class IndividualConvCritic(ConvCritic):
    """`conv`, one per seat."""

    @staticmethod
    def _networks(sizes: CriticSizes) -> int | None:
        """One for every seat."""
        return sizes.n_agents
