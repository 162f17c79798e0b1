"""What an agent knows of the others, read by linear probes off all it has: `PROBES` is the table.

Two things are asked at every step: *which policy* the others follow, and *which step* the next one round the table
takes at the end of the round (in games without rounds: H steps ahead). Both are read off

- what the opponent model says (the subgoal of `omg_am`, the embedding of LIAM and others);
- the present observation;
- the running mean of all observations so far: what anybody could remember without learning anything;
- the agent's own memory, its recurrent state: what it knows without a model.

The first is worth something where it is ahead of the others. Episodes are on one side of the split only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from omg.components.measure import Measure
from omg.evaluation.measures import ProbeScore, linear_probe

PARTS = 5
"""Parts into which the probes deal the episodes."""
MOST_STEPS = 100
"""Of more different steps (place and action) the action alone is to be named."""
MODEL, OBSERVATION, MEAN, MEMORY = "model", "observation", "running mean", "memory"


@dataclass(frozen=True)
class ProbedGames:
    """What one agent had at hand in B games of T+1 time slots, each with team-mates of one kind."""

    known: Mapping[str, np.ndarray]
    """Where from -> [B, T+1, F] numbers: `MODEL` (with an opponent model), `OBSERVATION`, `MEAN`, `MEMORY`."""
    coming: np.ndarray
    """[B, T+1] int, which step of the next seat round the table is the one ahead; a number for each kind of step."""
    length: np.ndarray
    """[B] steps played."""
    team: np.ndarray
    """[B] number of the team."""
    steps: int = 4000
    """Most steps that the probes look at."""
    seed: int = 0
    """Of the steps looked at."""
    _scores: dict[tuple[str, str], ProbeScore] = field(default_factory=dict, init=False, repr=False)

    @cached_property
    def looked_at(self) -> tuple[np.ndarray, np.ndarray]:
        """Game and slot of at most `steps` played steps, drawn evenly."""
        return some_steps(self.length, self.coming.shape[1], self.steps, self.seed)

    def labels(self, what: str) -> np.ndarray:
        """What is to be named at the steps looked at: `policy` or `step`."""
        game, slot = self.looked_at
        return self.team[game] if what == "policy" else self.coming[game, slot]

    def can_tell(self, what: str, source: str) -> bool:
        """Whether there is such a source, something to tell apart, and games enough for all parts."""
        several = len(np.unique(self.labels(what))) > 1 and len(np.unique(self.looked_at[0])) >= PARTS
        return source in self.known and several

    def probe(self, what: str, source: str) -> ProbeScore:
        """How well a source names it."""
        if (what, source) not in self._scores:
            game, slot = self.looked_at
            features = self.known[source][game, slot]
            self._scores[what, source] = linear_probe(features, self.labels(what), game, folds=PARTS, seed=self.seed)
        return self._scores[what, source]


def some_steps(length: np.ndarray, slots: int, most: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Game and slot of at most so many played steps, drawn evenly; length [B] is how many each game has."""
    game, slot = np.nonzero(np.arange(slots)[None] < length[:, None])
    if len(game) > most:
        kept = np.sort(np.random.default_rng(seed).choice(len(game), most, replace=False))
        game, slot = game[kept], slot[kept]
    return game, slot


def running_mean(seen: np.ndarray) -> np.ndarray:
    """Of every slot the mean of all views so far, its own included: [B, T+1, O] -> [B, T+1, O]."""
    return seen.cumsum(axis=1) / np.arange(1, seen.shape[1] + 1)[None, :, None]


def coming_steps(places: np.ndarray, actions: np.ndarray, ahead: np.ndarray) -> np.ndarray:
    """Which step is the one ahead, as a number for each kind of step.

    Args:
        places: [B, T+1, F] what is said of the seat that is to be foreseen.
        actions: [B, T+1] int, what it does.
        ahead: [B, T+1] int, the slot from which that step is taken, of every slot.

    Returns:
        [B, T+1] int: of place and action together, or of the action alone where there are more than `MOST_STEPS`.
    """
    rows = np.concatenate([places.round(3), actions[..., None]], axis=-1)
    taken = np.take_along_axis(rows, ahead[..., None], axis=1)
    kinds, number = np.unique(taken.reshape(-1, taken.shape[-1]), axis=0, return_inverse=True)
    if len(kinds) > MOST_STEPS:
        return np.take_along_axis(actions, ahead, axis=1)
    return number.reshape(ahead.shape)


def _measure(what: str, source: str) -> Measure[ProbedGames, float]:
    meanings = {
        "policy": "accuracy of a linear probe that names the team-mates' policy ({policies} of them)",
        "step": "accuracy of a linear probe that names the next player's step {ahead}",
    }
    sources = {
        MODEL: "from what the opponent model says",
        OBSERVATION: "from the present observation",
        MEAN: "from the mean of all observations so far",
        MEMORY: "from the agent's own recurrent state",
    }
    return Measure(
        f"{what} from the {source}",
        f"{meanings[what]}, {sources[source]}",
        lambda games: games.probe(what, source).accuracy.value,
        lambda games: games.can_tell(what, source),
        f"`{what} by chance`",
    )


def _chance(what: str) -> Measure[ProbedGames, float]:
    return Measure(
        f"{what} by chance",
        "share of the most frequent one",
        lambda games: games.probe(what, OBSERVATION).majority,
        lambda games: games.can_tell(what, OBSERVATION),
    )


PROBES: tuple[Measure[ProbedGames, float], ...] = tuple(
    measure
    for what in ("policy", "step")
    for measure in (*(_measure(what, source) for source in (MODEL, OBSERVATION, MEAN, MEMORY)), _chance(what))
)
"""In the order of the tables."""
