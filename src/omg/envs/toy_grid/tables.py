"""The race against a scripted player in seat 1 as arrays: everything that tabular methods need to know of the game.

A cell is a number, `row * size + column`. Because both players start equally far from both reward cells, seat 0 can
never be on a cell before a player in seat 1 who walks straight to it. So while seat 0 is unpaid, a reward cell pays no
more exactly if seat 1 stands on it, and the game is over once seat 0 is paid: the two positions tell everything.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from omg.envs.toy_grid.args import ToyGridArgs
from omg.envs.toy_grid.env import BOTTOM, COL_STEP, ROW_STEP, STAY, TOP
from omg.envs.toy_grid.players import path_probabilities


class RaceTables(NamedTuple):
    """One board; C cells, 5 actions, 2 goals."""

    moves: np.ndarray
    """[C, 5] int32, the cell that an action leads to; the same one when it would leave the board."""
    legal: np.ndarray
    """[C, 5] bool."""
    policies: np.ndarray
    """[2, C, 5] float32, how likely the player who walks to a goal takes each action on each cell."""
    goals: np.ndarray
    """[2] int32, the reward cells: top, bottom."""
    starts: np.ndarray
    """[2] int32, where seat 0 and seat 1 start."""

    @property
    def cells(self) -> int:
        """Number of cells C."""
        return len(self.moves)


def race_tables(args: ToyGridArgs) -> RaceTables:
    """The arrays of a board."""
    size, last = args.size, args.size - 1
    row, col = (axis.reshape(-1) for axis in np.mgrid[:size, :size])
    next_row, next_col = row[:, None] + ROW_STEP, col[:, None] + COL_STEP
    legal = (next_row >= 0) & (next_row <= last) & (next_col >= 0) & (next_col <= last)
    cell = np.arange(size * size)[:, None]
    obs = np.zeros((size * size, 7), np.float32)
    obs[:, 0], obs[:, 1] = row / last, col / last
    return RaceTables(
        moves=np.where(legal, next_row * size + next_col, cell).astype(np.int32),
        legal=legal,
        policies=np.stack([np.asarray(path_probabilities(jnp.asarray(obs), goal)) for goal in (TOP, BOTTOM)]),
        goals=np.array([row * size + col for row, col in args.goals], np.int32),
        starts=np.array([row * size + col for row, col in args.starts], np.int32),
    )


def visits(tables: RaceTables) -> np.ndarray:
    """[2 goals, C] float64: how likely a player in seat 1 who walks to a goal comes by each cell."""
    cells = tables.cells
    likely = np.zeros((2, cells))
    for goal in (TOP, BOTTOM):
        here = np.zeros(cells)
        here[tables.starts[1]] = 1.0
        while here.any():
            likely[goal] += here
            flow = here[:, None] * tables.policies[goal]
            # Whoever stays has arrived and is counted already.
            flow[:, STAY] = 0.0
            here = np.asarray(np.bincount(tables.moves.reshape(-1), flow.reshape(-1), cells), np.float64)
    return likely


def belief_by_cell(tables: RaceTables) -> np.ndarray:
    """What a player in seat 1 gives away by where it stands, both goals being equally likely at the start.

    It is also all that its moves so far give away: a path that both goals allow is equally likely for both.

    Returns:
        [C, 2] float64, the probability of each goal given the cell; 0 where it never stands.
    """
    likely = visits(tables)
    total = likely.sum(axis=0)
    return np.divide(likely, total, out=np.zeros_like(likely), where=total > 0).T


def reachable(tables: RaceTables) -> np.ndarray:
    """What can occur before seat 0 is paid, whatever it does, and however long that takes.

    Returns:
        [2 goals, C, C] bool, by the goal of seat 1 and the cells of seat 0 and seat 1.
    """
    cells = tables.cells
    found = np.zeros((2, cells, cells), bool)
    for goal in (TOP, BOTTOM):
        front = np.zeros((cells, cells), bool)
        front[tables.starts[0], tables.starts[1]] = True
        while front.any():
            found[goal] |= front
            own, other = np.nonzero(front)
            pair, other_action = np.nonzero(tables.policies[goal][other] > 0)
            # By (pair of cells, other's action) and own action.
            next_own = tables.moves[own[pair]]
            next_other = np.broadcast_to(tables.moves[other[pair], other_action][:, None], next_own.shape)
            unpaid = ~np.isin(next_own, tables.goals) | (next_own == next_other)
            front = np.zeros((cells, cells), bool)
            front[next_own[unpaid], next_other[unpaid]] = True
            front &= ~found[goal]
    return found
