"""What inferred subgoals say: about the future, and about who the others are. Computed on test episodes.

- `subgoal_hit_ratio`: each step's subgoal is decoded to a view; it hits if the nearest view that occurs at or after
  that step in the episode is within the tolerance (root mean squared difference in normalised units). Distinct views
  that were hit (further than the tolerance from those counted before), divided by the number of views of the episode,
  as a mean over episodes; the same number as `evaluation.measures.subgoal_hit_ratio` finds. Of views that begin with
  a binary map (`omg_maps`) the maps are compared, cell by cell: a hit is a map without a single wrong cell.
- `subgoal_future_distance`, `subgoal_present_distance`: the same distance of the decoded subgoal, and of the present
  view, to the view H steps ahead (the last one past the end). A useful subgoal is nearer than the present.
  With `subgoal_of: others` both are of what the others do instead of views, with `omg_candidates: rounds` the view is
  that of the end of the round.
- `subgoal_place_error`, `stay_place_error`: where subgoals tell where the others will be (`controllers.places`), the
  distance of those places to where they really are then, in the units of the game's picture, and the same of their
  present places. Others who are not in the game now or then do not count, nor do steps in which the seat itself is not.
- `subgoal_probe`, `present_probe`: accuracy with which a linear classifier reads from the subgoal, or from the present
  view, which player has most of the other seats; fitted on every other episode, scored on the rest. `probe_chance` is
  the share of the most frequent player.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import jax
import jax.numpy as jnp
from jax import Array, lax

from omg.components import EpisodeBatch, lengths
from omg.components.measure import Measure, always, take
from omg.controllers.places import PlaceErrors, PlaceReader
from omg.controllers.reading import SeatViews
from omg.modules.opponent_models.prior import Prior
from omg.modules.opponent_models.subgoal import SubgoalModel

TOLERANCE = 0.5
"""Largest distance that counts as a hit, in deviations of the views."""
SAME_MAP = 1e-3
"""The same for maps of bits: a single wrong cell of a thousand is 0.03 away."""
RIDGE = 10.0


@dataclass(frozen=True)
class TestedSubgoals:
    """What was inferred in B test episodes of T steps by m seats; arrays are float32 unless they say otherwise."""

    prior: Prior
    seen: Array
    """[B, T+1, m, O] what subgoals stand for as it really came, normalised units: views, or what the others did."""
    view: Array
    """[B, T+1, m, O'] the present view, normalised units; the same where subgoals stand for views."""
    subgoal: Array
    """[B, T+1, m, D] means of the inferred subgoals."""
    decoded: Array
    """[B, T+1, m, O] the views they stand for, normalised units."""
    future: Array
    """[B, T, m, O] what came H steps ahead or at the end of the round; the last one past the end."""
    length: Array
    """[B] steps played."""
    played: Array
    """[B, T] 1 where a step was played."""
    players: Array | None
    """[B, A-1] int32, who has the other seats; None where nobody can be told apart."""
    partners: int
    places: PlaceErrors | None = None
    """Leaves [B, T, m, J]; None where subgoals tell no places."""

    def mean_error(self, errors: Array) -> Array:
        """Of [B, T, m, J], over those who count."""
        assert self.places is not None
        counted = self.places.counted
        return jnp.where(counted, errors, 0.0).sum() / jnp.maximum(counted.sum(), 1)

    @cached_property
    def weight(self) -> Array:
        """[B, T, 1] how much each step counts; those of all seats add up to 1."""
        return self.played[..., None] / jnp.maximum(self.played.sum() * self.seen.shape[2], 1.0)

    @cached_property
    def labels(self) -> Array:
        """[B] int32, who has most of the other seats."""
        assert self.players is not None
        return jax.nn.one_hot(self.players, self.partners).sum(axis=1).argmax(axis=-1)

    def probe(self, features: Array) -> Array:
        """Accuracy with which a linear classifier reads the labels from features [B, T+1, m, F]."""
        rows = jnp.broadcast_to(self.labels[:, None, None], self.seen[:, :-1].shape[:-1])
        counted = jnp.broadcast_to(self.played[..., None], rows.shape)
        return probe_accuracy(features[:, :-1], rows, counted, self.partners)


def _several(tested: TestedSubgoals) -> bool:
    return tested.partners > 1 and tested.players is not None


def _tells_places(tested: TestedSubgoals) -> bool:
    return tested.places is not None


def _place_error(tested: TestedSubgoals) -> Array:
    assert tested.places is not None
    return tested.mean_error(tested.places.guess)


def _stay_error(tested: TestedSubgoals) -> Array:
    assert tested.places is not None
    return tested.mean_error(tested.places.stay)


def _hit_ratio(tested: TestedSubgoals) -> Array:
    compared = comparable(tested.prior, tested.decoded, tested.seen)
    return hit_ratio(*compared, tested.length, tolerance_of(tested.prior))


MEASURES: tuple[Measure[TestedSubgoals, Array], ...] = (
    Measure(
        "subgoal_hit_ratio", "share of an episode's views that a decoded subgoal named in time", _hit_ratio, always
    ),
    Measure(
        "subgoal_future_distance",
        "distance of the decoded subgoal to the view H steps ahead, in deviations",
        lambda tested: (view_distance(tested.decoded[:, :-1], tested.future) * tested.weight).sum(),
        always,
        "`subgoal_present_distance`",
    ),
    Measure(
        "subgoal_present_distance",
        "distance of the present view to the view H steps ahead",
        lambda tested: (view_distance(tested.seen[:, :-1], tested.future) * tested.weight).sum(),
        always,
    ),
    Measure(
        "subgoal_place_error",
        "distance of the places that subgoals tell to where the others really are then, in cells or map units",
        _place_error,
        _tells_places,
        "`stay_place_error`",
    ),
    Measure(
        "stay_place_error",
        "the same of the others' present places: they stay where they are",
        _stay_error,
        _tells_places,
    ),
    Measure(
        "subgoal_probe",
        "accuracy of a linear classifier that reads from the subgoal who has most of the other seats",
        lambda tested: tested.probe(tested.subgoal),
        _several,
        "`probe_chance`",
    ),
    Measure(
        "present_probe",
        "the same from the present view",
        lambda tested: tested.probe(tested.view),
        _several,
        "`probe_chance`",
    ),
    Measure(
        "probe_chance",
        "share of the most frequent player",
        lambda tested: jax.nn.one_hot(tested.labels, tested.partners).mean(axis=0).max(),
        _several,
    ),
)
"""Of every test, as `test_NAME`."""


def examine_subgoals(
    model: SubgoalModel,
    batch: EpisodeBatch,
    views: SeatViews,
    horizon: int,
    partners: int,
    others: Array | None = None,
    round_steps: int | None = None,
    places: PlaceReader | None = None,
) -> dict[str, Array]:
    """The measures above, as float32 scalars; the probes only where there is more than one partner to tell apart.

    Args:
        model: What infers.
        batch: Test episodes.
        views: The same as the seats that learn saw them.
        horizon: H.
        partners: Number of different players in the other seats.
        others: [B, T+1, m, F], what the others did, where subgoals stand for that.
        round_steps: Steps of a round, where subgoals stand for the ends of rounds: the next one is the future then.
        places: Reads places off subgoals; None where they tell none.
    """
    inputs = views.model_inputs()
    inference = model.unroll(inputs)
    length = lengths(batch)
    seen = inference.seen if others is None else model.prior.normalise(others)
    decoded = model.prior.decode_normalised(inference.mean)
    steps = seen.shape[1] - 1
    played = (jnp.arange(steps) < length[:, None]).astype(jnp.float32)
    now = jnp.arange(steps)
    coming = now + horizon if round_steps is None else (now // round_steps + 1) * round_steps
    ahead = jnp.minimum(coming, length[:, None])
    future = jnp.take_along_axis(seen, ahead[..., None, None], axis=1)
    tested = TestedSubgoals(
        prior=model.prior,
        seen=seen,
        view=inference.seen,
        subgoal=inference.mean,
        decoded=decoded,
        future=future,
        length=length,
        played=played,
        players=batch.players,
        partners=partners,
        places=None if places is None else _errors(places, model.prior, batch, inputs.seats, inference.mean, length),
    )
    return take(MEASURES, tested)


def _errors(
    places: PlaceReader, prior: Prior, batch: EpisodeBatch, seats: Array, subgoal: Array, length: Array
) -> PlaceErrors:
    """Of inferred subgoals [B, T+1, m, D], leaves [B, T, m, J]."""
    seats = jnp.broadcast_to(seats[:, 0], (len(length), seats.shape[-1]))
    timed = jnp.broadcast_to(seats[:, None], subgoal.shape[:-1])[:, :-1]
    return places.errors(places.guessed(prior, subgoal[:, :-1], timed), batch.state, seats, length)


def comparable(prior: Prior, decoded: Array, seen: Array) -> tuple[Array, Array]:
    """What of decoded and real views [..., O] is compared: all of it, or where they begin with maps those, as bits."""
    if prior.map_shape is None:
        return decoded, seen
    cells = math.prod(prior.map_shape)
    guess, real = ((values[..., :cells] > 0.5).astype(jnp.float32) for values in (decoded, seen))
    return guess, real


def tolerance_of(prior: Prior) -> float:
    """Largest distance of `comparable` views that counts as a hit."""
    return TOLERANCE if prior.map_shape is None else SAME_MAP


def hit_ratio(decoded: Array, seen: Array, length: Array, tolerance: float) -> Array:
    """Mean share of an episode's views that its decoded subgoals hit.

    Args:
        decoded: [B, T+1, m, O] views that the subgoals stand for, normalised units.
        seen: [B, T+1, m, O] views that really occurred, normalised units; episode b has slots 0 to length[b].
        length: [B] steps played.
        tolerance: Largest distance of a hit.

    Returns:
        A float32 scalar, the mean over episodes and seats.
    """
    slots = jnp.arange(seen.shape[1])

    def one(decoded: Array, seen: Array, length: Array) -> Array:
        # A subgoal belongs to a played step; it may name any view from that step to the last.
        allowed = (slots[None] >= slots[:, None]) & (slots[None] <= length) & (slots[:, None] < length)
        distance = jnp.where(allowed, _all_distances(decoded, seen), jnp.inf)
        nearest = distance.argmin(axis=1)
        hits = distance.min(axis=1) <= tolerance
        alike = _all_distances(seen, seen) <= tolerance

        def count(covered: Array, hit: tuple[Array, Array]) -> tuple[Array, Array]:
            view, occurs = hit
            new = occurs & ~covered[view]
            return covered | (new & alike[view]), new

        counted = lax.scan(count, jnp.zeros(slots.shape, bool), (nearest, hits))[1]
        return counted.sum() / (length + 1)

    over_seats = jax.vmap(one, in_axes=(1, 1, None))
    return jax.vmap(over_seats)(decoded, seen, length).mean()


def probe_accuracy(features: Array, labels: Array, weight: Array, classes: int) -> Array:
    """Accuracy of a ridge regression on the labels' one-hot vectors, fitted on even episodes, scored on odd ones.

    Args:
        features: [B, T, m, F].
        labels: [B, T, m] integers.
        weight: [B, T, m], how much each step counts, 0 or more.
        classes: Number of labels.

    Returns:
        A float32 scalar.
    """
    fit, score = slice(0, None, 2), slice(1, None, 2)
    rows, weights = features[fit].reshape(-1, features.shape[-1]), weight[fit].reshape(-1, 1)
    total = jnp.maximum(weights.sum(), 1.0)
    centre = (rows * weights).sum(axis=0) / total
    scale = jnp.sqrt(((rows - centre) ** 2 * weights).sum(axis=0) / total) + 1e-3
    rows = (rows - centre) / scale
    target = jax.nn.one_hot(labels[fit].reshape(-1), classes)
    offset = (target * weights).sum(axis=0) / total
    gram = (rows * weights).T @ rows + RIDGE * jnp.eye(rows.shape[-1])
    solved = jnp.linalg.solve(gram, (rows * weights).T @ (target - offset))
    held = (features[score].reshape(-1, features.shape[-1]) - centre) / scale
    correct = (held @ solved + offset).argmax(axis=-1) == labels[score].reshape(-1)
    held_weight = weight[score].reshape(-1)
    return (correct * held_weight).sum() / jnp.maximum(held_weight.sum(), 1.0)


def _all_distances(left: Array, right: Array) -> Array:
    """`view_distance` of each to each, as one product: [left, O] and [right, O] -> [left, right]."""
    squared = (left**2).sum(axis=-1)[:, None] + (right**2).sum(axis=-1)[None] - 2.0 * left @ right.T
    return jnp.sqrt(jnp.maximum(squared, 0.0) / left.shape[-1])


def view_distance(left: Array, right: Array) -> Array:
    """Root of the mean squared difference: [..., O] -> [...]."""
    return jnp.sqrt(((left - right) ** 2).mean(axis=-1))
