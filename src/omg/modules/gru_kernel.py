"""The recurrent loops as single GPU kernels.

A scan launches a handful of small kernels per time step and the GPU waits for each launch. Here one kernel keeps a
block of rows in registers and walks through all time steps by itself; the recurrent weight stays on the chip. Written
with Pallas for its Triton backend; where that is missing, `omg.modules.recurrent` uses its scans.

Letters in shapes as there: T steps, N rows, H hidden features.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.experimental import pallas as pl

_ROWS = 16
"""Rows per program: the smallest block a tensor core takes, for the most programs in flight."""
_WIDEST = 128


def usable(hidden: int) -> bool:
    """Whether the kernels can be compiled for a GPU with this hidden width."""
    return _triton() is not None and hidden <= _WIDEST


def _width(hidden: int) -> int:
    """The power of two that a hidden width is padded to.

    Padding changes nothing: a feature whose inputs, weights and start are zero stays zero.
    """
    return max(16, 1 << (hidden - 1).bit_length())


def _padded_weights(weight: Array) -> list[Array]:
    """The three gates' parts of a weight [H, 3H], each padded to [W, W]."""
    hidden = weight.shape[0]
    missing = _width(hidden) - hidden
    parts = (weight[:, k * hidden : (k + 1) * hidden] for k in range(3))
    return [jnp.pad(part, ((0, missing), (0, missing))) for part in parts]


def _triton() -> Any:
    try:
        from jax.experimental.pallas import triton
    except ImportError:
        return None
    return triton


def forward_loop(
    gates_in: tuple[Array, Array, Array], h0: Array, weight: Array, bias: Array, interpret: bool = False
) -> tuple[Array, Array, Array, Array, Array]:
    """All steps of the unit.

    Args:
        gates_in: three [T, N, H] input projections (reset, update, new).
        h0: [N, H].
        weight: [H, 3H].
        bias: [3H].
        interpret: run as ordinary JAX code, for tests without a GPU.

    Returns:
        states, reset, update, new and the hidden part of new, each [T, N, H].
    """
    steps, rows, hidden = gates_in[0].shape
    width = _width(hidden)
    padded, missing = -rows % _ROWS, width - hidden
    inputs = [jnp.pad(gate, ((0, 0), (0, padded), (0, missing))) for gate in gates_in]
    start = jnp.pad(h0, ((0, padded), (0, missing)))
    weights = _padded_weights(weight)
    biases = [jnp.pad(bias[None, k * hidden : (k + 1) * hidden], ((0, 0), (0, missing))) for k in range(3)]
    sequence = pl.BlockSpec((steps, _ROWS, width), lambda i: (0, i, 0))
    square = pl.BlockSpec((width, width), lambda i: (0, 0))
    line = pl.BlockSpec((1, width), lambda i: (0, 0))
    outputs = pl.pallas_call(
        _forward_kernel,
        out_shape=[jax.ShapeDtypeStruct(inputs[0].shape, jnp.float32)] * 5,
        grid=((rows + padded) // _ROWS,),
        in_specs=[sequence] * 3 + [pl.BlockSpec((_ROWS, width), lambda i: (i, 0))] + [square] * 3 + [line] * 3,
        out_specs=[sequence] * 5,
        interpret=interpret,
        compiler_params=_compiler_params(width, interpret),
    )(*inputs, start, *weights, *biases)
    states, r, z, n, hidden_new = (output[:, :rows, :hidden] for output in outputs)
    return states, r, z, n, hidden_new


def _forward_kernel(in_r, in_z, in_n, h0, w_r, w_z, w_n, b_r, b_z, b_n, states, out_r, out_z, out_n, out_hn) -> None:  # type: ignore[no-untyped-def]
    weights = w_r[...], w_z[...], w_n[...]
    biases = b_r[...], b_z[...], b_n[...]

    last = in_r.shape[0] - 1

    def step(t: Array, carry: tuple[Array, ...]) -> tuple[Array, ...]:
        h, now_r, now_z, now_n = carry
        # The next inputs are on their way while this step computes.
        t_next = jnp.minimum(t + 1, last)
        following = in_r[t_next], in_z[t_next], in_n[t_next]
        hidden = [jnp.dot(h, w) + b for w, b in zip(weights, biases, strict=True)]
        r = jax.nn.sigmoid(now_r + hidden[0])
        z = jax.nn.sigmoid(now_z + hidden[1])
        # tanh through the sigmoid: the backend has no fast tanh of its own.
        n = 2.0 * jax.nn.sigmoid(2.0 * (now_n + r * hidden[2])) - 1.0
        h = n + z * (h - n)
        states[t] = h
        out_r[t], out_z[t], out_n[t], out_hn[t] = r, z, n, hidden[2]
        return h, *following

    jax.lax.fori_loop(0, last + 1, step, (h0[...], in_r[0], in_z[0], in_n[0]))


def backward_loop(
    factors: tuple[Array, Array, Array], z: Array, grad_states: Array, weight: Array, interpret: bool = False
) -> tuple[Array, Array]:
    """The reverse pass; arguments and results as in `omg.modules.recurrent._backward_loop`."""
    steps, rows, hidden = z.shape
    width = _width(hidden)
    padded, missing = -rows % _ROWS, width - hidden
    sequences = [jnp.pad(value, ((0, 0), (0, padded), (0, missing))) for value in (*factors, z, grad_states)]
    weights = [part.T for part in _padded_weights(weight)]
    sequence = pl.BlockSpec((steps, _ROWS, width), lambda i: (0, i, 0))
    square = pl.BlockSpec((width, width), lambda i: (0, 0))
    block = pl.BlockSpec((_ROWS, width), lambda i: (i, 0))
    grad_h, grad_h0 = pl.pallas_call(
        _backward_kernel,
        out_shape=[
            jax.ShapeDtypeStruct(sequences[0].shape, jnp.float32),
            jax.ShapeDtypeStruct((rows + padded, width), jnp.float32),
        ],
        grid=((rows + padded) // _ROWS,),
        in_specs=[sequence] * 5 + [square] * 3,
        out_specs=[sequence, block],
        interpret=interpret,
        compiler_params=_compiler_params(width, interpret),
    )(*sequences, *weights)
    return grad_h[:, :rows, :hidden], grad_h0[:rows, :hidden]


def _backward_kernel(f_r, f_z, f_n, update, entering, w_r, w_z, w_n, grad_out, grad_h0) -> None:  # type: ignore[no-untyped-def]
    weights = w_r[...], w_z[...], w_n[...]
    inputs = (f_r, f_z, f_n, update, entering)
    last = f_r.shape[0] - 1

    def step(index: Array, carry: tuple[Array, ...]) -> tuple[Array, ...]:
        grad, now_r, now_z, now_n, now_update, now_entering = carry
        t = last - index
        t_next = jnp.maximum(t - 1, 0)
        following = [ref[t_next] for ref in inputs]
        grad = grad + now_entering
        grad_out[t] = grad
        parts = [jnp.dot(grad * f, w) for f, w in zip((now_r, now_z, now_n), weights, strict=True)]
        return grad * now_update + parts[0] + parts[1] + parts[2], *following

    start = (jnp.zeros(grad_h0.shape, jnp.float32), *(ref[last] for ref in inputs))
    grad_h0[...] = jax.lax.fori_loop(0, last + 1, step, start)[0]


def _compiler_params(width: int, interpret: bool) -> Any:
    triton = _triton()
    if interpret or triton is None:
        return None
    return triton.CompilerParams(num_warps=8 if width > 64 else 4, num_stages=1)
