"""A plan of plans: the same comparison in several games, each with several draws of partners, and one answer.

Every game with every draw is a pipeline of its own in a folder of its own; here it is one task, so that several can be
done at once and what is done is skipped.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from pydantic import Field, ValidationError
from rich.console import Console

from omg.components.files import write_text
from omg.config import write_yaml
from omg.config.overrides import assignments, merge, nested
from omg.errors import UserError, unknown_name
from omg.experiments.ahead import run_ahead
from omg.experiments.ledger import LEASES, LOGS, PLAN_FILE, Ledger, Task
from omg.experiments.pipeline import run_pipeline
from omg.experiments.plan import Plan, PlanFile, plan_of, read_plan_file, refusal
from omg.experiments.plan_check import check_plan
from omg.experiments.pool import say_on
from omg.experiments.stages.base import Section
from omg.experiments.suite_results import load_suite, suite_files, write_suite
from omg.launchers import LauncherSettings, Site, opened
from omg.launchers.settings import HERE
from omg.names import file_name
from omg.report.suite import suite_screen
from omg.report.terminal import Screen
from omg.tracking import RunFolder
from omg.training.device import prepare

PART, REPORT = "part", "report"
_PROCESS = "omg.experiments.suite_process"
_PROCESSES_OF_A_PART = 5
"""About as many as its agents keep busy."""


class SuiteVerdictSection(Section):
    """Who is compared with whom; labels that a game does not have are left out there."""

    same_information: str = Field("same_information", description="Sees and remembers the same, without a model")
    modelling: list[str] = Field([], description="Agents that model the others")
    subgoals: list[str] = Field([], description="Those that infer subgoals")
    against: list[str] = Field([], description="Whom the subgoals are compared with")


class Suite(Section):
    """Plans that are run with every draw, and what is asked of all of them."""

    name: str = Field(description="Name of the suite and of its folder")
    plans: list[str] = Field(min_length=1, description="Presets or files, one for each game")
    draws: list[int] = Field([1, 2, 3], min_length=1, description="Draws of partners of every plan")
    common: dict[str, object] = Field({}, description="Sections of a plan that all of them share")
    methods: list[str] | None = Field(None, description="Labels of the agents that are trained; all unless given")
    title: str = Field("Does it pay to know the others?", description="Heading")
    verdict: SuiteVerdictSection = SuiteVerdictSection()


@dataclass(frozen=True)
class SuitePart:
    """One game with one draw of partners."""

    plan: Plan
    draw: int

    @property
    def words(self) -> str:
        """The name of its task."""
        return f"{self.plan.name} {self.draw}"

    def folder(self, suite: Path) -> Path:
        """Where it is done."""
        return suite / self.plan.name / f"draw_{self.draw}"


@dataclass(frozen=True)
class ReadSuite:
    """A suite and the plans that it comes to."""

    suite: Suite
    parts: tuple[SuitePart, ...]
    lacking: tuple[str, ...] = ()
    """Parts that are not done, where these are the ones that are."""


@dataclass(frozen=True)
class SuiteResult:
    """What a suite has come to."""

    folder: Path
    done: tuple[str, ...]
    """Titles of the tasks that were done this time."""
    report: Path
    """The page."""
    shown: Screen
    """What is told on the screen."""


def is_suite(file: PlanFile) -> bool:
    """Whether a plan lists other plans."""
    return "plans" in file.values


def read_suite(source: str | Path, words: Sequence[str] = ()) -> ReadSuite:
    """Reads a plan of plans.

    Args:
        source: a preset, a YAML file, or the folder of a suite that was begun.
        words: `key=value`, e.g. `draws=[1]` or `common.train.t_max=100000`.

    Raises:
        UserError: there is no such suite, or something in it or in one of its plans cannot be used.
    """
    file = read_plan_file(source)
    said = nested(assignments(list(words)))
    for key in merge(file.values, said):
        if key not in Suite.model_fields:
            raise unknown_name("key of a plan of plans", str(key), Suite.model_fields)
    try:
        suite = Suite.model_validate(merge(file.values, said))
    except ValidationError as error:
        raise refusal(error, Suite.model_fields) from None
    file_name("name", suite.name)
    for key, given in (("plans", suite.plans), ("draws", suite.draws)):
        if len(set(given)) < len(given):
            raise UserError(f"{key}: got something twice: {given}.")
    typed = said.get("common", {})
    return ReadSuite(suite, tuple(_parts(file, suite, typed if isinstance(typed, Mapping) else {})))


def run_suite(
    read: ReadSuite,
    folder: str | Path,
    *,
    console: Console | None = None,
    quiet: bool = False,
    jobs: int = 1,
    launcher: LauncherSettings | None = None,
) -> SuiteResult:
    """Does what a suite still lacks.

    Args:
        read: from `read_suite`.
        folder: everything goes there; every part into a folder of its own.
        console: where to print.
        quiet: no output on the screen.
        jobs: processes at once, shared among as many parts as there are games.
        launcher: who does what the parts consist of, instead of `jobs`. With a cluster each part is led by a process
            of this machine, as many at once as there are games.

    Raises:
        UserError: a plan cannot be run, a part failed (the others are done first), or another process has the folder.
        Stopped: after a signal, when what was running has been saved; the same call continues it. There is a page of
            the parts that are done.
    """
    shown = Path(folder)
    place = shown.resolve()
    for part in read.parts:
        check_plan(part.plan, part.folder(place))
    screen = Console(quiet=True) if quiet else console or Console()
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"--output: cannot make the folder '{shown}' ({error.strerror}).") from None
    settings = launcher or LauncherSettings(jobs=jobs)
    ledger = Ledger(place, lambda line: say_on(screen, line), _entries(read))
    with RunFolder(place).lock():
        at_once, each = _shared_settings(settings, len(read.suite.plans))
        tasks = suite_tasks(read, place, screen, quiet=quiet, launcher=each)
        write_text(place / PLAN_FILE, write_yaml(read.suite.model_dump(mode="json")))
        ledger.list_tasks(tasks)
        prepare(use_cuda=True)
        ledger.take_back(tasks)
        site = Site(place, place / LOGS, place / LEASES, ledger.say)
        try:
            with opened(LauncherSettings(jobs=at_once), site) as does:
                if settings.at_once:
                    run_ahead(ledger, tasks, does, module=_PROCESS, words=(each.model_dump_json(),))
            for task in tasks:
                if task.title not in ledger.remade:
                    ledger.run(task)
        except BaseException:
            # What ends the suite is told, not what that may have made impossible in turn.
            with contextlib.suppress(UserError):
                so_far = done_so_far(read, place)
                if so_far.parts:
                    write_suite(so_far, place)
                    page = shown / suite_files(place)[0].name
                    ledger.say(f"page of the {len(so_far.parts)} parts that are done: {page}")
            raise
    done = tuple(task.title for task in tasks if task.title in ledger.remade)
    return SuiteResult(shown, done, shown / suite_files(place)[0].name, suite_screen(load_suite(read, place)))


def done_so_far(read: ReadSuite, place: Path) -> ReadSuite:
    """A suite with those of its parts alone that are done in its folder, also with plans as they were before."""
    ledger = Ledger(place, entries=_entries(read))
    notes = {task.name: ledger.note(task) for task in suite_tasks(read, place, Console(quiet=True), quiet=True)}
    done = []
    for part in read.parts:
        note = notes[part.words]
        if note is not None and note.status == "done" and (part.folder(place) / "report.html").is_file():
            done.append(part)
    return replace(read, parts=tuple(done), lacking=tuple(part.words for part in read.parts if part not in done))


def shared_jobs(jobs: int, games: int) -> tuple[int, int]:
    """How many parts are done at once, and the processes that each of them may start.

    No more parts than there are games: those of one draw, so that the programs of the next are compiled already. With
    more processes than games a part gets several, so that the first parts are whole early.
    """
    at_once = max(1, min(games, jobs if jobs <= games else -(-jobs // _PROCESSES_OF_A_PART)))
    return at_once, max(1, jobs // at_once)


def _shared_settings(settings: LauncherSettings, games: int) -> tuple[int, LauncherSettings]:
    """How many parts are done at once, and what each of them is told about who does what it consists of."""
    if settings.launcher == HERE:
        at_once, each = shared_jobs(settings.jobs or 1, games)
        return at_once, settings.model_copy(update={"jobs": each})
    if settings.jobs is None:
        return games, settings
    at_once = min(games, settings.jobs)
    return at_once, settings.model_copy(update={"jobs": max(1, settings.jobs // at_once)})


def suite_tasks(
    read: ReadSuite, place: Path, screen: Console, *, quiet: bool, launcher: LauncherSettings | None = None
) -> list[Task]:
    """A task for every game with every draw, all games of a draw before the next, and one for the answer."""
    parts = []
    for part in sorted(read.parts, key=lambda part: read.suite.draws.index(part.draw)):
        folder = part.folder(place)
        work = partial(_do_part, part, folder, screen, quiet, launcher)
        # What of a part has to be done anew its own notes say: only its page is taken away.
        made = (folder / "report.html",)
        parts.append(Task(PART, part.words, part.plan.values(), made, work, apart=True, reported=True))
    asked = read.suite.model_dump(mode="json", include={"title", "verdict"})
    answer = partial(write_suite, read, place)
    return [*parts, Task(REPORT, "", asked, suite_files(place), answer, tuple(parts))]


def do_suite_task(folder: Path, title: str, launcher: LauncherSettings) -> None:
    """Does one part for the process that has the suite's folder.

    Args:
        folder: of the suite.
        title: of the part's task.
        launcher: who does what it consists of.

    Raises:
        UserError: the suite there does not belong to what was begun.
    """
    read = read_suite(folder)
    ledger = Ledger(folder, entries=_entries(read))
    ledger.work(ledger.begun_task(suite_tasks(read, folder, Console(), quiet=False, launcher=launcher), title))


def _do_part(part: SuitePart, folder: Path, screen: Console, quiet: bool, launcher: LauncherSettings | None) -> None:
    run_pipeline(part.plan, folder, console=screen, quiet=quiet, launcher=launcher)


def _parts(file: PlanFile, suite: Suite, typed: Mapping[str, object]) -> Iterator[SuitePart]:
    """All plans with all draws; a file's own words are judged as such, also those it has in common for all."""
    names: set[str] = set()
    for source in suite.plans:
        one = read_plan_file(source)
        if is_suite(one):
            raise UserError(f"plans: got '{source}', which lists plans itself.")
        one = one if file.path is None or one.path is not None else one._replace(where=file.where, path=file.path)
        for draw in suite.draws:
            values = _chosen(merge(one.values, suite.common), suite.methods)
            try:
                plan = plan_of(one, values, merge(typed, {"pool": {"draw": draw}}), None)
            except UserError as error:
                raise UserError(f"{source}: {error}") from None
            if plan.pool.path is not None:
                raise UserError(f"{source}: pool.path: got '{plan.pool.path}', but draws make pools of their own.")
            yield SuitePart(plan, draw)
        if plan.name in names:
            raise UserError(f"plans: two of them are called '{plan.name}'.")
        names.add(plan.name)


def _chosen(values: dict[str, object], methods: Sequence[str] | None) -> dict[str, object]:
    """The sections of a plan with some of its agents, of whom alone its report speaks."""
    agents, report = values.get("agents"), values.get("report")
    if methods is None or not isinstance(agents, Mapping):
        return values
    for label in methods:
        if label not in agents:
            raise unknown_name("agent (methods)", label, [str(agent) for agent in agents])
    left = {label for label in agents if label not in methods}
    values = {**values, "agents": {label: own for label, own in agents.items() if label not in left}}
    if isinstance(report, Mapping):
        # Without the agent in question it is the last one, against all others.
        gone = ("agent", "baselines") if report.get("agent") in left else ()
        values["report"] = {key: _without(own, left) for key, own in report.items() if key not in gone}
    return values


def _without(value: object, labels: Collection[str]) -> object:
    """A list or a mapping without some labels; anything else as it is."""
    if isinstance(value, Mapping):
        return {label: own for label, own in value.items() if label not in labels}
    return [label for label in value if label not in labels] if isinstance(value, list) else value


def _entries(read: ReadSuite) -> tuple[str, ...]:
    return (*{part.plan.name for part in read.parts}, "suite", "figures", "report.html", "report.md")
