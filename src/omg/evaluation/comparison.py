"""From tidy score rows to tables: how each agent does with each group of teams, and who is better.

A score row is a mapping with the columns of `ScoreRow`: the mean of one metric over the episodes that one trained seed
of an agent played with one team. All agents meet the same teams from the same starts with the same random numbers, so
that teams are paired. Values may be text, as read from a CSV file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from omg.errors import UserError, unknown_name
from omg.evaluation.statistics import (
    FEWEST,
    Estimate,
    Resample,
    normalised_scores,
    paired_difference,
    probability_of_improvement,
    score_interval,
)
from omg.evaluation.tables import ComparisonRow, ScoreRow, SummaryRow, TeamRow
from omg.types import Row

NO_SEED = -1
"""In place of a training seed, of a player that nobody trained: a scripted one is always the same."""


@dataclass(frozen=True)
class ScoreMatrix:
    """The scores of one agent with one group of teams."""

    seeds: tuple[str, ...]
    """Training seeds."""
    teams: tuple[str, ...]
    """In the order of the columns."""
    scores: np.ndarray
    """[seeds, teams] mean over episodes."""
    episodes: int
    """Episodes of all seeds and teams together."""

    @property
    def trained(self) -> bool:
        """Whether it stands for other trainings of its kind."""
        return self.seeds != (str(NO_SEED),)


def score_matrices(rows: Iterable[Row], metric: str) -> dict[tuple[str, str], ScoreMatrix]:
    """The scores of one metric by (group, agent), in the order in which groups and agents first appear.

    Raises:
        UserError: a column or the metric is missing, a score appears twice, or a seed has not met all teams.
    """
    cells: dict[tuple[str, str], dict[tuple[str, str], float]] = {}
    episodes: dict[tuple[str, str], int] = {}
    metrics = set()
    for row in map(_score, rows):
        metrics.add(row.metric)
        if row.metric != metric:
            continue
        key, cell = (row.group, row.agent), (str(row.seed), row.team)
        if cell in cells.setdefault(key, {}):
            raise UserError(f"scores: {_where(key, cell)} has more than one '{metric}'.")
        cells[key][cell] = row.mean
        episodes[key] = episodes.get(key, 0) + row.episodes
    if not metrics:
        raise UserError("scores: there are no rows.")
    if not cells:
        raise unknown_name("metric", metric, metrics)
    order = {group: position for position, group in enumerate(dict.fromkeys(group for group, _ in cells))}
    return {
        key: _matrix(key, cells[key], episodes[key], metric) for key in sorted(cells, key=lambda item: order[item[0]])
    }


def summarise(
    rows: Iterable[Row],
    metric: str,
    *,
    resample: Resample = "seeds",
    lower_is_better: bool = False,
    seed: int = 0,
) -> list[SummaryRow]:
    """How each agent does with each group of teams.

    Args:
        rows: tidy score rows.
        metric: which metric.
        resample: what the intervals generalise over. `seeds`: other trainings with these teams. `seeds_and_teams`:
            other teams, too. `stratified`: rliable's intervals, for comparison with published ones.
        lower_is_better: for metrics such as the number of steps; decides which team is the worst.
        seed: of the resampling.

    Returns:
        One row per group and agent; the ends of intervals are NaN where there are too few seeds.
    """
    table = []
    for (group, agent), matrix in score_matrices(rows, metric).items():
        mean = score_interval(matrix.scores, "mean", resample, seed=seed)
        iqm = score_interval(matrix.scores, "iqm", resample, seed=seed)
        per_team = matrix.scores.mean(axis=0)
        worst = int(np.argmax(per_team) if lower_is_better else np.argmin(per_team))
        table.append(
            SummaryRow(
                agent=agent,
                group=group,
                metric=metric,
                seeds=len(matrix.seeds),
                teams=len(matrix.teams),
                episodes=matrix.episodes,
                mean=mean.value,
                low=mean.low,
                high=mean.high,
                iqm=iqm.value,
                iqm_low=iqm.low,
                iqm_high=iqm.high,
                worst_team=matrix.teams[worst],
                worst=float(per_team[worst]),
            )
        )
    return table


def compare(
    rows: Iterable[Row],
    metric: str,
    agent: str,
    baselines: Sequence[str],
    *,
    teams: Literal["resampled", "fixed"] = "resampled",
    lower_is_better: bool = False,
    seed: int = 0,
) -> list[ComparisonRow]:
    """The paired difference between an agent and each baseline, group by group.

    Args:
        rows: tidy score rows.
        metric: which metric.
        agent: the agent in question.
        baselines: the agents it is compared with.
        teams: whether the intervals generalise over teams as well as seeds (`resampled`) or hold for these teams only
            (`fixed`). Groups of fewer than three teams are always `fixed`; the column `interval_over` says so.
        lower_is_better: for metrics such as the number of steps.
        seed: of the resampling.

    Returns:
        One row per group and baseline; its verdict is `better`, `worse` or `no difference shown`, by whether the
        interval of the difference excludes 0.

    Raises:
        UserError: an agent is unknown, or two agents have not met the same teams.
    """
    matrices = score_matrices(rows, metric)
    agents = {name for _, name in matrices}
    for name in (agent, *baselines):
        if name not in agents:
            raise unknown_name("agent", name, agents)
    table = []
    for baseline in baselines:
        common = [group for group, name in matrices if name == agent and (group, baseline) in matrices]
        if not common:
            raise UserError(f"agents '{agent}' and '{baseline}' have no group of teams in common.")
        for group in common:
            own, other = matrices[group, agent], matrices[group, baseline]
            other_scores = _same_teams(group, agent, own, baseline, other)
            resampled = teams == "resampled" and len(own.teams) >= FEWEST
            trained = (own.trained, other.trained)
            difference = paired_difference(
                own.scores, other_scores, teams="resampled" if resampled else "fixed", trained=trained, seed=seed
            )
            sign = -1.0 if lower_is_better else 1.0
            over: Resample = "seeds_and_teams" if resampled else "seeds"
            ahead = probability_of_improvement(sign * own.scores, sign * other_scores, over, trained=trained, seed=seed)
            table.append(
                ComparisonRow(
                    agent=agent,
                    baseline=baseline,
                    group=group,
                    metric=metric,
                    seeds=len(own.seeds),
                    baseline_seeds=len(other.seeds),
                    teams=len(own.teams),
                    episodes=own.episodes + other.episodes,
                    mean=float(own.scores.mean()),
                    baseline_mean=float(other_scores.mean()),
                    difference=difference.value,
                    low=difference.low,
                    high=difference.high,
                    p_improvement=ahead.value,
                    p_low=ahead.low,
                    p_high=ahead.high,
                    interval_over="seeds and teams" if resampled else "seeds",
                    verdict=verdict(difference, lower_is_better=lower_is_better),
                )
            )
    return table


def verdict(difference: Estimate, *, lower_is_better: bool = False) -> str:
    """`better`, `worse`, or `no difference shown` where the interval holds 0 or there is none."""
    above, below = ("worse", "better") if lower_is_better else ("better", "worse")
    if difference.low > 0:
        return above
    return below if difference.high < 0 else "no difference shown"


def per_team(rows: Iterable[Row], metric: str) -> list[TeamRow]:
    """One row per group, team and agent: mean over its seeds, lowest and highest seed."""
    table = []
    for (group, agent), matrix in score_matrices(rows, metric).items():
        for column, team in enumerate(matrix.teams):
            scores = matrix.scores[:, column]
            table.append(
                TeamRow(
                    group=group,
                    team=team,
                    agent=agent,
                    metric=metric,
                    seeds=len(matrix.seeds),
                    mean=float(scores.mean()),
                    lowest=float(scores.min()),
                    highest=float(scores.max()),
                )
            )
    return table


def normalise(
    rows: Iterable[Row],
    metric: str,
    *,
    random: str = "random",
    best_response: str = "best_response",
    smallest_gap: float = 0.0,
) -> tuple[list[ScoreRow], list[str]]:
    """Scores per team on a scale from a random player (0) to a best response trained for that team (1).

    Args:
        rows: tidy score rows that also hold the two agents which mark the ends of the scale.
        metric: which metric.
        random: label of the random player.
        best_response: label of the best responses.
        smallest_gap: teams with which the two ends lie no further apart than this are left out: there, playing well
            hardly matters, and dividing by the gap would only blow up chance.

    Returns:
        Rows of all other agents with the metric `<metric>_normalised`, and the teams (`group/team`) left out.
    """
    scores = [_score(row) for row in rows]
    matrices = score_matrices(scores, metric)
    episodes = {(row.group, row.agent, str(row.seed), row.team): row.episodes for row in scores if row.metric == metric}
    table: list[ScoreRow] = []
    left_out: dict[str, None] = {}
    for (group, agent), matrix in matrices.items():
        if agent in (random, best_response):
            continue
        ends = []
        for end in (random, best_response):
            if (group, end) not in matrices:
                raise UserError(f"normalised scores: group '{group}' has no rows of the agent '{end}'.")
            ends.append(_same_teams(group, agent, matrix, end, matrices[group, end]).mean(axis=0))
        scaled = normalised_scores(matrix.scores, *ends)
        keep = np.abs(ends[1] - ends[0]) > smallest_gap
        left_out.update({f"{group}/{team}": None for team, kept in zip(matrix.teams, keep, strict=True) if not kept})
        for row_index, seed in enumerate(matrix.seeds):
            for column in np.flatnonzero(keep):
                team = matrix.teams[column]
                table.append(
                    ScoreRow(
                        agent=agent,
                        seed=seed,
                        group=group,
                        team=team,
                        episodes=episodes[group, agent, seed, team],
                        metric=f"{metric}_normalised",
                        mean=float(scaled[row_index, column]),
                    )
                )
    return table, list(left_out)


def _score(row: Row) -> ScoreRow:
    """A score row that somebody gave."""
    missing = [name for name in ScoreRow.names() if name not in row]
    if missing:
        raise UserError(f"scores: a row has no column '{missing[0]}'. Needed: {', '.join(ScoreRow.names())}.")
    return ScoreRow.of(row)


def _matrix(key: tuple[str, str], cells: Mapping[tuple[str, str], float], episodes: int, metric: str) -> ScoreMatrix:
    seeds = tuple(dict.fromkeys(seed for seed, _ in cells))
    teams = tuple(dict.fromkeys(team for _, team in cells))
    for seed in seeds:
        for team in teams:
            if (seed, team) not in cells:
                raise UserError(f"scores: {_where(key, (seed, team))} has no '{metric}', others of the group have.")
    scores = np.asarray([[cells[seed, team] for team in teams] for seed in seeds])
    return ScoreMatrix(seeds, teams, scores, episodes)


def _same_teams(group: str, agent: str, own: ScoreMatrix, baseline: str, other: ScoreMatrix) -> np.ndarray:
    """The baseline's scores [others, teams] with the columns in the order of the agent's teams."""
    different = sorted(set(own.teams) ^ set(other.teams))
    if different:
        holder = agent if different[0] in own.teams else baseline
        raise UserError(
            f"group '{group}': '{agent}' and '{baseline}' have not met the same teams, so they cannot be compared team "
            f"by team; only '{holder}' has met '{different[0]}'."
        )
    return other.scores[:, [other.teams.index(team) for team in own.teams]]


def _where(key: tuple[str, str], cell: tuple[str, str]) -> str:
    return f"agent '{key[1]}', seed {cell[0]}, group '{key[0]}', team '{cell[1]}'"
