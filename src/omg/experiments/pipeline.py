"""A whole experiment from one small file: pool, room, prior, training, evaluation, adaptation, report.

The stages are made of tasks (one per agent where there are several), each with a note of what it was made from; see
`omg.experiments.stages`. Running a pipeline again does what is missing, continues what was interrupted, and makes anew
what has changed together with everything that depends on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from omg.components.files import write_text
from omg.config import write_yaml
from omg.errors import UserError, unknown_name
from omg.evaluation.rows import write_rows
from omg.evaluation.tables import AdaptationRow, ComparisonRow, SelfPlayRow, SetSummaryRow, StageTimeRow
from omg.experiments.adaptation.scores import adaptation_summary
from omg.experiments.ahead import run_ahead
from omg.experiments.budget import planned_answer
from omg.experiments.ledger import LEASES, LOGS, PLAN_FILE, TIMES_FILE, Ledger, Task
from omg.experiments.plan import STAGES, Plan, read_plan
from omg.experiments.plan_check import CheckedPlan, check_plan
from omg.experiments.pool import say_on
from omg.experiments.results import (
    adaptation_rows,
    comparison_rows,
    report_files,
)
from omg.experiments.stages import Earlier, Workplace
from omg.experiments.stages.evaluate import self_play_rows_of, summary_rows
from omg.launchers import LauncherSettings, Site, opened
from omg.report.terminal import Screen
from omg.tracking import RunFolder
from omg.training.device import prepare

_ORDER = list(STAGES)
_ENTRIES = tuple(entry for stage in STAGES.values() for entry in stage.entries)


@dataclass(frozen=True)
class PipelineResult:
    """What a pipeline has come to."""

    folder: Path
    done: tuple[str, ...]
    """Titles of the tasks that were done this time."""
    seconds: dict[str, float]
    """Wall time by stage, of all times together."""
    report: Path | None
    """The page; None while it is not made."""
    checked: CheckedPlan

    @property
    def shown(self) -> Screen:
        """The answer in a line, where there is one, and what the stages have to show on a screen, in their order."""
        first = planned_answer(self.checked)
        return [*([first] if first else []), *(item for stage in STAGES.values() for item in stage.shows(self.checked))]

    @property
    def summary(self) -> list[SetSummaryRow]:
        """The verdict's metric for every agent and group of the first set; nothing without groups."""
        return summary_rows(self.checked)

    @property
    def comparison(self) -> list[ComparisonRow]:
        """The agent in question against every baseline; without groups, in self-play and in the first episodes."""
        return comparison_rows(self.checked)

    @property
    def self_play(self) -> list[SelfPlayRow]:
        """How agents that learned in all seats do with themselves; nothing where there are none."""
        return self_play_rows_of(self.checked)

    @property
    def adaptation(self) -> list[AdaptationRow]:
        """How agents come to terms with new co-players; nothing where the plan does not ask for it."""
        rows = adaptation_rows(self.checked)
        return adaptation_summary(rows) if rows else []


def run_pipeline(
    plan: Plan,
    folder: str | Path,
    *,
    start: str | None = None,
    only: str | None = None,
    until: str | None = None,
    console: Console | None = None,
    quiet: bool = False,
    jobs: int = 1,
    launcher: LauncherSettings | None = None,
) -> PipelineResult:
    """Does what a pipeline still lacks.

    Args:
        plan: from `read_plan` or `parse_plan`.
        folder: everything goes there.
        start: a stage; it and all later ones are made anew, earlier ones must be done.
        only: a stage; only what it lacks is done, earlier ones must be done.
        until: a stage; later ones are not begun.
        console: where to print.
        quiet: no output on the screen.
        jobs: runs, evaluations and adaptations that are done at once, each in a process of its own; of use where one
            does not fill a GPU.
        launcher: who does them, and how many at once, instead of `jobs`, e.g. the machines of a cluster.

    Raises:
        UserError: the plan cannot be run, a stage that must be done is not, or another process has the folder.
        Stopped: after a signal, when a run has been saved; the same call continues it.
    """
    for name, stage in (("--from", start), ("--only", only), ("until", until)):
        if stage is not None and stage not in STAGES:
            raise unknown_name(f"stage ({name})", stage, _ORDER)
    if start is not None and only is not None:
        raise UserError(f"--from, --only: got {start} and {only}; give one of the two.")
    shown = Path(folder)
    checked = check_plan(plan, folder)
    screen = Console(quiet=True) if quiet else console or Console()
    try:
        checked.folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"--output: cannot make the folder '{shown}' ({error.strerror}).") from None
    ledger = Ledger(checked.folder, lambda line: say_on(screen, line), _ENTRIES)
    site = Site(checked.folder, checked.folder / LOGS, checked.folder / LEASES, ledger.say)
    with RunFolder(checked.folder).lock(), opened(launcher or LauncherSettings(jobs=jobs), site) as does:
        last = _ORDER.index(until or _ORDER[-1])
        place = Workplace(checked, shown, ledger, screen, quiet, does)
        tasks = [task for task in plan_tasks(place) if _ORDER.index(task.stage) <= last]
        _require_earlier(tasks, ledger, start or only)
        write_text(checked.folder / PLAN_FILE, write_yaml(plan.values()))
        ledger.list_tasks(tasks)
        prepare(use_cuda=True)
        anew, first = start is not None, _ORDER.index(start or _ORDER[0])
        due = [task for task in tasks if only in (None, task.stage) and _ORDER.index(task.stage) >= first]
        ledger.take_back(due, anew=anew)
        for index, task in enumerate(due):
            if does.at_once and task.apart:
                run_ahead(ledger, due[index:], does, anew=anew, needs=lambda task: plan.machine.of(task.stage))
            if task.title not in ledger.remade:
                ledger.run(task, anew=anew)
        seconds = ledger.seconds(tasks)
        write_rows(
            checked.folder / TIMES_FILE,
            [StageTimeRow(stage=stage, seconds=round(value, 2)) for stage, value in seconds.items()],
            StageTimeRow.names(),
        )
        complete = until is None and ledger.is_done(tasks[-1])
    page = shown / report_files(checked)[0].name if complete else None
    done = tuple(task.title for task in tasks if task.title in ledger.remade)
    return PipelineResult(shown, done, seconds, page, checked)


def do_tasks(folder: Path, titles: Sequence[str]) -> None:
    """Does tasks, one after the other, for the process that has the folder, which wrote the plan and began them.

    Raises:
        UserError: the plan there does not belong to what was begun.
    """
    checked = check_plan(read_plan(folder), folder)
    ledger = Ledger(checked.folder, entries=_ENTRIES)
    tasks = plan_tasks(Workplace(checked, folder, ledger, Console(), quiet=False))
    for place, title in enumerate(titles):
        task = ledger.begun_task(tasks, title)
        if not task.costly:  # A run does so by itself, its own way.
            prepare(use_cuda=True)
        try:
            ledger.work(task)
        except UserError as error:
            # The first one is named by whoever waits for this process.
            raise UserError(f"{title}: {error}" if place else str(error)) from None


def _require_earlier(tasks: list[Task], ledger: Ledger, stage: str | None) -> None:
    if stage is None:
        return
    for task in tasks:
        if _ORDER.index(task.stage) < _ORDER.index(stage):
            ledger.require(task, f"Run the pipeline up to there first, e.g. with --only {task.stage}.")


def plan_tasks(place: Workplace) -> list[Task]:
    """All tasks of a pipeline in the order in which they are done."""
    earlier = Earlier()
    for stage in STAGES.values():
        earlier.tasks += stage(place).tasks(earlier)
    # In this order each fingerprint is made of known ones; the last of a thousand rounds would ask too deep a chain.
    for task in earlier.tasks:
        task.fingerprint  # noqa: B018
    return earlier.tasks
