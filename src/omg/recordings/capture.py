"""Recordings of games that were filmed while they were played (`omg.runners.vector.Film`).

Letters in shapes: F filmed games, T+1 slots, m seats of the player that learns, A seats.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib import metadata
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from omg.components import EpisodeBatch
from omg.config import Config
from omg.controllers.base import Player, Tells
from omg.controllers.team import KIND_RECORDS, Squad, kind_records
from omg.envs import Env
from omg.envs.scenes import Scenery, scenery_of
from omg.modules.told import Expectation, ExpectedActions, ExpectedGoals, ExpectedPlaces, ExpectedViews, Searched, Told
from omg.recordings.places import Ahead, GameCourse, places
from omg.recordings.recording import Recording
from omg.runners.vector import OWN_RETURN, EpisodeStats, Filmed
from omg.types import PyTree, Tree


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


class About(NamedTuple):
    """What is known of games besides what was filmed."""

    env: Env
    env_args: Tree
    algorithm: str
    seed: int
    t_env: int | None


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


def recordings(filmed: Filmed, stats: EpisodeStats, cast: Cast, about: About, *, first: int = 0) -> list[Recording]:
    """The F games of one film, as NumPy arrays, each as a recording.

    Args:
        filmed: leaves [F, T+1, ...].
        stats: leaves [F, ...] or of more games, the filmed ones first.
        cast: who played.
        about: the games.
        first: how many were recorded before these.
    """
    games = len(filmed.batch.actions)
    told = _everybody(filmed, cast, about.env.spec.n_agents)
    scenery = scenery_of(about.env)
    return [_recording(number, filmed, stats, told[number], about, scenery, first) for number in range(games)]


class _Picture(NamedTuple):
    """`omg.envs.scenes.Scene` of one game, as NumPy arrays [T+1, N]."""

    x: np.ndarray
    y: np.ndarray
    there: np.ndarray
    health: np.ndarray
    number: np.ndarray
    shield: np.ndarray
    cooldown: np.ndarray


class _Seat(NamedTuple):
    """Who sat in a seat of a game, and what they told, leaves [T+1, ...]; None of who told nothing."""

    who: Who
    learns: bool
    told: Told | None


def _everybody(filmed: Filmed, cast: Cast, agents: int) -> list[list[_Seat]]:
    """Of every game who sat in each seat."""
    batch = filmed.batch._replace(records=_played(filmed.batch))
    games = len(batch.actions)
    own = {name: rows for name, rows in batch.records.items() if not name.startswith(KIND_RECORDS)}
    main = _tell(cast.main, own) if isinstance(cast.main, Tells) else None
    seats = np.tile(np.arange(agents), (games, 1)) if cast.main_seats is None else cast.main_seats
    mates = _mates(batch, cast.squad) if cast.squad is not None else {}
    found: list[list[_Seat]] = []
    for game in range(games):
        row = []
        for seat in range(agents):
            number = -1 if batch.players is None else int(batch.players[game, seat])
            if number >= 0:
                row.append(_Seat(cast.mates[number], False, mates.get((game, seat))))
                continue
            assert cast.who is not None
            place = int(np.flatnonzero(seats[game] == seat)[0])
            one = None if main is None else jax.tree.map(lambda leaf, p=place, g=game: leaf[g, :, p], main)
            row.append(_Seat(cast.who, True, one))
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
    """What the frozen players told, by game and seat."""
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
            agents = batch.players.shape[1]
            for game, seat in np.argwhere(mine):
                row = int(game * agents + seat)
                found[int(game), int(seat)] = jax.tree.map(lambda leaf, r=row: leaf[r], told)
        first += count
    return found


def _tell(player: PyTree, records: dict[str, Array]) -> Told:
    told: Told = jax.device_get(_told(player, records))
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


def _recording(
    number: int,
    filmed: Filmed,
    stats: EpisodeStats,
    seats: Sequence[_Seat],
    about: About,
    scenery: Scenery[Any] | None,
    first: int,
) -> Recording:
    batch, spec = filmed.batch, about.env.spec
    steps = int(batch.filled[number].sum())
    scene = None if scenery is None else _Picture(*(np.asarray(part[number, : steps + 1]) for part in filmed.scenes))
    actions = np.asarray(batch.actions[number, :steps])
    columns: dict[str, np.ndarray] = {
        **_pieces(scene, steps),
        "actions": actions.astype(np.int16),
        "rewards": np.asarray(batch.reward[number, :steps]).reshape(steps, -1),
        "avail": np.asarray(batch.avail[number, : steps + 1]),
    }
    if batch.obs.shape[-1]:
        columns |= {
            "obs": np.asarray(batch.obs[number, : steps + 1]),
            "state": np.asarray(batch.state[number, : steps + 1]),
        }
    values, any_values = np.full(columns["avail"].shape, np.nan, np.float32), False
    beliefs: list[Tree] = []
    course = None if scene is None else GameCourse(scene.x, scene.y, scene.there, actions)
    pieces = list(scenery.seats) if scenery is not None and scenery.seats else [None] * len(seats)
    here = np.ones((steps + 1, len(seats)), bool)
    if scene is not None and scenery is not None and scenery.seats:
        here = np.asarray(scene.there)[:, list(scenery.seats)]
    for seat, sitting in enumerate(seats):
        if sitting.told is None:
            continue
        told: Told = jax.tree.map(lambda leaf: np.array(leaf[: steps + 1], np.float32), sitting.told)
        awake = here[:, seat].copy()
        awake[-1:] &= told.last_known
        if told.values is not None:
            values[:, seat] = _known(np.asarray(told.values), awake)
            any_values = True
        for expected in told.expectations:
            belief = _belief(expected, seat, sitting.who, awake, scenery, course, about)
            if belief is not None:
                entry, own = belief
                columns |= {f"beliefs.{len(beliefs)}.{name}": part for name, part in own.items()}
                beliefs.append({"seat": seat, **entry})
    if any_values:
        columns["values"] = values
    header: Tree = {
        "omg": own_version(),
        "game": spec.name,
        "scenario": spec.scenario,
        "env_args": about.env_args,
        **_looks(scenery, spec.n_actions),
        "seats": [
            {
                "label": sitting.who.label,
                "algorithm": sitting.who.algorithm,
                "learns": sitting.learns,
                "piece": piece,
                "values": None if sitting.told is None or sitting.told.values is None else sitting.who.values,
            }
            for sitting, piece in zip(seats, pieces, strict=True)
        ],
        "algorithm": about.algorithm,
        "seed": about.seed,
        "number": first + number + 1,
        "t_env": about.t_env,
        "ended": "truncated" if bool(filmed.truncated[number]) else "terminated",
        "facts": _facts(stats, number, learns=any(sitting.learns for sitting in seats)),
        "beliefs": beliefs,
    }
    return Recording(header, columns)


def _known(values: np.ndarray, awake: np.ndarray) -> np.ndarray:
    """Values [T+1, ...] with NaN where the seat did not think, and in place of infinities."""
    wide = awake.reshape(-1, *(1,) * (values.ndim - 1))
    return np.where(wide & np.isfinite(values), values, np.float32(np.nan))


def _belief(
    expected: Expectation,
    seat: int,
    who: Who,
    awake: np.ndarray,
    scenery: Scenery[Any] | None,
    course: GameCourse | None,
    about: About,
) -> tuple[Tree, dict[str, np.ndarray]] | None:
    """What one seat expects, of leaves [T+1, ...], as an entry of the header but for the seat, and its columns."""
    agents = about.env.spec.n_agents
    if isinstance(expected, Searched):
        parts = {"chances": expected.chances, "visits": expected.visits, "values": expected.values}
        columns = {name: _known(np.asarray(part), awake) for name, part in parts.items()}
        columns |= {"value": _known(np.asarray(expected.value), awake)}
        return {"kind": "search", "source": "search"}, columns | _within(columns, "chances", "visits")
    if isinstance(expected, ExpectedViews | ExpectedPlaces):
        ahead = who.ahead
        if isinstance(expected, ExpectedPlaces) and expected.horizon is not None:
            ahead = Ahead(expected.horizon)
        if scenery is None or course is None or ahead is None:
            return None
        found = places(expected, seat, scenery, about.env.spec, course, ahead)
        return None if found is None else ({**found[0], "source": "subgoal"}, found[1])
    others = [(seat + place) % agents for place in range(1, agents)]
    others = others if expected.round_table else sorted(others)
    columns = {"chances": _known(np.asarray(expected.chances), awake)}
    columns |= _within(columns, "chances")
    if isinstance(expected, ExpectedActions):
        return {"kind": "actions", "source": who.model, "seats": others}, columns
    assert isinstance(expected, ExpectedGoals)
    columns |= {"x": _known(np.asarray(expected.x), awake), "y": _known(np.asarray(expected.y), awake)}
    goals = [{"name": name} for name in expected.names]
    return {"kind": "goals", "source": "beliefs", "seats": others, "goals": goals}, columns


def _within(columns: dict[str, np.ndarray], *names: str) -> dict[str, np.ndarray]:
    """Chances, which rounding may have taken out of 0 to 1."""
    return {name: np.clip(columns[name], 0.0, 1.0) for name in names}


def _pieces(scene: _Picture | None, steps: int) -> dict[str, np.ndarray]:
    if scene is None:
        nothing = np.zeros((steps + 1, 0), np.float32)
        names = ("x", "y", "health", "shield", "cooldown", "written")
        return dict.fromkeys(names, nothing) | {"there": nothing.astype(bool)}
    return {
        "x": scene.x,
        "y": scene.y,
        "there": np.asarray(scene.there, bool),
        "health": np.clip(scene.health, 0.0, 1.0),
        "shield": np.clip(scene.shield, 0.0, 1.0),
        "cooldown": np.maximum(scene.cooldown, 0.0),
        "written": scene.number,
    }


def _looks(scenery: Scenery[Any] | None, n_actions: int) -> Tree:
    """The stage, the pieces and the actions of a header."""
    names = [{"name": f"action {action}"} for action in range(n_actions)]
    if scenery is None:
        return {"stage": None, "pieces": [], "actions": names}
    stage = {key: float(getattr(scenery, key)) for key in ("left", "top", "width", "height")}
    pieces = [
        {
            "name": piece.name,
            "label": piece.label,
            "colour": piece.colour,
            "size": float(piece.size),
            "square": piece.square,
            "reach": None if piece.reach is None else float(piece.reach),
        }
        for piece in scenery.pieces
    ]
    moves = [
        {"name": move.name, "dx": float(move.dx), "dy": float(move.dy), "piece": move.piece} for move in scenery.moves
    ]
    sight = {"sight": scenery.sight, "sight_square": scenery.sight_square}
    return {"stage": {**stage, "cells": scenery.cells, **sight}, "pieces": pieces, "actions": moves or names}


@cache
def own_version() -> str:
    """The version of this package, as it is noted in files."""
    try:
        return metadata.version("omg-marl")
    except metadata.PackageNotFoundError:
        return "not installed as a package"


def _facts(stats: EpisodeStats, number: int, *, learns: bool) -> dict[str, float]:
    """What came out; the learning seats' own return only where there are any."""
    facts = {"return": float(stats.returns[number]), "steps": float(stats.lengths[number])}
    names = [name for name in stats.metrics if learns or name != OWN_RETURN]
    return facts | {name: float(stats.metrics[name][number]) for name in names}
