"""Self-play as a table of words, and what there is to compare where agents are not evaluated with teams.

Self-play is one group with one team, the agent itself; the first episodes with new co-players are another, with a team
for each co-player. Both are then summarised and compared by the same statistics as an evaluation.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from omg.evaluation import compare, per_team, summarise
from omg.evaluation.rows import Seed
from omg.evaluation.tables import ComparisonRow, MetricRow, SelfPlayRow, SelfPlayScoreRow
from omg.report.tables import SELF_PLAY_SCORES, Cells, table_of
from omg.report.words import SELF_PLAY
from omg.runners.vector import OWN_RETURN
from omg.types import Row

ITSELF = "itself"
"""Name of the team that an agent is to itself."""


def self_play_rows(
    label: str, metrics: Iterable[Row], metric: str, episodes: int, group: str = SELF_PLAY
) -> list[SelfPlayScoreRow]:
    """What every seed of an agent reached in the last test of its training.

    Args:
        label: of the agent.
        metrics: training metrics, columns of `MetricRow`.
        metric: of the game, e.g. `reward_per_player`.
        episodes: of a test.
        group: what these tests are.
    """
    last: dict[Seed, tuple[int, float]] = {}
    for row in map(MetricRow.of, metrics):
        if row.name == f"test_{metric}_mean":
            last[row.seed] = max((row.t_env, row.value), last.get(row.seed, (-1, 0.0)))
    return [
        SelfPlayScoreRow(
            agent=label,
            seed=seed,
            group=group,
            team=ITSELF,
            episodes=episodes,
            metric=metric,
            mean=value,
            steps=steps,
        )
        for seed, (steps, value) in last.items()
    ]


def self_play_summary(rows: Sequence[Row]) -> list[SelfPlayRow]:
    """How every agent does with itself: mean over seeds, its 95 % interval, lowest and highest seed.

    Args:
        rows: from `self_play_rows`, of one metric.

    Returns:
        One row per agent; `steps` is how far all its seeds have come, `episodes` are of all seeds.
    """
    scores = [SelfPlayScoreRow.of(row) for row in rows]
    metric = scores[0].metric
    steps = {row.agent: min(one.steps for one in scores if one.agent == row.agent) for row in scores}
    spread = {row.agent: row for row in per_team(scores, metric)}
    return [
        SelfPlayRow(
            agent=row.agent,
            metric=row.metric,
            seeds=row.seeds,
            steps=steps[row.agent],
            episodes=row.episodes,
            mean=row.mean,
            low=row.low,
            high=row.high,
            lowest=spread[row.agent].lowest,
            highest=spread[row.agent].highest,
        )
        for row in summarise(scores, metric)
    ]


def self_play_table(summary: Sequence[Row], names: Mapping[str, str] | None = None) -> Cells:
    """Head and lines of a table.

    Args:
        summary: from `self_play_summary`.
        names: label -> name of agents.
    """
    return table_of([SelfPlayRow.of(row) for row in summary], SELF_PLAY_SCORES, names)


def compare_without_teams(
    agent: str,
    baselines: Sequence[str],
    self_play: Sequence[Row] = (),
    first_episodes: Sequence[Row] = (),
    *,
    lower_is_better: bool = False,
) -> list[ComparisonRow]:
    """An agent against each baseline in self-play and in their first episodes with new co-players.

    Args:
        agent: the agent in question.
        baselines: what it is compared with; those who were not there are left out.
        self_play: from `self_play_rows`.
        first_episodes: score rows with new co-players, of `own_return`.
        lower_is_better: for the metric of self-play.

    Returns:
        Rows of `omg.evaluation.compare`, baseline by baseline.
    """
    parts: list[tuple[Sequence[Row], str, bool]] = [
        (self_play, str(row["metric"]), lower_is_better) for row in self_play[:1]
    ]
    parts += [(first_episodes, OWN_RETURN, False)] if first_episodes else []
    found = []
    for baseline in baselines:
        for rows, metric, lower in parts:
            if {agent, baseline} <= {str(row["agent"]) for row in rows}:
                found += compare(rows, metric, agent, [baseline], lower_is_better=lower)
    return found
