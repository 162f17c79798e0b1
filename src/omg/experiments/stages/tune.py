"""The stage `tune`: the same number of trials for every agent, judged by the validation partners alone.

Trials of a grid are known beforehand. Others are proposed in rounds (`omg.experiments.search`): a task proposes a
round, which needs the trials of the round before, and the trials need it. So a search is a graph of tasks like all
else, and what it finds does not depend on who does them.

Trials that differ in learning rates and weights alone are seeds of one run, and so one program. Others are runs of
their own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from pydantic import Field

from omg.config import Config
from omg.errors import UserError
from omg.evaluation.rows import write_rows
from omg.evaluation.suite_tables import ImportanceRow, SliceRow, TrialRow
from omg.evaluation.tables import ScoreRow
from omg.experiments.best import write_best
from omg.experiments.evaluation import Arena, load_contestants
from omg.experiments.ledger import Task
from omg.experiments.runs import finished_run
from omg.experiments.search import GRID, INSTALL, Range, Sampler, check_sampler, check_space, edges
from omg.experiments.stages.base import Earlier, Section, SettingsSection, Stage
from omg.experiments.stages.pool import PoolStage
from omg.experiments.stages.prior import PriorStage
from omg.experiments.trial_checks import check_read, check_stop
from omg.experiments.trial_tables import importance_rows, shown, slice_rows
from omg.experiments.trials import (
    DIVERGED,
    STOPPED,
    TUNE_FOLDER,
    VALIDATION,
    Round,
    best_file,
    check_number,
    drawn,
    is_one_program,
    judged_trials,
    least_to_go_on,
    round_file,
    search_of,
    space_of,
    tables,
    trial_file,
    trial_rows,
    trial_run,
    trial_settings,
    trial_tests,
    trials_run,
    tried,
    without,
    write_round,
)
from omg.training.finite import DivergedError

if TYPE_CHECKING:
    from omg.experiments.plan_check import CheckedPlan

_ROUND = 5


class StopSection(Section):
    """Trials that do badly in their own tests end early: successive halving, against all trials of earlier rounds."""

    first: float = Field(0.1, gt=0, lt=1, description="Share of the steps after which a trial can be stopped first")
    factor: int = Field(
        3, ge=2, le=100, description="Of so many trials one goes on, each time to so many times the steps"
    )


class TuneSection(SettingsSection):
    """Trials of settings, the same number for every agent; also settings of all trials, e.g. a shorter schedule."""

    own: ClassVar[Mapping[str, str]] = {
        "seed": "it follows from that of the training",
        "set": "trials are judged by the validation set, never by those that agents are judged by",
        "early_stop_at": "stop says when trials are stopped",
        "early_stop_below": "stop says when trials are stopped",
    }
    trials: int = Field(ge=2, le=1000, description="Settings that are tried for every agent, the plan's own included")
    space: dict[str, list[object] | Range] = Field(
        {}, description="Key -> values, or low and high, that trials of all agents are drawn from"
    )
    sampler: Sampler = Field("grid", description="How trials are drawn: grid, or Optuna's random, tpe or cmaes")
    round: int | None = Field(
        None, ge=1, le=1000, description="Trials that Optuna proposes together; they can be done at once"
    )
    stop: StopSection | None = Field(None, description="Whether trials that do badly in their own tests end early")
    seeds: int = Field(2, ge=1, description="Trainings of every trial")
    t_max: int | None = Field(None, ge=1, description="Steps of every trial; those of the training unless given")
    episodes: int = Field(64, ge=1, description="Episodes of each seed with each validation team")
    draw: int = Field(1, ge=1, description="Which settings are drawn from the space")

    @property
    def size(self) -> int:
        """Of a round; random trials know nothing of each other, so all of them are one unless some are stopped."""
        return self.round or (self.trials if self.sampler == "random" and self.stop is None else _ROUND)

    @property
    def rounds(self) -> int:
        """How many there are."""
        return -(-self.trials // self.size)

    def in_round(self, number: int) -> int:
        """Trials of a round; the last one may have fewer."""
        return min(self.size, self.trials - number * self.size)

    def rungs(self, t_max: int) -> list[int]:
        """The steps at which trials can be stopped."""
        found: list[int] = []
        share = 1.0 if self.stop is None else self.stop.first
        while share < 1 and self.stop is not None:
            found.append(max(1, round(share * t_max)))
            share *= self.stop.factor
        return found


class TuneStage(Stage):
    """Tasks for rounds and trials of every agent, and one for the tables; none without the section."""

    name = "tune"
    entries = (TUNE_FOLDER,)

    @classmethod
    def check(cls, checked: CheckedPlan) -> Mapping[str, Config]:
        """See `Stage`."""
        plan = checked.plan
        if plan.tune is None:
            return {}
        if VALIDATION not in plan.pool.sets:
            raise UserError("tune: the pool has nobody in the set validation, by which trials are judged.")
        check_sampler(plan.tune.sampler)
        check_stop(checked)
        found: dict[str, list[Config]] = {}
        for label, config in checked.agents.items():
            space = space_of(plan, label)
            check_space(space, plan.tune.sampler)
            check_number(plan, label, config)
            if plan.tune.sampler == GRID:
                found[label] = [checked.trial(label, number) for number in range(plan.tune.trials)]
                checked.trials(label)
            else:
                ends = [(f"tune.space.{next(iter(settings))}", settings) for settings in edges(space)]
                found[label] = [config, *(checked.trial_with(label, settings, where) for where, settings in ends)]
        check_read(plan, found)
        return {}

    def tasks(self, earlier: Earlier) -> list[Task]:
        """See `Stage`."""
        section = self.plan.tune
        if section is None:
            return []
        if section.sampler == GRID:
            tasks = [task for label in self.checked.agents for task in self._grid(label, earlier)]
        else:
            tasks = self._rounds(earlier)
        settings = {"lower_is_better": self.plan.report.lower_is_better}
        makes = (
            *tables(self.checked.folder),
            *(best_file(self.checked.folder, label) for label in self.checked.agents),
        )
        return [*tasks, Task(self.name, "tables", settings, makes, self.write_tables, tuple(tasks), reported=True)]

    def _grid(self, label: str, earlier: Earlier) -> list[Task]:
        """The trials of an agent that are all known."""
        assert self.plan.tune is not None
        folder, tasks = self.checked.folder, []
        settings = trial_settings(self.plan, label, self.checked.agents[label])
        files = [trial_file(folder, label, number) for number in range(self.plan.tune.trials)]
        if self.checked.trials(label) is not None:
            makes = (trials_run(folder, label), *files)
            work = partial(self.try_together, label, 0, self.plan.tune.trials)
            return [self._task(label, label, {"drawn": settings}, makes, work, earlier)]
        for number, file in enumerate(files):
            makes, work = (trial_run(folder, label, number), file), partial(self.try_settings, label, number)
            tasks.append(self._task(f"{label} {number}", label, {"drawn": settings[number]}, makes, work, earlier))
        return tasks

    def _rounds(self, earlier: Earlier) -> list[Task]:
        """The rounds of all agents that are searched, one after the other."""
        section, folder = self.plan.tune, self.checked.folder
        assert section is not None
        tasks: list[Task] = []
        before: dict[str, tuple[Task, ...]] = dict.fromkeys(self.checked.agents, ())
        for number in range(section.rounds):
            asked: dict[str, Task] = {}
            for label in self.checked.agents:
                asked[label] = Task(
                    self.name,
                    f"{label} ask_{number}",
                    {**self._settings(label), "trials": section.in_round(number)},
                    (round_file(folder, label, number),),
                    partial(self.propose, label, number),
                    before[label],
                    closed=True,
                )
            tasks += asked.values()
            for label, task in asked.items():
                before[label] = tuple(self._round(label, number, task, earlier))
                tasks += before[label]
        return tasks

    def _round(self, label: str, number: int, asked: Task, earlier: Earlier) -> list[Task]:
        """The trials of one round."""
        section, folder = self.plan.tune, self.checked.folder
        assert section is not None
        first = number * section.size
        numbers = range(first, first + section.in_round(number))
        if is_one_program(self.plan, label, self.checked.agents[label]):
            makes = (trials_run(folder, label, number), *(trial_file(folder, label, one) for one in numbers))
            work = partial(self.try_together, label, first, len(numbers), number)
            return [self._task(f"{label} run_{number}", label, {}, makes, work, earlier, (asked,))]
        return [
            self._task(
                f"{label} {one}",
                label,
                {},
                (trial_run(folder, label, one), trial_file(folder, label, one)),
                partial(self.try_settings, label, one),
                earlier,
                (asked,),
            )
            for one in numbers
        ]

    def _task(
        self,
        name: str,
        label: str,
        own: Mapping[str, object],
        makes: tuple[Path, ...],
        work: Callable[[], None],
        earlier: Earlier,
        needs: tuple[Task, ...] = (),
    ) -> Task:
        """A task that trains; `own` is what its result depends on besides."""
        priors = earlier.of(PriorStage).values() if self.checked.uses_prior(label) else ()
        needs = (earlier.of(PoolStage)[""], *priors, *needs)
        return Task(self.name, name, {**self._settings(label), **own}, makes, work, needs, costly=True, apart=True)

    def _settings(self, label: str) -> dict[str, object]:
        """What any trial of an agent depends on."""
        assert self.plan.tune is not None
        tune = self.plan.tune.fingerprinted()
        if self.plan.tune.sampler != GRID:
            # A search that is to have more trials goes on.
            del tune["trials"]
            tune |= {"round": self.plan.tune.size, "lower_is_better": self.plan.report.lower_is_better}
        return {
            "train": self.plan.train.fingerprinted(),
            "agent": self.plan.agents[label].fingerprinted(),
            "tune": tune,
            "metric": self.checked.metric,
        }

    # ------------------------------------------------------------------------------------------- how a task is done

    @cached_property
    def arena(self) -> Arena:
        """The pool, loaded when it is first needed."""
        return Arena(self.checked.pool, self.checked.env)

    def propose(self, label: str, number: int) -> None:
        """Proposes the settings of a round, and says what stops its trials."""
        section = self.plan.tune
        assert section is not None
        rows = trial_rows(self.checked, label, number * section.size)
        told = tried(self.checked, label, rows)
        rounds = [told[first : first + section.size] for first in range(0, len(told), section.size)]
        search = search_of(self.plan, label, self.checked.agents[label])
        found = search.propose(rounds, partial(self._refused, label))
        stop = {}
        if section.stop is not None:
            tests = [trial_tests(self.checked, label, row.trial) for row in rows]
            stop = {str(step): value for step, value in least_to_go_on(tests, section.stop.factor).items()}
        write_round(round_file(self.checked.folder, label, number), Round(settings=found, stop=stop))

    def _refused(self, label: str, settings: dict[str, object]) -> str:
        """Why no run takes some settings; empty if one does."""
        try:
            self.checked.trial_with(label, settings, "The last ones were refused")
        except UserError as error:
            return str(error)
        return ""

    def try_together(self, label: str, first: int, trials: int, number: int | None = None) -> None:
        """Trains with the settings of some trials side by side and plays with the validation partners.

        Args:
            label: of the agent.
            first: number of the first of them.
            trials: how many they are.
            number: of their round; None of a grid.
        """
        section = self.plan.tune
        assert section is not None
        config = self.checked.trials(label) if number is None else self.checked.trial_round(label, number)
        assert config is not None
        where, astray = trials_run(self.checked.folder, label, number), dict[int, int]()
        while len(astray) < trials:
            run = where.joinpath(*(f"without_{first + place}" for place in sorted(astray)))
            attempt = without(config, section.seeds, astray, run)
            try:
                self.place.finish(run, partial(lambda one: one, attempt))
            except DivergedError as error:
                astray[(error.seed - config.seed) // section.seeds] = error.t_env
                continue
            scores = self._scores(label, finished_run(run).path)
            break
        for place in range(trials):
            if place in astray:
                self._write(label, first + place, astray[place], [], DIVERGED)
                continue
            seed = config.seed + place * section.seeds
            own = [row.mean for row in scores if seed <= int(row.seed) < seed + section.seeds]
            self._write(label, first + place, config.t_max, own)

    def try_settings(self, label: str, number: int) -> None:
        """Trains with the settings of one trial and plays with the validation partners, unless it was stopped."""
        where, config = trial_run(self.checked.folder, label, number), self.checked.trial(label, number)
        try:
            self.place.finish(where, lambda: config)
        except DivergedError as error:
            self._write(label, number, error.t_env, [], DIVERGED)
            return
        run = finished_run(where)
        least = dict(zip(config.early_stop_at, config.early_stop_below, strict=True))
        tests = trial_tests(self.checked, label, number) if least else []
        below = [step for step, value in tests if step in least and not value >= least[step]]
        if run.status() == "stopped" and below:
            self._write(label, number, below[0], [], STOPPED)
            return
        self._write(label, number, config.t_max, [row.mean for row in self._scores(label, run.path)])

    def _scores(self, label: str, run: Path) -> list[ScoreRow]:
        """Of all seeds of a run with the validation partners."""
        section, evaluation = self.plan.tune, self.plan.evaluation
        assert section is not None
        games = (evaluation.groups or None, section.episodes, evaluation.seed)
        scores = self.arena.scores(load_contestants(label, run), VALIDATION, *games)
        return [row for row in scores if row.metric == self.checked.metric]

    def _write(self, label: str, number: int, steps: int, own: Sequence[float], chosen: str = "") -> None:
        section = self.plan.tune
        assert section is not None
        changes = drawn(self.checked, label, number)
        row = TrialRow(
            agent=label,
            trial=number,
            settings=", ".join(f"{key}={shown(value)}" for key, value in changes.items()) or "as in the plan",
            metric=self.checked.metric,
            seeds=section.seeds,
            steps=steps,
            mean=float(np.mean(own)) if own else float("nan"),
            chosen=chosen,
        )
        write_rows(trial_file(self.checked.folder, label, number), [row], TrialRow.names())

    def write_tables(self) -> None:
        """Tables all trials of all agents, what each setting is worth, and the best settings as files."""
        trials, slices, importance = tables(self.checked.folder)
        rows = {label: judged_trials(self.checked, label) for label in self.checked.agents}
        write_rows(trials, [row for own in rows.values() for row in own], TrialRow.names())
        found = [row for label, own in rows.items() for row in slice_rows(self.checked, label, own)]
        write_rows(slices, found, SliceRow.names())
        matters: list[ImportanceRow] = []
        if find_spec("optuna") is None:
            self.place.ledger.say(f"tune: how much each key matters is found by Optuna: {INSTALL}")
        else:
            matters = [row for label, own in rows.items() for row in importance_rows(self.checked, label, own)]
        write_rows(importance, matters, ImportanceRow.names())
        for label in rows:
            write_best(self.checked, label)
