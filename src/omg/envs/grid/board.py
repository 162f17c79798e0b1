"""How large the field of a game on a board is."""

from __future__ import annotations

from dataclasses import dataclass

WORD = 32
"""Bits in a word."""
MOVED = {"up": (0, -1), "down": (0, 1), "left": (-1, 0), "right": (1, 0)}
"""Columns and rows that an action leads further; all others leave players where they are."""


@dataclass(frozen=True)
class Board:
    """The size of a field; rows are at most 31 cells wide, so that a shift by one row stays within two words."""

    height: int
    width: int

    @property
    def cells(self) -> int:
        """Number of cells."""
        return self.height * self.width

    @property
    def words(self) -> int:
        """Words of a set of cells."""
        return -(-self.cells // WORD)
