"""The stage `tune`: the same number of trials for every agent, judged by the validation partners alone.

Trials that differ in learning rates and weights alone are seeds of one run, and so one program. Others are runs of
their own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from pydantic import Field

from omg.config import Config
from omg.errors import UserError
from omg.evaluation.rows import write_rows
from omg.evaluation.suite_tables import TrialRow
from omg.evaluation.tables import ScoreRow
from omg.experiments.evaluation import Arena, load_contestants
from omg.experiments.ledger import Task
from omg.experiments.results import finished_run
from omg.experiments.stages.base import Earlier, SettingsSection, Stage
from omg.experiments.stages.pool import PoolStage
from omg.experiments.stages.prior import PriorStage
from omg.experiments.trials import (
    TUNE_FOLDER,
    VALIDATION,
    judged_trials,
    trial_file,
    trial_run,
    trial_settings,
    trials_file,
    trials_run,
)

if TYPE_CHECKING:
    from omg.experiments.plan_check import CheckedPlan


class TuneSection(SettingsSection):
    """Trials of settings, the same number for every agent; also settings of all trials, e.g. a shorter schedule."""

    own: ClassVar[Mapping[str, str]] = {"seed": "it follows from that of the training"}
    trials: int = Field(ge=2, le=1000, description="Settings that are tried for every agent, the plan's own included")
    space: dict[str, list[object]] = Field({}, description="Key -> values that trials of all agents are drawn from")
    seeds: int = Field(2, ge=1, description="Trainings of every trial")
    t_max: int | None = Field(None, ge=1, description="Steps of every trial; those of the training unless given")
    episodes: int = Field(64, ge=1, description="Episodes of each seed with each validation team")
    draw: int = Field(1, ge=1, description="Which settings are drawn from the space")


class TuneStage(Stage):
    """A task for the trials of every agent, or for each of them, and one for the table; none without the section."""

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
        if checked.self_play:
            raise UserError(f"tune: {checked.self_play[0]} learns in all seats and meets no validation partners.")
        for label in checked.agents:
            for number in range(plan.tune.trials):
                checked.trial(label, number)
            checked.trials(label)
        return {}

    def tasks(self, earlier: Earlier) -> list[Task]:
        """See `Stage`."""
        section = self.plan.tune
        if section is None:
            return []
        folder, tasks = self.checked.folder, []
        for label in self.checked.agents:
            drawn = trial_settings(self.plan, label, self.checked.agents[label])
            files = [trial_file(folder, label, number) for number in range(section.trials)]
            if self.checked.trials(label) is not None:
                makes = (trials_run(folder, label), *files)
                tasks.append(self._task(label, label, drawn, makes, partial(self.try_together, label), earlier))
                continue
            for number, file in enumerate(files):
                makes, work = (trial_run(folder, label, number), file), partial(self.try_settings, label, number)
                tasks.append(self._task(f"{label} {number}", label, drawn[number], makes, work, earlier))
        table = trials_file(self.checked.folder)
        settings = {"lower_is_better": self.plan.report.lower_is_better}
        return [*tasks, Task(self.name, "tables", settings, (table,), self.write_table, tuple(tasks), reported=True)]

    # ------------------------------------------------------------------------------------------- how a task is done

    @cached_property
    def arena(self) -> Arena:
        """The pool, loaded when it is first needed."""
        return Arena(self.checked.pool, self.checked.env)

    def _task(
        self,
        name: str,
        label: str,
        drawn: object,
        makes: tuple[Path, ...],
        work: Callable[[], None],
        earlier: Earlier,
    ) -> Task:
        assert self.plan.tune is not None
        priors = earlier.of(PriorStage).values() if self.checked.uses_prior(label) else ()
        settings: dict[str, object] = {
            "train": self.plan.train.fingerprinted(),
            "agent": self.plan.agents[label].fingerprinted(),
            "tune": self.plan.tune.fingerprinted(),
            "drawn": drawn,
            "metric": self.checked.metric,
        }
        needs = (earlier.of(PoolStage)[""], *priors)
        return Task(self.name, name, settings, makes, work, needs, costly=True, apart=True)

    def try_together(self, label: str) -> None:
        """Trains with the settings of all trials side by side and plays with the validation partners."""
        section, config = self.plan.tune, self.checked.trials(label)
        assert section is not None
        assert config is not None
        where = trials_run(self.checked.folder, label)
        self.place.finish(where, lambda: config)
        scores = self._scores(label, finished_run(where).path)
        for number in range(section.trials):
            first = config.seed + number * section.seeds
            own = [row.mean for row in scores if first <= int(row.seed) < first + section.seeds]
            self._write(label, number, config.t_max, own)

    def try_settings(self, label: str, number: int) -> None:
        """Trains with the settings of one trial and plays with the validation partners."""
        where, config = trial_run(self.checked.folder, label, number), self.checked.trial(label, number)
        self.place.finish(where, lambda: config)
        own = [row.mean for row in self._scores(label, finished_run(where).path)]
        self._write(label, number, config.t_max, own)

    def _scores(self, label: str, run: Path) -> list[ScoreRow]:
        """Of all seeds of a run with the validation partners."""
        section, evaluation = self.plan.tune, self.plan.evaluation
        assert section is not None
        games = (evaluation.groups or None, section.episodes, evaluation.seed)
        scores = self.arena.scores(load_contestants(label, run), VALIDATION, *games)
        return [row for row in scores if row.metric == self.checked.metric]

    def _write(self, label: str, number: int, steps: int, own: Sequence[float]) -> None:
        section = self.plan.tune
        assert section is not None
        drawn = trial_settings(self.plan, label, self.checked.agents[label])[number]
        row = TrialRow(
            agent=label,
            trial=number,
            settings=", ".join(f"{key}={value}" for key, value in drawn.items()) or "as in the plan",
            metric=self.checked.metric,
            seeds=section.seeds,
            steps=steps,
            mean=float(np.mean(own)),
            chosen="",
        )
        write_rows(trial_file(self.checked.folder, label, number), [row], TrialRow.names())

    def write_table(self) -> None:
        """Tables all trials of all agents."""
        rows = [row for label in self.checked.agents for row in judged_trials(self.checked, label)]
        write_rows(trials_file(self.checked.folder), rows, TrialRow.names())
