"""A gated recurrent unit in PyTorch's convention, with the loop over time cut down to what must be sequential.

The input projections of all time steps are one product made by the caller (`gates_in`); only the product with the
hidden state stays in the loop. Differentiating such a loop automatically adds the weight's gradient up step by step;
here the backward loop passes on only the gradient of the hidden state, and the gradient of the weight is one product
over all steps and rows afterwards: one large product instead of T small ones, where an accelerator waits for each.

Letters in shapes: T steps, N rows (episodes times agents), H hidden features. Gates are ordered reset, update, new:

    r = sigmoid(i_r + h_r)      z = sigmoid(i_z + h_z)      n = tanh(i_n + r * h_n)      h' = (1 - z) * n + z * h

with (i_r, i_z, i_n) = `gates_in` and (h_r, h_z, h_n) = h @ weight + bias.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

from omg.modules import gru_kernel

SCAN_UNROLL = 1
"""Steps per loop iteration. Forward + backward on two CPU cores (T 60, N 256, H 64) took 32, 44 and 71 ms with 1, 4
and 8; a scan differentiated automatically took 35 ms at its best."""


def gru_cell(gates_in: Array, h: Array, weight: Array, bias: Array) -> Array:
    """One step.

    Args:
        gates_in: [..., 3H] input projection, its bias included.
        h: [..., H] hidden state.
        weight: [H, 3H].
        bias: [3H].

    Returns:
        [..., H], the next hidden state.
    """
    return _cell(_split(gates_in), h, weight, bias)[0]


@jax.custom_vjp
def gru_unroll(gates_in: Array, h0: Array, weight: Array, bias: Array) -> Array:
    """All steps.

    Args:
        gates_in: [T, N, 3H] input projections, their bias included.
        h0: [N, H] hidden state before the first step.
        weight: [H, 3H].
        bias: [3H].

    Returns:
        [T, N, H], the hidden state after each step.
    """
    return _forward_loop(_split(gates_in), h0, weight, bias)[0]


def unroll_rows(gates_in: Array, h0: Array, weight: Array, bias: Array) -> Array:
    """`gru_unroll` for sequences that have the episode axis first and any axes behind the time.

    Args:
        gates_in: [B, T, ..., 3H].
        h0: [B, ..., H].
        weight: [H, 3H].
        bias: [3H].

    Returns:
        [B, T, ..., H].
    """
    batch, time = gates_in.shape[:2]
    time_first = jnp.swapaxes(gates_in, 0, 1).reshape(time, -1, gates_in.shape[-1])
    states = gru_unroll(time_first, h0.reshape(-1, h0.shape[-1]), weight, bias)
    return jnp.swapaxes(states.reshape(time, batch, *h0.shape[1:]), 0, 1)


def _unroll_forward(gates_in: Array, h0: Array, weight: Array, bias: Array) -> tuple[Array, tuple[Array, ...]]:
    kept = _forward_loop(_split(gates_in), h0, weight, bias)
    return kept[0], (h0, weight, *kept)


def _unroll_backward(saved: tuple[Array, ...], grad_states: Array) -> tuple[Array, Array, Array, Array]:
    h0, weight, states, r, z, n, hidden_new = saved
    before = jnp.concatenate([h0[None], states[:-1]])
    # Every pre-activation gradient is the gradient of the new state times a factor known before the loop.
    by_new = (1.0 - z) * (1.0 - n * n)
    factors = (by_new * hidden_new * r * (1.0 - r), (before - n) * z * (1.0 - z), by_new * r)
    grad_h, grad_h0 = _backward_loop(factors, z, grad_states, weight)
    grad_hidden_gates = jnp.concatenate([grad_h * factor for factor in factors], axis=-1)
    grad_gates_in = jnp.concatenate([grad_h * factor for factor in (factors[0], factors[1], by_new)], axis=-1)
    grad_weight = jnp.einsum("tnh,tng->hg", before, grad_hidden_gates)
    return grad_gates_in, grad_h0, grad_weight, grad_hidden_gates.sum(axis=(0, 1))


gru_unroll.defvjp(_unroll_forward, _unroll_backward)


def _split(gates: Array) -> tuple[Array, Array, Array]:
    r, z, n = jnp.split(gates, 3, axis=-1)
    return r, z, n


def _cell(inputs: tuple[Array, Array, Array], h: Array, weight: Array, bias: Array) -> tuple[Array, ...]:
    """One step: the new state, the gates r, z, n, and h_n."""
    in_r, in_z, in_n = inputs
    hidden_r, hidden_z, hidden_n = _split(h @ weight + bias)
    r = jax.nn.sigmoid(in_r + hidden_r)
    z = jax.nn.sigmoid(in_z + hidden_z)
    n = jnp.tanh(in_n + r * hidden_n)
    return n + z * (h - n), r, z, n, hidden_n


def _by_platform(kernel: Callable[..., Any], scan: Callable[..., Any], *arrays: Any) -> Any:
    """Runs the kernel on a CUDA GPU if it takes this hidden width, the scan anywhere else.

    The choice falls when the program is compiled for its device, so one traced program serves both.
    """
    hidden = arrays[1].shape[-1]
    return lax.platform_dependent(*arrays, cuda=kernel, default=scan) if gru_kernel.usable(hidden) else scan(*arrays)


def _forward_loop(gates_in: tuple[Array, Array, Array], h0: Array, weight: Array, bias: Array) -> tuple[Array, ...]:
    """All steps of the unit.

    Args:
        gates_in: Input projections of gates r, z, n, [T, N, H] each. They come apart because XLA's CPU compiler fuses
            the read of a step with the cutting of its columns and then does not vectorise the loop body (13.5 ms
            against 7.7 without gradients).
        h0: [N, H].
        weight: [H, 3H].
        bias: [3H].

    Returns:
        For all steps, [T, N, H] each: the states, the gates r, z and n, and h_n, the hidden part of the new gate before
        it is multiplied by r. In the scan the compiler removes what nobody reads.
    """
    return _by_platform(gru_kernel.forward_loop, _forward_scan, gates_in, h0, weight, bias)


def _forward_scan(gates_in: tuple[Array, Array, Array], h0: Array, weight: Array, bias: Array) -> tuple[Array, ...]:
    def step(h: Array, step_gates: tuple[Array, Array, Array]) -> tuple[Array, tuple[Array, ...]]:
        outputs = _cell(step_gates, h, weight, bias)
        return outputs[0], outputs

    return lax.scan(step, h0, gates_in, unroll=SCAN_UNROLL)[1]


def _backward_loop(
    factors: tuple[Array, Array, Array], z: Array, grad_states: Array, weight: Array
) -> tuple[Array, Array]:
    """Gradients of the loss by each state, all later steps included.

    Args:
        factors: For the hidden parts of gates r, z, n: d(pre-activation) / d(new state), [T, N, H] each.
        z: [T, N, H] update gate, the direct way from a state to the next.
        grad_states: [T, N, H] gradient that enters at each step from outside.
        weight: [H, 3H].

    Returns:
        [T, N, H] by the states after each step, and [N, H] by the state before the first.
    """
    return _by_platform(gru_kernel.backward_loop, _backward_scan, factors, z, grad_states, weight)


def _backward_scan(
    factors: tuple[Array, Array, Array], z: Array, grad_states: Array, weight: Array
) -> tuple[Array, Array]:
    back = weight.T

    def step(grad_h: Array, at_step: tuple[tuple[Array, Array, Array], Array, Array]) -> tuple[Array, Array]:
        (factor_r, factor_z, factor_n), update, entering = at_step
        grad_h = grad_h + entering
        grad_gates = jnp.concatenate([grad_h * factor_r, grad_h * factor_z, grad_h * factor_n], axis=-1)
        return grad_h * update + grad_gates @ back, grad_h

    start = jnp.zeros_like(grad_states[0])
    grad_h0, grad_h = lax.scan(step, start, (factors, z, grad_states), reverse=True, unroll=SCAN_UNROLL)
    return grad_h, grad_h0
