"""Recordings of games that were filmed while they were played (`omg.runners.vector.Film`).

Letters in shapes: F filmed games, T+1 slots, m seats of the player that learns, A seats.
"""

from __future__ import annotations

from functools import cache, partial
from importlib import metadata
from typing import Any, NamedTuple, TypeAlias

import jax
import numpy as np

from omg.envs import Env, EnvSpec
from omg.envs.scenes import Scenery, scenery_of
from omg.modules.told import ExpectedActions, ExpectedGoals, ExpectedPlaces, ExpectedViews, Searched
from omg.recordings.header import Headers
from omg.recordings.places import Ahead, GameCourses, places
from omg.recordings.recording import Recording
from omg.recordings.voices import Cast, Sitting, Who, everybody
from omg.runners.vector import OWN_RETURN, EpisodeStats, Filmed
from omg.types import Tree


class About(NamedTuple):
    """What is known of games besides what was filmed."""

    env: Env
    env_args: Tree
    algorithm: str
    seed: int
    t_env: int | None


def recordings(filmed: Filmed, stats: EpisodeStats, cast: Cast, about: About, *, first: int = 0) -> list[Recording]:
    """The F games of one film, as NumPy arrays, each as a recording.

    Args:
        filmed: leaves [F, T+1, ...].
        stats: leaves [F, ...] or of more games, the filmed ones first.
        cast: who played.
        about: the games.
        first: how many were recorded before these.
    """
    scenery, spec = scenery_of(about.env), about.env.spec
    seats = everybody(filmed.batch, cast, spec.n_agents)
    steps = np.asarray(filmed.batch.filled).sum(axis=1).astype(int)
    headings = {} if scenery is None else _headings(filmed, seats, steps, scenery, spec)
    looks, alike = _looks(scenery, spec.n_actions), Headers()
    return [
        _recording(number, int(steps[number]), filmed, stats, row, about, scenery, headings, looks, alike, first)
        for number, row in enumerate(seats)
    ]


class _Picture(NamedTuple):
    """`omg.envs.scenes.Scene` of one game, as NumPy arrays [T+1, N]."""

    x: np.ndarray
    y: np.ndarray
    there: np.ndarray
    health: np.ndarray
    number: np.ndarray
    shield: np.ndarray
    cooldown: np.ndarray


_Headings: TypeAlias = dict[tuple[int, int, int], tuple[Tree, dict[str, np.ndarray]]]
"""Beliefs about places by game, seat and number of the expectation, their columns [T+1, ...] of the longest game."""


def _headings(
    filmed: Filmed, seats: list[list[Sitting]], steps: np.ndarray, scenery: Scenery[Any], spec: EnvSpec
) -> _Headings:
    """Where seats think that others are heading: of one seat in all games at once."""
    together: dict[tuple[int, int, Ahead | None], list[int]] = {}
    for game, row in enumerate(seats):
        for seat, sitting in enumerate(row):
            together.setdefault((seat, id(sitting.told), sitting.who.ahead), []).append(game)
    longest = int(steps.max()) + 1
    scene = _Picture(*(np.asarray(part[:, :longest]) for part in filmed.scenes))
    courses = GameCourses(scene.x, scene.y, scene.there, np.asarray(filmed.batch.actions[:, : longest - 1]), steps)
    found: _Headings = {}
    for (seat, _, ahead), games in together.items():
        told = seats[games[0]][seat].told
        at = np.array(games), np.array([seats[game][seat].place for game in games])
        for number, expected in enumerate(() if told is None else told.expectations):
            own = Ahead(expected.horizon) if isinstance(expected, ExpectedPlaces) and expected.horizon else ahead
            if own is None or not isinstance(expected, ExpectedViews | ExpectedPlaces):
                continue
            rows = jax.tree.map(lambda leaf, at=at: np.asarray(leaf[:, :, :longest][at], np.float32), expected)
            belief = places(rows, at[0], seat, scenery, spec, courses, own)
            if belief is not None:
                found |= {
                    (game, seat, number): (belief[0], {name: part[row] for name, part in belief[1].items()})
                    for row, game in enumerate(games)
                }
    return found


def _recording(
    number: int,
    steps: int,
    filmed: Filmed,
    stats: EpisodeStats,
    seats: list[Sitting],
    about: About,
    scenery: Scenery[Any] | None,
    headings: _Headings,
    looks: Tree,
    alike: Headers,
    first: int,
) -> Recording:
    batch, spec = filmed.batch, about.env.spec
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
    pieces = list(scenery.seats) if scenery is not None and scenery.seats else [None] * len(seats)
    here = np.ones((steps + 1, len(seats)), bool)
    if scene is not None and scenery is not None and scenery.seats:
        here = np.asarray(scene.there)[:, list(scenery.seats)]
    for seat, sitting in enumerate(seats):
        if sitting.told is None:
            continue
        awake = here[:, seat].copy()
        awake[-1:] &= sitting.told.last_known
        if sitting.told.values is not None:
            values[:, seat] = _known(sitting.own(sitting.told.values, number, steps + 1), awake)
            any_values = True
        for which, expected in enumerate(sitting.told.expectations):
            if isinstance(expected, ExpectedViews | ExpectedPlaces):
                if (number, seat, which) not in headings:
                    continue
                keys, whole = headings[number, seat, which]
                entry = {**keys, "source": "subgoal"}
                own = {name: part[: steps + 1] for name, part in whole.items()}
            else:
                expected = jax.tree.map(partial(sitting.own, game=number, moments=steps + 1), expected)
                entry, own = _belief(expected, seat, sitting.who, awake, spec.n_agents)
            columns |= {f"beliefs.{len(beliefs)}.{name}": part for name, part in own.items()}
            beliefs.append({"seat": seat, **entry})
    if any_values:
        columns["values"] = values
    header: Tree = {
        "omg": own_version(),
        "game": spec.name,
        "scenario": spec.scenario,
        "env_args": about.env_args,
        **looks,
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
    return Recording(header, columns, alike)


def _known(values: np.ndarray, awake: np.ndarray) -> np.ndarray:
    """Values [T+1, ...] with NaN where the seat did not think, and in place of infinities."""
    wide = awake.reshape(-1, *(1,) * (values.ndim - 1))
    return np.where(wide & np.isfinite(values), values, np.float32(np.nan))


def _belief(
    expected: ExpectedActions | ExpectedGoals | Searched, seat: int, who: Who, awake: np.ndarray, agents: int
) -> tuple[Tree, dict[str, np.ndarray]]:
    """What one seat expects, of leaves [T+1, ...], as an entry of the header but for the seat, and its columns."""
    if isinstance(expected, Searched):
        parts = {"chances": expected.chances, "visits": expected.visits, "values": expected.values}
        columns = {name: _known(np.asarray(part), awake) for name, part in parts.items()}
        columns |= {"value": _known(np.asarray(expected.value), awake)}
        return {"kind": "search", "source": "search"}, columns | _within(columns, "chances", "visits")
    others = [(seat + place) % agents for place in range(1, agents)]
    others = others if expected.round_table else sorted(others)
    columns = {"chances": _known(np.asarray(expected.chances), awake)}
    columns |= _within(columns, "chances")
    if isinstance(expected, ExpectedActions):
        return {"kind": "actions", "source": who.model, "seats": others}, columns
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
