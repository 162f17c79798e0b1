"""The arguments of the `stag_hunt` environment, and what makes them impossible."""

from __future__ import annotations

from pydantic import Field, model_validator

from omg.envs.grid.args import GridArgs, check_room
from omg.errors import UserError, unknown_name

MAPS: dict[str, tuple[int, int]] = {"4h1s": (4, 1), "4h2s": (4, 2)}
"""Named games: how many hares and how many stags."""


class StagHuntArgs(GridArgs):
    """`env_args` of `stag_hunt`."""

    map_name: str = Field("4h1s", description="4h1s or 4h2s: four hares and one or two stags")
    hares: int | None = Field(None, ge=0, le=256, description="number of hares; empty: as map_name says")
    stags: int | None = Field(None, ge=0, le=256, description="number of stags; empty: as map_name says")
    blocks: int = Field(
        5, ge=0, le=20, description="most obstacles of 3 or 4 cells, placed at random; fewer where there is no room"
    )
    episode_limit: int = Field(35, ge=1, le=30_000, description="steps until a game is cut")
    stag_reward: float = Field(10.0, description="what a stag pays, shared equally by those who hunt it together")
    hare_reward: float = Field(1.0, description="what a hare pays, shared equally by those who hunt it together")

    @model_validator(mode="after")
    def _possible(self) -> StagHuntArgs:
        # `UserError` is no `ValueError`, so pydantic lets it through with its own message.
        if self.map_name not in MAPS:
            raise unknown_name("map (env_args.map_name)", self.map_name, MAPS)
        if self.hare_count + self.stag_count == 0:
            raise UserError("env_args.hares: got 0, and env_args.stags is 0 too. Allowed: at least one hare or stag.")
        check_room(self, {"hares": self.hare_count, "stags": self.stag_count})
        return self

    @property
    def hare_count(self) -> int:
        """Hares at the start."""
        return MAPS[self.map_name][0] if self.hares is None else self.hares

    @property
    def stag_count(self) -> int:
        """Stags at the start."""
        return MAPS[self.map_name][1] if self.stags is None else self.stags
