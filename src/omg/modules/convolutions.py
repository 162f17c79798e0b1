"""Convolutions of 3 x 3 cells over maps."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from omg.modules.layers import rows_times, torch_uniform

KERNEL = 3


def on_cpu() -> bool:
    """Whether programs traced now are for a CPU."""
    chosen: Any = jax.config.jax_default_device  # type: ignore[attr-defined]
    name: str = jax.default_backend() if chosen is None else getattr(chosen, "platform", chosen)
    return name == "cpu"


@jax.custom_vjp
def convolve(x: Array, kernel: Array) -> Array:
    """A convolution with zeros around the map: [B, H, W, C] and [3, 3, C, C'] -> [B, H, W, C'].

    XLA's own one on a CPU, the fastest there for one network without gradients. Otherwise one product of the nine
    shifted maps side by side: mapped over several networks that is a batched product, where XLA's convolution becomes
    a grouped one, and its gradient takes many times as long.
    """
    if on_cpu():
        return jax.lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    return _convolve_unfolded(x, kernel)


def _unfold(x: Array) -> Array:
    """The nine neighbours of every cell side by side, itself among them: [B, H, W, C] -> [B, H, W, 9 * C].

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


convolve.defvjp(_convolve_forward, _convolve_backward)


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

    def __call__(self, x: Array) -> Array:
        """[..., C, H, W] -> [..., C', H, W]."""
        cells = jnp.moveaxis(x.reshape(-1, *x.shape[-3:]), 1, -1)
        found = jnp.moveaxis(convolve(cells, self.weight) + self.bias, -1, 1)
        return found.reshape(*x.shape[:-3], *found.shape[1:])
