"""`omg room`: what there is to gain from knowing the others, measured before any method is run.

First everybody who need not be trained answers every partner: the members of the pool, the scripts of the game. Then a
best response is trained for each partner and an agent for the mixture of the training partners, until their curves are
flat; they answer every partner as well. The numbers come from `omg.evaluation.room`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from omg.config import Config, change_config
from omg.envs.adapters.host import is_hosted
from omg.errors import UserError, unknown_name
from omg.evaluation import Group, group_names
from omg.evaluation.room import MIXTURE, RANDOM, RESPONSE, Responses, over_pools, room_row
from omg.evaluation.rows import write_rows
from omg.evaluation.tables import ResponseRow, RoomRow, ToldApartRow, TrainedResponseRow
from omg.experiments.adaptation.responses import (
    BestResponses,
    Bounds,
    ResponseRules,
    response_config,
    train_responses,
    train_to_flat,
)
from omg.experiments.room.keeping import (
    TABLE_FILES,
    KeptResponse,
    ResponseNote,
    checked_metric,
    find_response,
    folder_name,
    keep_response,
    response_fingerprint,
    room_folder,
)
from omg.experiments.room.knowing import STARTS, knowledge
from omg.experiments.room.matrix import MatrixGames, Responder, ResponseMatrix, player_of
from omg.modules.opponent_models.prior import Prior
from omg.pools import Pool
from omg.training.device import prepare
from omg.training.encounters import build_teams
from omg.training.program import Program
from omg.training.team import load_player

Say = Callable[[str], None]


@dataclass(frozen=True)
class RoomRules:
    """What is measured, and how carefully."""

    set: str = "heldout"
    groups: tuple[str, ...] | None = None
    """None: the first of the game, all team-mates alike."""
    episodes: int = 256
    """Of each responder with each partner."""
    seeds: int = 3
    """Restarts of every training."""
    steps: int = 1_000_000
    """Budget of every training; 0: nothing is trained, what is kept is used."""
    seed: int = 0
    metric: str | None = None
    """None: the own return in general-sum games, else the game's success metric."""
    starts: int = STARTS
    """Of a game that is small enough to be solved, how many starts are."""

    def __post_init__(self) -> None:
        for key, least in (("episodes", 4), ("seeds", 1), ("steps", 0), ("seed", 0), ("starts", 1)):
            if getattr(self, key) < least:
                raise UserError(f"{key}: got {getattr(self, key)}, allowed: {least} or more.")


class MeasuredRoom(NamedTuple):
    """What was found in one pool."""

    rows: list[RoomRow]
    """One for each group."""
    responses: list[ResponseRow]
    trained: list[TrainedResponseRow]
    told_apart: list[ToldApartRow]


def measure_room(pool: str | Path, rules: RoomRules, say: Say = lambda message: None) -> MeasuredRoom:
    """Measures a pool; what was found earlier is not made again.

    Args:
        pool: its folder, in which the responses are kept.
        rules: what is measured.
        say: told what is done.

    Raises:
        UserError: something cannot be used, or the disk takes nothing.
    """
    prepare(use_cuda=True)
    opened = Pool.open(pool)
    return _Measurement(opened, rules, say).measure()


class _Measurement:
    """One pool, measured."""

    def __init__(self, pool: Pool, rules: RoomRules, say: Say) -> None:
        self.pool, self.rules, self.say = pool, rules, say
        self.env = pool.make_env()
        if self.env.spec.n_agents < 2:
            raise UserError(f"{pool.path}: {pool.where} has one seat; there is nobody to know.")
        if is_hosted(self.env):
            raise UserError(f"{pool.path}: {pool.where} is no JAX program; room is measured in compiled games only.")
        pool.members(rules.set)
        known = group_names(self.env.spec.n_agents)
        for name in rules.groups or ():
            if name not in known:
                raise unknown_name(f"group of a game with {self.env.spec.n_agents} seats:", name, known)
        self.metric = checked_metric(self.env.spec, rules.metric)
        self.training = ResponseRules(rules.steps, rules.seeds, seed=rules.seed)
        config = response_config(
            self.env, (pool.env, pool.env_args), self.training.games, obs_is_state=bool(pool.obs_is_state)
        )
        self.config = config
        groups = tuple(rules.groups or known[:1])
        games = MatrixGames(self.metric, rules.episodes, groups, rules.seed)
        self.matrix = ResponseMatrix(pool, self.env, config, games)

    @property
    def chosen_on(self) -> str:
        """The set on which the best fixed responder is chosen."""
        present = {member.set for member in self.pool.members()}
        return next((name for name in ("validation", "training") if name in present), self.rules.set)

    def measure(self) -> MeasuredRoom:
        sets = dict.fromkeys((self.rules.set, self.chosen_on))
        rows = [row for which in sets for row in self.matrix.rows(self.matrix.frozen, which, self.say)]
        kept = self._train(rows)
        responders = [Responder(one.name, one.kind, one.kept.note.sha256, player_of(one.kept.load())) for one in kept]
        rows += [row for which in sets for row in self.matrix.rows(responders, which, self.say)]
        found, told = [], []
        for group in self.matrix.teams(self.rules.set):
            row = self._room(group.name, rows)
            players = {one.name: one.player for one in (*self.matrix.frozen, *responders)}
            self.say("how soon partners can be told apart")
            known = knowledge(
                self.matrix, self.rules.set, group, row.best_fixed_is, players[row.best_fixed_is], self.rules.starts
            )
            row.told_apart, row.told_share, row.exact, row.worth = known.steps, known.reached, *known.exact
            found.append(row)
            told += known.rows
        return MeasuredRoom(found, rows, [self._trained_row(one, rows) for one in kept], told)

    def _room(self, group: str, rows: Sequence[ResponseRow]) -> RoomRow:
        target, choice = (
            Responses.of(row for row in rows if row.group == group and row.set == which)
            for which in (self.rules.set, self.chosen_on)
        )
        return room_row(str(self.pool.path), self.rules.set, group, self.metric, target, choice, self.chosen_on)

    # ----------------------------------------------------------------------------------------------------- training

    def _train(self, rows: Sequence[ResponseRow]) -> list[_Trained]:
        """The responses to all partners and to the mixture, as far as there are any with this budget."""
        groups = self.matrix.teams(self.rules.set)
        wanted = [(group, index) for group in groups for index in range(len(group.teams))]
        found: dict[str, KeptResponse] = {}
        missing: list[tuple[Group, int]] = []
        for group, index in wanted:
            kept = find_response(self.pool, group.teams[index])
            if kept is not None and kept.note.suffices(
                self._fingerprint(group, index), self.rules.steps, self.rules.seeds
            ):
                found[group.teams[index]] = kept
            else:
                missing.append((group, index))
        if missing and self.rules.steps:
            found |= self._train_missing(missing, rows)
        trained = [
            _Trained(f"{RESPONSE}:{folder_name(team)}", RESPONSE, team, group.name, found[team])
            for group in groups
            for team in group.teams
            if team in found
        ]
        mixture = self._mixture()
        return trained + ([] if mixture is None else [_Trained(MIXTURE, MIXTURE, MIXTURE, "", mixture)])

    def _fingerprint(self, group: Group, index: int) -> str:
        names = [self.matrix.mates(self.rules.set).members[number].name for number in group.members[index]]
        return response_fingerprint(self.pool, names, self.config)

    def _train_missing(
        self, missing: Sequence[tuple[Group, int]], rows: Sequence[ResponseRow]
    ) -> dict[str, KeptResponse]:
        members = self.pool.members(self.rules.set)
        used = sorted({int(number) for group, index in missing for number in group.members[index]})
        players = [load_player(self.pool, members[number], self.config, self.env) for number in used]
        mates = np.asarray([[used.index(number) for number in group.members[index]] for group, index in missing])
        names = [group.teams[index] for group, index in missing]
        turns = self.env.spec.learner_seats or tuple(range(self.env.spec.n_agents))
        teams = build_teams(names, mates, players, turns[0], turns)
        kept: dict[str, KeptResponse] = {}

        def finish(found: BestResponses, done: Sequence[int], numbers: Sequence[int]) -> None:
            for one, number in zip(done, numbers, strict=True):
                note = self._note(
                    names[number],
                    self._fingerprint(*missing[number]),
                    int(found.steps[one]),
                    float(found.best[one]),
                    float(found.errors[one]),
                    bool(found.flat[one]),
                )
                seed = self.training.seeds[int(found.restart[one])]
                kept[names[number]] = keep_response(
                    self.pool, note, found.player(one), self.config, self.env.spec, seed
                )

        bounds = Bounds(*np.transpose([_bounds(rows, name) for name in names]))

        def tell(message: str) -> None:
            self.say(f"best responses to {len(names)} partners: {message}")

        train_responses(self.config, self.env, teams, self.metric, self.training, bounds, tell, finish)
        return kept

    def _note(self, partner: str, fingerprint: str, steps: int, mean: float, error: float, flat: bool) -> ResponseNote:
        rules = self.rules
        return ResponseNote(partner, fingerprint, "", rules.seeds, steps, rules.steps, self.metric, mean, error, flat)

    def _mixture(self) -> KeptResponse | None:
        """The agent trained on the mixture of the training partners; None without any, or without steps."""
        names = [member.name for member in self.pool.members() if member.set == "training"]
        if not names:
            return None
        manner = "homologue" if self.env.spec.n_agents == 2 else "varied"
        config = change_config(
            self.config,
            init_param_path=str(self.pool.path),
            pool_set="training",
            is_agent_shift=True,
            team_draw=manner,
        )
        fingerprint = response_fingerprint(self.pool, names, config)
        kept = find_response(self.pool, MIXTURE)
        if kept is not None and kept.note.suffices(fingerprint, self.rules.steps, self.rules.seeds):
            return kept
        return self._train_mixture(config, fingerprint) if self.rules.steps else None

    def _train_mixture(self, config: Config, fingerprint: str) -> KeptResponse:
        program: Program = Program(config, self.env)
        state = program.init(jnp.asarray(self.training.seeds, jnp.uint32))
        unknown = np.zeros(self.rules.seeds)

        def tell(message: str) -> None:
            self.say(f"agent for the mixture: {message}")

        found = train_to_flat(program, state, self.metric, self.training, unknown, unknown, tell)
        best = int(found.best.argmax())
        note = self._note(
            MIXTURE,
            fingerprint,
            found.steps,
            float(found.best[best]),
            float(found.errors[best]),
            bool(found.flat[best]),
        )
        player = program.learner.tested(jax.tree.map(lambda leaf: leaf[best], found.learner))
        assert not isinstance(player, Prior)
        seed = self.training.seeds[best]
        return keep_response(self.pool, note, player, config, self.env.spec, seed)

    def _trained_row(self, one: _Trained, rows: Sequence[ResponseRow]) -> TrainedResponseRow:
        note, beaten = one.kept.note, None
        if one.kind == RESPONSE:
            own = [row for row in rows if (row.set, row.group) == (self.rules.set, one.group)]
            beaten = Responses.of(own).beaten_by(one.name, one.partner)
        return TrainedResponseRow(
            partner=one.partner,
            restarts=note.restarts,
            steps=note.steps,
            budget=note.budget,
            metric=note.metric,
            mean=note.mean,
            error=note.error,
            curve="flat" if note.flat else "not converged",
            stand_in="" if beaten is None else beaten[0],
            ahead=0.0 if beaten is None else beaten[1],
        )


class _Trained(NamedTuple):
    """A kept response and what it answers."""

    name: str
    kind: str
    partner: str
    group: str
    kept: KeptResponse


def _bounds(rows: Sequence[ResponseRow], partner: str) -> tuple[float, float]:
    """What a random player and what the best of all score with a partner."""
    own = {row.responder: row.mean for row in rows if row.partner == partner}
    return own[RANDOM], max(own.values())


def write_room(folder: Path, found: MeasuredRoom) -> list[Path]:
    """Writes `room.csv`, `responses.csv`, `trained.csv` and `told_apart.csv`; returns their paths.

    Raises:
        UserError: a file cannot be written.
    """
    files = [folder / name for name in TABLE_FILES]
    write_rows(files[1], found.responses, ResponseRow.names())
    write_rows(files[2], found.trained, TrainedResponseRow.names())
    write_rows(files[3], found.told_apart, ToldApartRow.names())
    # The last: whoever finds it finds the others as well.
    write_rows(files[0], found.rows, RoomRow.names())
    return files


def default_folder(pools: Sequence[Path]) -> Path:
    """Where the tables of a command go: into the pool; of several pools, beside the results."""
    return room_folder(Pool.open(pools[0])) if len(pools) == 1 else Path("results") / "room"


def pooled(found: Sequence[MeasuredRoom]) -> list[RoomRow]:
    """The rows of several pools, and for each group the mean over them.

    Raises:
        UserError: they are of different games.
    """
    by_group: dict[tuple[str, str], list[RoomRow]] = {}
    for one in found:
        for row in one.rows:
            by_group.setdefault((row.group, row.metric), []).append(row)
    for rows in by_group.values():
        if len(rows) != len(found):
            raise UserError("POOL: the pools are of different games; measure them one by one.")
    return [line for rows in by_group.values() for line in (*rows, over_pools(rows))]
