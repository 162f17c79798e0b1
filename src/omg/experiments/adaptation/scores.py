"""Few-shot adaptation as tables: what a player earns in its first episodes with co-players it has never met.

A row of an adaptation table is an `EpisodeRow`: what the agent itself earned in one episode. All agents begin the same
games: those of one seed, co-player and episode start alike.

Scores are normalised for each co-player between a random player (0) and a best response to it (1). Without a best
response the best of the agents compared, in its last quarter, stands in for it, and the tables say so. The score with
all co-players is normalised between the sums of both ends: a co-player with whom it hardly matters what one does hardly
counts, while its own score may be anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from omg.errors import UserError
from omg.evaluation.statistics import Estimate, bootstrap_interval, normalised_scores, score_interval
from omg.evaluation.tables import AdaptationRow, EpisodeRow, ScoreRow
from omg.report.words import FIRST_EPISODES
from omg.runners.vector import OWN_RETURN
from omg.types import Row

RANDOM, BEST_RESPONSE = "random", "best_response"
"""Agents that mark the ends of the scale."""
ALL = "all"
"""Stands for the mean over all co-players."""
SCALES = {True: "best response", False: "best agent compared"}
"""What 1 is on the normalised scale, by whether there is a best response."""
_CURVE_POINTS = 16


class Course(NamedTuple):
    """All that one agent earned."""

    seeds: tuple[int, ...]
    """In the order of the first axis."""
    co_players: tuple[str, ...]
    """In the order of the second axis."""
    rewards: np.ndarray
    """[seeds, co-players, episodes] float64, episodes in order."""

    @property
    def last_quarter(self) -> np.ndarray:
        """[seeds, co-players], mean over the last quarter of the episodes, rounded up."""
        episodes = self.rewards.shape[2]
        return self.rewards[:, :, episodes - -(-episodes // 4) :].mean(axis=2)


def courses(rows: Iterable[Row]) -> dict[str, Course]:
    """The rows of an adaptation table by agent, in the order in which agents and co-players first appear.

    Raises:
        UserError: a column is missing, an episode is missing or there twice, or agents have met different co-players.
    """
    cells: dict[str, dict[tuple[int, str, int], float]] = {}
    for row in rows:
        missing = [column for column in EpisodeRow.names() if column not in row]
        if missing:
            raise UserError(f"adaptation: a row has no column '{missing[0]}'. Needed: {', '.join(EpisodeRow.names())}.")
        found = EpisodeRow.of(row)
        key = (found.seed, found.co_player, found.episode)
        mine = cells.setdefault(found.agent, {})
        if key in mine:
            raise UserError(
                f"adaptation: agent '{found.agent}' has episode {found.episode} of seed {found.seed} twice."
            )
        mine[key] = found.reward
    if not cells:
        raise UserError("adaptation: there are no rows.")
    by_agent = {agent: _course(agent, mine) for agent, mine in cells.items()}
    first = next(iter(by_agent.values()))
    for agent, course in by_agent.items():
        if set(course.co_players) != set(first.co_players):
            raise UserError(f"adaptation: agent '{agent}' has not met the same co-players as the others.")
    return by_agent


def _course(agent: str, cells: Mapping[tuple[int, str, int], float]) -> Course:
    seeds = tuple(dict.fromkeys(seed for seed, _, _ in cells))
    co_players = tuple(dict.fromkeys(name for _, name, _ in cells))
    episodes = max(episode for _, _, episode in cells)
    rewards = np.full((len(seeds), len(co_players), episodes), np.nan)
    for (seed, name, episode), value in cells.items():
        rewards[seeds.index(seed), co_players.index(name), episode - 1] = value
    if np.isnan(rewards).any():
        row, column, index = (int(place) for place in np.argwhere(np.isnan(rewards))[0])
        raise UserError(
            f"adaptation: agent '{agent}', seed {seeds[row]}, co-player '{co_players[column]}' has no episode "
            f"{index + 1}."
        )
    return Course(seeds, co_players, rewards)


class Scale(NamedTuple):
    """The ends of the normalised scale with some co-players."""

    random: np.ndarray
    """[co-players], what a random player earns; NaN without one."""
    best: np.ndarray
    """[co-players], what the best response earns."""
    name: str
    """What the best response is, one of SCALES."""

    def normalise(self, scores: np.ndarray) -> np.ndarray:
        """Scores [..., co-players] on the scale; NaN where its upper end does not lie above its lower one."""
        return np.where(self.best > self.random, normalised_scores(scores, self.random, self.best), np.nan)

    @property
    def weights(self) -> np.ndarray:
        """[co-players], how much each counts in the score with all of them; 1 on average over those that have one."""
        gap = np.where(self.best > self.random, self.best - self.random, np.nan)
        return gap if np.isnan(gap).all() else gap / np.nanmean(gap)


def scale_of(found: Mapping[str, Course]) -> Scale:
    """The scale of a table: from its random player to its best responses, else to its best agents."""
    first = next(iter(found.values()))
    agents = {label: course for label, course in found.items() if label not in (RANDOM, BEST_RESPONSE)}

    def mean(label: str) -> np.ndarray:
        if label not in found:
            return np.full(len(first.co_players), np.nan)
        return _in_order(found[label], first).rewards.mean(axis=(0, 2))

    if BEST_RESPONSE in found:
        return Scale(mean(RANDOM), mean(BEST_RESPONSE), SCALES[True])
    late = [_in_order(course, first).last_quarter.mean(axis=0) for course in agents.values()]
    best = np.max(late, axis=0) if late else np.full(len(first.co_players), np.nan)
    return Scale(mean(RANDOM), best, SCALES[False])


def adaptation_summary(rows: Iterable[Row], *, seed: int = 0) -> list[AdaptationRow]:
    """How each agent does over all its episodes and over the last quarter of them.

    Args:
        rows: of an adaptation table; the agents `random` and `best_response` mark the ends of the scale.
        seed: of the resampling.

    Returns:
        For each agent a row for `all` co-players and one for each of them: agent, co_player, seeds, episodes, mean,
        last_quarter, normalised, last_quarter_normalised, each with its 95 % bootstrap interval over seeds (`_low`,
        `_high`; NaN with fewer than three seeds), and scale: what 1 is. The normalised scores of `all` are weighed by
        `Scale.weights`. Co-players with whom the best response earns no more than a random player have none and do not
        count there.
    """
    found = courses(rows)
    first, scale = next(iter(found.values())), scale_of(found)
    table = []
    for agent, given in found.items():
        course = _in_order(given, first)
        whole, late = course.rewards.mean(axis=2), course.last_quarter
        even = np.ones(len(course.co_players))
        measures = {
            "mean": (whole, even),
            "last_quarter": (late, even),
            "normalised": (scale.normalise(whole), scale.weights),
            "last_quarter_normalised": (scale.normalise(late), scale.weights),
        }
        for index, name in enumerate((ALL, *course.co_players)):
            measured: dict[str, float] = {}
            for measure, (scores, weights) in measures.items():
                chosen = scores * weights if name == ALL else scores[:, index - 1 : index]
                measured |= _columns(measure, _interval(chosen, seed))
            who = {"agent": agent, "co_player": name, "seeds": len(course.seeds), "episodes": course.rewards.shape[2]}
            table.append(AdaptationRow.of({**who, **measured, "scale": scale.name}))
    return table


def _interval(scores: np.ndarray, seed: int) -> Estimate:
    """Mean of [seeds, co-players] without those co-players that have no score, and its interval over seeds."""
    kept = scores[:, ~np.isnan(scores).any(axis=0)]
    return score_interval(kept, "mean", "seeds", seed=seed) if kept.size else Estimate(np.nan, np.nan, np.nan)


def _columns(measure: str, estimate: Estimate) -> dict[str, float]:
    return {measure: estimate.value, f"{measure}_low": estimate.low, f"{measure}_high": estimate.high}


def _in_order(course: Course, like: Course) -> Course:
    """A course with the co-players in another one's order."""
    columns = [course.co_players.index(name) for name in like.co_players]
    return Course(course.seeds, like.co_players, course.rewards[:, columns])


class AdaptationCurve(NamedTuple):
    """The curve of one agent with one co-player as points."""

    episode: np.ndarray
    """[points], middle of each stretch of episodes."""
    mean: np.ndarray
    """[points], over the stretch and the seeds."""
    low: np.ndarray
    """[points], lower end of the 95 % bootstrap interval over seeds."""
    high: np.ndarray
    """[points]."""


def adaptation_curve(course: Course, co_player: str, points: int = _CURVE_POINTS) -> AdaptationCurve:
    """What an agent earns from stretch to stretch of its episodes, with one co-player or with `all`."""
    chosen = course.rewards if co_player == ALL else course.rewards[:, [course.co_players.index(co_player)]]
    by_seed = chosen.mean(axis=1)
    stretches: Sequence[np.ndarray] = np.array_split(np.arange(by_seed.shape[1]), min(points, by_seed.shape[1]))
    values = np.stack([by_seed[:, stretch].mean(axis=1) for stretch in stretches])
    low, high = np.transpose([bootstrap_interval(value) for value in values])
    middle = np.asarray([stretch.mean() + 1 for stretch in stretches])
    return AdaptationCurve(middle, values.mean(axis=1), low, high)


def episode_scores(rows: Iterable[Row]) -> list[ScoreRow]:
    """An adaptation as an evaluation has it: mean over the episodes of each seed of each agent with each co-player."""
    return [
        ScoreRow(
            agent=agent,
            seed=seed,
            group=FIRST_EPISODES,
            team=co_player,
            episodes=course.rewards.shape[2],
            metric=OWN_RETURN,
            mean=float(course.rewards[row, column].mean()),
        )
        for agent, course in courses(rows).items()
        for row, seed in enumerate(course.seeds)
        for column, co_player in enumerate(course.co_players)
    ]
