"""Several games, each with several draws of partners: who closes how much of the room, and what that answers.

A draw of partners is one pool of many that the game could have had, so it is a random effect: an interval stands for
other draws. Of each draw counts the mean over seeds and teams; their spread between draws holds that between seeds.
With fewer than three draws the interval is over seeds and stands for these draws only.

Letters in shapes: P draws, R seeds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from omg.evaluation.budget import Marks
from omg.evaluation.comparison import verdict
from omg.evaluation.statistics import FEWEST, Estimate
from omg.evaluation.suite_tables import SuiteDifferenceRow, SuiteGameRow, SuiteProbeRow, SuiteRow

ALL_DRAWS = "all"
Reached = Mapping[tuple[str, float], np.ndarray]
"""(agent, share of its training) -> [R] what each seed reached, mean over teams; one number of who was not trained."""


class Probe(NamedTuple):
    """How well a linear probe names something, mean over seeds."""

    accuracy: float
    seeds: int


class PartResult(NamedTuple):
    """What one game with one draw of partners came to."""

    game: str
    draw: int
    metric: str
    partners: int
    marks: Marks
    reached: Reached
    """With the held-out partners."""
    validated: Mapping[str, float]
    """Agent -> what it reached in the end with the validation partners; empty where that was not played."""
    probes: Mapping[tuple[str, str], Probe] = {}
    """(agent, measure) -> what a probe read off it; empty where nothing was probed."""


def games_of(parts: Sequence[PartResult]) -> dict[str, list[PartResult]]:
    """Game -> its draws."""
    found: dict[str, list[PartResult]] = {}
    for part in parts:
        found.setdefault(part.game, []).append(part)
    return found


def game_rows(parts: Sequence[PartResult]) -> list[SuiteGameRow]:
    """What every game allows, draw by draw, and the mean over draws."""
    rows = []
    for own in games_of(parts).values():
        rows += [_game_row(part, str(part.draw), part.marks) for part in own]
        mean = Marks(*np.mean([part.marks for part in own], axis=0).tolist())
        rows.append(_game_row(own[0], ALL_DRAWS, mean))
    return rows


def agent_rows(parts: Sequence[PartResult]) -> list[SuiteRow]:
    """What every agent closes in every game after every share of its training."""
    rows = []
    for game, own in games_of(parts).items():
        for agent, share in own[0].reached:
            # An agent that some draw has not met cannot be compared over draws.
            if any((agent, share) not in part.reached for part in own):
                continue
            scores = [part.reached[agent, share] for part in own]
            gains = [Gain.of(score, part.marks.best_fixed) for score, part in zip(scores, own, strict=True)]
            closed = over_draws(gains, _rooms(own))
            rows.append(
                SuiteRow(
                    game=game,
                    agent=agent,
                    metric=own[0].metric,
                    share=share,
                    draws=len(own),
                    seeds=min(len(score) for score in scores),
                    mean=float(np.mean([score.mean() for score in scores])),
                    closed=closed.value,
                    closed_low=closed.low,
                    closed_high=closed.high,
                    interval_over=interval_over(own),
                )
            )
    return rows


class Comparisons(NamedTuple):
    """Who is compared with whom; labels of agents, of whom some games may not have all."""

    same_information: str
    """Sees and remembers the same, and has no model."""
    modelling: Sequence[str]
    """Agents that model the others in one way or another."""
    subgoals: Sequence[str]
    """Those of them that infer subgoals."""
    against: Sequence[str]
    """Whom the subgoals are compared with."""


def difference_rows(parts: Sequence[PartResult], compared: Comparisons) -> list[SuiteDifferenceRow]:
    """Does modelling help, and do subgoals: differences in shares of the room, game by game and share by share."""
    rows = []
    for own in games_of(parts).values():
        present = [agent for agent in _agents(own[0]) if all((agent, 1.0) in part.reached for part in own)]
        pairs = [("subgoals", agent, other) for agent in compared.subgoals for other in compared.against]
        best = best_validated(own, [agent for agent in compared.modelling if agent in present])
        pairs = ([("modelling", best, compared.same_information)] if best else []) + pairs
        for question, agent, baseline in pairs:
            if agent not in present or baseline not in present or agent == baseline:
                continue
            shares = [share for name, share in own[0].reached if name == agent]
            rows += [_difference_row(own, question, agent, baseline, share) for share in shares]
    return rows


def probe_rows(parts: Sequence[PartResult]) -> list[SuiteProbeRow]:
    """What can be read off every agent in every game, and what can be had without it."""
    rows = []
    for game, own in games_of(parts).items():
        for agent, measure in own[0].probes:
            found = [part.probes[agent, measure] for part in own if (agent, measure) in part.probes]
            if len(found) < len(own):
                continue
            known = np.asarray([one.accuracy for one in found])
            # Of scores, not of gains: as if every room were 1.
            mean = over_draws([Gain(one, 0.0, 1) for one in known.tolist()], np.ones(len(known)))
            rows.append(
                SuiteProbeRow(
                    game=game,
                    agent=agent,
                    measure=measure,
                    draws=len(own),
                    seeds=min(one.seeds for one in found),
                    value=mean.value,
                    low=mean.low,
                    high=mean.high,
                )
            )
    return rows


def best_validated(own: Sequence[PartResult], agents: Sequence[str]) -> str:
    """The agent that did best with the validation partners of all draws, else with the held-out ones; "" of none."""
    if not agents:
        return ""

    def standing(agent: str) -> float:
        known = [part.validated.get(agent, math.nan) for part in own]
        there = all(other in part.validated for part in own for other in agents)
        return float(np.mean(known if there else [part.reached[agent, 1.0].mean() for part in own]))

    return max(agents, key=standing)


def interval_over(own: Sequence[PartResult]) -> str:
    """What the intervals of a game stand for."""
    return "draws" if len(own) >= FEWEST else "seeds"


class Gain(NamedTuple):
    """What is gained with the partners of one draw."""

    mean: float
    """Over seeds and teams."""
    variance: float
    """Of that mean, over seeds; 0 of players that nobody trained."""
    seeds: int

    @staticmethod
    def of(scores: np.ndarray, above: np.ndarray | float) -> Gain:
        """The mean of [R] scores above a number, or above that of the [Q] scores of other trainings."""
        others = np.atleast_1d(above)
        trained = [one for one in (scores, others) if len(one) > 1]
        variance = sum(float(np.var(one, ddof=1)) / len(one) for one in trained)
        return Gain(float(scores.mean() - others.mean()), variance, min(map(len, trained), default=1))


def over_draws(gains: Sequence[Gain], rooms: np.ndarray) -> Estimate:
    """A gain of all draws as a share of their rooms, with its interval over draws, or over seeds of fewer than three.

    It is the ratio of the two means, not the mean of ratios, so that a draw with next to no room says next to nothing.

    Args:
        gains: P of them.
        rooms: [P].
    """
    from scipy import special  # Not above: a run does not wait for SciPy.

    room = float(np.mean(rooms))
    if not room > 0:
        return Estimate(math.nan, math.nan, math.nan)
    means, seeds = np.asarray([gain.mean for gain in gains]), min(gain.seeds for gain in gains)
    value = float(means.mean() / room)
    if len(gains) >= FEWEST:
        spread, freedom = float(np.std(means - value * rooms, ddof=1)) / math.sqrt(len(gains)), len(gains) - 1
    elif seeds >= FEWEST:
        spread, freedom = math.sqrt(sum(gain.variance for gain in gains)) / len(gains), seeds - 1
    else:
        return Estimate(value, math.nan, math.nan)
    half = float(special.stdtrit(freedom, 0.975)) * spread / room
    return Estimate(value, value - half, value + half)


def _difference_row(
    own: Sequence[PartResult], question: str, agent: str, baseline: str, share: float
) -> SuiteDifferenceRow:
    pairs = [(part.reached[agent, share], _at(part, baseline, share)) for part in own]
    found = over_draws([Gain.of(*pair) for pair in pairs], _rooms(own))
    return SuiteDifferenceRow(
        game=own[0].game,
        question=question,
        agent=agent,
        baseline=baseline,
        share=share,
        draws=len(own),
        difference=found.value,
        low=found.low,
        high=found.high,
        interval_over=interval_over(own),
        verdict=verdict(found),
    )


def _at(part: PartResult, agent: str, share: float) -> np.ndarray:
    """Scores of an agent after a share of its training; those of the end of one that has no training to speak of."""
    return part.reached.get((agent, share), part.reached[agent, 1.0])


def _game_row(part: PartResult, draw: str, marks: Marks) -> SuiteGameRow:
    span = marks.ceiling - marks.floor
    return SuiteGameRow(
        game=part.game,
        draw=draw,
        metric=part.metric,
        partners=part.partners,
        floor=marks.floor,
        best_fixed=marks.best_fixed,
        optimum=marks.optimum,
        ceiling=marks.ceiling,
        room=marks.room,
        room_share=marks.room / span if span > 0 else math.nan,
    )


def _rooms(own: Sequence[PartResult]) -> np.ndarray:
    return np.asarray([part.marks.room for part in own])


def _agents(part: PartResult) -> list[str]:
    return list(dict.fromkeys(agent for agent, _ in part.reached))
