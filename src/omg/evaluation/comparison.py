"""From tidy score rows to tables: how each agent does with each group of teams, and who is better.

A score row is a mapping with the columns `agent`, `seed`, `group`, `team`, `episodes`, `metric` and `mean`: the mean of
one metric over the episodes that one trained seed of an agent played with one team. All agents meet the same teams from
the same starts with the same random numbers, so that teams are paired. Values may be text, as read from a CSV file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

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

Row = Mapping[str, Any]
COLUMNS = ("agent", "seed", "group", "team", "episodes", "metric", "mean")
NO_SEED = -1
"""In place of a training seed, of a player that nobody trained: a scripted one is always the same."""


@dataclass(frozen=True)
class ScoreMatrix:
    """The scores of one agent with one group of teams."""

    seeds: tuple[str, ...]
    """R training seeds."""
    teams: tuple[str, ...]
    """M teams."""
    scores: np.ndarray
    """[R, M] mean over episodes."""
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
    for row in rows:
        missing = [column for column in COLUMNS if column not in row]
        if missing:
            raise UserError(f"scores: a row has no column '{missing[0]}'. Needed: {', '.join(COLUMNS)}.")
        metrics.add(str(row["metric"]))
        if str(row["metric"]) != metric:
            continue
        key, cell = (str(row["group"]), str(row["agent"])), (str(row["seed"]), str(row["team"]))
        if cell in cells.setdefault(key, {}):
            raise UserError(f"scores: {_where(key, cell)} has more than one '{metric}'.")
        cells[key][cell] = float(row["mean"])
        episodes[key] = episodes.get(key, 0) + int(row["episodes"])
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
) -> list[dict[str, Any]]:
    """How each agent does with each group of teams.

    Args:
        rows: tidy score rows.
        metric: which metric.
        resample: what the intervals generalise over. `seeds`: other trainings with these teams. `seeds_and_teams`:
            other teams, too. `stratified`: rliable's intervals, for comparison with published ones.
        lower_is_better: for metrics such as the number of steps; decides which team is the worst.
        seed: of the resampling.

    Returns:
        One row per group and agent: agent, group, metric, seeds, teams, episodes, mean, low, high, iqm, iqm_low,
        iqm_high (95 % intervals, NaN where there are too few seeds), worst_team, worst_team_mean (mean over seeds).
    """
    table = []
    for (group, agent), matrix in score_matrices(rows, metric).items():
        mean = score_interval(matrix.scores, "mean", resample, seed=seed)
        iqm = score_interval(matrix.scores, "iqm", resample, seed=seed)
        per_team = matrix.scores.mean(axis=0)
        worst = int(np.argmax(per_team) if lower_is_better else np.argmin(per_team))
        table.append(
            {
                "agent": agent,
                "group": group,
                "metric": metric,
                "seeds": len(matrix.seeds),
                "teams": len(matrix.teams),
                "episodes": matrix.episodes,
                **_columns(mean, "mean", "low", "high"),
                **_columns(iqm, "iqm", "iqm_low", "iqm_high"),
                "worst_team": matrix.teams[worst],
                "worst_team_mean": float(per_team[worst]),
            }
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
) -> list[dict[str, Any]]:
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
        One row per group and baseline: agent, baseline, group, metric, seeds, baseline_seeds, teams, episodes (of
        both), mean, baseline_mean, difference (agent - baseline, in the metric's own units), low, high (95 %),
        p_improvement (probability that the agent is ahead), p_low, p_high, interval_over, verdict: `better`, `worse`
        or `no difference shown`, by whether the interval of the difference excludes 0.

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
                {
                    "agent": agent,
                    "baseline": baseline,
                    "group": group,
                    "metric": metric,
                    "seeds": len(own.seeds),
                    "baseline_seeds": len(other.seeds),
                    "teams": len(own.teams),
                    "episodes": own.episodes + other.episodes,
                    "mean": float(own.scores.mean()),
                    "baseline_mean": float(other_scores.mean()),
                    **_columns(difference, "difference", "low", "high"),
                    **_columns(ahead, "p_improvement", "p_low", "p_high"),
                    "interval_over": "seeds and teams" if resampled else "seeds",
                    "verdict": verdict(difference, lower_is_better=lower_is_better),
                }
            )
    return table


def verdict(difference: Estimate, *, lower_is_better: bool = False) -> str:
    """`better`, `worse`, or `no difference shown` where the interval holds 0 or there is none."""
    above, below = ("worse", "better") if lower_is_better else ("better", "worse")
    if difference.low > 0:
        return above
    return below if difference.high < 0 else "no difference shown"


def per_team(rows: Iterable[Row], metric: str) -> list[dict[str, Any]]:
    """One row per group, team and agent: group, team, agent, seeds, mean, lowest and highest seed."""
    table = []
    for (group, agent), matrix in score_matrices(rows, metric).items():
        for column, team in enumerate(matrix.teams):
            scores = matrix.scores[:, column]
            row = {"group": group, "team": team, "agent": agent, "metric": metric, "seeds": len(matrix.seeds)}
            spread = {"lowest": float(scores.min()), "highest": float(scores.max())}
            table.append({**row, "mean": float(scores.mean()), **spread})
    return table


def normalise(
    rows: Iterable[Row],
    metric: str,
    *,
    random: str = "random",
    best_response: str = "best_response",
    smallest_gap: float = 0.0,
) -> tuple[list[dict[str, Any]], list[str]]:
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
    rows = list(rows)
    matrices = score_matrices(rows, metric)
    episodes = {
        (str(row["group"]), str(row["agent"]), str(row["seed"]), str(row["team"])): int(row["episodes"])
        for row in rows
        if str(row["metric"]) == metric
    }
    table: list[dict[str, Any]] = []
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
                row = {"agent": agent, "seed": seed, "group": group, "team": team}
                count = episodes[group, agent, seed, team]
                value = float(scaled[row_index, column])
                table.append({**row, "episodes": count, "metric": f"{metric}_normalised", "mean": value})
    return table, list(left_out)


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
    """The baseline's scores [Q, M] with the columns in the order of the agent's teams."""
    different = sorted(set(own.teams) ^ set(other.teams))
    if different:
        holder = agent if different[0] in own.teams else baseline
        raise UserError(
            f"group '{group}': '{agent}' and '{baseline}' have not met the same teams, so they cannot be compared team "
            f"by team; only '{holder}' has met '{different[0]}'."
        )
    return other.scores[:, [other.teams.index(team) for team in own.teams]]


def _columns(estimate: Estimate, value: str, low: str, high: str) -> dict[str, float]:
    return {value: estimate.value, low: estimate.low, high: estimate.high}


def _where(key: tuple[str, str], cell: tuple[str, str]) -> str:
    return f"agent '{key[1]}', seed {cell[0]}, group '{key[0]}', team '{cell[1]}'"
