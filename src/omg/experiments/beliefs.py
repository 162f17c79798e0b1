"""Methods that need no training: beliefs over the training partners of a pool, and the best answer to each of them.

The answer to a partner is the best that is known without training anybody: the responses that `omg room` keeps in the
pool, its training members, and the scripts of the game. Nobody of another set is asked or believed in.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from omg.config import Config
from omg.controllers.base import Player
from omg.controllers.belief import BELIEFS, belief_player
from omg.envs import Env, EnvSpec
from omg.envs.adapters.host import is_hosted
from omg.errors import UserError, unknown_name
from omg.evaluation import group_names
from omg.evaluation.room import RESPONSE
from omg.evaluation.tables import AnswerRow, SetScoreRow
from omg.experiments.evaluation import Arena
from omg.experiments.room.keeping import find_response, folder_name, room_metric
from omg.experiments.room.matrix import MatrixGames, Responder, ResponseMatrix, player_of
from omg.experiments.room.measuring import RoomRules
from omg.pools import Pool
from omg.training.team import load_player

Say = Callable[[str], None]
_TRAINING = "training"


@dataclass(frozen=True)
class Answers:
    """The training partners of a pool and the best answer to each."""

    spec: EnvSpec
    names: tuple[str, ...]
    """Of the partners."""
    partners: tuple[Player, ...]
    responders: tuple[Responder, ...]
    """The answers, one for each partner; the same one may answer several."""
    means: tuple[float, ...]
    """What each answer scores with its partner."""

    def rows(self) -> list[AnswerRow]:
        """A row for each partner."""
        found = zip(self.names, self.responders, self.means, strict=True)
        return [AnswerRow(partner=name, answer=one.name, mean=mean) for name, one, mean in found]

    def player(self, name: str) -> Player:
        """The player of a method of `BELIEFS`.

        Raises:
            UserError: how likely somebody's actions are is not known.
        """
        kind = BELIEFS[name]
        answers = [one.player for one in self.responders]
        return belief_player(self.spec, self.partners, answers, plastic=kind.plastic, mixture=kind.mixture)


def check_beliefs(where: str, names: Sequence[str]) -> None:
    """Refuses methods that there are not, and one that is given twice."""
    for name in names:
        if name not in BELIEFS:
            raise unknown_name(f"method ({where})", name, BELIEFS)
        if list(names).count(name) > 1:
            raise UserError(f"{where}: got '{name}' twice.")


def find_answers(pool: Pool, env: Env, config: Config, say: Say = lambda message: None) -> Answers:
    """Plays everybody who might answer with every training partner, and keeps the best of each.

    What was played when the pool's room was measured, or here before, is not played again.

    Args:
        pool: of the partners.
        env: its game.
        config: says what everybody sees.
        say: told what is done.

    Raises:
        UserError: the pool has no training partners, or its game is no JAX program.
    """
    if is_hosted(env):
        raise UserError(f"{pool.path}: {pool.where} is no JAX program; beliefs are played in compiled games only.")
    rules = RoomRules()
    groups = tuple(group_names(env.spec.n_agents)[:1])
    games = MatrixGames(room_metric(env.spec, None), rules.episodes, groups, rules.seed)
    matrix = ResponseMatrix(pool, env, config, games)
    members = pool.members(_TRAINING)
    (group,) = matrix.teams(_TRAINING)
    responders = [*_kept(pool, group.teams), *_frozen(pool, matrix)]
    scores: dict[str, dict[str, float]] = {team: {} for team in group.teams}
    for row in matrix.rows(responders, _TRAINING, say):
        scores[row.partner][row.responder] = row.mean
    best = [max(responders, key=lambda one: scores[team][one.name]) for team in group.teams]
    for member, answer in zip(members, best, strict=True):
        say(f"the answer to {member.name} is {answer.name}")
    return Answers(
        spec=env.spec,
        names=tuple(member.name for member in members),
        partners=tuple(load_player(pool, member, config, env) for member in members),
        responders=tuple(best),
        means=tuple(scores[team][one.name] for team, one in zip(group.teams, best, strict=True)),
    )


def belief_scores(
    names: Sequence[str],
    arena: Arena,
    config: Config,
    sets: Sequence[str],
    groups: Sequence[str] | None,
    episodes: int,
    seed: int,
    say: Say = lambda message: None,
) -> list[SetScoreRow]:
    """Plays methods of `BELIEFS` with the teams of a pool.

    Args:
        names: The methods.
        arena: The pool and its game.
        config: Of the agents that they are compared with: says what everybody sees.
        sets: Of the pool, that the teams are made of.
        groups: Groups of teams; None for all.
        episodes: Per team.
        seed: Of teams and games.
        say: Told what is done.

    Returns:
        Tidy scores, the methods as agents.

    Raises:
        UserError: the pool has no training partners, or how likely somebody's actions are is not known.
    """
    if not names:
        return []
    answers = find_answers(arena.pool, arena.env, config, say)
    rows = []
    for name in names:
        player = answers.player(name)
        for which in sets:
            say(f"{name}: with the set {which}")
            found = arena.player_scores(player, name, config, which, groups, episodes, seed)
            rows += [SetScoreRow.extended(row, set=which) for row in found]
    return rows


def _kept(pool: Pool, teams: Sequence[str]) -> list[Responder]:
    """The responses to the training partners that were trained when the pool's room was measured."""
    found = [(team, find_response(pool, team)) for team in teams]
    return [
        Responder(f"{RESPONSE}:{folder_name(team)}", RESPONSE, kept.note.sha256, player_of(kept.load()))
        for team, kept in found
        if kept is not None
    ]


def _frozen(pool: Pool, matrix: ResponseMatrix) -> list[Responder]:
    """Training members, and scripts that nobody of another set follows."""
    others = [member for member in pool.members() if member.set != _TRAINING]
    strangers = {name for member in others for name in (member.name, member.algorithm) if member.kind == "scripted"}
    strangers |= {member.name for member in others}
    return [one for one in matrix.frozen if one.name not in strangers]
