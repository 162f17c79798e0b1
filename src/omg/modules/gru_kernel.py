"""The recurrent loops as single GPU kernels.

A scan launches a handful of small kernels per time step and the GPU waits for each launch. Here one kernel keeps a
block of rows in registers and walks through all time steps by itself; the recurrent weight stays on the chip. What is
read and written once per step is all the memory traffic there is: gates come in side by side, and the backward pass
works out its factors as it goes. Written with Pallas for its Triton backend; where that is missing,
`omg.modules.recurrent` uses its scans.

Triton computes on blocks whose sides are powers of two. A hidden width of 96 is therefore cut into 64 and 32 columns:
padded to 128 its weight would be nearly twice as large and no longer fit into registers.

Letters in shapes as there: B episodes, T steps, m rows of each, W hidden features.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.experimental import pallas as pl

from omg.modules.kernels import compiler_params, triton

_SMALLEST = 16
"""The least rows and columns of a block that a tensor core takes; with the fewest rows most programs are in flight."""
_WIDEST = 128


class ColumnBlock(NamedTuple):
    """A block of hidden features."""

    start: int
    width: int

    def of(self, gate: int, hidden: int) -> slice | pl.Slice:
        """Where a gate has them in an array with several gates side by side."""
        return pl.ds(gate * hidden + self.start, self.width)


def usable(hidden: int) -> bool:
    """Whether the kernels can be compiled for a GPU with this hidden width."""
    return triton() is not None and hidden <= _WIDEST


def whole_blocks(episodes: float) -> int:
    """At least so many episodes, as many as nothing has to be filled up for, which is to copy everything."""
    return -(-math.ceil(episodes) // _SMALLEST) * _SMALLEST


def column_blocks(hidden: int) -> tuple[ColumnBlock, ...]:
    """A multiple of 16 as blocks of falling powers of two: 96 -> 64 and 32."""
    blocks, start = [], 0
    while start < hidden:
        width = 1 << ((hidden - start).bit_length() - 1)
        blocks.append(ColumnBlock(start, width))
        start += width
    return tuple(blocks)


def forward_loop(
    gates_in: Array, h0: Array, weight: Array, bias: Array, keep: bool = True, interpret: bool = False
) -> tuple[Array, ...]:
    """All steps of the unit.

    Args:
        gates_in: [B, T, m, 3W] input projections (reset, update, new).
        h0: [B, m, W].
        weight: [W, 3W].
        bias: [3W].
        keep: Whether a backward pass follows.
        interpret: Run as ordinary JAX code, for tests without a GPU.

    Returns:
        The states, and with `keep` also reset, update, new and the hidden part of new; [B, T, m, W] each.
    """
    sizes = _sizes(gates_in.shape[:3], h0.shape[-1])
    outputs = pl.pallas_call(
        _forward_kernel,
        out_shape=[sizes.sequences(1)] * (5 if keep else 1),
        grid=sizes.grid,
        in_specs=[sizes.sequence(3), sizes.block(), sizes.whole(sizes.wide), sizes.whole(1)],
        out_specs=[sizes.sequence(1)] * (5 if keep else 1),
        interpret=interpret,
        compiler_params=compiler_params(interpret),
    )(sizes.pad(gates_in, 3), sizes.pad_start(h0), sizes.pad_weight(weight), sizes.pad_columns(bias[None], 3))
    return tuple(sizes.cut(output, 1) for output in outputs)


def _forward_kernel(gates_in, h0, weight, bias, states, *kept) -> None:  # type: ignore[no-untyped-def]
    hidden = h0.shape[-1]
    blocks = column_blocks(hidden)
    weights = [[[weight[_of(row), col.of(gate, hidden)] for row in blocks] for col in blocks] for gate in range(3)]
    biases = [[bias[:, col.of(gate, hidden)] for col in blocks] for gate in range(3)]
    last = gates_in.shape[1] - 1

    def read(t: Array) -> list[list[Array]]:
        return [[gates_in[:, t, col.of(gate, hidden)] for col in blocks] for gate in range(3)]

    def step(t: Array, carry: tuple[list[Array], list[list[Array]]]) -> tuple[list[Array], list[list[Array]]]:
        h, now = carry
        # The next inputs are on their way while this step computes.
        following = read(jnp.minimum(t + 1, last))
        after = []
        for index, col in enumerate(blocks):
            sums = [_product(h, weights[gate][index]) + biases[gate][index] for gate in range(3)]
            r = jax.nn.sigmoid(now[0][index] + sums[0])
            z = jax.nn.sigmoid(now[1][index] + sums[1])
            # tanh through the sigmoid: the backend has no fast tanh of its own.
            n = 2.0 * jax.nn.sigmoid(2.0 * (now[2][index] + r * sums[2])) - 1.0
            after.append(n + z * (h[index] - n))
            for output, value in zip((states, *kept), (after[-1], r, z, n, sums[2]), strict=False):
                output[:, t, _of(col)] = value
        return after, following

    jax.lax.fori_loop(0, last + 1, step, ([h0[:, _of(col)] for col in blocks], read(jnp.int32(0))))


def backward_loop(
    states: Array,
    h0: Array,
    gates: tuple[Array, Array, Array, Array],
    grad_states: Array,
    weight: Array,
    interpret: bool = False,
) -> tuple[Array, Array, Array]:
    """The reverse pass.

    Args:
        states: [B, T, m, W], of the forward pass.
        h0: [B, m, W].
        gates: Reset, update, new and the hidden part of new, [B, T, m, W] each.
        grad_states: [B, T, m, W] gradient that enters at each step from outside.
        weight: [W, 3W].
        interpret: Run as ordinary JAX code, for tests without a GPU.

    Returns:
        Gradients by `gates_in` [B, T, m, 3W], by the hidden part of new [B, T, m, W], and by `h0` [B, m, W].
    """
    sizes = _sizes(states.shape[:3], h0.shape[-1])
    # Transposed gate by gate: rows are the gate's columns, as the reverse product reads them.
    turned = sizes.pad_weight(weight).reshape(sizes.wide, 3, sizes.wide).transpose(2, 1, 0)
    grad_in, grad_hidden_new, grad_h0 = pl.pallas_call(
        _backward_kernel,
        out_shape=[sizes.sequences(3), sizes.sequences(1), sizes.starts()],
        grid=sizes.grid,
        in_specs=[sizes.block(), *[sizes.sequence(1)] * 6, sizes.whole(sizes.wide)],
        out_specs=[sizes.sequence(3), sizes.sequence(1), sizes.block()],
        interpret=interpret,
        compiler_params=compiler_params(interpret),
    )(
        sizes.pad_start(h0),
        *(sizes.pad(values, 1) for values in (states, *gates, grad_states)),
        turned.reshape(sizes.wide, 3 * sizes.wide),
    )
    return sizes.cut(grad_in, 3), sizes.cut(grad_hidden_new, 1), sizes.cut_start(grad_h0)


def _backward_kernel(  # type: ignore[no-untyped-def]
    h0, states, reset, update, new, hidden_new, entering, turned, grad_in, grad_hidden_new, grad_h0
) -> None:
    hidden = h0.shape[-1]
    blocks = column_blocks(hidden)
    weights = [[[turned[_of(row), col.of(gate, hidden)] for row in blocks] for col in blocks] for gate in range(3)]
    starts = [h0[:, _of(col)] for col in blocks]
    last = states.shape[1] - 1

    def read(t: Array) -> list[list[Array]]:
        """Of every block: r, z, n, h_n, the entering gradient, and the state before."""
        before = jnp.maximum(t - 1, 0)
        return [
            [
                *(ref[:, t, _of(col)] for ref in (reset, update, new, hidden_new, entering)),
                jnp.where(t > 0, states[:, before, _of(col)], start),
            ]
            for col, start in zip(blocks, starts, strict=True)
        ]

    def step(index: Array, carry: tuple[list[Array], list[list[Array]]]) -> tuple[list[Array], list[list[Array]]]:
        grads, now = carry
        t = last - index
        following = read(jnp.maximum(t - 1, 0))
        through: list[list[Array]] = [[], [], []]
        direct = []
        for col, grad, (r, z, n, h_n, enters, before) in zip(blocks, grads, now, strict=True):
            total = grad + enters
            by_new = total * (1.0 - z) * (1.0 - n * n)
            by_update = total * (before - n) * z * (1.0 - z)
            by_reset = by_new * h_n * r * (1.0 - r)
            for gate, value in enumerate((by_reset, by_update, by_new)):
                grad_in[:, t, col.of(gate, hidden)] = value
            grad_hidden_new[:, t, _of(col)] = by_new * r
            for gate, value in enumerate((by_reset, by_update, by_new * r)):
                through[gate].append(value)
            direct.append(total * z)
        after = [
            kept + sum(_product(through[gate], weights[gate][position]) for gate in range(3))
            for position, kept in enumerate(direct)
        ]
        return after, following

    nothing = [jnp.zeros((h0.shape[0], col.width), jnp.float32) for col in blocks]
    grads, _ = jax.lax.fori_loop(0, last + 1, step, (nothing, read(jnp.int32(last))))
    for col, grad in zip(blocks, grads, strict=True):
        grad_h0[:, _of(col)] = grad


def _of(columns: ColumnBlock) -> slice | pl.Slice:
    return pl.ds(columns.start, columns.width)


def _product(rows: list[Array], weights: list[Array]) -> Array:
    """`rows @ weights` with both cut into blocks along what is summed over."""
    total = jnp.dot(rows[0], weights[0])
    for row, weight in zip(rows[1:], weights[1:], strict=True):
        total += jnp.dot(row, weight)
    return total


class _KernelSizes(NamedTuple):
    """Shapes of the kernels' arrays: episodes and columns are filled up to whole blocks.

    The m rows of an episode stand beside each other in the last axis, where a program finds its own without anything
    being transposed. Zeros among inputs, weights and start stay zero, so that what is filled up changes nothing.
    """

    episodes: int
    steps: int
    rows: int
    hidden: int
    wide: int
    """W filled up."""
    padded: int
    """B filled up."""

    @property
    def grid(self) -> tuple[int, int]:
        return self.padded // _SMALLEST, self.rows

    def sequence(self, gates: int) -> pl.BlockSpec:
        return pl.BlockSpec((_SMALLEST, self.steps, gates * self.wide), lambda i, j: (i, 0, j))

    def block(self) -> pl.BlockSpec:
        return pl.BlockSpec((_SMALLEST, self.wide), lambda i, j: (i, j))

    def whole(self, height: int) -> pl.BlockSpec:
        return pl.BlockSpec((height, 3 * self.wide), lambda i, j: (0, 0))

    def sequences(self, gates: int) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct((self.padded, self.steps, self.rows * gates * self.wide), jnp.float32)

    def starts(self) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct((self.padded, self.rows * self.wide), jnp.float32)

    def pad_columns(self, values: Array, gates: int) -> Array:
        """[..., gates * W] -> [..., gates * wide]."""
        if self.hidden == self.wide:
            return values
        apart = values.reshape(*values.shape[:-1], gates, self.hidden)
        filled = jnp.pad(apart, [(0, 0)] * (apart.ndim - 1) + [(0, self.wide - self.hidden)])
        return filled.reshape(*values.shape[:-1], gates * self.wide)

    def pad(self, values: Array, gates: int) -> Array:
        """[B, T, m, gates * W] as the kernels read it."""
        flat = self.pad_columns(values, gates).reshape(self.episodes, self.steps, -1)
        return jnp.pad(flat, ((0, self.padded - self.episodes), (0, 0), (0, 0)))

    def pad_start(self, values: Array) -> Array:
        """[B, m, W] as the kernels read it."""
        flat = self.pad_columns(values, 1).reshape(self.episodes, -1)
        return jnp.pad(flat, ((0, self.padded - self.episodes), (0, 0)))

    def pad_weight(self, weight: Array) -> Array:
        """[W, 3W] -> [wide, 3 wide]."""
        return jnp.pad(self.pad_columns(weight, 3), ((0, self.wide - self.hidden), (0, 0)))

    def cut(self, values: Array, gates: int) -> Array:
        """What the kernels wrote as [B, T, m, gates * W]."""
        apart = values[: self.episodes].reshape(self.episodes, self.steps, self.rows, gates, self.wide)
        return apart[..., : self.hidden].reshape(self.episodes, self.steps, self.rows, gates * self.hidden)

    def cut_start(self, values: Array) -> Array:
        """The same for [B, m, W]."""
        return values[: self.episodes].reshape(self.episodes, self.rows, self.wide)[..., : self.hidden]


def _sizes(lead: tuple[int, ...], hidden: int) -> _KernelSizes:
    episodes, steps, rows = lead
    return _KernelSizes(episodes, steps, rows, hidden, hidden + -hidden % _SMALLEST, episodes + -episodes % _SMALLEST)
