"""The ways in which a board can be turned and mirrored, with all that is on it.

A position and its mirror image are the same game: whoever has learned what to do in one knows it in the other. Boards
as high as wide have eight symmetries, others four.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from omg.envs.grid.walking import MOVES

_STEPS = np.array([[-1, 0], [1, 0], [0, -1], [0, 1]])
"""Rows and columns that `MOVES` go: up, down, left, right."""


class Symmetries(NamedTuple):
    """Ways to turn a board, as tables; the first leaves it as it is."""

    cell_from: np.ndarray
    """[ways, cells] int32: what was in this cell is now in the cell of the column's number."""
    cell_to: np.ndarray
    """[ways, cells] int32: where the cell of the column's number has gone."""
    action_from: np.ndarray
    """[ways, U] int32: what this action was called before."""
    action_to: np.ndarray
    """[ways, U] int32: what this action is called now."""


def symmetries(height: int, width: int, actions: int) -> Symmetries:
    """All symmetries of a board.

    Args:
        height: rows.
        width: columns.
        actions: number of actions; the first four are `MOVES`, and all others stay what they are.
    """
    cells = np.arange(height * width).reshape(height, width)
    turned = [np.rot90(side, quarter) for side in (cells, cells[:, ::-1]) for quarter in range(4)]
    cell_from = np.stack([cells_now.ravel() for cells_now in turned if cells_now.shape == cells.shape])
    cell_to = np.argsort(cell_from, axis=1)
    action_to = np.tile(np.arange(actions), (len(cell_from), 1))
    for index, goes_to in enumerate(cell_to):
        for move in MOVES:
            # From a cell in the first or last row and column a step leads to its neighbour inside the board.
            start = np.where(_STEPS[move] < 0, [height - 1, width - 1], 0)
            ends = [
                np.unravel_index(goes_to[cells[tuple(place)]], cells.shape) for place in (start, start + _STEPS[move])
            ]
            step = np.subtract(ends[1], ends[0])
            action_to[index, move] = int(np.flatnonzero((step == _STEPS).all(axis=1))[0])
    tables = (cell_from, cell_to, np.argsort(action_to, axis=1), action_to)
    return Symmetries(*(table.astype(np.int32) for table in tables))
