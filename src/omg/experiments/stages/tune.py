"""The stage `tune`: the same number of trials for every agent, judged by the validation partners alone."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from functools import cached_property, partial
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from pydantic import Field

from omg.config import Config
from omg.errors import UserError
from omg.evaluation.rows import write_rows
from omg.evaluation.suite_tables import TrialRow
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
)

if TYPE_CHECKING:
    from omg.experiments.plan_check import CheckedPlan


class TuneSection(SettingsSection):
    """Trials of settings, the same number for every agent; also settings of all trials, e.g. a shorter schedule."""

    own: ClassVar[Mapping[str, str]] = {"seed": "all trials have the seeds of the training"}
    trials: int = Field(ge=2, le=1000, description="Settings that are tried for every agent, the plan's own included")
    space: dict[str, list[object]] = Field({}, description="Key -> values that trials of all agents are drawn from")
    seeds: int = Field(2, ge=1, description="Trainings of every trial")
    t_max: int | None = Field(None, ge=1, description="Steps of every trial; those of the training unless given")
    episodes: int = Field(64, ge=1, description="Episodes of each seed with each validation team")
    draw: int = Field(1, ge=1, description="Which settings are drawn from the space")


class TuneStage(Stage):
    """A task for every trial of every agent, and one for the table; none without the section."""

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
        return {}

    def tasks(self, earlier: Earlier) -> list[Task]:
        """See `Stage`."""
        section = self.plan.tune
        if section is None:
            return []
        pool, tasks = earlier.of(PoolStage)[""], []
        for label, number in itertools.product(self.checked.agents, range(section.trials)):
            priors = earlier.of(PriorStage).values() if self.checked.uses_prior(label) else ()
            settings: dict[str, object] = {
                "train": self.plan.train.fingerprinted(),
                "agent": self.plan.agents[label].fingerprinted(),
                "tune": section.fingerprinted(),
                "drawn": trial_settings(self.plan, label, self.checked.agents[label])[number],
                "metric": self.checked.metric,
            }
            run, file = trial_run(self.checked.folder, label, number), trial_file(self.checked.folder, label, number)
            work = partial(self.try_settings, label, number)
            tasks.append(
                Task(
                    self.name,
                    f"{label} {number}",
                    settings,
                    (run, file),
                    work,
                    (pool, *priors),
                    costly=True,
                    apart=True,
                )
            )
        table = trials_file(self.checked.folder)
        settings = {"lower_is_better": self.plan.report.lower_is_better}
        return [*tasks, Task(self.name, "tables", settings, (table,), self.write_table, tuple(tasks), reported=True)]

    # ------------------------------------------------------------------------------------------- how a task is done

    @cached_property
    def arena(self) -> Arena:
        """The pool, loaded when it is first needed."""
        return Arena(self.checked.pool, self.checked.env)

    def try_settings(self, label: str, number: int) -> None:
        """Trains with the settings of one trial and plays with the validation partners."""
        section = self.plan.tune
        assert section is not None
        where, config = trial_run(self.checked.folder, label, number), self.checked.trial(label, number)
        self.place.finish(where, lambda: config)
        found = load_contestants(label, finished_run(where).path)
        evaluation = self.plan.evaluation
        scores = self.arena.scores(found, VALIDATION, evaluation.groups or None, section.episodes, evaluation.seed)
        own = [row.mean for row in scores if row.metric == self.checked.metric]
        drawn = trial_settings(self.plan, label, self.checked.agents[label])[number]
        row = TrialRow(
            agent=label,
            trial=number,
            settings=", ".join(f"{key}={value}" for key, value in drawn.items()) or "as in the plan",
            metric=self.checked.metric,
            seeds=len(found.seeds),
            steps=config.t_max,
            mean=float(np.mean(own)),
            chosen="",
        )
        write_rows(trial_file(self.checked.folder, label, number), [row], TrialRow.names())

    def write_table(self) -> None:
        """Tables all trials of all agents."""
        rows = [row for label in self.checked.agents for row in judged_trials(self.checked, label)]
        write_rows(trials_file(self.checked.folder), rows, TrialRow.names())
