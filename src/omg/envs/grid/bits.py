"""Sets of cells, as bits, as pictures and as the numbers of cells. Cells are numbered row by row.

As bits, cell c of a board is bit `c % 32` of word `c // 32`. A set takes 8 bytes on a board of 8x8, a lookup is a shift
instead of a gather, and a step of a flood fill is a handful of shifts. Arrays of sets are [..., words] uint32; a
picture of a set is [..., cells] bool.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from omg.envs.grid.board import WORD, Board


def pack(cells: Array | np.ndarray) -> Array:
    """[..., cells] bool -> [..., words] uint32."""
    count = cells.shape[-1]
    words = -(-count // WORD)
    padding = [(0, 0)] * (cells.ndim - 1) + [(0, words * WORD - count)]
    bits = jnp.pad(cells, padding).reshape(*cells.shape[:-1], words, WORD).astype(jnp.uint32)
    return jnp.sum(bits << np.arange(WORD, dtype=np.uint32), axis=-1, dtype=jnp.uint32)


def words_of(mask: np.ndarray) -> np.ndarray:
    """The words of one set that is known before the program runs: [cells] bool -> [words] uint32."""
    words = [sum(1 << int(bit) for bit in np.flatnonzero(mask[at : at + WORD])) for at in range(0, len(mask), WORD)]
    return np.array(words, np.uint32)


def unpack(words: Array, cells: int) -> Array:
    """[..., words] uint32 -> [..., cells] bool."""
    every_bit = (words[..., None] >> np.arange(WORD, dtype=np.uint32)) & 1
    return every_bit.reshape(*words.shape[:-1], -1)[..., :cells] != 0


def marked(cell: Array, there: Array, cells: int) -> Array:
    """Every piece on a picture of its own: cell numbers [..., n] and whether it is there -> [..., n, cells] bool."""
    return (cell[..., None] == np.arange(cells, dtype=np.uint8)) & there[..., None]


def numbered(picture: Array, count: int) -> tuple[Array, Array]:
    """The marked cells of a picture as pieces, numbered row by row: the opposite of `marked`.

    Args:
        picture: [..., cells] bool, with at most `count` marks.
        count: number of pieces.

    Returns:
        their cells [..., count] uint8, 0 for those that are not there, and whether they are there [..., count] bool.
    """
    cells = picture.shape[-1]
    rank, _ = jax.lax.top_k(jnp.where(picture, cells - np.arange(cells), 0), count)
    there = rank > 0
    return jnp.where(there, cells - rank, 0).astype(jnp.uint8), there


Bits = tuple[Array, ...]
"""A set of cells with its words apart, each of the same shape: all work on them then melts into one loop."""


def apart(words: Array) -> Bits:
    """[..., words] uint32 -> one array [...] per word."""
    return tuple(words[..., index] for index in range(words.shape[-1]))


def overlap(first: Bits, second: Bits) -> Array:
    """Whether two sets have a cell in common, [...] bool."""
    common = jnp.zeros_like(first[0])
    for one, other in zip(first, second, strict=True):
        common = common | (one & other)
    return common != 0


def neighbours(board: Board, cells: Bits) -> tuple[Bits, Bits, Bits, Bits]:
    """The cells right above, below, left and right of a set; what would leave the board is dropped."""
    every = np.arange(board.cells)
    masks = (every >= 0, every >= 0, every % board.width < board.width - 1, every % board.width > 0)
    moved = (
        _lower(cells, board.width),
        _higher(cells, board.width),
        _lower(cells, 1),
        _higher(cells, 1),
    )
    result = [
        tuple(word & allowed for word, allowed in zip(words, words_of(mask), strict=True))
        for words, mask in zip(moved, masks, strict=True)
    ]
    return result[0], result[1], result[2], result[3]


def one_step_short(board: Board, start: Bits, goals: Bits, free: Bits) -> Bits:
    """Which cells are nearer to a goal than `start` is, over free cells and by steps up, down, left and right.

    Args:
        board: the field.
        start: one cell, or none.
        goals: any cells.
        free: cells that can be walked on.

    Returns:
        All cells whose way to the nearest goal is shorter than that of `start`; all from which a goal can be reached
        when it cannot be reached from `start`, or when there is no start.
    """

    def grow(_: int, near: Bits) -> Bits:
        grown = near
        for side in neighbours(board, near):
            grown = tuple(old | (new & open_) for old, new, open_ in zip(grown, side, free, strict=True))
        # Whoever has been reached stops its own wave, one step short of it.
        arrived = overlap(grown, start)
        return tuple(jnp.where(arrived, old, new) for old, new in zip(near, grown, strict=True))

    # A shortest way visits no cell twice.
    return jax.lax.fori_loop(0, board.cells - 1, grow, goals, unroll=4)


def _higher(cells: Bits, by: int) -> Bits:
    """Every cell's number grows by `by`, less than a word."""
    carried = (jnp.zeros_like(cells[0]), *cells[:-1])
    return tuple((word << by) | (lower >> (WORD - by)) for word, lower in zip(cells, carried, strict=True))


def _lower(cells: Bits, by: int) -> Bits:
    """Every cell's number shrinks by `by`, less than a word."""
    carried = (*cells[1:], jnp.zeros_like(cells[0]))
    return tuple((word >> by) | (higher << (WORD - by)) for word, higher in zip(cells, carried, strict=True))
