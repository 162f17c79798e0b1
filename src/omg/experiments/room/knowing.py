"""How soon partners could be told apart, and what answering them unknown is worth where that can be computed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from omg.components.files import digest_of, read_json, write_json
from omg.components.headers import DamagedFileError
from omg.controllers.base import Player
from omg.errors import UserError
from omg.evaluation import Group
from omg.evaluation.beliefs import told_apart
from omg.evaluation.exact import exact_values
from omg.evaluation.room import MEMBER, SCRIPT
from omg.evaluation.rows import read_rows, write_rows
from omg.evaluation.tables import ToldApartRow
from omg.experiments.room.keeping import PARTS, member_identity, room_folder
from omg.experiments.room.matrix import ResponseMatrix

_EPISODES, _FEW_EPISODES = 64, 16
"""Games with each of a few and each of many partners."""
_FEW = 12
_POSITIONS = 200_000
"""Most positions, and positions with a belief, of a game that is solved."""
STARTS = 4
"""Starts of a game that are solved, unless more are asked for."""


class Exact(NamedTuple):
    """What is known of a game that could be solved; NaN where it could not."""

    optimum: float
    """Return of the best answer to a partner who is not known."""
    worth: float
    """What being told the partner adds to the best answer found that goes by the position alone."""


_UNSOLVED = Exact(math.nan, math.nan)


class Knowledge(NamedTuple):
    """What is known of one group of partners."""

    rows: list[ToldApartRow]
    """None where the chances of somebody's actions are not known."""
    exact: Exact

    @property
    def steps(self) -> float:
        """Until the true partner has a posterior of 0.9: the mean over partners of the medians; NaN without any."""
        found = [row.steps for row in self.rows if not math.isnan(row.steps)]
        return sum(found) / len(found) if found else math.nan

    @property
    def reached(self) -> float:
        """Share of the games in which it comes to that; NaN where it is not known."""
        return sum(row.reached for row in self.rows) / len(self.rows) if self.rows else math.nan


def knowledge(
    matrix: ResponseMatrix, which: str, group: Group, fixed: str, player: Player, starts: int = STARTS
) -> Knowledge:
    """Measures a group of partners, or reads what was measured before.

    Args:
        matrix: of the pool.
        which: set of the partners.
        group: the partners.
        fixed: who plays with them meanwhile: the best fixed responder.
        player: the same as a player.
        starts: of the game that are solved exactly.
    """
    made_of = [member_identity(matrix.pool, member.name) for member in matrix.mates(which).members]
    game = [matrix.pool.env, matrix.pool.env_args, matrix.games.seed]
    digest = digest_of({"partners": [made_of, list(group.teams)], "game": game, "responder": fixed})[:32]
    folder = room_folder(matrix.pool) / PARTS
    more = "" if starts == STARTS else f"-{starts}"
    rows_file, exact_file = folder / f"told-{digest}.csv", folder / f"exact-{digest}{more}.json"
    if not rows_file.is_file():
        write_rows(rows_file, _told(matrix, which, group, player), ToldApartRow.names())
    exact = _kept_value(exact_file)
    if exact is None:
        exact = _exact(matrix, which, group, starts)
        solved = not math.isnan(exact.optimum)
        write_json(exact_file, {"solved": solved, **(exact._asdict() if solved else {})})
    return Knowledge(read_rows(rows_file, ToldApartRow), exact)


def _kept_value(file: Path) -> Exact | None:
    """The exact values that were computed before, NaN where they cannot be; None where the file does not say."""
    try:
        match read_json(file):
            case {"solved": True, "optimum": float(optimum), "worth": float(worth)}:
                return Exact(optimum, worth)
            case {"solved": False}:
                return _UNSOLVED
    except (OSError, DamagedFileError):
        pass
    return None


def _told(matrix: ResponseMatrix, which: str, group: Group, player: Player) -> Sequence[ToldApartRow]:
    episodes = _EPISODES if len(group.teams) <= _FEW else _FEW_EPISODES
    try:
        return told_apart(matrix.env, player, matrix.mates(which), group, episodes, matrix.games.seed)
    except UserError:  # Somebody cannot say how likely its actions are.
        return []


def _exact(matrix: ResponseMatrix, which: str, group: Group, starts: int) -> Exact:
    """Solves the game with scripts, each in all other seats; NaN for other partners and games that are too large."""
    if any(len(set(row)) > 1 for row in group.members.tolist()):
        return _UNSOLVED
    names = [matrix.mates(which).members[row[0]].name for row in group.members.tolist()]
    known = {one.name: one for one in matrix.frozen if one.kind in (SCRIPT, MEMBER)}
    if any(known[name].kind != SCRIPT for name in names):
        return _UNSOLVED
    seat = (matrix.env.spec.learner_seats or (0,))[0]
    players = [known[name].player for name in names]
    try:
        found = exact_values(matrix.env, players, seat, starts, matrix.games.seed, limit=_POSITIONS)
    except UserError:
        return _UNSOLVED
    return Exact(found.optimum, found.told - found.memoryless)
