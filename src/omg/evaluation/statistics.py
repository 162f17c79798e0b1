"""Statistics of evaluations: means, interquartile means and what their intervals stand for.

Scores of one agent are a matrix [seeds, teams]: training seeds (runs), each played with the same teams (tasks). One
trained seed fills a whole row, so the entries of a row are not independent: a lucky training is lucky with every team.
What an interval stands for therefore depends on what is resampled:

- `stratified`: rliable's bootstrap. Every entry of a column is drawn anew by itself, as if each team had been met by
  trainings of its own. Equal to the published tool, but too narrow for rows that share a training.
- `seeds`: whole rows are drawn. What would another set of trainings score with *these* teams?
- `seeds_and_teams`: whole rows and whole columns are drawn. What would other trainings score with *other teams* of the
  same kind? It is the widest of the three.

The last two widen the plain percentile interval for small samples (see `widened_tail`), since a handful of seeds shows
too little of its own spread. Fewer than three of what is resampled give no interval at all: its ends are NaN.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple

import numpy as np

Resample = Literal["stratified", "seeds", "seeds_and_teams"]
Statistic = Literal["mean", "iqm"]
Trained = tuple[bool, bool]
"""Whether an agent and its baseline were trained, so that other seeds would have given other ones."""

FEWEST = 3
"""Fewest seeds (or teams) whose resampling says anything: with two agents of two seeds each and no difference between
them, all of one agent's scores lie above all of the other's in one case of three."""

DRAWS = 5000
_NUMBERS_AT_ONCE = 4_000_000
"""Resampled values held in memory; 2000 draws of 100,000 episodes at once would take gigabytes."""


class Estimate(NamedTuple):
    """A value and the ends of its interval, NaN where there is none."""

    value: float
    low: float
    high: float


def bootstrap_interval(
    values: np.ndarray, level: float = 0.95, draws: int = 2000, seed: int = 0
) -> tuple[float, float]:
    """Percentile bootstrap interval of the mean of `values` [N].

    Args:
        values: [N] measurements, N >= 1.
        level: probability that the interval stands for.
        draws: resamples of size N, with replacement.
        seed: of the resampling.

    Returns:
        Lower and upper end.
    """
    values = np.asarray(values, np.float64)
    rng = np.random.default_rng(seed)
    block = max(_NUMBERS_AT_ONCE // len(values), 1)
    means = np.concatenate(
        [
            values[rng.integers(0, len(values), (min(block, draws - start), len(values)))].mean(axis=1)
            for start in range(0, draws, block)
        ]
    )
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def share_interval(count: int, total: int, level: float = 0.95) -> Estimate:
    """Share of successes and its Wilson score interval, which is right also for none and for all of a few trials.

    Args:
        count: successes.
        total: independent trials, at least 1.
        level: probability that the interval stands for.
    """
    from scipy import special  # Not above: a run does not wait for SciPy.

    share = count / total
    z = float(special.ndtri((1 + level) / 2))
    widened = 1 + z**2 / total
    centre = (share + z**2 / (2 * total)) / widened
    half = z * math.sqrt(share * (1 - share) / total + z**2 / (4 * total**2)) / widened
    return Estimate(share, max(0.0, centre - half), min(1.0, centre + half))


def interquartile_mean(scores: np.ndarray) -> np.ndarray:
    """Mean of the middle half of all runs and teams: `scores` [..., seeds, teams] -> [...].

    A quarter of the values, rounded down, is left out at either end, as in rliable.
    """
    scores = np.asarray(scores, np.float64)
    flat = scores.reshape(*scores.shape[:-2], -1)
    count = flat.shape[-1]
    cut = count // 4
    ordered = np.partition(flat, (cut, count - cut - 1), axis=-1)
    return ordered[..., cut : count - cut].mean(axis=-1)


def score_interval(
    scores: np.ndarray,
    statistic: Statistic = "mean",
    resample: Resample = "seeds",
    *,
    level: float = 0.95,
    draws: int = DRAWS,
    seed: int = 0,
) -> Estimate:
    """One agent's mean or interquartile mean over seeds and teams, with its bootstrap interval.

    Args:
        scores: [seeds, teams] scores of seeds with teams.
        statistic: `mean` or `iqm`.
        resample: what the interval generalises over; see the top of this module.
        level: probability that the interval stands for.
        draws: number of resampled matrices.
        seed: of the resampling.
    """
    scores = _matrix(scores)
    compute = _STATISTICS[statistic]
    value = float(compute(scores))
    sizes = {"stratified": scores.shape[:1], "seeds": scores.shape[:1], "seeds_and_teams": scores.shape}[resample]
    rng = np.random.default_rng(seed)
    if _too_few(resample, sizes):
        return Estimate(value, np.nan, np.nan)
    drawn = np.concatenate([compute(block) for block in _resampled(scores, resample, draws, rng)])
    tail = (1 - level) / 2 if resample == "stratified" else widened_tail(level, min(sizes), min(sizes) - 1)
    return _estimate(value, drawn, tail)


def probability_of_improvement(
    scores: np.ndarray,
    baseline: np.ndarray,
    resample: Resample = "seeds_and_teams",
    *,
    trained: Trained = (True, True),
    level: float = 0.95,
    draws: int = DRAWS,
    seed: int = 0,
) -> Estimate:
    """How often a seed of the agent scores above a seed of the baseline with the same team.

    rliable's definition: for each team the share of all pairs of seeds in which the agent is ahead, ties counting half
    (the Mann-Whitney statistic), averaged over the teams. 0.5 means that neither is ahead. It says how often, not by
    how much; `paired_difference` says how much.

    Args:
        scores: [seeds, teams] scores of the agent.
        baseline: [others, teams] scores of the baseline with the same teams in the same order.
        resample: what the interval generalises over; `stratified` is rliable's interval.
        trained: see `paired_difference`.
        level: probability that the interval stands for.
        draws: number of resamples.
        seed: of the resampling.
    """
    scores, baseline = _pair(scores, baseline)
    (runs, teams), others = scores.shape, len(baseline)
    ahead = (scores[:, None] > baseline) + 0.5 * (scores[:, None] == baseline)  # [R, Q, M]
    value = float(ahead.mean())
    sizes = _Sizes.of((runs, others), trained, teams if resample == "seeds_and_teams" else None)
    if _too_few(resample, sizes.all):
        return Estimate(value, np.nan, np.nan)
    rng = np.random.default_rng(seed)
    # One set of seeds for all teams, or, stratified, another one for every team.
    columns = teams if resample == "stratified" else 1
    by_team = np.moveaxis(ahead, -1, 0)  # [M, R, Q]
    drawn = []
    for size in _blocks(draws, teams * (runs + others)):
        seeds, other_seeds = _shares(rng, runs, (columns, size)), _shares(rng, others, (columns, size))
        per_team = ((seeds @ by_team) * other_seeds).sum(axis=-1).T  # [draws, M]
        drawn.append(_over_teams(per_team, resample == "seeds_and_teams", rng))
    tail = (1 - level) / 2 if resample == "stratified" else _pair_tail(level, sizes)
    return _estimate(value, np.concatenate(drawn), tail)


def paired_difference(
    scores: np.ndarray,
    baseline: np.ndarray,
    *,
    teams: Literal["resampled", "fixed"] = "resampled",
    trained: Trained = (True, True),
    level: float = 0.95,
    draws: int = DRAWS,
    seed: int = 0,
) -> Estimate:
    """Mean difference agent - baseline on the same teams, with its two-level bootstrap interval.

    The seeds of the agent and of the baseline are resampled independently of each other, each as a whole row. With
    `teams="resampled"` the teams are resampled too, jointly for both agents, so that a hard team is hard for both: the
    interval stands for other trainings *and* other teams of the same kind. With `teams="fixed"` it stands for other
    trainings of the two agents with exactly these teams.

    Resampling rows and columns together counts pure chance within an entry (few episodes per team) more than once; the
    interval is then wider than need be, never narrower.

    Args:
        scores: [seeds, teams] scores of the agent.
        baseline: [others, teams] scores of the baseline with the same teams in the same order.
        teams: whether the interval generalises over teams.
        trained: whether the agent and the baseline stand for other trainings of the same kind. A player that nobody
            trained is always the same one; its single row is enough.
        level: probability that the interval stands for.
        draws: number of resamples.
        seed: of the resampling.
    """
    scores, baseline = _pair(scores, baseline)
    (runs, number_of_teams), others = scores.shape, len(baseline)
    value = float(scores.mean() - baseline.mean())
    resample = teams == "resampled"
    sizes = _Sizes.of((runs, others), trained, number_of_teams if resample else None)
    if min(sizes.all) < FEWEST:
        return Estimate(value, np.nan, np.nan)
    rng = np.random.default_rng(seed)
    drawn = []
    for size in _blocks(draws, number_of_teams + runs + others):
        per_team = _shares(rng, runs, (size,)) @ scores - _shares(rng, others, (size,)) @ baseline  # [draws, M]
        drawn.append(_over_teams(per_team, resample, rng))
    return _estimate(value, np.concatenate(drawn), _pair_tail(level, sizes))


def cluster_interval(
    values: np.ndarray, cluster: np.ndarray, *, level: float = 0.95, draws: int = 2000, seed: int = 0
) -> Estimate:
    """Mean over steps with an interval over episodes: whole episodes are resampled, since their steps hang together.

    Args:
        values: [N] one number per step.
        cluster: [N] the episode of each step.
        level: probability that the interval stands for.
        draws: number of resamples.
        seed: of the resampling.
    """
    values = np.asarray(values, np.float64)
    _, index = np.unique(cluster, return_inverse=True)
    sums, counts = np.bincount(index, values), np.bincount(index)
    if len(counts) < FEWEST:
        return Estimate(float(values.mean()), np.nan, np.nan)
    rng = np.random.default_rng(seed)
    drawn = []
    for size in _blocks(draws, len(counts)):
        shares = _shares(rng, len(counts), (size,))
        drawn.append((shares @ sums) / (shares @ counts))
    return _estimate(float(values.mean()), np.concatenate(drawn), (1 - level) / 2)


def normalised_scores(scores: np.ndarray, random: np.ndarray, best_response: np.ndarray) -> np.ndarray:
    """Scores on a scale where a random player has 0 and a best response to the same team has 1.

    Args:
        scores: [..., teams] scores with teams.
        random: [teams] score of a random player with each team.
        best_response: [teams] score of an agent trained for that team.

    Returns:
        [..., teams], NaN where random player and best response score the same, so that there is nothing to measure.
    """
    random, gap = np.asarray(random, np.float64), np.asarray(best_response, np.float64) - random
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(gap == 0, np.nan, (np.asarray(scores, np.float64) - random) / gap)


_STATISTICS: dict[Statistic, Callable[[np.ndarray], np.ndarray]] = {
    "mean": lambda scores: scores.mean(axis=(-2, -1)),
    "iqm": interquartile_mean,
}


def _resampled(scores: np.ndarray, resample: Resample, draws: int, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """Resampled matrices [draws, seeds, teams], in blocks that fit into memory."""
    runs, teams = scores.shape
    for size in _blocks(draws, scores.size):
        if resample == "stratified":
            yield scores[rng.integers(runs, size=(size, runs, teams)), np.arange(teams)]
        elif resample == "seeds":
            yield scores[rng.integers(runs, size=(size, runs))]
        else:
            rows, columns = rng.integers(runs, size=(size, runs, 1)), rng.integers(teams, size=(size, 1, teams))
            yield scores[rows, columns]


def _shares(rng: np.random.Generator, items: int, size: tuple[int, ...]) -> np.ndarray:
    """How large a share of a resample each item has: [*size, items], summing to 1."""
    return rng.multinomial(items, np.full(items, 1 / items), size=size) / items


def _over_teams(per_team: np.ndarray, resample: bool, rng: np.random.Generator) -> np.ndarray:
    """Mean over teams [draws] of [draws, teams], the teams resampled or as they are."""
    if not resample:
        return per_team.mean(axis=1)
    return (per_team * _shares(rng, per_team.shape[1], (len(per_team),))).sum(axis=1)


def _blocks(draws: int, numbers: int) -> Iterator[int]:
    """Splits `draws` resamples of `numbers` values each into blocks that fit into memory."""
    block = max(_NUMBERS_AT_ONCE // max(numbers, 1), 1)
    for start in range(0, draws, block):
        yield min(block, draws - start)


def widened_tail(level: float, size: int, freedom: int) -> float:
    """Probability to cut off at each end of a resampled distribution of a mean over `size` values.

    The plain percentile interval is that of a normal distribution whose spread was divided by n instead of n - 1. The
    expanded percentile interval (Hesterberg, 2015) takes Student's distribution and the right divisor, and otherwise
    keeps the shape of the resampled distribution.
    """
    from scipy import special  # Not above: a run does not wait for SciPy.

    wide = special.stdtrit(freedom, (1 + level) / 2) * np.sqrt(size / (size - 1))
    return float(special.ndtr(-wide))


class _Sizes(NamedTuple):
    """How many there are of everything that is resampled when two agents are compared."""

    seeds: tuple[int, ...]
    teams: tuple[int, ...]

    @staticmethod
    def of(seeds: tuple[int, int], trained: Trained, teams: int | None) -> _Sizes:
        counted = tuple(count for count, learned in zip(seeds, trained, strict=True) if learned)
        return _Sizes(counted, () if teams is None else (teams,))

    @property
    def all(self) -> tuple[int, ...]:
        """Nothing to resample is too little."""
        return (*self.seeds, *self.teams) or (0,)


def _pair_tail(level: float, sizes: _Sizes) -> float:
    """`widened_tail` for two agents."""
    freedom = [sum(sizes.seeds) - len(sizes.seeds)] if sizes.seeds else []
    return widened_tail(level, min(sizes.all), min([*freedom, *(size - 1 for size in sizes.teams)]))


def _too_few(resample: Resample, sizes: tuple[int, ...]) -> bool:
    # rliable accepts two runs; a single one would pretend to be certain.
    return min(sizes) < (2 if resample == "stratified" else FEWEST)


def _estimate(value: float, drawn: np.ndarray, tail: float) -> Estimate:
    low, high = np.quantile(drawn, [tail, 1 - tail])
    return Estimate(value, float(low), float(high))


def _matrix(scores: np.ndarray) -> np.ndarray:
    scores = np.asarray(scores, np.float64)
    if scores.ndim != 2 or not scores.size:
        raise ValueError(f"scores must be a matrix [seeds, teams] with at least one entry, got shape {scores.shape}")
    return scores


def _pair(scores: np.ndarray, baseline: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    scores, baseline = _matrix(scores), _matrix(baseline)
    if scores.shape[1] != baseline.shape[1]:
        raise ValueError(f"both agents must meet the same teams, got {scores.shape[1]} and {baseline.shape[1]}")
    return scores, baseline
