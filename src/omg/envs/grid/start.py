"""How a game on a board starts: obstacles and pieces at random.

Nothing is drawn again until it fits: every obstacle is one of a fixed number of candidates, kept or dropped, and a
piece is put on a cell that is known to be free. A start always takes the same short time and cannot fail.
"""

from __future__ import annotations

from functools import cache
from itertools import product
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from omg.envs.grid.bits import unpack, words_of
from omg.envs.grid.board import Board

SHAPES: tuple[tuple[tuple[int, int], ...], ...] = (
    ((0, 0), (0, 1), (0, 2)),
    ((0, 0), (0, 1), (0, 2), (0, 3)),
    ((0, 0), (0, 1), (1, 0)),
    ((0, 0), (0, 1), (0, 2), (1, 0)),
)
"""(row, column) of the cells of an obstacle: straight and L-shaped, of three and of four; they are turned and mirrored.

All four are equally likely.
"""
TRIES_PER_BLOCK = 8


class Candidates(NamedTuple):
    """Every way to put one obstacle on an empty board that leaves the free cells connected."""

    blocks: np.ndarray
    """[candidates, words] uint32, the cells it takes."""
    halos: np.ndarray
    """[candidates, words] uint32, these and all around them, corners included."""
    shape_start: np.ndarray
    """[shapes] uint32, where the candidates of a shape begin."""
    shape_count: np.ndarray
    """[shapes] uint32, how many there are; shapes without any are left out."""


def new_board(board: Board, blocks: int, pieces: int, key: Array, num_envs: int) -> tuple[Array, Array]:
    """Random obstacles, and cells for the pieces: all different, free, and reachable from each other.

    Args:
        board: the field, with at least `pieces` cells.
        blocks: most obstacles.
        pieces: number of cells to choose.
        key: random key.
        num_envs: number of games B.

    Returns:
        obstacles [B, words] uint32, and the cells [B, pieces] uint8.
    """
    block_key, piece_key = jax.random.split(key)
    taken = place_blocks(board, blocks, pieces, block_key, num_envs)
    # The highest of as many random numbers as there are cells: every set of free cells in every order, equally likely.
    chance = jax.random.uniform(piece_key, (num_envs, board.cells))
    _, cells = jax.lax.top_k(jnp.where(unpack(taken, board.cells), -1.0, chance), pieces)
    return taken, cells.astype(jnp.uint8)


def place_blocks(board: Board, blocks: int, room: int, key: Array, num_envs: int) -> Array:
    """Up to `blocks` obstacles that do not touch each other, not even at their corners.

    Obstacles part the free cells only by a chain, corner to corner, from edge to edge or round in a circle. Without
    contact, no chain is longer than one obstacle, and those that part the field alone are no candidates.

    Args:
        board: the field.
        blocks: most obstacles.
        room: cells that must stay free.
        key: random key.
        num_envs: number of games B.

    Returns:
        [B, words] uint32.
    """
    nothing = jnp.zeros((num_envs, board.words), jnp.uint32)
    if blocks == 0:
        return nothing
    candidates = _candidates(board)
    # One random word draws the shape and then the place; with 32 bits the remainders are as good as uniform.
    draw = jax.random.bits(key, (TRIES_PER_BLOCK * blocks, num_envs), jnp.uint32)
    rest, shape = jnp.divmod(draw, len(candidates.shape_start))
    start, count = (jnp.asarray(numbers)[shape] for numbers in (candidates.shape_start, candidates.shape_count))
    chosen = start + rest % count

    def attempt(carry: tuple[Array, Array], candidate: tuple[Array, Array]) -> tuple[tuple[Array, Array], None]:
        (taken, left), (block, halo) = carry, candidate
        after = taken | block
        free = board.cells - jnp.sum(jax.lax.population_count(after), axis=1, dtype=jnp.int32)
        keep = jnp.all(taken & halo == 0, axis=1) & (free >= room) & (left > 0)
        return (jnp.where(keep[:, None], after, taken), left - keep), None

    tried = jnp.asarray(candidates.blocks)[chosen], jnp.asarray(candidates.halos)[chosen]
    (taken, _), _ = jax.lax.scan(attempt, (nothing, jnp.full(num_envs, blocks)), tried)
    return taken


@cache
def _candidates(board: Board) -> Candidates:
    """All candidates of a board, computed once."""
    blocks: list[np.ndarray] = []
    halos: list[np.ndarray] = []
    counts: list[int] = []
    for shape in SHAPES:
        found = 0
        for cells in _turned(shape):
            height, width = (max(part) + 1 for part in zip(*cells, strict=True))
            for top, left in product(range(board.height - height + 1), range(board.width - width + 1)):
                taken = np.zeros((board.height, board.width), bool)
                for row, col in cells:
                    taken[top + row, left + col] = True
                if _connected(~taken):
                    blocks.append(taken.reshape(-1))
                    halos.append(_with_corners(taken).reshape(-1))
                    found += 1
        counts.append(found)
    count = np.array([number for number in counts if number], np.uint32)
    packed = [np.stack([words_of(mask) for mask in masks]) for masks in (blocks, halos)]
    return Candidates(packed[0], packed[1], np.cumsum(count, dtype=np.uint32) - count, count)


def _turned(shape: tuple[tuple[int, int], ...]) -> list[tuple[tuple[int, int], ...]]:
    """All different turns and mirror images, each moved to the top left corner."""
    images = set()
    for flip_row, flip_col, swap in product((1, -1), (1, -1), (False, True)):
        cells = [(flip_row * row, flip_col * col) for row, col in shape]
        cells = [(col, row) for row, col in cells] if swap else cells
        top, left = min(row for row, _ in cells), min(col for _, col in cells)
        images.add(tuple(sorted((row - top, col - left) for row, col in cells)))
    return sorted(images)


def _connected(free: np.ndarray) -> bool:
    """Whether all free cells of one board [height, width] can be reached from each other."""
    left = set(zip(*(axis.tolist() for axis in np.nonzero(free)), strict=True))
    edge = [left.pop()] if left else []
    while edge:
        row, col = edge.pop()
        near = {(row - 1, col), (row + 1, col), (row, col - 1), (row, col + 1)} & left
        left -= near
        edge.extend(near)
    return not left


def _with_corners(taken: np.ndarray) -> np.ndarray:
    """The cells and their eight neighbours, [height, width] bool."""
    padded = np.pad(taken, 1)
    height, width = taken.shape
    shifts = product(range(3), repeat=2)
    return np.any([padded[down : down + height, right : right + width] for down, right in shifts], axis=0)
