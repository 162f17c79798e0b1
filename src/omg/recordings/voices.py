"""Who sat in the seats of filmed games (`omg.runners.vector.Film`), and what they tell of what they thought.

Letters in shapes: F filmed games, T+1 slots, m seats of the player that learns, M seats that are told of, A seats.
"""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from omg.components import EpisodeBatch
from omg.config import Config
from omg.controllers.base import Player, Tells
from omg.controllers.team import KIND_RECORDS, Squad, kind_records
from omg.modules.told import Told
from omg.recordings.places import Ahead
from omg.types import PyTree


class Who(NamedTuple):
    """What is known of a player besides its networks."""

    label: str
    algorithm: str
    values: str | None
    """What it tells of its actions, see `header.SeatLook`; None of who tells nothing."""
    model: str
    """Its opponent model, in words."""
    ahead: Ahead | None
    """What its subgoals are about; None of who has none."""


class Cast(NamedTuple):
    """Everybody who may sit in a seat of filmed games."""

    main: Player | None
    """The player that was tested; None where all are frozen players."""
    who: Who | None
    """What is known of it."""
    main_seats: np.ndarray | None
    """[F, m], its seats; None for all seats in their order."""
    squad: Squad | None
    mates: tuple[Who, ...]
    """Of the frozen players, by their number in the squad."""


class Sitting(NamedTuple):
    """Who sat in a seat of a game, and what was told."""

    who: Who
    learns: bool
    told: Told | None
    """What it, and others with it, told of all games: leaves [F, M, T+1, ...]; None of who told nothing."""
    place: int
    """Its place among the M."""

    def own(self, leaf: Array, game: int, moments: int) -> np.ndarray:
        """Its own rows of a leaf, up to the end of its game."""
        return np.array(leaf[game, self.place, :moments], np.float32)


def who_of(label: str, algorithm: str, config: Config, round_steps: int | None) -> Who:
    """What is known of a player of a configuration; `round_steps` of its game."""
    learner = config.learner_part
    # A planner's networks say probabilities, but it tells what its search found: mean returns.
    values = "logits" if learner.learns_probabilities and not learner.plans else "q"
    ahead = None
    if learner.infers_subgoals:
        at_round_ends = round_steps is not None and config.omg_candidates == "rounds"
        ahead = Ahead(None, round_steps) if at_round_ends else Ahead(config.omg_horizon)
    return Who(label, algorithm, values, config.am_model, ahead)


def script_of(name: str) -> Who:
    """What is known of a scripted player."""
    return Who(name, name, None, "", None)


def everybody(batch: EpisodeBatch, cast: Cast, agents: int) -> list[list[Sitting]]:
    """Of every filmed game who sat in each seat."""
    batch = batch._replace(records=_played(batch))
    games = len(batch.actions)
    own = {name: rows for name, rows in batch.records.items() if not name.startswith(KIND_RECORDS)}
    main = _tell(cast.main, own) if isinstance(cast.main, Tells) else None
    seats = np.tile(np.arange(agents), (games, 1)) if cast.main_seats is None else cast.main_seats
    mates = _mates(batch, cast.squad) if cast.squad is not None else {}
    found: list[list[Sitting]] = []
    for game in range(games):
        row = []
        for seat in range(agents):
            number = -1 if batch.players is None else int(batch.players[game, seat])
            if number >= 0:
                row.append(Sitting(cast.mates[number], False, mates.get((game, seat)), seat))
                continue
            assert cast.who is not None
            row.append(Sitting(cast.who, True, main, int(np.flatnonzero(seats[game] == seat)[0])))
        found.append(row)
    return found


def _played(batch: EpisodeBatch) -> dict[str, Array]:
    """Records up to the end of the longest game, in quarters of the limit: at most four programs tell of them."""
    slots = batch.filled.shape[1]
    quarter = -(-slots // 4)
    longest = int(batch.filled.sum(axis=1).max()) + 1
    until = min(-(-longest // quarter) * quarter, slots)
    return {name: rows[:, :until] for name, rows in batch.records.items()}


def _mates(batch: EpisodeBatch, squad: Squad) -> dict[tuple[int, int], Told]:
    """What the frozen players told, leaves [F, A, T+1, ...], by game and seat in which they sat."""
    found, first = dict[tuple[int, int], Told](), 0
    assert batch.players is not None
    for kind, count in enumerate(squad.numbers):
        prefix = kind_records(kind)
        records = {name.removeprefix(prefix): rows for name, rows in batch.records.items() if name.startswith(prefix)}
        mine = (batch.players >= first) & (batch.players < first + count)
        if isinstance(squad.kinds[kind], Tells) and records and mine.any():
            # Rows for all seats, whoever has them, so that other teams need no other compilation.
            numbers = np.where(mine, batch.players - first, 0).reshape(-1)
            rows = {
                name: np.swapaxes(np.asarray(values), 1, 2).reshape(-1, *values.shape[1:2], *values.shape[3:])
                for name, values in records.items()
            }
            told = _tell_rows(squad.kinds[kind], jnp.asarray(numbers), rows)
            told = jax.tree.map(lambda leaf, shape=mine.shape: leaf.reshape(*shape, *leaf.shape[1:]), told)
            found |= {(int(game), int(seat)): told for game, seat in np.argwhere(mine)}
        first += count
    return found


def _tell(player: PyTree, records: dict[str, Array]) -> Told:
    """Leaves [F, m, T+1, ...]."""
    told: Told = jax.tree.map(lambda leaf: np.swapaxes(leaf, 1, 2), jax.device_get(_told(player, records)))
    return told


@eqx.filter_jit
def _told(player: Tells, records: dict[str, Array]) -> Told:
    return player.told(records)


def _tell_rows(kind: PyTree, numbers: Array, rows: dict[str, np.ndarray]) -> Told:
    """What players of a kind told of rows [n, T+1, ...], each row by the player of its number [n]."""
    told: Told = jax.device_get(_told_rows(kind, numbers, rows))
    return told


@eqx.filter_jit
def _told_rows(kind: PyTree, numbers: Array, rows: PyTree) -> Told:
    arrays, rest = eqx.partition(kind, eqx.is_array)

    def one(number: Array, records: dict[str, Array]) -> Told:
        player = eqx.combine(jax.tree.map(lambda leaf: leaf[number], arrays), rest)
        told: Told = player.told({name: values[None, :, None] for name, values in records.items()})
        return jax.tree.map(lambda leaf: leaf[0, :, 0], told)

    return jax.vmap(one)(numbers, rows)
