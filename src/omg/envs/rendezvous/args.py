"""The arguments of the `rendezvous` environment."""

from __future__ import annotations

from pydantic import Field, model_validator

from omg.envs.base import GameArgs
from omg.errors import UserError


class RendezvousArgs(GameArgs):
    """`env_args` of `rendezvous`."""

    size: int = Field(3, ge=3, le=31, description="rows and columns of the board; odd, so that it has a middle")
    moves: int | None = Field(
        None, ge=2, le=1000, description="steps of a round; empty: size - 1, just enough to reach a corner"
    )
    rounds: int = Field(5, ge=1, le=1000, description="rounds of a game, all with the same players")

    @model_validator(mode="after")
    def _possible(self) -> RendezvousArgs:
        # `UserError` is no `ValueError`, so pydantic lets it through with its own message.
        if self.size % 2 == 0:
            raise UserError(
                f"env_args.size: got {self.size}, an even number. Allowed: odd numbers, such as {self.size + 1}."
            )
        if self.round_moves < self.size - 1:
            raise UserError(
                f"env_args.moves: got {self.moves}, but a corner is {self.size - 1} steps from the middle. "
                f"Allowed: {self.size - 1} or more."
            )
        return self

    @property
    def round_moves(self) -> int:
        """Steps of a round."""
        return self.size - 1 if self.moves is None else self.moves

    @property
    def middle(self) -> int:
        """Row and column of the cell on which every round starts."""
        return self.size // 2

    @property
    def corners(self) -> tuple[tuple[int, int], ...]:
        """(row, column) of the four corners, clockwise from the north-west."""
        last = self.size - 1
        return (0, 0), (0, last), (last, last), (last, 0)
