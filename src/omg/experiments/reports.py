"""What a report of anything on disk is made of: a run, several runs, a pipeline, or tables that were kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from omg import api
from omg.errors import UserError, unknown_name
from omg.evaluation import summarise
from omg.evaluation.budget import Marks
from omg.evaluation.rows import read_rows
from omg.evaluation.suite_tables import BudgetRow, ImportanceRow, SliceRow, TrialRow
from omg.evaluation.tables import ClosedRow, EpisodeRow, RoomRow, StageTimeRow, SummaryRow
from omg.experiments.adaptation.drawing import adaptation_chapter
from omg.experiments.inference import offset_rows
from omg.experiments.ledger import PLAN_FILE, TIMES_FILE
from omg.experiments.plan import read_plan, read_plan_file
from omg.experiments.plan_check import check_plan
from omg.experiments.results import pipeline_command, planned_report, report_files
from omg.experiments.stages.train import RUNS_FOLDER
from omg.experiments.suite import done_so_far, is_suite, read_suite
from omg.experiments.suite_results import load_suite
from omg.report.budget import budget_chapter
from omg.report.derived import curves_by_metric, last_measures
from omg.report.games import shown_games
from omg.report.inputs import ReportInput, report_input
from omg.report.kept import is_kept, read_table, read_tables
from omg.report.room import room_chapter
from omg.report.runs import RunFacts, read_runs, setting_rows, training_commands
from omg.report.self_play import self_play_rows
from omg.report.slices import slices_chapter
from omg.report.suite import SuitePage
from omg.report.trials import trials_chapter
from omg.report.words import LAST_TEST, agent_name, counted, metric_words

_MOST_NAMED = 4
"""Agents that a headline names."""
_CHOSEN = "The agent in question was chosen as the best by these same tests, which flatters it."


@dataclass(frozen=True)
class Asked:
    """What somebody wants of a report of runs, where it does not follow from them."""

    metric: str | None = None
    """A test metric without `test_` and `_mean`; that of the game unless given."""
    agent: str | None = None
    """The agent in question; the best one unless given."""
    title: str | None = None
    lower_is_better: bool = False


def read_report(paths: Sequence[Path], asked: Asked | None = None) -> ReportInput | SuitePage:
    """What a report is made of.

    Args:
        paths: of one run, pipeline or suite, of kept tables, or of several folders of runs, which are compared.
        asked: what is wanted; pipelines, suites and tables say it themselves.

    Raises:
        UserError: there is nothing to report, or something is damaged.
    """
    own = asked or Asked()
    found = _single(paths[0]) if len(paths) == 1 else None
    if found is None:
        return _runs_report(read_runs([_runs_in(path) for path in paths]), paths, own)
    for key, given in (("--metric", own.metric), ("--agent", own.agent)):
        if given is not None:
            raise UserError(f"{key}: got '{given}', but {paths[0]} says itself what it is about. Leave it out.")
    if own.title is not None:
        found = replace(found, title=own.title)
    return found


def page_place(paths: Sequence[Path]) -> Path:
    """Where the page goes unless somebody says: into the folder that it is about, or here."""
    return paths[0] / "report.html" if len(paths) == 1 and paths[0].is_dir() else Path("report.html")


def _single(path: Path) -> ReportInput | SuitePage | None:
    """What is known of a pipeline that is done, a suite or kept tables; None of anything else."""
    if is_kept(path):
        return _kept_report(path)
    if not (path / PLAN_FILE).is_file():
        return None
    if is_suite(read_plan_file(path)):
        so_far = done_so_far(read_suite(path), path)
        if not so_far.parts:
            raise UserError(f"{path}: no part of this suite is done yet. Go on with: omg pipeline {path}")
        return load_suite(so_far, path)
    checked = check_plan(read_plan(path), path)
    if not report_files(checked)[0].is_file():
        return None
    seconds = {row.stage: row.seconds for row in read_rows(path / TIMES_FILE, StageTimeRow)}
    return planned_report(checked, seconds, pipeline_command(path))


def _runs_in(path: Path) -> Path:
    """The folder of a pipeline's trained agents, without its pool and its trials; any other folder as it is."""
    runs = path / RUNS_FOLDER
    return runs if (path / PLAN_FILE).is_file() and runs.is_dir() else path


def _kept_report(folder: Path) -> ReportInput:
    """A report from its tables alone, with its chapters."""
    report = read_tables(folder)
    names = report.names
    chapters = []
    room = read_table(folder, "room", RoomRow)
    if room:
        chapters.append(room_chapter(room, read_table(folder, "closed", ClosedRow), names))
    if budget := read_table(folder, "budget", BudgetRow):
        marks = {row.group: Marks(row.floor, row.best_fixed, row.ceiling, row.exact) for row in room}
        chapters.append(budget_chapter(budget, marks, names))
    if trials := read_table(folder, "trials", TrialRow):
        chapters.append(trials_chapter(trials, names))
        slices = read_table(folder, "slices", SliceRow)
        chapters += slices_chapter(slices, read_table(folder, "importance", ImportanceRow), names)
    episodes = read_table(folder, "adaptation", EpisodeRow)
    return replace(report, chapters=chapters, adaptation=adaptation_chapter(episodes, names))


def _runs_report(runs: Sequence[RunFacts], paths: Sequence[Path], asked: Asked) -> ReportInput:
    """What runs say of themselves: their last tests, compared where there are several agents."""
    tables: dict[str, list[RunFacts]] = {}
    for run in runs:
        if not run.metrics:
            raise UserError(f"{run.path}: this run has no metrics yet.")
        tables.setdefault(run.label, []).append(run)
    metrics = {label: [row for run in own for row in run.metrics] for label, own in tables.items()}
    metric = _metric(runs, asked)
    scores = [
        row
        for label, own in tables.items()
        for row in self_play_rows(label, metrics[label], metric, own[0].config.test_nepisode, LAST_TEST)
    ]
    summary = summarise(scores, metric, lower_is_better=asked.lower_is_better)
    ranked = sorted(summary, key=lambda row: row.mean if asked.lower_is_better else -row.mean)
    if asked.agent is not None and asked.agent not in tables:
        raise unknown_name("agent (--agent)", asked.agent, tables)
    agent = asked.agent or ranked[0].agent
    baselines = [row.agent for row in ranked if row.agent != agent]
    where = " and ".join(dict.fromkeys(run.where for run in runs))
    several = len(tables) > 1
    question = "Which of them does best, and how sure is that?" if several else "How well does it play, and how sure?"
    given = " ".join(str(path) for path in paths)
    return report_input(
        asked.title or (f"{where}: {counted(len(tables), 'agent')}" if several else f"{agent_name(agent)} in {where}"),
        scores,
        metric,
        agent,
        baselines,
        lower_is_better=asked.lower_is_better,
        question=question,
        answer=_ranking(ranked) if several else _single_answer(summary[0], tables[agent]),
        warnings=_warnings(runs),
        remark=_CHOSEN if several and asked.agent is None else "",
        curves=curves_by_metric(metrics, f"test_{metric}_mean"),
        offsets=[row for label in tables for row in offset_rows(label, metrics[label])],
        diagnostics=[row for label in tables for row in last_measures(label, metrics[label])],
        games=shown_games([run.path for run in tables[agent]], metric, lower_is_better=asked.lower_is_better),
        runs=[run.row() for run in runs],
        settings=setting_rows(runs),
        trainings=training_commands(runs),
        commands=(f"omg report {given}",),
        versions=runs[0].packages,
        machine=", ".join(dict.fromkeys(run.device for run in runs if run.device)),
        notes=(f"{counted(len(runs), 'run')} in {where}. Versions are those of the first of them.",),
    )


def _metric(runs: Sequence[RunFacts], asked: Asked) -> str:
    """The test metric that all runs are judged by.

    Raises:
        UserError: somebody has not logged it, or they have none in common.
    """
    logged = [
        {row.name.removeprefix("test_").removesuffix("_mean") for row in run.metrics if _is_test(row.name)}
        for run in runs
    ]
    common = set.intersection(*logged)
    if asked.metric is not None:
        name = asked.metric.removeprefix("test_").removesuffix("_mean")
        if name not in common:
            raise unknown_name("metric (--metric)", name, sorted(common))
        return name
    own = [api.Run(run.path, run.status).success_metric.removeprefix("test_").removesuffix("_mean") for run in runs]
    for name in (*dict.fromkeys(own), "return"):
        if name in common:
            return name
    if not common:
        names = ", ".join(run.path.name for run, found in zip(runs, logged, strict=True) if not found)
        raise UserError(
            f"report: there is no test that all runs have made{f'; none at all in {names}' if names else ''}."
        )
    return sorted(common)[0]


def _is_test(name: str) -> bool:
    return name.startswith("test_") and name.endswith("_mean")


def _ranking(ranked: Sequence[SummaryRow]) -> str:
    words = metric_words(ranked[0].metric)
    shown = [f"{agent_name(row.agent)} {words.value(row.mean)}{_interval(row)}" for row in ranked[:_MOST_NAMED]]
    more = len(ranked) - len(shown)
    rest = f" and {more} more" if more else ""
    return f"By {words.noun} in the last test: {', '.join(shown)}{rest}."


def _single_answer(row: SummaryRow, runs: Sequence[RunFacts]) -> str:
    words = metric_words(row.metric)
    steps = min(run.steps for run in runs)
    return (
        f"{agent_name(row.agent)} reaches {words.value(row.mean)} {words.noun} in its last test{_interval(row)}: "
        f"{counted(row.seeds, 'seed')}, {steps:,} steps each."
    )


def _interval(row: SummaryRow) -> str:
    words = metric_words(row.metric)
    return "" if row.low != row.low else f" [{words.bare(row.low)}, {words.bare(row.high)}]"


def _warnings(runs: Sequence[RunFacts]) -> list[str]:
    """What must be read before the answer."""
    found = [
        f"{run.path.name} is {run.status} at {run.steps:,} of {run.config.t_max:,} steps."
        for run in runs
        if run.status not in ("finished", "stopped")
    ]
    if len({run.where for run in runs}) > 1:
        found.append("These runs are of different games: their scores cannot be compared.")
    return found
