"""The tables, figures and pages of a pipeline. All of them can be made again from the tables in `evaluation/parts`."""

from __future__ import annotations

import os
import platform
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from omg.components.files import write_json
from omg.errors import UserError
from omg.evaluation import compare, group_names, marl_eval_json, summarise
from omg.evaluation.rows import read_rows, write_rows
from omg.evaluation.suite_tables import BudgetScoreRow
from omg.evaluation.tables import (
    TABLES,
    ClosedRow,
    ComparisonRow,
    CrossPlayRow,
    EpisodeRow,
    MeasureRow,
    MetricRow,
    ScoreRow,
    SelfPlayScoreRow,
    SetScoreRow,
    SetSummaryRow,
)
from omg.experiments.adaptation.drawing import adaptation_chapter
from omg.experiments.adaptation.scores import episode_scores
from omg.experiments.budget import budget_chapters, budget_files, planned_answer, write_budget_tables
from omg.experiments.inference import offset_rows
from omg.experiments.ledger import PLAN_FILE
from omg.experiments.room.planned import (
    CLOSED_FILE,
    below_best_fixed,
    is_measured,
    planned_closed,
    planned_levels,
    room_chapters,
)
from omg.experiments.room.reading import unmeasured
from omg.experiments.runs import finished_run
from omg.experiments.stages.pool import dealt_words
from omg.experiments.trials import trials_chapters
from omg.report.derived import curves_by_metric
from omg.report.figure_files import write_figures
from omg.report.games import shown_games
from omg.report.page import ReportInput, report_input, write_markdown, write_page
from omg.report.runs import named_run, setting_rows, training_commands
from omg.report.self_play import compare_without_teams
from omg.tracking.folder import versions
from omg.types import Row, Tree

if TYPE_CHECKING:
    from omg.experiments.plan_check import CheckedPlan


def evaluation_folder(checked: CheckedPlan) -> Path:
    """Where the tables go."""
    return checked.folder / "evaluation"


def table_files(checked: CheckedPlan) -> tuple[Path, ...]:
    """Everything that `write_tables` makes; without groups of teams what there is besides, which may be nothing."""
    evaluation = checked.plan.evaluation
    names = ["crossplay.csv"] if evaluation.plays_groups or evaluation.crossplay_episodes else []
    names += ["diagnostics.csv"] if evaluation.plays_groups or checked.probed else []
    names += ["scores.csv", "summary.csv", "comparison.csv", "marl_eval.json"] if evaluation.plays_groups else []
    names += [CLOSED_FILE] if is_measured(checked) else []
    return (*(evaluation_folder(checked) / name for name in names), *budget_files(checked))


def self_play_files(checked: CheckedPlan) -> tuple[Path, Path]:
    """The table of agents that learn in all seats, and what it is made from, seed by seed."""
    return checked.folder / "self_play.csv", evaluation_folder(checked) / "parts" / "self_play.csv"


def adaptation_files(checked: CheckedPlan) -> tuple[Path, Path]:
    """The table of all episodes of the adaptation, and its summary."""
    folder = checked.folder / "adaptation"
    return folder / "adaptation.csv", folder / "summary.csv"


def adaptation_rows(checked: CheckedPlan) -> list[EpisodeRow]:
    """All episodes of the adaptation; none where the plan has none."""
    return [] if checked.plan.adaptation is None else read_rows(adaptation_files(checked)[0], EpisodeRow)


def self_play_seeds(checked: CheckedPlan) -> list[SelfPlayScoreRow]:
    """What each seed of the agents that learn in all seats reached; none where there are no such agents."""
    return read_rows(self_play_files(checked)[1], SelfPlayScoreRow) if checked.self_play else []


def comparison_rows(checked: CheckedPlan) -> list[ComparisonRow]:
    """The agent in question against every baseline: with teams or, without an evaluation, in what else was measured."""
    if checked.evaluated:
        return read_rows(evaluation_folder(checked) / "comparison.csv", ComparisonRow)
    adapted = adaptation_rows(checked)
    played = self_play_seeds(checked), episode_scores(adapted) if adapted else ()
    return compare_without_teams(checked.agent, checked.baselines, *played, lower_is_better=_lower(checked))


def pipeline_command(folder: Path) -> str:
    """The command that makes a pipeline once more, in another folder."""
    return f"omg pipeline {shlex.quote(str(folder / PLAN_FILE))} --output NEW_FOLDER"


def report_files(checked: CheckedPlan) -> tuple[Path, ...]:
    """Everything that `write_report` makes."""
    return (checked.folder / "report.html", checked.folder / "report.md", checked.folder / "figures")


def write_tables(
    checked: CheckedPlan,
    scores: Sequence[Row],
    cross_play: Sequence[Row],
    measures: Sequence[Row],
    budget: Sequence[BudgetScoreRow] = (),
) -> None:
    """Writes all tables of the evaluation.

    Args:
        checked: the plan.
        scores: columns of `SetScoreRow`; none without groups of teams.
        cross_play: of the pool's members, columns of `CrossPlayRow`.
        measures: of all agents, columns of `MeasureRow`.
        budget: of agents after shares of their training.
    """
    files = {path.stem: path for path in table_files(checked)}
    played = [SetScoreRow.of(row) for row in scores]
    first = [row for row in played if row.set == checked.plan.evaluation.sets[0]]
    if "crossplay" in files:
        # The pipeline's agents stand above the pool's members: the same team-mates, the same columns.
        write_rows(files["crossplay"], [*_agents_cross_play(checked, first), *cross_play], CrossPlayRow.names())
    if "diagnostics" in files:
        write_rows(files["diagnostics"], measures, MeasureRow.names())
    if "scores" in files:
        write_rows(files["scores"], played, SetScoreRow.names())
        write_rows(files["summary"], _summary(checked, played), SetSummaryRow.names())
        write_rows(files["comparison"], _comparison(checked, first), ComparisonRow.names())
        write_json(files["marl_eval"], _marl_eval(checked, first))
    if "closed" in files:
        write_rows(files["closed"], planned_closed(checked, first), ClosedRow.names())
    write_budget_tables(checked, budget)


def write_report(checked: CheckedPlan, seconds: Mapping[str, float], command: str) -> Path:
    """Writes the figures and the report; returns the path of its page."""
    report = planned_report(checked, seconds, command)
    page, text, figures = report_files(checked)
    write_figures(figures, report)
    write_markdown(text, report)
    return write_page(page, report)


def planned_report(checked: CheckedPlan, seconds: Mapping[str, float], command: str) -> ReportInput:
    """What the report of a pipeline is made of.

    Args:
        checked: the plan.
        seconds: how long its stages took.
        command: that repeats it.

    Raises:
        UserError: a table is not there yet.
    """
    tables = {path.stem: read_rows(path, TABLES[path.name]) for path in table_files(checked) if path.name in TABLES}
    first = checked.plan.evaluation.sets[0]
    scores = [row for row in map(SetScoreRow.of, tables.get("scores", ())) if row.set == first]
    metrics = {label: run_metrics(checked, label) for label in checked.agents}
    runs = [named_run(finished_run(checked.runs(label)).path, label) for label in checked.agents]
    cells = [row for row in map(CrossPlayRow.of, tables.get("crossplay", ())) if row.metric == checked.metric]
    return report_input(
        checked.plan.report.title or f"{checked.plan.name}: {checked.env.spec.name} {checked.env.spec.scenario}",
        scores,
        checked.metric,
        checked.agent,
        checked.baselines,
        lower_is_better=_lower(checked),
        lead=planned_answer(checked),
        question=checked.plan.report.question,
        names=checked.plan.report.names,
        levels=(levels := planned_levels(checked)),
        curves=curves_by_metric(metrics, _curves_metric(checked, metrics)),
        curves_levels=levels[next(iter(levels))] if levels and first == "training" and len(levels) == 1 else {},
        self_play=self_play_seeds(checked),
        cross_play=[{**row, "team": row.mate} for row in cells],
        offsets=[row for label in checked.agents for row in offset_rows(label, metrics[label])],
        diagnostics=tables.get("diagnostics", ()),
        warnings=below_best_fixed(checked),
        chapters=(*room_chapters(checked), *budget_chapters(checked), *trials_chapters(checked)),
        adaptation=adaptation_chapter(adaptation_rows(checked), checked.plan.report.names),
        games=shown_games(
            [run.path for run in runs if run.label == checked.agent], checked.metric, lower_is_better=_lower(checked)
        ),
        runs=[run.row() for run in runs],
        settings=setting_rows(runs, checked.plan.report.names),
        trainings=training_commands(runs),
        commands=(command,),
        versions=versions()["packages"],
        machine=_machine(),
        notes=_notes(checked, seconds),
    )


def run_metrics(checked: CheckedPlan, label: str) -> list[MetricRow]:
    """All metrics of an agent's training."""
    return list(finished_run(checked.runs(label)).metrics())


def _summary(checked: CheckedPlan, scores: Sequence[SetScoreRow]) -> list[SetSummaryRow]:
    """Every agent with every group of every set, by every metric."""
    rows: list[SetSummaryRow] = []
    for name in checked.plan.evaluation.sets:
        own = [row for row in scores if row.set == name]
        for metric in dict.fromkeys(row.metric for row in own):
            lower = metric == "ep_length" or (metric == checked.metric and checked.plan.report.lower_is_better)
            found = summarise(own, metric, lower_is_better=lower)
            rows += [SetSummaryRow.extended(row, set=name) for row in found]
    return rows


def _comparison(checked: CheckedPlan, scores: Sequence[ScoreRow]) -> list[ComparisonRow]:
    lower = checked.plan.report.lower_is_better
    return compare(scores, checked.metric, checked.agent, checked.baselines, lower_is_better=lower)


def _agents_cross_play(checked: CheckedPlan, scores: Sequence[ScoreRow]) -> list[CrossPlayRow]:
    """Every agent with every member in all other seats, mean over seeds."""
    group = group_names(checked.env.spec.n_agents)[0]
    seats = checked.env.spec.n_agents - 1
    cells: dict[tuple[str, str, str], list[ScoreRow]] = {}
    for row in scores:
        if row.group == group:
            cells.setdefault((row.agent, row.team.removeprefix(f"{seats}x"), row.metric), []).append(row)
    return [
        CrossPlayRow(
            agent=agent,
            mate=mate,
            metric=metric,
            mean=sum(row.mean for row in rows) / len(rows),
            episodes=sum(row.episodes for row in rows),
        )
        for (agent, mate, metric), rows in cells.items()
    ]


def _marl_eval(checked: CheckedPlan, scores: Sequence[ScoreRow]) -> Tree:
    """The agents that were trained; marl-eval wants equally many seeds of everybody."""
    seeds = {label: config.seeds for label, config in checked.agents.items()}
    kept = [label for label in seeds if seeds[label] == seeds[checked.agent]]
    spec = checked.env.spec
    rows = [row for row in scores if row.agent in kept]
    return marl_eval_json(rows, spec.name, spec.scenario, step_count=checked.agents[checked.agent].t_max)


def _curves_metric(checked: CheckedPlan, metrics: Mapping[str, Sequence[MetricRow]]) -> str:
    """The test metric that the curves show: the one of the verdict, if all runs have logged it."""
    names = [{row.name for row in rows} for rows in metrics.values()]
    for metric in (checked.metric, checked.env.spec.success_metric, "return"):
        if all(f"test_{metric}_mean" in found for found in names):
            return f"test_{metric}_mean"
    raise UserError(f"{checked.folder}: the runs have no test metric in common to draw.")


def _notes(checked: CheckedPlan, seconds: Mapping[str, float]) -> list[str]:
    plan = checked.plan
    pool = {name: sum(numbers.values()) for name, numbers in plan.pool.counts.items()}
    for name in plan.pool.scripts.values():
        pool[name] = pool.get(name, 0) + 1
    first = plan.evaluation.sets[0]
    lines = [_trained_words(checked, pool.get("training", 0))]
    if plan.evaluation.plays_groups:
        lines.append(
            f"They were then evaluated with {pool[first]} players of the set {first}, {plan.evaluation.episodes} "
            f"episodes per team."
        )
    if plan.adaptation is not None:
        lines.append(
            f"Their first {plan.adaptation.episodes} episodes were played with {pool[plan.adaptation.set]} players of "
            f"the set {plan.adaptation.set}" + (" and further scripts." if plan.adaptation.players else ".")
        )
    if not is_measured(checked) and plan.evaluation.plays_groups:
        lines.append(unmeasured(checked.pool.name, first))
    if plan.pool.kinds is not None:
        lines.append(f"Partners: {dealt_words(plan.pool)}.")
    return [
        *lines,
        "Wall time: " + ", ".join(f"{stage} {_duration(value)}" for stage, value in seconds.items()) + ".",
        "Everything that was set is in pipeline.yaml, all numbers are in the tables beside it.",
    ]


def _trained_words(checked: CheckedPlan, team_mates: int) -> str:
    """How the agents learned, in one sentence for each of the two ways."""
    sentences = []
    for seats, labels in (
        ("in all seats", checked.self_play),
        (
            f"in one seat with {team_mates} players of the training set",
            [label for label in checked.agents if label not in checked.self_play],
        ),
    ):
        configs = [checked.agents[label] for label in labels]
        steps, seeds = ({getattr(config, key) for config in configs} for key in ("t_max", "seeds"))
        who = "The agents" if len(configs) == len(checked.agents) else ", ".join(labels)
        counts = f"{_numbers(sorted(steps))} steps, {_numbers(sorted(seeds))} seeds each"
        sentences += [f"{who} learned {seats} for {counts}."] if configs else []
    return " ".join(sentences)


def _lower(checked: CheckedPlan) -> bool:
    """Whether the verdict's metric is better when it is lower; self-play has the game's own."""
    same = bool(checked.evaluated) or checked.metric == checked.env.spec.success_metric
    return checked.plan.report.lower_is_better and same


def _numbers(values: Sequence[int]) -> str:
    return " or ".join(f"{value:,}" for value in values)


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def _machine() -> str:
    found = versions()
    return f"{found['device']}, {os.cpu_count()} CPU cores, {platform.system()}, Python {found['python']}"
