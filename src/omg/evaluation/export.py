"""Scores in the layout that marl-eval reads, for people who use its plots."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from omg.errors import UserError
from omg.evaluation.comparison import score_matrices
from omg.types import Row, Tree


def marl_eval_json(
    rows: Iterable[Row],
    env: str,
    scenario: str,
    *,
    metrics: Sequence[str] | None = None,
    step_count: int = 0,
) -> Tree:
    """Nested mappings env > task > algorithm > run > step, ready for `json.dump`.

    A task is one group of teams on one scenario (`8m_7_homologue`), a run is one training seed, and a metric is a list
    with one number per team. marl-eval reads a run's last entry, `absolute_metrics`, for its aggregates and all the
    others for its curves; an evaluation after training has a single step, whose numbers are the absolute ones. Names of
    games, tasks and metrics are in lower case because marl-eval looks them up that way.

    Args:
        rows: tidy score rows; see `omg.evaluation.comparison`.
        env: name of the game, e.g. `sc2`.
        scenario: e.g. the map, `8m`.
        metrics: which metrics to export; all when left out.
        step_count: environment steps after which the agents were evaluated.

    Raises:
        UserError: marl-eval could not read the result, because the agents do not share their tasks, metrics and number
            of seeds.
    """
    rows = list(rows)
    names = list(dict.fromkeys(str(row["metric"]) for row in rows)) if metrics is None else list(metrics)
    tasks: Tree = {}
    for metric in names:
        for (group, agent), matrix in score_matrices(rows, metric).items():
            runs = tasks.setdefault(f"{scenario}_{group}".lower(), {}).setdefault(agent, {})
            for seed, scores in zip(matrix.seeds, matrix.scores, strict=True):
                steps = runs.setdefault(f"seed_{seed}", {"step_1": {"step_count": step_count}, "absolute_metrics": {}})
                for step in steps.values():
                    step[metric.lower()] = scores.tolist()
    _check(tasks, names)
    return {env.lower(): tasks}


def _check(tasks: Tree, metrics: Sequence[str]) -> None:
    """All tasks must have the same agents, all agents equally many seeds, and all seeds the same metrics."""
    if not tasks:
        raise UserError("marl-eval export: there are no rows.")
    agents = {agent for algorithms in tasks.values() for agent in algorithms}
    for task, algorithms in tasks.items():
        for agent in sorted(agents - set(algorithms)):
            raise UserError(f"marl-eval export: agent '{agent}' was not evaluated on '{task}', others were.")
    counts = {(task, agent): len(runs) for task, algorithms in tasks.items() for agent, runs in algorithms.items()}
    if len(set(counts.values())) > 1:
        (few, most) = min(counts, key=lambda key: counts[key]), max(counts, key=lambda key: counts[key])
        raise UserError(
            f"marl-eval export: all agents need equally many seeds; '{few[1]}' has {counts[few]} on '{few[0]}', "
            f"'{most[1]}' has {counts[most]} on '{most[0]}'."
        )
    for task, algorithms in tasks.items():
        for agent, runs in algorithms.items():
            for run, steps in runs.items():
                for metric in metrics:
                    if metric.lower() not in steps["absolute_metrics"]:
                        raise UserError(f"marl-eval export: '{agent}', {run} on '{task}' has no '{metric}'.")
