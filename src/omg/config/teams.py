"""Team names: `4iql3qmix1iql_omg` is four seats IQL, three QMIX, one IQL with OMG.

The word `pool` stands for any player of the pool: in `7pool1iql_omg` seven seats are filled from it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from omg.config.schema import Config
from omg.errors import UserError, unknown_name

POOL = "pool"
"""Stands in a team name for whatever players the pool has."""


_MOST_DIGITS = 9
_LONGEST_NAME = 500


class TeamPart(NamedTuple):
    """A run of neighbouring seats played by one algorithm."""

    seats: int
    algorithm: str


def looks_like_team(name: str) -> bool:
    """True for names that begin with a seat count; algorithm names begin with a letter."""
    return name[:1].isdigit()


def parse_team(name: str, algorithms: Collection[str]) -> list[TeamPart]:
    """Splits a team name into its parts.

    Algorithm names may contain digits and underscores, so the longest known name is tried first and given up when the
    rest of the team name cannot be read after it.

    Raises:
        UserError: when a part is no known algorithm or a count is zero.
    """
    if len(name) > _LONGEST_NAME:
        raise UserError(f"Team name: got {len(name)} characters; allowed: at most {_LONGEST_NAME}.")
    longest_first = sorted({*algorithms, POOL}, key=lambda algorithm: (-len(algorithm), algorithm))
    furthest = 0

    def read(position: int) -> list[TeamPart] | None:
        nonlocal furthest
        if position == len(name):
            return []
        count = re.compile(r"\d+").match(name, position)
        if count is None:
            return None
        if len(count.group()) > _MOST_DIGITS:
            raise UserError(f"Team name: got a count of {len(count.group())} digits; allowed: at most {_MOST_DIGITS}.")
        furthest = max(furthest, count.end())
        for algorithm in longest_first:
            if name.startswith(algorithm, count.end()):
                rest = read(count.end() + len(algorithm))
                if rest is not None:
                    return [TeamPart(int(count.group()), algorithm), *rest]
        return None

    parts = read(0)
    if parts is None:
        unread = re.split(r"(?<=[^\d])(?=\d)", name[furthest:])[0]
        raise unknown_name(f"algorithm in the team name '{name}':", unread, {*algorithms, POOL})
    for part in parts:
        if part.seats == 0:
            raise UserError(f"Team name '{name}': got 0 seats for {part.algorithm}; every algorithm needs at least 1.")
    return parts


def check_seats(name: str, parts: Sequence[TeamPart], n_agents: int, game: str) -> None:
    """Raises `UserError` unless the team fills the game's seats exactly."""
    seats = sum(part.seats for part in parts)
    if seats != n_agents:
        sum_of = "+".join(str(part.seats) for part in parts)
        raise UserError(
            f"Team name '{name}' has {seats} seats ({sum_of}), but {game} has {n_agents}: the counts must add up to "
            f"{n_agents}."
        )


def main_algorithm(name: str, parts: Sequence[TeamPart], members: Mapping[str, Config], train_alg: str | None) -> str:
    """The algorithm of a team that learns.

    That is `train_alg`; left out, it is the only algorithm with an opponent model, or, when none has one, the last
    of the name if its seats stand nowhere else in the name. A team of one algorithm leaves no choice. `pool` never
    learns and is not among `members`.
    """
    if train_alg is not None:
        if train_alg not in members:
            raise unknown_name(f"train_alg for the team '{name}':", train_alg, members)
        return train_alg
    if len(members) == 1:
        return next(iter(members))
    modelling = [algorithm for algorithm, config in members.items() if not config.model_part.absent]
    last = parts[-1].algorithm
    candidates = modelling or [last] * sum(part.algorithm == last for part in parts)
    if len(candidates) != 1:
        raise UserError(
            f"train_alg: team '{name}' does not say which algorithm learns. Write train_alg=ALG with one of: "
            f"{', '.join(sorted(members))}."
        )
    return candidates[0]
