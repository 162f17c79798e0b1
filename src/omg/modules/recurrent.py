"""A gated recurrent unit in PyTorch's convention, with the loop over time cut down to what must be sequential.

The input projections of all time steps are one product made by the caller (`gates_in`); only the product with the
hidden state stays in the loop. Differentiating such a loop automatically adds the weight's gradient up step by step;
here the backward loop passes on only the gradient of the hidden state, and the gradient of the weight is one product
over all steps and rows afterwards: one large product instead of T small ones, where an accelerator waits for each.

Letters in shapes: B episodes, T steps, m rows of each (agents), W hidden features. Gates are reset, update and new:

    r = sigmoid(i_r + h_r)      z = sigmoid(i_z + h_z)      n = tanh(i_n + r * h_n)      h' = (1 - z) * n + z * h

with (i_r, i_z, i_n) = `gates_in` and (h_r, h_z, h_n) = h @ weight + bias.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias, TypeVar

import jax
import jax.numpy as jnp
from jax import Array, lax

from omg.modules import gru_kernel
from omg.types import PyTree

Saved: TypeAlias = tuple[Array, Array, Array, tuple[Array, ...]]
"""For the backward pass: the state before the first step, the weight, the states, the gates."""
Outputs = TypeVar("Outputs", bound=tuple[Array, ...])

SCAN_UNROLL = 1
"""Steps per loop iteration. Forward + backward on two CPU cores (T 60, N 256, W 64) took 32, 44 and 71 ms with 1, 4
and 8; a scan differentiated automatically took 35 ms at its best."""

_CLOSED = -1e4
"""Input of a gate that no hidden state opens."""


def gru_cell(gates_in: Array, h: Array, weight: Array, bias: Array) -> Array:
    """One step.

    Args:
        gates_in: [..., 3W] input projection, its bias included.
        h: [..., W] hidden state.
        weight: [W, 3W].
        bias: [3W].

    Returns:
        [..., W], the next hidden state.
    """
    return _cell(jnp.split(gates_in, 3, axis=-1), h, weight, bias)[0]


@jax.custom_vjp
def gru_unroll(gates_in: Array, h0: Array, weight: Array, bias: Array) -> Array:
    """All steps.

    Args:
        gates_in: [B, T, m, 3W] input projections, their bias included.
        h0: [B, m, W] hidden state before the first step.
        weight: [W, 3W].
        bias: [3W].

    Returns:
        [B, T, m, W], the hidden state after each step.
    """
    kernel = partial(gru_kernel.forward_loop, keep=False)
    return _by_platform(kernel, partial(_forward_scan, keep=False), gates_in, h0, weight, bias)[0]


def unroll_rows(gates_in: Array, h0: Array, weight: Array, bias: Array) -> Array:
    """`gru_unroll` for sequences with any axes behind the time.

    Args:
        gates_in: [B, T, ..., 3W].
        h0: [B, ..., W].
        weight: [W, 3W].
        bias: [3W].

    Returns:
        [B, T, ..., W].
    """
    batch, time = gates_in.shape[:2]
    rows = gates_in.reshape(batch, time, -1, gates_in.shape[-1])
    states = gru_unroll(rows, h0.reshape(batch, -1, h0.shape[-1]), weight, bias)
    return states.reshape(batch, time, *h0.shape[1:])


def forgetting(gates_in: Array, breaks: Array) -> Array:
    """Input projections with which `gru_unroll` starts anew: behind a slot of `breaks` its state is zero, exactly.

    There r = z = 0 and n = tanh(0), whatever the state was; and no gradient goes back beyond it.

    Args:
        gates_in: [B, T, ..., 3W].
        breaks: [B, T] bool.

    Returns:
        As `gates_in`. Networks without memory may be given such inputs, too: nobody asks what they say of these slots.
    """
    width = gates_in.shape[-1] - gates_in.shape[-1] // 3
    closed = jnp.where(jnp.arange(gates_in.shape[-1]) < width, _CLOSED, 0.0)
    return jnp.where(breaks.reshape(*breaks.shape, *(1,) * (gates_in.ndim - 2)), closed, gates_in)


def turned(values: Array) -> Array:
    """[B, T, ...] -> [T, B, ...] and back where a scan goes through time, i.e. on a CPU; elsewhere as it is.

    Where layers before and behind the unit compute on values in the scan's order, its wide inputs and states are never
    copied into another one: what is turned here, the unit turns back, and the compiler drops both.
    """
    return jnp.swapaxes(values, 0, 1) if jax.default_backend() == "cpu" else values


def _unroll_forward(gates_in: Array, h0: Array, weight: Array, bias: Array) -> tuple[Array, Saved]:
    states, *gates = _by_platform(gru_kernel.forward_loop, _forward_scan, gates_in, h0, weight, bias)
    return states, (h0, weight, states, tuple(gates))


def _unroll_backward(saved: Saved, grad_states: Array) -> tuple[Array, Array, Array, Array]:
    h0, weight, states, gates = saved
    by_gates, by_hidden_new, by_h0 = _by_platform(
        gru_kernel.backward_loop, _backward_scan, states, h0, gates, grad_states, weight
    )
    time = 0 if jax.default_backend() == "cpu" else 1
    order = (1, 0) if time == 0 else (0, 1)
    states, found, found_new = (lax.transpose(each, (*order, 2, 3)) for each in (states, by_gates, by_hidden_new))
    before = jnp.concatenate([jnp.expand_dims(h0, time), lax.slice_in_dim(states, 0, -1, axis=time)], axis=time)
    # Reset and update add input and hidden part, so that the gradients by the two are the same. A GPU's product would
    # have a copy of just these made for it: there all are multiplied.
    both = 2 * h0.shape[-1]
    by_both = found[..., :both] if time == 0 else found
    by_weight = [jnp.einsum("abmh,abmg->hg", before, each)[:, :both] for each in (by_both, found_new)]
    by_bias = [each.sum(axis=(0, 1, 2))[:both] for each in (by_both, found_new)]
    return by_gates, by_h0, jnp.concatenate(by_weight, axis=-1), jnp.concatenate(by_bias)


gru_unroll.defvjp(_unroll_forward, _unroll_backward)


def _cell(inputs: Sequence[Array], h: Array, weight: Array, bias: Array) -> tuple[Array, ...]:
    """One step: the new state, the gates r, z, n, and h_n."""
    in_r, in_z, in_n = inputs
    hidden_r, hidden_z, hidden_n = jnp.split(h @ weight + bias, 3, axis=-1)
    r = jax.nn.sigmoid(in_r + hidden_r)
    z = jax.nn.sigmoid(in_z + hidden_z)
    n = jnp.tanh(in_n + r * hidden_n)
    return n + z * (h - n), r, z, n, hidden_n


def _by_platform(
    kernel: Callable[..., Outputs], scan: Callable[..., Outputs], values: Array, h0: Array, *others: PyTree
) -> Outputs:
    """Runs the kernel on a CUDA GPU if it takes this hidden width, the scan anywhere else.

    Where there is a GPU the choice falls when the program is compiled for its device, so that one traced program serves
    both; without one the kernel is not even traced.
    """
    if jax.default_backend() == "cpu" or not gru_kernel.usable(h0.shape[-1]):
        return scan(values, h0, *others)
    outputs: Outputs = lax.platform_dependent(values, h0, *others, cuda=kernel, default=scan)
    return outputs


def _forward_scan(gates_in: Array, h0: Array, weight: Array, bias: Array, keep: bool = True) -> tuple[Array, ...]:
    """All steps of the unit; as `gru_kernel.forward_loop`.

    The gates go in apart because XLA's CPU compiler fuses the read of a step with the cutting of its columns and then
    does not vectorise the loop body (13.5 ms against 7.7 without gradients).
    """

    def step(h: Array, step_gates: list[Array]) -> tuple[Array, tuple[Array, ...]]:
        outputs = _cell(step_gates, h, weight, bias)
        return outputs[0], outputs if keep else outputs[:1]

    outputs = lax.scan(step, h0, jnp.split(jnp.swapaxes(gates_in, 0, 1), 3, axis=-1), unroll=SCAN_UNROLL)[1]
    return tuple(jnp.swapaxes(output, 0, 1) for output in outputs)


def _backward_scan(
    states: Array, h0: Array, gates: tuple[Array, Array, Array, Array], grad_states: Array, weight: Array
) -> tuple[Array, Array, Array]:
    """The reverse pass; as `gru_kernel.backward_loop`."""
    states, grad_states, (r, z, n, hidden_new) = jax.tree.map(
        lambda values: jnp.swapaxes(values, 0, 1), (states, grad_states, gates)
    )
    # Every pre-activation gradient is the gradient of the new state times a factor known before the loop.
    before = jnp.concatenate([h0[None], states[:-1]])
    by_new = (1.0 - z) * (1.0 - n * n)
    factors = (by_new * hidden_new * r * (1.0 - r), (before - n) * z * (1.0 - z), by_new * r)
    back = weight.T

    def step(grad_h: Array, at_step: tuple[tuple[Array, ...], Array, Array]) -> tuple[Array, Array]:
        factors, update, entering = at_step
        grad_h = grad_h + entering
        grad_gates = jnp.concatenate([grad_h * factor for factor in factors], axis=-1)
        return grad_h * update + grad_gates @ back, grad_h

    along = (factors, z, grad_states)
    grad_h0, grad_h = lax.scan(step, jnp.zeros_like(h0), along, reverse=True, unroll=SCAN_UNROLL)
    by_gates = jnp.concatenate([grad_h * factor for factor in (factors[0], factors[1], by_new)], axis=-1)
    return jnp.swapaxes(by_gates, 0, 1), jnp.swapaxes(grad_h * factors[2], 0, 1), grad_h0
