"""The arguments of the `toy_grid` environment."""

from __future__ import annotations

from pydantic import Field, field_validator

from omg.envs.base import GameArgs
from omg.errors import UserError


class ToyGridArgs(GameArgs):
    """`env_args` of `toy_grid`."""

    size: int = Field(11, ge=3, le=101, description="rows and columns of the board; odd, so that it has a middle")
    episode_limit: int = Field(40, ge=1, le=30_000, description="steps until a game, or each of its rounds, is cut")
    rounds: int = Field(1, ge=1, le=1000, description="races of a game, with the same players and plans")
    reward: float = Field(1.0, gt=0, description="what a cell pays to the first who arrives")

    @field_validator("size")
    @classmethod
    def _odd(cls, size: int) -> int:
        # `UserError` is no `ValueError`, so pydantic lets it through with its own message.
        if size % 2 == 0:
            raise UserError(f"env_args.size: got {size}, an even number. Allowed: odd numbers, such as {size + 1}.")
        return size

    @property
    def middle(self) -> int:
        """Row of both starts and column of both reward cells."""
        return self.size // 2

    @property
    def starts(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """(row, column) where seat 0 and seat 1 start: the left and the right end of the middle row."""
        return (self.middle, 0), (self.middle, self.size - 1)

    @property
    def goals(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """(row, column) of the two reward cells: the top and the bottom of the middle column."""
        return (0, self.middle), (self.size - 1, self.middle)
