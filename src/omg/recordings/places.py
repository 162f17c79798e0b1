"""Where pieces are thought to be, read off views that players expect, beside where they really were.

Letters in shapes: T+1 moments, P pieces, A seats, J others, W numbers of a view, U actions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from omg.controllers.others import steps_of_others
from omg.envs import EnvSpec
from omg.envs.scenes import Scenery, ViewPlaces
from omg.modules.told import ExpectedPlaces, ExpectedViews, Whose
from omg.types import Tree

_NOWHERE = np.float32(np.nan)


class Ahead(NamedTuple):
    """What a player's subgoals are about."""

    horizon: int | None
    """How many steps ahead; None: at the end of the round."""
    round_steps: int | None = None


class GameCourse(NamedTuple):
    """How one game really went, as NumPy arrays."""

    x: np.ndarray
    """[T+1, P]."""
    y: np.ndarray
    there: np.ndarray
    """[T+1, P] bool."""
    actions: np.ndarray
    """[T, A]."""


def places(
    expected: ExpectedViews | ExpectedPlaces,
    seat: int,
    scenery: Scenery[Any],
    spec: EnvSpec,
    course: GameCourse,
    ahead: Ahead,
) -> tuple[Tree, dict[str, np.ndarray]] | None:
    """A belief of kind `places`: its keys in the header but for seat and source, and its columns.

    Args:
        expected: views [T+1, W] of one seat, or [T+1, J, W] of its co-players, or places [T+1, J].
        seat: whose.
        scenery: of the game.
        spec: of the game.
        course: of the game.
        ahead: what they are about.

    Returns:
        None where the game does not say where such views tell places.
    """
    others = [other for other in range(spec.n_agents) if other != seat]
    found = _read(expected, seat, others, scenery, spec)
    if found is None:
        return None
    x, y, anchored = found
    pieces = [scenery.seats[other] for other in others]
    later, later_x, later_y = _later(course, pieces, others, ahead, scenery)
    if anchored is not None:
        # Counted from the own place, and that of the moment which the view is about.
        own_x, own_y = course.x[later, anchored], course.y[later, anchored]
        x, y = x + own_x[:, None], y + own_y[:, None]
    here = course.there[:, scenery.seats[seat]].copy()
    here[-1:] &= False
    x, y = (np.where(here[:, None] & np.isfinite(place), place, _NOWHERE) for place in (x, y))
    now_x, now_y = (np.where(course.there, place, _NOWHERE)[:, pieces] for place in (course.x, course.y))
    error, moved = np.hypot(x - later_x, y - later_y), np.hypot(now_x - later_x, now_y - later_y)
    both = np.isfinite(error) & np.isfinite(moved)
    columns = {"x": x, "y": y, "later_x": later_x, "later_y": later_y}
    columns |= {"distance": _mean(error, both), "stay_distance": _mean(moved, both)}
    return {"kind": "places", "pieces": pieces, **ahead._asdict()}, columns


def _read(
    expected: ExpectedViews | ExpectedPlaces, seat: int, others: list[int], scenery: Scenery[Any], spec: EnvSpec
) -> tuple[np.ndarray, np.ndarray, int | None] | None:
    """Places x and y [T+1, J] of the others, and the piece from which they are counted; None where nobody says."""
    if not scenery.seats:
        return None
    if isinstance(expected, ExpectedPlaces):
        following = [(seat + 1 + place) % spec.n_agents for place in range(len(others))]
        order = following if expected.round_table else others
        columns = [order.index(other) for other in others]
        return np.asarray(expected.x)[:, columns], np.asarray(expected.y)[:, columns], None
    views = np.asarray(expected.views, np.float32)
    if expected.whose is Whose.STEPS:
        return _of_steps(views, seat, others, scenery, spec)
    if expected.whose is Whose.CO_PLAYERS:
        if not scenery.in_obs:
            return None
        each = [_of(scenery.in_obs[other], views[:, at], [other], scenery) for at, other in enumerate(others)]
        if any(one is None or one[2] is not None for one in each):
            return None
        x, y = (np.concatenate([one[axis] for one in each if one is not None], axis=1) for axis in (0, 1))
        return x, y, None
    if expected.whose is Whose.STATE:
        return _of_state(views, others, spec)
    return _of(scenery.in_obs[seat], views, others, scenery) if scenery.in_obs else None


def _evenly(
    read: Callable[[Array], tuple[Array, Array]], numbers: np.ndarray, slots: int
) -> tuple[np.ndarray, np.ndarray]:
    """What is read off rows [T+1, ...], filled up to `slots` of them: games of other lengths compile nothing anew."""
    filled = np.zeros((slots, *numbers.shape[1:]), np.float32)
    filled[: len(numbers)] = numbers
    x, y = (np.asarray(part)[: len(numbers)] for part in read(jnp.asarray(filled)))
    return x, y


def _of(
    told: ViewPlaces, views: np.ndarray, seats: list[int], scenery: Scenery[Any]
) -> tuple[np.ndarray, np.ndarray, int | None] | None:
    """The places of some seats in views [T+1, W]; None where one of them is not told."""
    pieces = [scenery.seats[seat] for seat in seats]
    if any(piece not in told.pieces for piece in pieces):
        return None
    columns = [told.pieces.index(piece) for piece in pieces]
    x, y = told.read(views)
    return x[:, columns], y[:, columns], told.counted_from


def _of_state(views: np.ndarray, others: list[int], spec: EnvSpec) -> tuple[np.ndarray, np.ndarray, None] | None:
    """Of states [T+1, S]."""
    if spec.seat_places is None or not spec.seat_blocks:
        return None
    place, blocks = spec.seat_places, steps_of_others(spec)
    x, y = _evenly(lambda states: place.read(blocks.blocks_of(states))[:2], views, spec.episode_limit + 1)
    return x[:, others], y[:, others], None


def _of_steps(
    views: np.ndarray, seat: int, others: list[int], scenery: Scenery[Any], spec: EnvSpec
) -> tuple[np.ndarray, np.ndarray, None] | None:
    """Of what the others do (`omg.controllers.others`): where each was before its step, and how far the step goes."""
    if spec.seat_places is None or not spec.seat_blocks:
        return None
    agents = spec.n_agents
    steps = views.reshape(len(views), agents - 1, -1)[:, [(other - seat - 1) % agents for other in others]]
    place = spec.seat_places
    x, y = _evenly(lambda numbers: place.read(numbers)[:2], steps, spec.episode_limit + 1)
    chances = np.clip(steps[..., -spec.n_actions :], 0.0, 1.0)
    chances = chances / np.maximum(chances.sum(axis=-1, keepdims=True), 1e-6)
    moves = np.array([(move.dx, move.dy) for move in scenery.moves], np.float32).reshape(-1, 2)
    moved = chances @ moves if len(moves) else np.zeros((*chances.shape[:2], 2), np.float32)
    return x + moved[..., 0], y + moved[..., 1], None


def _later(
    course: GameCourse, pieces: list[int], others: list[int], ahead: Ahead, scenery: Scenery[Any]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The moments [T+1] that the moments are compared with, and where the pieces were then, x and y [T+1, J]."""
    last = len(course.actions)
    now = np.arange(last + 1)
    x, y = (np.where(course.there, place, _NOWHERE)[:, pieces] for place in (course.x, course.y))
    if ahead.horizon is not None:
        later = np.minimum(now + ahead.horizon, last)
        return later, x[later], y[later]
    assert ahead.round_steps is not None
    later = np.minimum((now // ahead.round_steps + 1) * ahead.round_steps, last)
    # When a round is over everybody is put back at once: where the last step led is told by the actions.
    step = np.maximum(later - 1, 0)
    moves = np.array([(move.dx, move.dy) for move in scenery.moves], np.float32).reshape(-1, 2)
    did = moves[course.actions[step][:, others]] if last and len(moves) else np.zeros((last + 1, len(others), 2))
    return later, x[step] + did[..., 0], y[step] + did[..., 1]


def _mean(values: np.ndarray, known: np.ndarray) -> np.ndarray:
    """[T+1, J] -> [T+1], NaN where nothing is known."""
    count = known.sum(axis=1)
    total = np.where(known, values, 0.0).sum(axis=1)
    return np.where(count > 0, total / np.maximum(count, 1), _NOWHERE)
