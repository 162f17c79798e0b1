"""Convolutions of 3 x 3 cells over maps."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from omg.modules.layers import rows_times, torch_uniform

KERNEL = 3
_EVEN_CHANNELS = 8
_SMALL_BOARD = 64
"""Cells up to which a matrix over the whole board is worth its zeros."""
_MANY_MAPS = 512
"""Maps from which on it is worth being written."""


def on_cpu() -> bool:
    """Whether programs traced now are for a CPU."""
    chosen: jax.Device | str | None = jax.config.jax_default_device  # type: ignore[attr-defined]
    if isinstance(chosen, jax.Device):
        return chosen.platform == "cpu"
    return (jax.default_backend() if chosen is None else chosen) == "cpu"


def convolve(x: Array, kernel: Array) -> Array:
    """A convolution with zeros around the map: [B, height, width, C] and [3, 3, C, C'] -> the same with C'.

    Mapped over several networks XLA's own convolution becomes a grouped one, and its gradient takes many times as long.
    For many small maps on a GPU it is one product with a matrix over the whole board instead (`spread`): nothing but
    the maps themselves is moved, where nine shifted copies of each had taken most of the time.
    """
    batch, height, width, _ = x.shape
    if not on_cpu() and batch >= _MANY_MAPS and height * width <= _SMALL_BOARD:
        return _convolve_spread(x, kernel)
    return _convolve_shifted(x, kernel)


def _convolve_spread(x: Array, kernel: Array) -> Array:
    batch, height, width, _ = x.shape
    matrix = spread(kernel, height, width, channels_first=False)
    return (x.reshape(batch, -1) @ matrix).reshape(batch, height, width, -1)


def spread(kernel: Array, height: int, width: int, *, channels_first: bool) -> Array:
    """The matrix of a convolution with zeros around the board.

    Args:
        kernel: [3, 3, C, C'].
        height: of the board.
        width: of the board.
        channels_first: whether the input's cells come by channel, [C, height, width], instead of [height, width, C].

    Returns:
        [C * height * width, height * width * C'].
    """
    cells = height * width
    rows, columns = np.divmod(np.arange(cells), width)
    down, right = (place[:, None] - place[None, :] + KERNEL // 2 for place in (rows, columns))
    near = (down >= 0) & (down < KERNEL) & (right >= 0) & (right < KERNEL)
    # Which of the nine weights leads from a cell to another, as a product: the gradient by them is one too.
    which = near[..., None] & ((down * KERNEL + right)[..., None] == np.arange(KERNEL * KERNEL))
    chosen = jnp.asarray(which.reshape(cells * cells, -1), kernel.dtype)
    full = chosen @ kernel.reshape(KERNEL * KERNEL, -1)
    order = (2, 0, 1, 3) if channels_first else (0, 2, 1, 3)
    return jnp.transpose(full.reshape(cells, cells, *kernel.shape[2:]), order).reshape(-1, cells * kernel.shape[-1])


@jax.custom_vjp
def _convolve_shifted(x: Array, kernel: Array) -> Array:
    """XLA's own on a CPU, the fastest there for one network without gradients; or the nine shifted maps together."""
    if not on_cpu():
        return _convolve_unfolded(x, kernel)
    # Seven pictures take nearly twice as long as eight, which fill a vector register.
    spare = -x.shape[-1] % _EVEN_CHANNELS
    x = jnp.pad(x, ((0, 0), (0, 0), (0, 0), (0, spare)))
    kernel = jnp.pad(kernel, ((0, 0), (0, 0), (0, spare), (0, 0)))
    return jax.lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))


def _unfold(x: Array) -> Array:
    """The nine neighbours of every cell side by side, itself among them: [..., C] -> [..., 9 * C].

    One lookup instead of nine shifts: the gradients of a player's networks are compiled in half the time.
    """
    batch, height, width, channels = x.shape
    cells = np.pad(np.arange(height * width).reshape(height, width), 1, constant_values=height * width)
    around = [cells[row : row + height, col : col + width] for row in range(KERNEL) for col in range(KERNEL)]
    # Behind the last cell stands the zero that surrounds the map.
    padded = jnp.pad(x.reshape(batch, height * width, channels), ((0, 0), (0, 1), (0, 0)))
    return padded[:, np.stack(around, axis=-1).reshape(-1)].reshape(batch, height, width, -1)


def _convolve_unfolded(x: Array, kernel: Array) -> Array:
    return rows_times(_unfold(x), kernel.reshape(-1, kernel.shape[-1]))


def _convolve_forward(x: Array, kernel: Array) -> tuple[Array, tuple[Array, Array]]:
    return _convolve_unfolded(x, kernel), (x, kernel)


def _convolve_backward(saved: tuple[Array, Array], gradient: Array) -> tuple[Array, Array]:
    # What a cell gave to its neighbours comes back by the same way: a convolution with the kernel turned around.
    x, kernel = saved
    by_x = _convolve_unfolded(gradient, jnp.swapaxes(kernel[::-1, ::-1], 2, 3))
    shifted, rows = _unfold(x), gradient.reshape(-1, gradient.shape[-1])
    by_kernel = shifted.reshape(len(rows), -1).T @ rows
    return by_x, by_kernel.reshape(kernel.shape)


_convolve_shifted.defvjp(_convolve_forward, _convolve_backward)


class Conv3x3(eqx.Module):
    """A convolution of 3 x 3 cells with zeros around the map, which keeps its size."""

    weight: Array
    """[3, 3, C, C'], rows and columns from the cell above and left of the middle."""
    bias: Array
    """[C']."""

    def __init__(self, in_channels: int, out_channels: int, *, key: Array):
        weight_key, bias_key = jax.random.split(key)
        fan_in = KERNEL * KERNEL * in_channels
        self.weight = torch_uniform(weight_key, (KERNEL, KERNEL, in_channels, out_channels), fan_in)
        self.bias = torch_uniform(bias_key, (out_channels,), fan_in)

    def __call__(self, cells: Array) -> Array:
        """[B, height, width, C] -> [B, height, width, C']."""
        return convolve(cells, self.weight) + self.bias
