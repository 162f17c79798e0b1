"""Updates on packed rows, block by block: a few rows at a time, and of all rows only those that hold episodes.

How many rows an update's episodes need differs from update to update. A loop over blocks takes as many of them as there
are, compiled once, and what a block has computed forward is still in the cache when its gradients are computed. Losses
are means over the steps that were played, so the mean of the blocks' means, weighted by their steps, is that of all.

Letters in shapes: B rows, T steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeVar

import jax
import jax.numpy as jnp
from jax import Array, lax

from omg.modules.convolutions import on_cpu
from omg.modules.gru_kernel import whole_blocks
from omg.types import PyTree

Params = TypeVar("Params")
Rows = TypeVar("Rows")
Metrics = dict[str, Array]

SEQUENCES = 32
"""Side by side in a block: with fewer a step of a CPU's recurrent loops waits more than it computes."""
_USUAL, _USUAL_ACCELERATED = 0.375, 0.3125
"""Rows of most updates at most, as a share of their episodes."""
_MOST = 16_384
"""Sequences of a block on an accelerator at most: what is kept for its gradients has to fit beside all else."""
_QUARTERS = 4
"""Blocks on an accelerator at least, when more rows than usual are needed."""


def layouts(seats: int, episodes: int) -> tuple[tuple[int, int], ...]:
    """Numbers of rows that updates on blocks are compiled for, and rows of a block of each, the smallest first.

    An accelerator computes thousands of sequences as fast as one: there a block has all rows that are usually needed,
    until memory sets a limit.

    Args:
        seats: That learn.
        episodes: Of the update; a row for each is enough.
    """
    if on_cpu():
        block = -(-SEQUENCES // seats)
        return tuple((-(-round(episodes * share) // block) * block, block) for share in (_USUAL, 1.0))
    found = []
    for rows, parts in ((episodes * _USUAL_ACCELERATED, 1), (episodes, _QUARTERS)):
        parts = max(parts, math.ceil(rows * seats / _MOST))
        block = whole_blocks(rows / parts)
        found.append((block * parts, block))
    return tuple(found)


def block_of(rows: int, seats: int, episodes: int) -> int:
    """Rows of a block, of rows that were laid out as one of `layouts`; else those of the last."""
    found = layouts(seats, episodes)
    return dict(found).get(rows, found[-1][1])


def mean_gradients(
    loss: Callable[[Params, Rows], tuple[Array, Metrics]], params: Params, rows: Rows, mask: Array, block: int | None
) -> tuple[Metrics, Params]:
    """Metrics and gradients of a loss that is a mean over played steps.

    Args:
        loss: Of the parameters and some rows; all that it returns are means over the steps of these rows.
        params: What is learned.
        rows: A pytree of arrays [B, ...].
        mask: [B, T], steps that count. The rows in front have them all.
        block: Rows of a block, which B is a multiple of; None: all at once.
    """
    take = jax.value_and_grad(loss, has_aux=True)
    if block is None or block >= len(mask):
        (_, metrics), gradients = take(params, rows)
        return metrics, gradients
    total = jnp.maximum(mask.sum(), 1.0)

    def add(index: Array, sums: tuple[Metrics, Params]) -> tuple[Metrics, Params]:
        part, steps = _block((rows, mask), index, block)
        (_, metrics), gradients = take(params, part)
        weight = steps.sum() / total
        added: tuple[Metrics, Params] = jax.tree.map(lambda old, new: old + weight * new, sums, (metrics, gradients))
        return added

    nothing = _zeros((jax.eval_shape(loss, params, rows)[1], params))
    return lax.fori_loop(0, _blocks_of(mask, block), add, nothing)


def said_of_rows(say: Callable[[Rows], PyTree], rows: Rows, mask: Array, block: int | None) -> PyTree:
    """What a function says of all rows, arrays [B, ...]; zeros for rows that hold nothing. Arguments as above."""
    if block is None or block >= len(mask):
        return say(rows)

    def write(index: Array, said: PyTree) -> PyTree:
        found = say(_block(rows, index, block))
        return jax.tree.map(
            lambda all_, some: lax.dynamic_update_slice_in_dim(all_, some, index * block, 0), said, found
        )

    return lax.fori_loop(0, _blocks_of(mask, block), write, _zeros(jax.eval_shape(say, rows)))


def _blocks_of(mask: Array, block: int) -> Array:
    """Blocks that hold anything."""
    if len(mask) % block:
        raise ValueError(f"{len(mask)} rows are no whole number of blocks of {block}")
    return -(-mask.any(axis=1).sum(dtype=jnp.int32) // block)


def _block(rows: Rows, index: Array, block: int) -> Rows:
    """Some rows of arrays [B, ...]; numbers stay as they are."""
    some: Rows = jax.tree.map(
        lambda values: lax.dynamic_slice_in_dim(values, index * block, block) if values.ndim else values, rows
    )
    return some


def _zeros(shapes: PyTree) -> PyTree:
    return jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
