"""A whole experiment from one small file: pool, prior, training, evaluation, adaptation, report.

The stages are made of parts (one per agent where there are several), each with a record of what it was made from; see
`omg.experiments.stages`. Running a pipeline again does what is missing, continues what was interrupted, and makes anew
what has changed together with everything that depends on it.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console

from omg.components.files import write_text
from omg.config import change_config, write_yaml
from omg.errors import UserError, unknown_name
from omg.evaluation.adaptation import adaptation_summary
from omg.evaluation.rows import read_rows, write_rows
from omg.evaluation.tables import (
    ComparisonRow,
    CrossPlayRow,
    MeasureRow,
    SelfPlayRow,
    SetScoreRow,
    SetSummaryRow,
    StageTimeRow,
)
from omg.experiments.adaptation_stage import AdaptationStage
from omg.experiments.ahead import run_ahead
from omg.experiments.evaluation import UNTRAINED, Arena, Contestants, cross_play_arena, load_contestants, untrained
from omg.experiments.inference import control_rows, inference_rows
from omg.experiments.plan import PLAN_FILE, Plan, read_plan
from omg.experiments.plan_check import PRIOR_LABEL, CheckedPlan, check_plan
from omg.experiments.pool import copy_pool, say_on, train_pool
from omg.experiments.prior import prior_config
from omg.experiments.results import (
    adaptation_rows,
    comparison_rows,
    evaluation_folder,
    finished_run,
    report_files,
    run_metrics,
    table_files,
    write_report,
    write_tables,
)
from omg.experiments.runs import finish, is_over
from omg.experiments.self_play import self_play_part, self_play_table_rows
from omg.experiments.stages import STAGES, Ledger, Part, with_pool
from omg.pools import PRIOR_FOLDER, Pool
from omg.tracking import RunFolder
from omg.training.device import prepare

_NO_MATTER = ("use_cuda", "use_tensorboard", "tracker", "sacred_observers", "sacred_mongo_url", "sacred_mongo_db")
"""Settings that change nothing in a result."""
_ELSEWHERE = ("self_play",)
"""Keys that a part says in another way: what matters is where an agent learns, not where the plan says so."""


@dataclass(frozen=True)
class PipelineResult:
    """What a pipeline has come to."""

    folder: Path
    done: tuple[str, ...]
    """Titles of the parts that were done this time."""
    seconds: dict[str, float]
    """Wall time by stage, of all times together."""
    report: Path | None
    """The page; None while it is not made."""
    checked: CheckedPlan

    @property
    def summary(self) -> list[SetSummaryRow]:
        """The verdict's metric for every agent and group of the first set; nothing without groups."""
        if not self.checked.evaluated:
            return []
        rows = read_rows(evaluation_folder(self.checked) / "summary.csv", SetSummaryRow)
        first, metric = self.checked.plan.evaluation.sets[0], self.checked.metric
        return [row for row in rows if row.set == first and row.metric == metric]

    @property
    def comparison(self) -> list[ComparisonRow]:
        """The agent in question against every baseline; without groups, in self-play and in the first episodes."""
        return comparison_rows(self.checked)

    @property
    def self_play(self) -> list[SelfPlayRow]:
        """How agents that learned in all seats do with themselves; nothing where there are none."""
        return self_play_table_rows(self.checked)

    @property
    def adaptation(self) -> list[dict[str, Any]]:
        """How agents come to terms with new co-players; nothing where the plan does not ask for it."""
        rows = adaptation_rows(self.checked)
        return adaptation_summary(rows) if rows else []


def run_pipeline(
    plan: Plan,
    folder: str | Path,
    *,
    start: str | None = None,
    only: str | None = None,
    console: Console | None = None,
    quiet: bool = False,
    jobs: int = 1,
) -> PipelineResult:
    """Does what a pipeline still lacks.

    Args:
        plan: from `read_plan` or `parse_plan`.
        folder: everything goes there.
        start: a stage; it and all later ones are made anew, earlier ones must be done.
        only: a stage; only what it lacks is done, earlier ones must be done.
        console: where to print.
        quiet: no output on the screen.
        jobs: runs, evaluations and adaptations that are done at once, each in a process of its own; of use where one
            does not fill a GPU.

    Raises:
        UserError: the plan cannot be run, a stage that must be done is not, or another process has the folder.
        Stopped: after a signal, when a run has been saved; the same call continues it.
    """
    for name, stage in (("--from", start), ("--only", only)):
        if stage is not None and stage not in STAGES:
            raise unknown_name(f"stage ({name})", stage, STAGES)
    if start is not None and only is not None:
        raise UserError(f"--from, --only: got {start} and {only}; give one of the two.")
    shown = Path(folder)
    checked = check_plan(plan, folder)
    screen = Console(quiet=True) if quiet else console or Console()
    try:
        checked.folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"--output: cannot make the folder '{shown}' ({error.strerror}).") from None
    ledger = Ledger(checked.folder, lambda line: say_on(screen, line))
    with RunFolder(checked.folder).lock():
        pipeline = _Pipeline(checked, shown, ledger, screen, quiet, jobs)
        parts = pipeline.parts()
        _require_earlier(parts, ledger, start or only)
        write_text(checked.folder / PLAN_FILE, write_yaml(plan.values()))
        prepare(use_cuda=True)
        anew, first = start is not None, STAGES.index(start or STAGES[0])
        due = [part for part in parts if only in (None, part.stage) and STAGES.index(part.stage) >= first]
        ledger.take_back(due, anew=anew)
        for index, part in enumerate(due):
            if jobs > 1 and part.apart:
                run_ahead(ledger, due[index:], jobs, anew=anew)
            if part.title not in ledger.remade:
                ledger.run(part, anew=anew)
        seconds = ledger.seconds(parts)
        write_rows(
            checked.folder / "times.csv",
            [StageTimeRow(stage=stage, seconds=round(value, 2)) for stage, value in seconds.items()],
            StageTimeRow.names(),
        )
        complete = ledger.is_done(parts[-1])
    page = shown / report_files(checked)[0].name if complete else None
    done = tuple(part.title for part in parts if part.title in ledger.remade)
    return PipelineResult(shown, done, seconds, page, checked)


def do_part(folder: Path, title: str) -> None:
    """Does one part for the process that has the folder, which wrote the plan and keeps the records.

    Raises:
        UserError: the plan there does not belong to what was begun.
    """
    checked = check_plan(read_plan(folder), folder)
    ledger = Ledger(checked.folder)
    parts = _Pipeline(checked, folder, ledger, Console(), quiet=False, jobs=1).parts()
    part = next((part for part in parts if part.title == title), None)
    record = None if part is None else ledger.record(part)
    if part is None or record is None or record.fingerprint != part.fingerprint:
        raise UserError(f"{folder / PLAN_FILE} has changed since this pipeline was started. Start it again.")
    if not part.costly:  # A run does so by itself, its own way.
        prepare(use_cuda=True)
    part.work()


def _require_earlier(parts: list[Part], ledger: Ledger, stage: str | None) -> None:
    if stage is None:
        return
    for part in parts:
        if STAGES.index(part.stage) < STAGES.index(stage):
            ledger.require(part, f"Run the pipeline up to there first, e.g. with --only {part.stage}.")


class _Pipeline:
    """The parts of one plan, and how each is done."""

    def __init__(
        self, checked: CheckedPlan, shown: Path, ledger: Ledger, screen: Console, quiet: bool, jobs: int
    ) -> None:
        self.checked, self.ledger, self.screen, self.quiet, self.jobs = checked, ledger, screen, quiet, jobs
        self.shown = shown
        """The folder as the user wrote it."""
        self.plan = checked.plan
        self.tables = evaluation_folder(checked) / "parts"
        self._arena: Arena | None = None

    def parts(self) -> list[Part]:
        """All parts in the order in which they are done."""
        pool = self._pool_part()
        priors = [self._prior_part(pool)] if self.plan.prior is not None else []
        trained = {label: self._train_part(label, pool, priors) for label in self.checked.agents}
        evaluated = self._evaluation_parts(pool, trained)
        tables = Part("evaluate", "tables", self._table_settings(), table_files(self.checked), self._write_tables)
        tabled = [replace(tables, needs=tuple(evaluated))] if evaluated else []
        if self.checked.self_play:
            tabled.append(self_play_part(self.checked, trained))
        report = Part(
            "report", "", self._section("report"), report_files(self.checked), lambda: self._write_report(before)
        )
        adapted: list[Part] = []
        if self.plan.adaptation is not None:
            adapted = AdaptationStage(self.checked, self.plan.adaptation).parts(pool, trained)
        before = [pool, *priors, *trained.values(), *evaluated, *tabled, *adapted]
        # The report shows all trainings; with an evaluation its tables depend on them already.
        curves = [] if self.checked.evaluated else list(trained.values())
        return [*before, replace(report, needs=(*curves, *tabled, *adapted[-1:]))]

    # ------------------------------------------------------------------------------------------ pool, prior, train

    def _pool_part(self) -> Part:
        settings = {"game": self._section("game"), "pool": self._section("pool")}
        return Part("pool", "", settings, (self.checked.pool,), self._train_pool, costly=True)

    def _train_pool(self) -> None:
        section, given = self.plan.pool, self.checked.given_pool
        if given is not None:
            copy_pool(given, self.checked.pool, prior=self.plan.prior is None)
            return
        train_pool(
            self.checked.pool,
            section.counts,
            self.plan.game.env_config,
            {**section.settings, **self.checked.game_settings},
            scripted=section.scripted,
            which=section.which,
            episodes=section.episodes,
            console=self.screen,
            quiet=self.quiet,
            jobs=self.jobs,
        )

    def _prior_part(self, pool: Part) -> Part:
        makes = (self.checked.runs(PRIOR_LABEL), self.checked.pool / PRIOR_FOLDER)
        return Part("prior", "", self._section("prior"), makes, self._train_prior, (pool,), costly=True, apart=True)

    def _train_prior(self) -> None:
        assert self.plan.prior is not None
        where = self.checked.runs(PRIOR_LABEL)
        config = prior_config(self.checked.pool, self.plan.prior.settings)
        self._finish(where, lambda: change_config(config, local_results_path=str(where)))

    def _train_part(self, label: str, pool: Part, priors: list[Part]) -> Part:
        settings: dict[str, Any] = {"train": self._section("train"), "agent": self._section("agents", label)}
        needs = (pool, *(priors if self.checked.uses_prior(label) else ()))
        if label in self.checked.self_play:
            settings |= {"game": self._section("game"), "seats": "all"}
            needs = ()
        where = self.checked.runs(label)
        return Part(
            "train",
            label,
            settings,
            (where,),
            lambda: self._finish(where, lambda: self.checked.agents[label]),
            needs,
            costly=True,
            apart=True,
        )

    def _finish(self, where: Path, config: Callable[[], Any]) -> None:
        """Brings the run in a folder to its end: a new one, or the one that was interrupted there."""
        if is_over(where):
            return
        try:
            finish(config(), console=self.screen, quiet=self.quiet)
        except KeyboardInterrupt:
            self.ledger.say("continue with the same command")
            raise

    # --------------------------------------------------------------------------------------------------- evaluation

    def _evaluation_parts(self, pool: Part, trained: dict[str, Part]) -> list[Part]:
        section = self._section("evaluation")
        games = {key: section[key] for key in ("sets", "groups", "episodes", "seed", "which")}
        first = next(iter(trained))
        parts = []
        for label in self.checked.evaluated:
            # Those who never learned still depend on the first agent's networks and number of seeds.
            own = trained.get(label, trained[first] if label == UNTRAINED else pool)
            file = self.tables / f"scores-{label}.csv"
            work = _bind(self._write_scores, label, file)
            needs = with_pool(own, pool)
            settings = {"label": label, **games}
            parts.append(Part("evaluate", f"scores {label}", settings, (file,), work, needs, apart=True))
        if section["crossplay_episodes"]:
            settings = {key: section[key] for key in ("sets", "seed", "crossplay_episodes")}
            file = self.tables / "crossplay.csv"
            work = _bind(self._cross_play, file)
            parts.append(Part("evaluate", "cross-play", settings, (file,), work, (pool,), apart=True))
        settings = {key: section[key] for key in ("sets", "seed", "which", "inference_episodes")}
        settings["metric"] = self.checked.metric
        for label, own in trained.items():
            if label in self.checked.with_models:
                file = self.tables / f"diagnostics-{label}.csv"
                work = _bind(self._write_diagnostics, label, file)
                needs = with_pool(own, pool)
                parts.append(Part("evaluate", f"diagnostics {label}", settings, (file,), work, needs, apart=True))
        return parts

    @property
    def arena(self) -> Arena:
        """The pool, loaded when it is first needed."""
        if self._arena is None:
            self._arena = Arena(self.checked.pool, self.checked.env)
        return self._arena

    def _contestants(self, label: str) -> Contestants:
        if label == UNTRAINED:
            config = next(iter(self.checked.agents.values()))
            # In all seats there is nobody else to be told apart.
            partners = 0 if config.team is None else len(Pool.open(self.checked.pool).members("training"))
            return untrained(config, self.checked.env, partners)
        run = finished_run(self.checked.runs(label)).path
        return load_contestants(label, run, self.plan.evaluation.which)

    def _write_scores(self, label: str, file: Path) -> None:
        section = self.plan.evaluation
        games = (section.groups, section.episodes, section.seed)
        scripted = label in section.scripted
        config = next(iter(self.checked.agents.values()))
        contestants = None if scripted else self._contestants(label)
        rows: list[SetScoreRow] = []
        for name in section.sets:
            if contestants is None:
                found = self.arena.scripted_scores(label, config, name, *games)
            else:
                found = self.arena.scores(contestants, name, *games)
            rows += [SetScoreRow.extended(row, set=name) for row in found]
        write_rows(file, rows, SetScoreRow.names())

    def _cross_play(self, file: Path) -> None:
        section = self.plan.evaluation
        rows = cross_play_arena(self.arena, section.sets[0], section.crossplay_episodes, section.seed)
        write_rows(file, rows, CrossPlayRow.names())

    def _write_diagnostics(self, label: str, file: Path) -> None:
        section = self.plan.evaluation
        rows: list[dict[str, Any]] = []
        if section.inference_episodes:
            rows += inference_rows(
                self._contestants(label),
                self.arena,
                section.sets[0],
                episodes=section.inference_episodes,
                seed=section.seed,
            )
        rows += control_rows(label, run_metrics(self.checked, label), self.checked.metric)
        write_rows(file, rows, MeasureRow.names())

    def _table_settings(self) -> dict[str, Any]:
        return {
            "metric": self.checked.metric,
            "agent": self.checked.agent,
            "baselines": self.checked.baselines,
            "lower_is_better": self.plan.report.lower_is_better,
        }

    def _write_tables(self) -> None:
        scores = [
            row
            for label in self.checked.evaluated
            for row in read_rows(self.tables / f"scores-{label}.csv", SetScoreRow)
        ]
        played = self.plan.evaluation.crossplay_episodes > 0
        cross_play = read_rows(self.tables / "crossplay.csv", CrossPlayRow) if played else []
        diagnostics = []
        for label in self.checked.with_models:
            diagnostics += read_rows(self.tables / f"diagnostics-{label}.csv", MeasureRow)
        write_tables(self.checked, scores, cross_play, diagnostics)

    def _write_report(self, before: list[Part]) -> None:
        command = f"omg pipeline {shlex.quote(str(self.shown / PLAN_FILE))} --output NEW_FOLDER"
        write_report(self.checked, self.ledger.seconds(before), command)

    def _section(self, name: str, label: str | None = None) -> dict[str, Any]:
        """A section of the plan as it goes into fingerprints."""
        values = self.plan.values()[name]
        values = values if label is None else values[label]
        return {key: value for key, value in values.items() if key not in (*_NO_MATTER, *_ELSEWHERE)}


def _bind(function: Callable[..., None], *arguments: Any) -> Callable[[], None]:
    """A call that remembers its arguments; a bare lambda in a loop would see the last ones only."""
    return lambda: function(*arguments)
