"""What inferred subgoals know, measure by measure: `MEASURES` is the table that `omg pipeline` works off.

Three questions about the subgoal ĝ that an agent infers at every step:

- *Who are they?* A linear probe reads the team-mates' policy, and their algorithm, off ĝ and, for comparison, off the
  present observation. Episodes are on one side of the split only. A subgoal that is ahead of the observation has taken
  something about the others from the history.
- *Where do they go?* ĝ is decoded to a view; is that closer to the view H steps ahead than the present view is?
- *Where will they be?* Where subgoals tell places, the distance of those to where the others really are then, in cells
  or map units, beside that of their present places.
- *Does it come true?* The subgoal hit ratio.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from omg.components.measure import Measure, always
from omg.controllers.places import PlaceErrors
from omg.evaluation.measures import (
    Closeness,
    ProbeGain,
    closer_than_now,
    probe_gain,
    state_distance,
    subgoal_hit_ratio,
)
from omg.evaluation.probes import PARTS, some_steps
from omg.learners.subgoal_measures import comparable, tolerance_of
from omg.modules.opponent_models.prior import Prior

What = Literal["policy", "algorithm"]


class PlaceGames(NamedTuple):
    """Places that subgoals tell, against those that came; leaves [B, T, J], `counted` says who counts."""

    inferred: PlaceErrors
    dealt: Array
    """[B, T, J] distance of another step's guess: chance."""
    encoded: Array
    """[B, T, J] distance of what the prior makes of what really came: the best that its subgoals can say."""

    def mean(self, errors: Array) -> float:
        """Over those who count."""
        return float(np.asarray(errors)[np.asarray(self.inferred.counted)].mean())


@dataclass(frozen=True)
class InferredGames:
    """What one agent saw and inferred in B games of T+1 time slots, each with team-mates of one kind."""

    seen: np.ndarray
    """[B, T+1, O] its view."""
    subgoal: np.ndarray
    """[B, T+1, D] the mean of its inferred subgoal."""
    length: np.ndarray
    """[B] steps played; there is one view more."""
    team: np.ndarray
    """[B] number of the team."""
    algorithm: np.ndarray
    """[teams] number of the algorithm of each team's members."""
    prior: Prior
    """Gives subgoals their meaning."""
    horizon: int
    """H."""
    steps: int = 4000
    """Most steps that the probes look at."""
    seed: int = 0
    """Of the steps looked at."""
    others: np.ndarray | None = None
    """[B, T+1, F] what the others did, where subgoals stand for that (`subgoal_of: others`)."""
    round_steps: int | None = None
    """Steps of a round, where subgoals stand for the ends of rounds."""
    places: PlaceGames | None = None
    """What subgoals tell of the others' places; None where they tell none."""

    @cached_property
    def looked_at(self) -> tuple[np.ndarray, np.ndarray]:
        """Game and slot of at most `steps` played steps, drawn evenly."""
        return some_steps(self.length, self.seen.shape[1], self.steps, self.seed)

    @cached_property
    def views(self) -> np.ndarray:
        """[B, T+1, O] what subgoals stand for as it really came, in the prior's normalised units."""
        return np.asarray(self.prior.normalise(jnp.asarray(self.seen if self.others is None else self.others)))

    @cached_property
    def decoded(self) -> np.ndarray:
        """[B, T+1, O] the views that the subgoals stand for, in the same units."""
        return np.asarray(self.prior.decode_normalised(jnp.asarray(self.subgoal)))

    def labels(self, what: What) -> np.ndarray:
        """Whom the agent played with, at the steps looked at."""
        game, _ = self.looked_at
        return self.team[game] if what == "policy" else self.algorithm[self.team[game]]

    def several(self, what: What) -> bool:
        """Whether there is something to tell apart, in games enough for all parts."""
        return len(np.unique(self.labels(what))) > 1 and len(np.unique(self.looked_at[0])) >= PARTS

    @cached_property
    def policy_probe(self) -> ProbeGain:
        """How well the team-mates' policy is named."""
        return self._probe("policy")

    @cached_property
    def algorithm_probe(self) -> ProbeGain:
        """How well the team-mates' algorithm is named."""
        return self._probe("algorithm")

    def _probe(self, what: What) -> ProbeGain:
        game, slot = self.looked_at
        subgoals, views = self.subgoal[game, slot], self.seen[game, slot]
        return probe_gain(subgoals, views, self.labels(what), game, folds=PARTS, seed=self.seed)

    @cached_property
    def closeness(self) -> Closeness:
        """How decoded subgoals compare with the present view as a guess of the view H steps ahead."""
        game, slot = self.looked_at
        scale = np.ones(self.views.shape[-1])
        return closer_than_now(self.decoded[game, slot], self.views[game, slot], self.future, game, scale)

    @cached_property
    def future(self) -> np.ndarray:
        """[N, O] of the steps looked at, what came H steps ahead or at the end of the round."""
        game, slot = self.looked_at
        return self.views[game, np.minimum(slots_ahead(slot, self.horizon, self.round_steps), self.length[game])]

    @cached_property
    def chance_distance(self) -> float:
        """Distance to the future of what is decoded from another step's subgoal, the same subgoals dealt anew."""
        game, slot = self.looked_at
        dealt = np.random.default_rng(self.seed).permutation(len(game))
        return float(state_distance(self.decoded[game, slot][dealt], self.future, np.ones(self.views.shape[-1])).mean())


def slots_ahead(slot: np.ndarray, horizon: int, round_steps: int | None) -> np.ndarray:
    """The slots that subgoals of slots [...] are compared with: H steps ahead, or where the round ends: [...]."""
    return slot + horizon if round_steps is None else (slot // round_steps + 1) * round_steps


def _several_policies(games: InferredGames) -> bool:
    return games.several("policy")


def _several_algorithms(games: InferredGames) -> bool:
    return games.several("algorithm")


def _tells_places(games: InferredGames) -> bool:
    return games.places is not None and bool(np.any(games.places.inferred.counted))


def _place(pick: Callable[[PlaceGames], Array]) -> Callable[[InferredGames], float]:
    def compute(games: InferredGames) -> float:
        assert games.places is not None
        return games.places.mean(pick(games.places))

    return compute


def _hit_ratio(games: InferredGames) -> float:
    decoded, seen = jnp.asarray(games.decoded), jnp.asarray(games.views)
    guesses, views = (np.asarray(values) for values in comparable(games.prior, decoded, seen))
    scale, tolerance = np.ones(views.shape[-1]), tolerance_of(games.prior)
    hits = subgoal_hit_ratio(guesses, views, games.length + 1, scale, tolerance, predictions=games.length)
    return float(hits.mean())


_MOST_FREQUENT = "share of the most frequent one"
MEASURES: tuple[Measure[InferredGames, float], ...] = (
    Measure(
        "policy named by the subgoal",
        "accuracy of a linear probe that names the team-mates' policy ({policies} of them)",
        lambda games: games.policy_probe.features.accuracy.value,
        _several_policies,
        _MOST_FREQUENT,
    ),
    Measure(
        "policy named by the observation",
        "the same probe on the present observation",
        lambda games: games.policy_probe.baseline.accuracy.value,
        _several_policies,
        _MOST_FREQUENT,
    ),
    Measure(
        "policy gain",
        "the first minus the second: above 0, the subgoal knows who the others are from the history",
        lambda games: games.policy_probe.accuracy.value,
        _several_policies,
        "0",
    ),
    Measure(
        "algorithm named by the subgoal",
        "accuracy of a linear probe that names their algorithm ({algorithms} of them)",
        lambda games: games.algorithm_probe.features.accuracy.value,
        _several_algorithms,
        _MOST_FREQUENT,
    ),
    Measure(
        "algorithm named by the observation",
        "the same probe on the present observation",
        lambda games: games.algorithm_probe.baseline.accuracy.value,
        _several_algorithms,
        _MOST_FREQUENT,
    ),
    Measure(
        "algorithm gain",
        "the first minus the second",
        lambda games: games.algorithm_probe.accuracy.value,
        _several_algorithms,
        "0",
    ),
    Measure(
        "future gain",
        "distance to what comes {ahead}: present minus decoded subgoal, in deviations; above 0, the subgoal "
        "looks ahead",
        lambda games: games.closeness.gain.value,
        always,
        "0: the subgoal is the present view",
    ),
    Measure(
        "future distance of the subgoal",
        "distance of the decoded subgoal to what comes {ahead}, in deviations",
        lambda games: games.closeness.decoded.value,
        always,
        "`future distance by chance`",
    ),
    Measure(
        "future distance of standing still",
        "the same of the present: they stay as they are",
        lambda games: games.closeness.current.value,
        always,
        "`future distance by chance`",
    ),
    Measure(
        "future distance by chance",
        "the same of another step's decoded subgoal",
        lambda games: games.chance_distance,
        always,
    ),
    Measure(
        "closer to the future",
        "share of steps in which the decoded subgoal is closer to that view than the present",
        lambda games: games.closeness.share,
        always,
    ),
    Measure(
        "place error of the subgoal",
        "distance of the places that the subgoal tells to where the others are {ahead}, in cells or map units; others "
        "who are not in the game now or then do not count",
        _place(lambda places: places.inferred.guess),
        _tells_places,
        "`place error by chance`",
    ),
    Measure(
        "place error of standing still",
        "the same of the others' present places: they stay where they are",
        _place(lambda places: places.inferred.stay),
        _tells_places,
        "`place error by chance`",
    ),
    Measure(
        "place gain",
        "the second minus the first: above 0, the subgoal knows where the others are going",
        _place(lambda places: places.inferred.stay - places.inferred.guess),
        _tells_places,
        "0: they stay where they are",
    ),
    Measure(
        "closer to the future place",
        "share of steps and others for whom the place that the subgoal tells is nearer than the present one",
        _place(lambda places: places.inferred.guess < places.inferred.stay),
        _tells_places,
    ),
    Measure(
        "place error by chance",
        "the same of another step's subgoal",
        _place(lambda places: places.dealt),
        _tells_places,
    ),
    Measure(
        "place error of the prior",
        "the same of what really came, encoded and decoded by the prior: no subgoal can say it better",
        _place(lambda places: places.encoded),
        _tells_places,
    ),
    Measure(
        "hit ratio",
        "share of an episode's views that a decoded subgoal named in time, within {tolerance} deviations",
        _hit_ratio,
        always,
    ),
)
"""In the order of the tables."""
