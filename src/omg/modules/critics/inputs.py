"""Feed-forward networks over several inputs: one for all seats, or one for every seat.

They say anything about a seat that can be said in some numbers: what the game is worth to it, what each of its actions
is worth, what the others will do next. Letters in shapes: m seats, A seats of the game, W width of a layer.
"""

from __future__ import annotations

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from omg.modules.critics.base import CriticSizes, weigh_inputs
from omg.modules.layers import Linear
from omg.modules.maps import MapEncoder, encoded_dim


class InputsNetwork(eqx.Module):
    """Convolutions over the map that the first input begins with, if it has one; then two layers with ReLU and a last.

    An input that is the same along an axis has length 1 there, and what depends on it alone is computed once.
    """

    encoder: MapEncoder
    fc1: Linear
    """[input, W]."""
    fc2: Linear
    """[W, second width]."""
    value: Linear
    """[second width, outputs]."""
    sizes: CriticSizes = eqx.field(static=True)

    def __init__(self, sizes: CriticSizes, outputs: int, *, key: Array):
        keys = jax.random.split(key, 4)
        second = sizes.hidden_dim if sizes.second_dim is None else sizes.second_dim
        self.sizes = sizes
        self.encoder = MapEncoder(sizes.map_shape, key=keys[3])
        self.fc1 = Linear(self._encoded_sizes().input_dim, sizes.hidden_dim, key=keys[0])
        self.fc2 = Linear(sizes.hidden_dim, second, key=keys[1])
        self.value = Linear(second, outputs, key=keys[2])

    def __call__(self, inputs: Sequence[Array]) -> Array:
        """Inputs [..., width], which broadcast against each other but for their widths -> [..., outputs]."""
        encoded = (self.encoder(inputs[0]), *inputs[1:])
        hidden = jax.nn.relu(weigh_inputs(self.fc1, self._encoded_sizes(), encoded))
        return self.value(jax.nn.relu(self.fc2(hidden)))

    def _encoded_sizes(self) -> CriticSizes:
        first, *others = self.sizes.widths
        return self.sizes._replace(widths=(encoded_dim(first, self.sizes.map_shape), *others))


class SeatNetworks(eqx.Module):
    """An `InputsNetwork` for all seats together, or one for every seat, run as one batched product."""

    networks: InputsNetwork
    """Stacked, with a leading axis A, when every seat has its own."""
    n_agents: int | None = eqx.field(static=True)
    """A; None when all seats share one network."""

    def __init__(self, sizes: CriticSizes, outputs: int, *, n_agents: int | None, key: Array):
        self.n_agents = n_agents
        if n_agents is None:
            self.networks = InputsNetwork(sizes, outputs, key=key)
        else:
            build = jax.vmap(lambda seat_key: InputsNetwork(sizes, outputs, key=seat_key))
            self.networks = build(jax.random.split(key, n_agents))

    def __call__(self, inputs: Sequence[Array], seats: Array | None = None) -> Array:
        """What the networks say of some seats.

        Args:
            inputs: Arrays [..., m or 1, width], which broadcast to [..., m, width].
            seats: Integers that broadcast to [..., m]; None for all seats in their order.

        Returns:
            [..., m, outputs].
        """
        if self.n_agents is None:
            return self.networks(inputs)
        if seats is None:
            axes = [None if one.shape[-2] == 1 else -2 for one in inputs]
            rows = [one[..., 0, :] if axis is None else one for one, axis in zip(inputs, axes, strict=True)]
            said = jax.vmap(lambda network, rows: network(rows), in_axes=(0, axes), out_axes=-2)
            return said(self.networks, rows)
        # As in `IndividualAgent`: every network on every row, rather than a copy of the weights for every row.
        every = jax.vmap(lambda network: network(inputs), out_axes=-2)(self.networks)
        index = jnp.broadcast_to(seats, every.shape[:-2])[..., None, None]
        return jnp.take_along_axis(every, index, axis=-2)[..., 0, :]
