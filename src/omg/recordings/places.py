"""Where pieces are thought to be, read off views that players expect, beside where they really were.

Games of one film are looked at together: behind the end of a shorter one stands anything, for nobody to read.
Letters in shapes: F games, n of them, T+1 moments, P pieces, A seats, J others, W numbers of a view, U actions.
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


class GameCourses:
    """How games really went, as NumPy arrays."""

    def __init__(self, x: np.ndarray, y: np.ndarray, there: np.ndarray, actions: np.ndarray, steps: np.ndarray) -> None:
        """Of F games.

        Args:
            x: [F, T+1, P], places of the pieces.
            y: the same, downwards.
            there: [F, T+1, P] bool, whether they are in the game.
            actions: [F, T, A].
            steps: [F], how many were played.
        """
        self.x, self.y, self.there, self.actions, self.steps = x, y, there, actions, steps
        self.known = tuple(np.where(there, place, _NOWHERE) for place in (x, y))
        """Where pieces are, [F, T+1, P] each; NaN for those that are not in the game."""
        self._later: dict[Ahead, np.ndarray] = {}

    def later(self, ahead: Ahead) -> np.ndarray:
        """The moments [F, T+1] that the moments are compared with."""
        if ahead not in self._later:
            now, last = np.arange(self.x.shape[1]), self.steps[:, None]
            if ahead.horizon is not None:
                self._later[ahead] = np.minimum(now + ahead.horizon, last)
            else:
                assert ahead.round_steps is not None
                self._later[ahead] = np.minimum((now // ahead.round_steps + 1) * ahead.round_steps, last)
        return self._later[ahead]


def places(
    expected: ExpectedViews | ExpectedPlaces,
    games: np.ndarray,
    seat: int,
    scenery: Scenery[Any],
    spec: EnvSpec,
    courses: GameCourses,
    ahead: Ahead,
) -> tuple[Tree, dict[str, np.ndarray]] | None:
    """Beliefs of kind `places`: their keys in the header but for seat and source, and columns [n, T+1, ...].

    Args:
        expected: views [n, T+1, W] of one seat, or [n, T+1, J, W] of its co-players, or places [n, T+1, J].
        games: [n], which games they are of.
        seat: whose.
        scenery: of the games.
        spec: of the games.
        courses: of all F games.
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
    later, later_x, later_y = _later(courses, games, pieces, others, ahead, scenery)
    if anchored is not None:
        # Counted from the own place, and that of the moment which the view is about.
        x, y = (
            place + axis[games[:, None], later, anchored][..., None] for place, axis in ((x, courses.x), (y, courses.y))
        )
    here = courses.there[games, :, scenery.seats[seat]]
    here[np.arange(len(games)), courses.steps[games]] = False
    x, y = (np.where(here[..., None] & np.isfinite(place), place, _NOWHERE) for place in (x, y))
    now_x, now_y = (place[games][..., pieces] for place in courses.known)
    error, moved = np.hypot(x - later_x, y - later_y), np.hypot(now_x - later_x, now_y - later_y)
    both = np.isfinite(error) & np.isfinite(moved)
    columns = {"x": x, "y": y, "later_x": later_x, "later_y": later_y}
    columns |= {"distance": _mean(error, both), "stay_distance": _mean(moved, both)}
    return {"kind": "places", "pieces": pieces, **ahead._asdict()}, columns


def _read(
    expected: ExpectedViews | ExpectedPlaces, seat: int, others: list[int], scenery: Scenery[Any], spec: EnvSpec
) -> tuple[np.ndarray, np.ndarray, int | None] | None:
    """Places x and y [n, T+1, J] of the others, and the piece from which they are counted; None where nobody says."""
    if not scenery.seats:
        return None
    if isinstance(expected, ExpectedPlaces):
        following = [(seat + 1 + place) % spec.n_agents for place in range(len(others))]
        order = following if expected.round_table else others
        columns = [order.index(other) for other in others]
        return np.asarray(expected.x)[..., columns], np.asarray(expected.y)[..., columns], None
    views = np.asarray(expected.views, np.float32)
    if expected.whose is Whose.STEPS:
        return _of_steps(views, seat, others, scenery, spec)
    if expected.whose is Whose.CO_PLAYERS:
        if not scenery.in_obs:
            return None
        each = [_of(scenery.in_obs[other], views[:, :, at], [other], scenery) for at, other in enumerate(others)]
        if any(one is None or one[2] is not None for one in each):
            return None
        x, y = (np.concatenate([one[axis] for one in each if one is not None], axis=-1) for axis in (0, 1))
        return x, y, None
    if expected.whose is Whose.STATE:
        return _of_state(views, others, spec)
    return _of(scenery.in_obs[seat], views, others, scenery) if scenery.in_obs else None


def _evenly(
    read: Callable[[Array], tuple[Array, Array]], numbers: np.ndarray, slots: int
) -> tuple[np.ndarray, np.ndarray]:
    """What is read off rows [n, T+1, ...], filled up to `slots`: games of other lengths compile nothing anew."""
    until = numbers.shape[1]
    filled = np.zeros((len(numbers), slots, *numbers.shape[2:]), np.float32)
    filled[:, :until] = numbers
    each = [read(jnp.asarray(rows)) for rows in filled]
    x, y = (np.stack([np.asarray(one[axis])[:until] for one in each]) for axis in (0, 1))
    return x, y


def _of(
    told: ViewPlaces, views: np.ndarray, seats: list[int], scenery: Scenery[Any]
) -> tuple[np.ndarray, np.ndarray, int | None] | None:
    """The places of some seats in views [n, T+1, W]; None where one of them is not told."""
    pieces = [scenery.seats[seat] for seat in seats]
    if any(piece not in told.pieces for piece in pieces):
        return None
    columns = [told.pieces.index(piece) for piece in pieces]
    x, y = told.read(views)
    return x[..., columns], y[..., columns], told.counted_from


def _of_state(views: np.ndarray, others: list[int], spec: EnvSpec) -> tuple[np.ndarray, np.ndarray, None] | None:
    """Of states [n, T+1, S]."""
    if spec.seat_places is None or not spec.seat_blocks:
        return None
    place, blocks = spec.seat_places, steps_of_others(spec)
    x, y = _evenly(lambda states: place.read(blocks.blocks_of(states))[:2], views, spec.episode_limit + 1)
    return x[..., others], y[..., others], None


def _of_steps(
    views: np.ndarray, seat: int, others: list[int], scenery: Scenery[Any], spec: EnvSpec
) -> tuple[np.ndarray, np.ndarray, None] | None:
    """Of what the others do (`omg.controllers.others`): where each was before its step, and how far the step goes."""
    if spec.seat_places is None or not spec.seat_blocks:
        return None
    agents = spec.n_agents
    steps = views.reshape(*views.shape[:2], agents - 1, -1)[:, :, [(other - seat - 1) % agents for other in others]]
    place = spec.seat_places
    x, y = _evenly(lambda numbers: place.read(numbers)[:2], steps, spec.episode_limit + 1)
    chances = np.clip(steps[..., -spec.n_actions :], 0.0, 1.0)
    chances = chances / np.maximum(chances.sum(axis=-1, keepdims=True), 1e-6)
    moves = np.array([(move.dx, move.dy) for move in scenery.moves], np.float32).reshape(-1, 2)
    moved = chances @ moves if len(moves) else np.zeros((*chances.shape[:-1], 2), np.float32)
    return x + moved[..., 0], y + moved[..., 1], None


def _later(
    courses: GameCourses,
    games: np.ndarray,
    pieces: list[int],
    others: list[int],
    ahead: Ahead,
    scenery: Scenery[Any],
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The moments [n, T+1] that the moments are compared with, and where the pieces were then, x and y [n, T+1, J]."""
    later, rows = courses.later(ahead)[games], games[:, None]
    if ahead.horizon is not None:
        x, y = (place[rows, later][..., pieces] for place in courses.known)
        return later, x, y
    # When a round is over everybody is put back at once: where the last step led is told by the actions.
    step = np.maximum(later - 1, 0)
    x, y = (place[rows, step][..., pieces] for place in courses.known)
    moves = np.array([(move.dx, move.dy) for move in scenery.moves], np.float32).reshape(-1, 2)
    if len(moves):
        did = moves[courses.actions[rows, step][..., others]]
        x, y = x + did[..., 0], y + did[..., 1]
    return later, x, y


def _mean(values: np.ndarray, known: np.ndarray) -> np.ndarray:
    """[..., J] -> [...], NaN where nothing is known."""
    count = known.sum(axis=-1)
    total = np.where(known, values, 0.0).sum(axis=-1)
    return np.where(count > 0, total / np.maximum(count, 1), _NOWHERE)
