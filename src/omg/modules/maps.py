"""Observations that begin with a map: convolutions over the map, everything behind it as it is."""

from __future__ import annotations

import math
from itertools import pairwise

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from omg.modules.convolutions import Conv3x3

MapShape = tuple[int, int, int]
"""Pictures, height and width of the map at the front of a vector."""

FILTERS = (16, 32, 32)
"""Pictures behind each convolution."""
SEARCHED_FILTERS = (16, 16)
"""The same of networks that a search asks in every position."""


class MapEncoder(eqx.Module):
    """Convolutions of 3 x 3 cells with ReLU over the map that vectors begin with; nothing where there is none."""

    convolutions: tuple[Conv3x3, ...]
    shape: MapShape | None = eqx.field(static=True)

    def __init__(self, shape: MapShape | None, filters: tuple[int, ...] = FILTERS, *, key: Array):
        self.shape = shape
        depths = () if shape is None else (shape[0], *filters)
        keys = jax.random.split(key, len(filters))
        self.convolutions = tuple(
            Conv3x3(inputs, outputs, key=conv_key)
            for (inputs, outputs), conv_key in zip(pairwise(depths), keys, strict=False)
        )

    def __call__(self, vectors: Array) -> Array:
        """[..., O] -> [..., encoded_dim(O, shape)]: the last pictures, then what stands behind the map."""
        if self.shape is None:
            return vectors
        size = math.prod(self.shape)
        # Cell by cell from the first layer to the last, and picture by picture only before and behind them.
        cells = jnp.moveaxis(vectors[..., :size].reshape(-1, *self.shape), 1, -1)
        for convolution in self.convolutions:
            cells = jax.nn.relu(convolution(cells))
        flat = jnp.moveaxis(cells, -1, 1).reshape(*vectors.shape[:-1], -1)
        return jnp.concatenate([flat, vectors[..., size:]], axis=-1)


def encoded_dim(width: int, shape: MapShape | None, filters: tuple[int, ...] = FILTERS) -> int:
    """Width that vectors of a given width have behind a `MapEncoder`."""
    return width if shape is None else width - math.prod(shape) + filters[-1] * shape[1] * shape[2]
