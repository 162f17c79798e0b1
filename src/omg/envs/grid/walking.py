"""Walking on a board, and what else the rules of games on it are made of.

Rules are computed on [pieces, B]: inner loops then run over games, which is twice as fast on a CPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from omg.envs.grid.board import WORD, Board

UP, DOWN, LEFT, RIGHT, STAY = range(5)
MOVES = (UP, DOWN, LEFT, RIGHT)
NO_ACTION = -1
"""In place of a last action: before the first step, and for players who had left before the last one."""
Arrays = TypeVar("Arrays")


def batch_last(tree: Arrays) -> Arrays:
    """The arrays of a state, or those computed from it, with the axis of games at the other end."""
    turned: Arrays = jax.tree.map(jnp.transpose, tree)
    return turned


def contains(words: Array, cell: Array) -> Array:
    """Whether each cell is in the set of its game: [words, B] uint32, [n, B] int32 -> [n, B] bool.

    Cells outside the board give an answer that means nothing.
    """
    word = words[0]
    for index in range(1, len(words)):
        word = jnp.where(cell >= WORD * index, words[index], word)
    return (word >> (cell % WORD).astype(jnp.uint32)) & 1 != 0


def legal_actions(board: Board, player: Array, blocks: Array, there: Array, others: Sequence[Array]) -> Array:
    """The legal actions of all seats: moves, staying, and those that only some games know.

    A step up, down, left and right must neither leave the board nor enter an obstacle; staying is always legal. They
    travel as one small number per seat: turning U arrays around one by one takes twice as long.

    Args:
        board: the field.
        player: [A, B] uint8, cells.
        blocks: [words, B] uint32, obstacles.
        there: [A, B] bool, who can do more than stay.
        others: where each further action is legal, [A, B] bool; at most 3.

    Returns:
        [B, A, U] bool.
    """
    cell = player.astype(jnp.int32)
    row, col = cell // board.width, cell % board.width
    inside = (row > 0, row < board.height - 1, col > 0, col < board.width - 1)
    targets = (cell - board.width, cell + board.width, cell - 1, cell + 1)
    moves = [within & ~contains(blocks, target) & there for within, target in zip(inside, targets, strict=True)]
    allowed = [*moves, jnp.ones_like(there), *(where & there for where in others)]
    bits = jnp.zeros(there.shape, jnp.uint8)
    for place, part in enumerate(allowed):
        bits |= part.astype(jnp.uint8) << place
    return (bits.T[..., None] >> np.arange(len(allowed), dtype=np.uint8)) & 1 != 0


def walk(board: Board, player: Array, blocks: Array, action: Array) -> tuple[Array, Array]:
    """Moves players; they may share a cell.

    Args:
        board: the field.
        player: [A, B] uint8, cells.
        blocks: [words, B] uint32, obstacles.
        action: [A, B] int32.

    Returns:
        the new cells [A, B] uint8, and whether the action was a move that was possible [A, B] bool.
    """
    cell = player.astype(jnp.int32)
    row, col = cell // board.width, cell % board.width
    up, down, left, right = (action == move for move in MOVES)
    # The one cell that is wanted is looked up instead of all four.
    target = cell + board.width * (down.astype(jnp.int32) - up) + right - left
    inside = (
        (up & (row > 0)) | (down & (row < board.height - 1)) | (left & (col > 0)) | (right & (col < board.width - 1))
    )
    moves = inside & ~contains(blocks, target)
    return jnp.where(moves, target, cell).astype(jnp.uint8), moves


def keep_numbers(
    fresh: tuple[Array, Array], before: tuple[Array, Array], picture: Array, begins: Array
) -> tuple[Array, Array]:
    """The cells of pieces [B, n] and whether they are there, with the numbers they had before.

    Args:
        fresh: the same, numbered row by row.
        before: the same in an earlier state.
        picture: [B, cells] bool, those that are there now.
        begins: [B] bool, games without a before.
    """
    cell, there = before
    there = there & jnp.take_along_axis(picture, cell.astype(jnp.int32), axis=1)
    return jnp.where(begins[:, None], fresh[0], cell), jnp.where(begins[:, None], fresh[1], there)
