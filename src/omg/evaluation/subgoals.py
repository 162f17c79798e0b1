"""What inferred subgoals know, measure by measure: `MEASURES` is the table that `omg pipeline` works off.

Three questions about the subgoal ĝ that an agent infers at every step:

- *Who are they?* A linear probe reads the team-mates' policy, and their algorithm, off ĝ and, for comparison, off the
  present observation. Episodes are on one side of the split only. A subgoal that is ahead of the observation has taken
  something about the others from the history.
- *Where do they go?* ĝ is decoded to a view; is that closer to the view H steps ahead than the present view is?
- *Does it come true?* The subgoal hit ratio.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import jax.numpy as jnp
import numpy as np

from omg.components.measure import Measure, always
from omg.evaluation.measures import Closeness, ProbeGain, closer_than_now, probe_gain, subgoal_hit_ratio
from omg.learners.subgoal_measures import comparable, tolerance_of
from omg.modules.opponent_models.prior import Prior

_PARTS = 5
"""Parts into which the probes deal the episodes."""
What = Literal["policy", "algorithm"]


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

    @cached_property
    def looked_at(self) -> tuple[np.ndarray, np.ndarray]:
        """Game and slot of at most `steps` played steps, drawn evenly."""
        slots = np.arange(self.seen.shape[1])
        game, slot = np.nonzero(slots[None] < self.length[:, None])
        if len(game) > self.steps:
            kept = np.sort(np.random.default_rng(self.seed).choice(len(game), self.steps, replace=False))
            game, slot = game[kept], slot[kept]
        return game, slot

    @cached_property
    def views(self) -> np.ndarray:
        """[B, T+1, O] what was seen, in the prior's normalised units."""
        return np.asarray(self.prior.normalise(jnp.asarray(self.seen)))

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
        return len(np.unique(self.labels(what))) > 1 and len(np.unique(self.looked_at[0])) >= _PARTS

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
        return probe_gain(subgoals, views, self.labels(what), game, folds=_PARTS, seed=self.seed)

    @cached_property
    def closeness(self) -> Closeness:
        """How decoded subgoals compare with the present view as a guess of the view H steps ahead."""
        game, slot = self.looked_at
        ahead = np.minimum(slot + self.horizon, self.length[game])
        scale = np.ones(self.views.shape[-1])
        return closer_than_now(self.decoded[game, slot], self.views[game, slot], self.views[game, ahead], game, scale)


def _several_policies(games: InferredGames) -> bool:
    return games.several("policy")


def _several_algorithms(games: InferredGames) -> bool:
    return games.several("algorithm")


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
        "distance to the view {horizon} steps ahead: present view minus decoded subgoal, in deviations; above 0, the "
        "subgoal looks ahead",
        lambda games: games.closeness.gain.value,
        always,
        "0: the subgoal is the present view",
    ),
    Measure(
        "closer to the future",
        "share of steps in which the decoded subgoal is closer to that view than the present",
        lambda games: games.closeness.share,
        always,
    ),
    Measure(
        "hit ratio",
        "share of an episode's views that a decoded subgoal named in time, within {tolerance} deviations",
        _hit_ratio,
        always,
    ),
)
"""In the order of the tables."""
