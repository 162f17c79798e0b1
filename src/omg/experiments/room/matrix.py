"""The response matrix: who answers, and what everybody earns with every partner.

Each responder's cells are written as soon as they are played, under a name that changes with everything they depend on,
so that a second measurement plays only what is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from omg.components.files import digest_of
from omg.config import Config
from omg.controllers.base import Player
from omg.controllers.scripted import scripted_names
from omg.controllers.scripted.cast import build_cast
from omg.controllers.team import build_squad
from omg.envs import Env
from omg.errors import UserError
from omg.evaluation import Group, Mates, evaluate_groups, load_mates, make_groups, stack_agents
from omg.evaluation.room import MEMBER, RANDOM, SCRIPT
from omg.evaluation.rows import read_rows, write_rows
from omg.evaluation.tables import ResponseRow
from omg.experiments.room.keeping import PARTS, member_identity, room_folder
from omg.pools import Agent, Pool
from omg.training.team import load_player

Say = Callable[[str], None]


@dataclass(frozen=True)
class Responder:
    """Somebody who answers partners."""

    name: str
    kind: str
    """One of the kinds of `omg.evaluation.room`."""
    identity: str
    """Changes when it is somebody else under the same name."""
    player: Player


@dataclass(frozen=True)
class MatrixGames:
    """What is played by every responder with every partner."""

    metric: str
    episodes: int
    groups: tuple[str, ...]
    seed: int = 0


class ResponseMatrix:
    """A pool, its partners, and the cells that have been played."""

    def __init__(self, pool: Pool, env: Env, config: Config, games: MatrixGames) -> None:
        """Holds them.

        Args:
            pool: of the partners.
            env: its game.
            config: says what everybody sees.
            games: how many, and with which groups of teams.
        """
        self.pool, self.env, self.config, self.games = pool, env, config, games
        self._mates: dict[str, Mates] = {}

    def mates(self, which: str) -> Mates:
        """The members of a set."""
        if which not in self._mates:
            self._mates[which] = load_mates(self.pool, which, self.config, self.env)
        return self._mates[which]

    def teams(self, which: str) -> list[Group]:
        """The partners that are made of a set."""
        members, seats = self.mates(which).members, self.env.spec.n_agents
        return make_groups(members, seats, self.games.groups, self.games.seed)

    @cached_property
    def frozen(self) -> list[Responder]:
        """Every member of the pool and every script that can play the game."""
        found: dict[str, Responder] = {}
        for member in self.pool.members():
            player = load_player(self.pool, member, self.config, self.env)
            kind = SCRIPT if member.kind == "scripted" else MEMBER
            found[member.name] = Responder(member.name, kind, member_identity(self.pool, member.name), player)
        for script in (RANDOM, *scripted_names(self.env.spec.name)):
            if script not in found:
                try:
                    player = build_cast(script, self.env)
                except UserError:  # A script that plays other layouts of the game.
                    continue
                found[script] = Responder(script, SCRIPT, f"script:{script}", player)
        return list(found.values())

    def rows(self, responders: Sequence[Responder], which: str, say: Say = lambda message: None) -> list[ResponseRow]:
        """The cells of some responders with the partners of a set; those that are known are not played again."""
        files = {one.name: self._file(one, which) for one in responders}
        missing = [one for one in responders if not files[one.name].is_file()]
        done = len(responders) - len(missing)
        for some in _alike(missing):
            say(f"set {which}: {done} of {len(responders)} responders played")
            for one, cells in zip(some, self._play(some, which), strict=True):
                write_rows(files[one.name], cells, ResponseRow.names())
            done += len(some)
        return [row for one in responders for row in read_rows(files[one.name], ResponseRow)]

    def _play(self, responders: Sequence[Responder], which: str) -> Iterator[list[ResponseRow]]:
        """The cells of responders of one structure."""
        games, mates, groups = self.games, self.mates(which), self.teams(which)
        stacked = stack_agents([one.player for one in responders])
        found = evaluate_groups(self.env, stacked, mates, groups, games.episodes, games.seed)
        for place, one in enumerate(responders):
            yield [
                _cell(one, which, group.name, team, games.metric, found[group.name][games.metric][place, index])
                for group in groups
                for index, team in enumerate(group.teams)
            ]

    def _file(self, responder: Responder, which: str) -> Path:
        games = self.games
        made_of = [member_identity(self.pool, member.name) for member in self.mates(which).members]
        digest = digest_of(
            {
                "responder": [responder.name, responder.kind, responder.identity],
                "partners": [which, made_of, list(games.groups)],
                "game": [self.pool.env, self.pool.env_args],
                "games": [games.metric, games.episodes, games.seed],
            }
        )
        return room_folder(self.pool) / PARTS / f"{digest[:32]}.csv"


def _cell(responder: Responder, which: str, group: str, team: str, metric: str, scores: np.ndarray) -> ResponseRow:
    """From the scores [E] of one responder with one partner."""
    # Halves and not every other episode: the responder moves one seat on from episode to episode.
    first, second = scores[: len(scores) // 2], scores[len(scores) // 2 :]
    return ResponseRow(
        set=which,
        group=group,
        partner=team,
        responder=responder.name,
        kind=responder.kind,
        metric=metric,
        episodes=len(scores),
        mean=float(scores.mean()),
        error=float(scores.std(ddof=1) / np.sqrt(len(scores))),
        first_half=float(first.mean()),
        second_half=float(second.mean()),
    )


def _alike(responders: Sequence[Responder]) -> list[list[Responder]]:
    """Responders that are played as one program, by structure."""
    groups: list[list[Responder]] = []
    for one in responders:
        for group in groups:
            if len(build_squad([group[0].player, one.player])[0].kinds) == 1:
                group.append(one)
                break
        else:
            groups.append([one])
    return groups


def player_of(agent: Agent) -> Player:
    """The player of a loaded agent."""
    player: Player = agent.policy
    return player
