"""The arguments that games on a board share, and what makes them impossible."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field

from omg.envs.base import GameArgs
from omg.envs.grid.board import Board
from omg.errors import UserError

SMALLEST, LARGEST = 3, 16
"""Of height and width: every obstacle of three cells fits, and the number of a cell fits into a byte."""


class GridArgs(GameArgs):
    """`env_args` of every game on a board."""

    size: int = Field(8, ge=SMALLEST, le=LARGEST, description="height and width of the field in cells")
    height: int | None = Field(None, ge=SMALLEST, le=LARGEST, description="height of the field; empty: size")
    width: int | None = Field(None, ge=SMALLEST, le=LARGEST, description="width of the field; empty: size")
    players: int = Field(4, ge=2, le=64, description="number of seats")
    blocks: int = Field(
        0, ge=0, le=20, description="most obstacles of 3 or 4 cells, placed at random; fewer where there is no room"
    )
    episode_limit: int = Field(50, ge=1, le=30_000, description="steps until a game is cut")

    @property
    def board(self) -> Board:
        """The field."""
        return Board(self.height or self.size, self.width or self.size)


def check_room(args: GridArgs, pieces: Mapping[str, int]) -> None:
    """Refuses a field on which not everybody and everything can have a cell of its own.

    Obstacles need no check: one that would leave too few free cells is never placed.

    Args:
        args: the game.
        pieces: what stands on the field besides the players, name -> count.

    Raises:
        UserError: says what is needed and what there is.
    """
    board, counts = args.board, {"players": args.players, **pieces}
    needed = sum(counts.values())
    if needed > board.cells:
        wanted = " and ".join(f"{count} {name}" for name, count in counts.items())
        raise UserError(
            f"env_args.size: a field of {board.height}x{board.width} has {board.cells} cells, but {wanted} need "
            f"{needed}, one each. Give a larger size (at most {LARGEST}), or fewer of them."
        )
