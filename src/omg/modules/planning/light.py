"""The same networks in bfloat16, for searches on CPUs that multiply such numbers twice as fast.

XLA has no convolution of such numbers on a CPU, but it has products of matrices. Along a row of the board a row of a
kernel is a matrix from cells to cells. One product says what a row gives to the row below it, to itself and to the row
above; these are moved by a row and added up. A matrix from the whole row to the whole row would be zeros for the most
part, so rows are cut into pieces of a few columns. A trunk takes 15 ms for 768 maps of 6x6 as it is and 7.5 ms so, on
two cores.

As on a GPU (`spread`), what a search looks up are guesses, and it averages hundreds of them; learning uses the networks
as they are.
"""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from omg.modules.convolutions import KERNEL
from omg.modules.planning.networks import MapTrunk, with_trunks

Module = TypeVar("Module")
_DTYPE = jnp.bfloat16
_PIECE = 3
"""Most columns of a piece; with fewer there are fewer zeros, and more and smaller products."""
_CPU_FLAGS = Path("/proc/cpuinfo")
_FAST = {"avx512_bf16", "amx_bf16"}


@cache
def multiplies_bfloat16() -> bool:
    """Whether this machine's CPU has instructions for products of bfloat16; where that is not known, it has not."""
    try:
        words = set(_CPU_FLAGS.read_text(encoding="utf-8", errors="replace").split())
    except OSError:
        return False
    return bool(words & _FAST)


class LightTrunk(eqx.Module):
    """A `MapTrunk` whose convolutions are products along the rows of the board; made for each search, never stored."""

    layers: tuple[tuple[Array, ...], ...]
    """Of each convolution one matrix for each of `pieces`, [columns seen * in, 3 * columns * out] bfloat16."""
    biases: tuple[Array, ...]
    """[out] float32 each."""
    weight: Array
    """[cells * filters, W] bfloat16."""
    bias: Array
    """[W] float32."""
    time: Array
    """[W] float32."""
    width: int = eqx.field(static=True)
    """Of the board."""

    def __init__(self, trunk: MapTrunk, width: int):
        """Cuts the convolutions of one trunk into pieces of rows.

        Args:
            trunk: without leading axes.
            width: of the board.
        """
        self.width = width
        self.layers = tuple(
            tuple(_row_matrix(kernel.astype(_DTYPE), piece, width) for piece in pieces(width))
            for kernel in trunk.kernels
        )
        self.biases = trunk.biases
        self.weight, self.bias, self.time = trunk.dense.weight.astype(_DTYPE), trunk.dense.bias, trunk.time

    def __call__(self, maps: Array, time: Array) -> Array:
        """See `MapTrunk.__call__`."""
        lead, (channels, height, width) = maps.shape[:-3], maps.shape[-3:]
        x = jnp.moveaxis(maps.reshape(-1, channels, height, width), 1, -1)
        x = x.reshape(len(x), height, width * channels).astype(_DTYPE)
        for matrices, bias in zip(self.layers, self.biases, strict=True):
            x = self._convolved(x, matrices, bias)
        found = jnp.matmul(x.reshape(len(x), -1), self.weight, preferred_element_type=jnp.float32) + self.bias
        found = found + time.reshape(-1, 1) * self.time
        return found.reshape(*lead, found.shape[-1])

    def _convolved(self, x: Array, matrices: tuple[Array, ...], bias: Array) -> Array:
        """One layer with its activation, both bfloat16 with sums in float32.

        [B, height, width * in] -> [B, height, width * out].
        """
        batch, height, features = x.shape
        channels = features // self.width
        found = []
        for piece, matrix in zip(pieces(self.width), matrices, strict=True):
            first, last = (place * channels for place in _seen(piece, self.width))
            seen = x[:, :, first:last].reshape(batch * height, -1)
            given = jnp.matmul(seen, matrix, preferred_element_type=jnp.float32)
            below, same, above = jnp.split(given.reshape(batch, height, -1), KERNEL, axis=-1)
            below = jnp.pad(below[:, :-1], ((0, 0), (1, 0), (0, 0)))
            above = jnp.pad(above[:, 1:], ((0, 0), (0, 1), (0, 0)))
            added = below + same + above + jnp.tile(bias, piece[1] - piece[0])
            found.append(jax.nn.relu(added).astype(_DTYPE))
        return jnp.concatenate(found, axis=-1)


def light_trunks(networks: Module, width: int) -> Module:
    """Some networks without leading axes, with all their trunks light, for a board of a width."""
    return with_trunks(networks, lambda trunk: LightTrunk(trunk, width))


def pieces(width: int) -> list[tuple[int, int]]:
    """The first column of every piece of a row and the one behind its last; pieces differ by one column at most."""
    count = -(-width // _PIECE)
    cuts = [width * index // count for index in range(count + 1)]
    return list(pairwise(cuts))


def _seen(piece: tuple[int, int], width: int) -> tuple[int, int]:
    """The columns that a piece of the next layer looks at."""
    first, last = piece
    return max(first - KERNEL // 2, 0), min(last + KERNEL // 2, width)


def _row_matrix(kernel: Array, piece: tuple[int, int], width: int) -> Array:
    """What a row of the board gives to the rows around it, by a kernel [3, 3, C, C'].

    Returns:
        [columns seen * C, 3 * columns * C']: to the row below, of whose three rows it is the first, to itself, to the
        row above.
    """
    start, end = _seen(piece, width)
    offset = np.arange(start, end)[:, None] - np.arange(*piece) + KERNEL // 2
    which = jnp.asarray(offset[..., None] == np.arange(KERNEL), kernel.dtype)
    return jnp.einsum("iok,rkcf->icrof", which, kernel).reshape((end - start) * kernel.shape[2], -1)
