"""The recurrent unit: values against PyTorch's formula, all gradients against automatic differentiation of a scan."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array, lax

from omg.modules import gru_kernel
from omg.modules.recurrent import _backward_scan, _forward_scan, gru_cell, gru_unroll

T, N, M, H = 7, 5, 2, 16
"""Steps, episodes, rows of each, hidden features."""


def draw(key: int, lead: tuple[int, ...] = (), hidden: int = H) -> tuple[Array, Array, Array, Array]:
    keys = jax.random.split(jax.random.key(key), 4)
    return (
        jax.random.normal(keys[0], (*lead, N, T, M, 3 * hidden)),
        jax.random.normal(keys[1], (*lead, N, M, hidden)),
        jax.random.normal(keys[2], (*lead, hidden, 3 * hidden)) / 4,
        jax.random.normal(keys[3], (*lead, 3 * hidden)),
    )


def numpy_cell(gates_in: np.ndarray, h: np.ndarray, weight: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """torch.nn.GRUCell, spelled out for one row; the input's own product and bias are already in `gates_in`."""

    def sigmoid(x: np.ndarray) -> np.ndarray:
        return 1.0 / (1.0 + np.exp(-x))

    hidden = h @ weight + bias
    r = sigmoid(gates_in[:H] + hidden[:H])
    z = sigmoid(gates_in[H : 2 * H] + hidden[H : 2 * H])
    n = np.tanh(gates_in[2 * H :] + r * hidden[2 * H :])
    return (1 - z) * n + z * h


def plain_unroll(gates_in: Array, h0: Array, weight: Array, bias: Array) -> Array:
    def step(h: Array, gates: Array) -> tuple[Array, Array]:
        h = gru_cell(gates, h, weight, bias)
        return h, h

    return jnp.swapaxes(lax.scan(step, h0, jnp.swapaxes(gates_in, 0, 1))[1], 0, 1)


def weighted_sum(unroll, inputs: tuple[Array, ...]) -> Array:
    """A scalar in which every output counts differently, so that no gradient cancels."""
    states = unroll(*inputs)
    return jnp.sum(jnp.sin(jnp.arange(states.size)).reshape(states.shape) * states**2)


def test_cell_is_pytorchs():
    gates_in, h, weight, bias = (np.asarray(value, np.float64) for value in draw(0))
    first = gates_in[:, 0]
    result = gru_cell(*(jnp.asarray(value, jnp.float32) for value in (first, h, weight, bias)))
    expected = [[numpy_cell(first[row, m], h[row, m], weight, bias) for m in range(M)] for row in range(N)]
    np.testing.assert_allclose(result, expected, atol=1e-6)


def test_unroll_repeats_the_cell():
    gates_in, h0, weight, bias = draw(1)
    states = gru_unroll(gates_in, h0, weight, bias)
    assert states.shape == (N, T, M, H)
    for row, m in np.ndindex(N, M):
        h = np.asarray(h0[row, m])
        for t in range(T):
            h = numpy_cell(np.asarray(gates_in[row, t, m]), h, np.asarray(weight), np.asarray(bias))
            np.testing.assert_allclose(states[row, t, m], h, atol=1e-5)


@pytest.mark.parametrize("seeds", [None, 3])
def test_gradients_equal_automatic_differentiation(seeds: int | None):
    inputs = draw(2) if seeds is None else draw(2, (seeds,))

    def gradients(unroll):
        one = jax.grad(lambda *values: weighted_sum(unroll, values), argnums=(0, 1, 2, 3))
        return jax.jit(one if seeds is None else jax.vmap(one, axis_name="seeds"))(*inputs)

    for ours, expected, name in zip(
        gradients(gru_unroll), gradients(plain_unroll), ("gates_in", "h0", "weight", "bias"), strict=True
    ):
        assert float(jnp.abs(expected).max()) > 1e-2, name
        np.testing.assert_allclose(ours, expected, rtol=1e-4, atol=1e-5, err_msg=name)


@pytest.mark.parametrize("hidden", [H - 3, 48])
def test_gpu_kernels_equal_the_scans(hidden: int):
    """Once with a width that is padded to a block, once with two blocks side by side."""
    gates_in, h0, weight, bias = draw(3, hidden=hidden)
    assert gru_kernel.usable(hidden)
    forward = functools.partial(gru_kernel.forward_loop, interpret=True)
    scanned = jax.jit(_forward_scan)(gates_in, h0, weight, bias)
    ahead = jax.jit(forward)(gates_in, h0, weight, bias)
    for ours, expected in zip(ahead, scanned, strict=True):
        np.testing.assert_allclose(ours, expected, atol=1e-5)
    (states,) = jax.jit(functools.partial(forward, keep=False))(gates_in, h0, weight, bias)
    np.testing.assert_array_equal(states, ahead[0])
    backward = (scanned[0], h0, scanned[1:], jnp.sin(7.0 * scanned[0]), weight)
    back = jax.jit(functools.partial(gru_kernel.backward_loop, interpret=True))
    for ours, expected in zip(back(*backward), jax.jit(_backward_scan)(*backward), strict=True):
        assert float(jnp.abs(expected).max()) > 1e-2
        np.testing.assert_allclose(ours, expected, rtol=1e-4, atol=1e-4)


def test_widths_are_cut_into_powers_of_two():
    assert gru_kernel.column_blocks(96) == ((0, 64), (64, 32))
    assert gru_kernel.column_blocks(64) == ((0, 64),)
    assert gru_kernel.column_blocks(112) == ((0, 64), (64, 32), (96, 16))
