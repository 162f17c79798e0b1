"""The arguments of the `foraging` environment, and what makes them impossible."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field, model_validator

from omg.envs.base import GameArgs
from omg.errors import UserError

FOOD_GAP = 2
"""No two foods lie within this Manhattan distance."""

Level = Annotated[int, Field(ge=1, le=1000)]
LevelOrLevels = Level | tuple[Level, ...]


class ForagingArgs(GameArgs):
    """`env_args` of `foraging`: the arguments of `lbforaging`; rows and cols are its field_size.

    Players have levels 1 to 3 unless told otherwise, so that the default game holds food of 7.5 levels on average
    (`lbforaging` 2 registers its games with levels 1 and 2: 6 on average). Food that nobody can ever lift is allowed,
    as there: such a game runs to its limit.
    """

    rows: int = Field(8, ge=3, le=100, description="height of the field in cells")
    cols: int = Field(8, ge=3, le=100, description="width of the field in cells")
    players: int = Field(2, ge=1, le=100, description="number of seats")
    max_food: int = Field(3, ge=1, le=1000, description="number of foods at the start of a game")
    min_player_level: LevelOrLevels = Field(1, description="lowest player level, or one per player (dealt at random)")
    max_player_level: LevelOrLevels = Field(3, description="highest player level, or one per player (dealt at random)")
    min_food_level: LevelOrLevels = Field(1, description="lowest food level, or one per food (dealt at random)")
    max_food_level: LevelOrLevels | None = Field(
        None, description="highest food level, or one per food; empty: the sum of the three lowest player levels"
    )
    sight: int | None = Field(
        None, ge=1, le=100, description="how many cells a player sees in each direction; empty: all"
    )
    force_coop: bool = Field(False, description="every food has the highest level")
    episode_limit: int = Field(50, ge=1, le=30_000, description="steps until a game, or each of its rounds, is cut")
    rounds: int = Field(
        1, ge=1, le=1000, description="rounds of a game: players with the same levels, on fields drawn anew"
    )
    normalize_reward: bool = Field(True, description="scale rewards so that all foods together are worth 1")
    penalty: float = Field(0.0, ge=0, description="what each player pays for loading in vain")
    observe_agent_levels: bool = Field(True, description="players see each other's levels and their own")
    relative_positions: bool = Field(False, description="positions of foods and other players count from the own cell")
    grid_observation: bool = Field(False, description="players see maps with themselves in the middle, not a list")

    @property
    def window(self) -> int:
        """Cells along each side of the maps of `grid_observation`: all that a player can ever see of the field."""
        whole = max(self.rows, self.cols) - 1
        return 2 * (whole if self.sight is None else self.sight) + 1

    @model_validator(mode="after")
    def _possible(self) -> ForagingArgs:
        # `UserError` is no `ValueError`, so pydantic lets it through with its own message.
        if self.relative_positions and self.grid_observation:
            raise UserError(
                "relative_positions: got True together with grid_observation=True; maps are relative already."
            )
        _check_levels(self)
        _check_room(self)
        return self


def packing(args: ForagingArgs) -> list[int]:
    """Cells of a tight food layout: a lattice of distance 3, or what a scan fills where that is more (thin fields)."""
    inside = [(row, col) for row in range(1, args.rows - 1) for col in range(1, args.cols - 1)]
    layouts = [[(row, col) for row, col in inside if (row + 2 * col) % 5 == shift] for shift in range(5)]
    layouts += [[(row, col) for row, col in inside if (2 * row + col) % 5 == shift] for shift in range(5)]
    filled: list[tuple[int, int]] = []
    for row, col in inside:
        if all(abs(row - other[0]) + abs(col - other[1]) > FOOD_GAP for other in filled):
            filled.append((row, col))
    return [row * args.cols + col for row, col in max([*layouts, filled], key=len)]


def _check_room(args: ForagingArgs) -> None:
    """Refuses what does not fit on the field."""
    field = f"a field of {args.rows}x{args.cols} cells"
    most_food = len(packing(args))
    if args.max_food > most_food:
        raise UserError(
            f"env_args.max_food: got {args.max_food}, but {field} has room for at most {most_food} "
            f"(not on the border, no two within {FOOD_GAP} steps). Give more rows and cols, or less food."
        )
    most_players = args.rows * args.cols - args.max_food
    if args.players > most_players:
        raise UserError(
            f"env_args.players: got {args.players}, but {field} with {args.max_food} foods has room for at most "
            f"{most_players}."
        )


def _check_levels(args: ForagingArgs) -> None:
    """Refuses levels that no game can be drawn from."""
    for kind, count, count_key in (("player", args.players, "players"), ("food", args.max_food, "max_food")):
        lowest, highest = getattr(args, f"min_{kind}_level"), getattr(args, f"max_{kind}_level")
        for key, levels in ((f"min_{kind}_level", lowest), (f"max_{kind}_level", highest)):
            if isinstance(levels, tuple) and len(levels) != count:
                raise UserError(
                    f"env_args.{key}: got {len(levels)} levels {list(levels)}, but {count_key} is {count}. "
                    f"Give one number, or a list of {count}."
                )
        if highest is not None and any(np.broadcast_to(lowest, count) > np.broadcast_to(highest, count)):
            raise UserError(f"env_args.min_{kind}_level: got {lowest}, more than max_{kind}_level {highest}.")
    if args.max_food_level is None and not args.force_coop:
        weakest = int(np.sort(np.broadcast_to(args.min_player_level, args.players))[:3].sum())
        if np.max(args.min_food_level) > weakest:
            raise UserError(
                f"env_args.min_food_level: got {args.min_food_level}, but without max_food_level no food is above the "
                f"sum of the three lowest player levels, which can be {weakest}. Set max_food_level, or at most "
                f"min_food_level={weakest}."
            )
