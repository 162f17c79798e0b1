"""Self-play as a table of words, and what there is to compare where agents are not evaluated with teams.

Self-play is one group with one team, the agent itself; the first episodes with new co-players are another, with a team
for each co-player. Both are then summarised and compared by the same statistics as an evaluation.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from omg.evaluation import compare, per_team, summarise
from omg.evaluation.adaptation import courses
from omg.report.words import FIRST_EPISODES, SELF_PLAY, agent_name, metric_words
from omg.runners.vector import OWN_RETURN

Row = Mapping[str, Any]

ITSELF = "itself"
"""Name of the team that an agent is to itself."""
COLUMNS = ("agent", "metric", "seeds", "steps", "episodes", "mean", "low", "high", "lowest", "highest")
"""Of a summary."""


def self_play_rows(label: str, metrics: Iterable[Row], metric: str, episodes: int) -> list[dict[str, Any]]:
    """What every seed of an agent reached in the last test of its training.

    Args:
        label: of the agent.
        metrics: tidy training metrics (`seed`, `t_env`, `name`, `value`).
        metric: of the game, e.g. `reward_per_player`.
        episodes: of a test.

    Returns:
        Score rows as of an evaluation (see `omg.evaluation.comparison`), with the column `steps`.
    """
    last: dict[int, tuple[int, float]] = {}
    for row in metrics:
        if row["name"] == f"test_{metric}_mean":
            last[int(row["seed"])] = max(
                (int(row["t_env"]), float(row["value"])), last.get(int(row["seed"]), (-1, 0.0))
            )
    facts = {"agent": label, "group": SELF_PLAY, "team": ITSELF, "metric": metric, "episodes": episodes}
    return [{**facts, "seed": seed, "steps": steps, "mean": value} for seed, (steps, value) in sorted(last.items())]


def self_play_summary(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """How every agent does with itself: mean over seeds, its 95 % interval, lowest and highest seed.

    Args:
        rows: from `self_play_rows`, of one metric.

    Returns:
        One row per agent with `COLUMNS`; `steps` is how far all its seeds have come, `episodes` are of all seeds.
    """
    metric = str(rows[0]["metric"])
    steps = {row["agent"]: min(int(one["steps"]) for one in rows if one["agent"] == row["agent"]) for row in rows}
    spread = {row["agent"]: row for row in per_team(rows, metric)}
    return [
        {
            **{key: row[key] for key in COLUMNS if key in row},
            "steps": steps[row["agent"]],
            **{key: spread[row["agent"]][key] for key in ("lowest", "highest")},
        }
        for row in summarise(rows, metric)
    ]


def self_play_table(
    summary: Sequence[Row], names: Mapping[str, str] | None = None
) -> tuple[Sequence[str], list[Sequence[str]]]:
    """Head and lines of a table.

    Args:
        summary: from `self_play_summary`.
        names: label -> name of agents.
    """
    words = metric_words(str(summary[0]["metric"]))
    head = ("agent", f"{words.noun} [95 %]", "lowest", "highest", "seeds", "steps")
    lines: list[Sequence[str]] = []
    for row in summary:
        low, high = float(row["low"]), float(row["high"])
        interval = "" if math.isnan(low) else f" [{words.bare(low)}, {words.bare(high)}]"
        seeds = [words.value(float(row[key])) for key in ("lowest", "highest")]
        counts = [f"{int(row[key]):,}" for key in ("seeds", "steps")]
        lines.append(
            [agent_name(str(row["agent"]), names), words.value(float(row["mean"])) + interval, *seeds, *counts]
        )
    return head, lines


def compare_without_teams(
    agent: str,
    baselines: Sequence[str],
    self_play: Sequence[Row] = (),
    adaptation: Sequence[Row] = (),
    *,
    lower_is_better: bool = False,
) -> list[dict[str, Any]]:
    """An agent against each baseline in self-play and in their first episodes with new co-players.

    Args:
        agent: the agent in question.
        baselines: what it is compared with; those who were not there are left out.
        self_play: from `self_play_rows`.
        adaptation: rows of an adaptation table; see `omg.evaluation.adaptation`.
        lower_is_better: for the metric of self-play.

    Returns:
        Rows of `omg.evaluation.compare`, baseline by baseline.
    """
    parts = [(self_play, str(row["metric"]), lower_is_better) for row in self_play[:1]]
    parts += [(_episode_scores(adaptation), OWN_RETURN, False)] if adaptation else []
    found = []
    for baseline in baselines:
        for rows, metric, lower in parts:
            if {agent, baseline} <= {str(row["agent"]) for row in rows}:
                found += compare(rows, metric, agent, [baseline], lower_is_better=lower)
    return found


def _episode_scores(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Score rows of an adaptation: what each seed of each agent earned with each co-player, mean over its episodes."""
    return [
        {
            "agent": agent,
            "seed": seed,
            "group": FIRST_EPISODES,
            "team": co_player,
            "episodes": course.rewards.shape[2],
            "metric": OWN_RETURN,
            "mean": float(course.rewards[row, column].mean()),
        }
        for agent, course in courses(rows).items()
        for row, seed in enumerate(course.seeds)
        for column, co_player in enumerate(course.co_players)
    ]
