"""The same convolutions as plain matrix products, for searches on a GPU.

A search asks the same networks hundreds of times about small boards. There a convolution is slow not for its sums but
for its memory traffic: the nine shifted copies of a map take nine times the room of the map. Spread out over the board,
a 3 x 3 kernel is one matrix from all cells to all cells. Most of it is zeros, so there are several times as many sums,
but the matrix units do them in passing, and nothing but the maps themselves is moved.

Numbers are bfloat16, sums float32: what a search looks up are guesses, and it averages hundreds of them. Learning uses
the networks as they are.
"""

from __future__ import annotations

from typing import TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from omg.modules.convolutions import spread
from omg.modules.planning.networks import MapTrunk, with_trunks

Module = TypeVar("Module")
_DTYPE = jnp.bfloat16


class SpreadTrunk(eqx.Module):
    """A `MapTrunk` whose convolutions are matrices; made for each search, never stored."""

    layers: tuple[Array, ...]
    """[in * cells, cells * out] bfloat16; the first one's rows by channel and cell, the others' by cell and channel."""
    biases: tuple[Array, ...]
    """[cells * out] bfloat16."""
    weight: Array
    """[cells * filters, W] bfloat16."""
    bias: Array
    """[W] float32."""
    time: Array
    """[W] float32."""

    def __init__(self, trunk: MapTrunk, height: int, width: int):
        """Spreads the convolutions of one trunk over a board.

        Args:
            trunk: without leading axes.
            height: of the board.
            width: of the board.
        """
        cells = height * width
        self.layers = tuple(
            spread(kernel.astype(_DTYPE), height, width, channels_first=number == 0)
            for number, kernel in enumerate(trunk.kernels)
        )
        self.biases = tuple(jnp.tile(bias.astype(_DTYPE), cells) for bias in trunk.biases)
        self.weight, self.bias, self.time = trunk.dense.weight.astype(_DTYPE), trunk.dense.bias, trunk.time

    def __call__(self, maps: Array, time: Array) -> Array:
        """See `MapTrunk.__call__`."""
        lead = maps.shape[:-3]
        x = maps.reshape(-1, int(np.prod(maps.shape[-3:]))).astype(_DTYPE)
        for matrix, bias in zip(self.layers, self.biases, strict=True):
            x = jax.nn.relu(x @ matrix + bias)
        found = jnp.matmul(x, self.weight, preferred_element_type=jnp.float32) + self.bias
        found = found + time.reshape(-1, 1) * self.time
        return found.reshape(*lead, found.shape[-1])


def spread_trunks(networks: Module, height: int, width: int) -> Module:
    """Some networks without leading axes, with all their trunks spread over a board."""
    return with_trunks(networks, lambda trunk: SpreadTrunk(trunk, height, width))
