"""Observations that begin with a map: convolutions over the map, everything behind it as it is."""

from __future__ import annotations

import math
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from omg.modules.layers import Conv3x3
from omg.modules.planning.networks import convolve

MapShape = tuple[int, int, int]
"""Pictures, height and width of the map at the front of a vector."""

FILTERS = (16, 32, 32)
"""Pictures behind each convolution."""


class MapEncoder(eqx.Module):
    """Convolutions of 3 x 3 cells with ReLU over the map that vectors begin with; nothing where there is none."""

    convolutions: tuple[Conv3x3, ...]
    shape: MapShape | None = eqx.field(static=True)

    filters: ClassVar[tuple[int, ...]] = FILTERS

    def __init__(self, shape: MapShape | None, *, key: Array):
        self.shape = shape
        self.convolutions = ()
        if shape is not None:
            depths, keys = (shape[0], *self.filters), jax.random.split(key, len(self.filters))
            self.convolutions = tuple(
                Conv3x3(inputs, outputs, key=conv_key)
                for inputs, outputs, conv_key in zip(depths[:-1], depths[1:], keys, strict=True)
            )

    @classmethod
    def encoded_dim(cls, width: int, shape: MapShape | None) -> int:
        """Width that vectors of a given width have behind such an encoder."""
        return width if shape is None else width - math.prod(shape) + cls.filters[-1] * shape[1] * shape[2]

    def __call__(self, vectors: Array) -> Array:
        """[..., O] -> [..., encoded_dim(O, shape)]: the last pictures, then what stands behind the map."""
        if self.shape is None:
            return vectors
        size = math.prod(self.shape)
        pictures = vectors[..., :size].reshape(*vectors.shape[:-1], *self.shape)
        for convolution in self.convolutions:
            pictures = jax.nn.relu(convolution(pictures))
        flat = pictures.reshape(*vectors.shape[:-1], -1)
        return jnp.concatenate([flat, vectors[..., size:]], axis=-1)


class SearchedMapEncoder(MapEncoder):
    """The same for networks that a search asks in every position: fewer filters, quick on a CPU and to compile.

    `convolve` knows its own gradient, but not the gradient of that one, which LOLA asks for.
    """

    filters: ClassVar[tuple[int, ...]] = (16, 16)

    def __init__(self, shape: MapShape | None, *, key: Array):
        super().__init__(shape, key=key)

    def __call__(self, vectors: Array) -> Array:
        """As `MapEncoder`, the pictures cell by cell instead of one after the other."""
        if self.shape is None:
            return vectors
        size = math.prod(self.shape)
        pictures = jnp.moveaxis(vectors[..., :size].reshape(-1, *self.shape), 1, -1)
        for convolution in self.convolutions:
            pictures = jax.nn.relu(convolve(pictures, convolution.weight) + convolution.bias)
        flat = pictures.reshape(*vectors.shape[:-1], -1)
        return jnp.concatenate([flat, vectors[..., size:]], axis=-1)


def encoded_dim(width: int, shape: MapShape | None) -> int:
    """Width that vectors of a given width have behind a `MapEncoder`."""
    return MapEncoder.encoded_dim(width, shape)
