"""Trials of settings: what each changes, where it is kept, and which did best."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from omg.components.files import read_json, write_json
from omg.config import Config, change_config
from omg.disk import DamagedFileError
from omg.errors import UserError
from omg.evaluation.rows import read_rows
from omg.evaluation.suite_tables import ImportanceRow, SliceRow, TrialRow
from omg.evaluation.tables import MetricRow
from omg.experiments.runs import finished_run
from omg.experiments.search import GRID, SettingsSearch, Space, Tried, choices, is_finite, shuffled
from omg.names import file_name
from omg.report.chapters import Chapter
from omg.report.slices import slices_chapter
from omg.report.trials import trials_chapter
from omg.training.tuned import rate_keys
from omg.types import Json

if TYPE_CHECKING:
    from omg.experiments.plan import Plan
    from omg.experiments.plan_check import CheckedPlan

TUNE_FOLDER = "tune"
VALIDATION = "validation"
STOPPED, DIVERGED = "stopped", "diverged"
_MOST_BYTES = 16_000_000
_FIXED = {
    "seed": "the seeds of trials follow from the plan's",
    "seeds": "the section tune says how many",
    "t_max": "the section tune says how long",
    "early_stop_at": "the section tune says when trials are stopped",
    "early_stop_below": "the section tune says when trials are stopped",
}
"""Keys that no trial may change, beside those that the pipeline sets."""


class Round(BaseModel):
    """Trials that are proposed together, as the file says that keeps them."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    settings: list[dict[str, Json]]
    """What each of them changes."""
    stop: dict[str, Annotated[float, Field(allow_inf_nan=False)]] = {}
    """Steps -> the value that the first test from there on must have for a trial to go on."""


def _part(folder: Path, kind: str, label: str, number: int, ending: str) -> Path:
    return folder / TUNE_FOLDER / kind / f"{file_name('label', label)}-{number}.{ending}"


def trial_run(folder: Path, label: str, number: int) -> Path:
    """Where the run of a trial is made."""
    return folder / TUNE_FOLDER / "runs" / file_name("label", label) / f"trial_{number}"


def trials_run(folder: Path, label: str, number: int | None = None) -> Path:
    """Where the run is made whose seeds are the trials of an agent, or those of one round."""
    name = "trials" if number is None else f"round_{number}"
    return folder / TUNE_FOLDER / "runs" / file_name("label", label) / name


def trial_file(folder: Path, label: str, number: int) -> Path:
    """What a trial came to."""
    return _part(folder, "parts", label, number, "csv")


def round_file(folder: Path, label: str, number: int) -> Path:
    """What the trials of a round change."""
    return _part(folder, "rounds", label, number, "json")


def best_file(folder: Path, label: str) -> Path:
    """The best settings of an agent, as a file that `--config` takes; algorithms are called by their files."""
    return folder / TUNE_FOLDER / "best" / f"{file_name('label', label)}_tuned.yaml"


def journal_file(folder: Path, label: str) -> Path:
    """The trials of an agent for Optuna's own tools."""
    return folder / TUNE_FOLDER / f"{file_name('label', label)}.journal"


def tables(folder: Path) -> tuple[Path, Path, Path]:
    """The tables of all trials of all agents, of their settings one by one, and of how much each key matters."""
    place = folder / TUNE_FOLDER
    return place / "trials.csv", place / "slices.csv", place / "importance.csv"


def trials_chapters(checked: CheckedPlan) -> list[Chapter]:
    """What the report says about the trials; nothing where the plan does not ask for any."""
    if checked.plan.tune is None:
        return []
    trials, slices, importance = tables(checked.folder)
    rows, names = read_rows(trials, TrialRow), checked.plan.report.names
    found = [trials_chapter(rows, names)]
    # Tables that were made before there were slices have none.
    if slices.is_file():
        own = read_rows(slices, SliceRow), read_rows(importance, ImportanceRow)
        found += slices_chapter(*own, names)
    return found


# ------------------------------------------------------------------------------------------------ what trials change


def space_of(plan: Plan, label: str) -> Space:
    """What trials of an agent are drawn from.

    Raises:
        UserError: a key cannot be tried.
    """
    assert plan.tune is not None
    space = {**plan.tune.space, **plan.agents[label].space}
    for key in space:
        if key in _FIXED:
            raise UserError(f"tune.space.{key}: cannot be tried ({_FIXED[key]}).")
    return space


def search_of(plan: Plan, label: str, config: Config) -> SettingsSearch:
    """The search for an agent's settings; of a plan whose trials are drawn by Optuna."""
    section = plan.tune
    assert section is not None
    return SettingsSearch(
        space_of(plan, label),
        section.sampler,
        config,
        trials=section.trials,
        size=section.size,
        draw=section.draw,
        lower=plan.report.lower_is_better,
    )


def trial_settings(plan: Plan, label: str, config: Config) -> list[dict[str, object]]:
    """What each trial of an agent changes that come from a grid: nothing in the first, then so many choices from it.

    Agents with the same space have the same choices. The choice that is the plan's own settings is not made again.

    Args:
        plan: has a section `tune`.
        label: of the agent.
        config: of its training.

    Raises:
        UserError: the space has fewer choices than there are trials, or more than can be looked through.
    """
    assert plan.tune is not None
    other = other_choices(plan, label, config)
    return [{}, *shuffled(other, plan.tune.draw)[: plan.tune.trials - 1]]


def other_choices(plan: Plan, label: str, config: Config) -> list[dict[str, object]]:
    """All settings of a space with an end but the plan's own.

    Raises:
        UserError: there are fewer than there are trials.
    """
    section = plan.tune
    assert section is not None
    found = [
        choice
        for choice in choices(space_of(plan, label))
        if any(getattr(config, key, None) != value for key, value in choice.items())
    ]
    if len(found) < section.trials - 1:
        raise UserError(
            f"tune.trials: got {section.trials}, but the space of {label} has {len(found)} choices beside the plan's "
            f"own settings; all agents get the same number. Give fewer trials, or agents.{label}.space."
        )
    return found


def check_number(plan: Plan, label: str, config: Config) -> None:
    """Refuses more trials than a space has settings."""
    if is_finite(space_of(plan, label)):
        other_choices(plan, label, config)


def drawn(checked: CheckedPlan, label: str, number: int) -> dict[str, object]:
    """What a trial of an agent changes.

    Raises:
        UserError: it was not proposed yet, or the file of its round is damaged.
    """
    section = checked.plan.tune
    assert section is not None
    if section.sampler == GRID:
        return trial_settings(checked.plan, label, checked.agents[label])[number]
    return dict(read_round(checked, label, number // section.size).settings[number % section.size])


def read_round(checked: CheckedPlan, label: str, number: int) -> Round:
    """The trials of a round; what they change is looked at like anything that a user gives, by whoever trains them.

    Raises:
        UserError: they were not proposed yet, or the file is damaged.
    """
    section, path = checked.plan.tune, round_file(checked.folder, label, number)
    assert section is not None
    try:
        found = Round.model_validate(read_json(path, _MOST_BYTES))
        if len(found.settings) != section.in_round(number):
            raise DamagedFileError(f"it has {len(found.settings)} trials, not {section.in_round(number)}")
        space = space_of(checked.plan, label)
        for key in (key for one in found.settings for key in one):
            if key not in space:
                raise DamagedFileError(f"{key} is not tried")
        if not all(step.isdecimal() and len(step) < 17 for step in found.stop):
            raise DamagedFileError("its steps are no numbers")
    except (OSError, DamagedFileError, ValidationError) as error:
        reason = " ".join(str(error).split()[:30])
        raise UserError(f"{path} cannot be read: {reason}.") from None
    return found


def write_round(path: Path, found: Round) -> None:
    """Keeps a round."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, found.model_dump(mode="json"))


def is_one_program(plan: Plan, label: str, config: Config) -> bool:
    """Whether trials of an agent that Optuna proposes are seeds of one run, round by round."""
    assert plan.tune is not None
    return plan.tune.stop is None and set(space_of(plan, label)) <= set(rate_keys(config))


def side_by_side(settings: Sequence[Mapping[str, object]], config: Config, seeds: int) -> dict[str, object] | None:
    """What makes all trials of an agent the seeds of one run, so many for each; None where a trial is another program.

    Args:
        settings: of the trials.
        config: of the agent's training.
        seeds: of each trial.
    """
    tried = sorted({key for one in settings for key in one})
    if not set(tried) <= set(rate_keys(config)):
        return None
    own = {key: [one.get(key, getattr(config, key)) for one in settings for _ in range(seeds)] for key in tried}
    return {"seeds": seeds * len(settings), "by_seed": own}


def without(config: Config, seeds: int, astray: Collection[int], where: Path) -> Config:
    """A run of trials side by side in which those that went astray learn with the settings of another one.

    Args:
        config: of the run of all of them.
        seeds: of each trial.
        astray: their places in it.
        where: the run is made.
    """
    whole = range(config.seeds // seeds)
    other = next(place for place in whole if place not in astray)
    places = [other if place in astray else place for place in whole]
    by_seed = {
        key: [values[place * seeds + index] for place in places for index in range(seeds)]
        for key, values in config.by_seed.items()
    }
    return change_config(config, by_seed=by_seed, local_results_path=str(where))


# ----------------------------------------------------------------------------------------------- what became of them


def values_at(metrics: Iterable[MetricRow], metric: str, steps: Sequence[int]) -> list[tuple[int, float]]:
    """Each of some steps that a run has tested at or after, and the value of the first such test, over its seeds."""
    by_seed: dict[object, list[MetricRow]] = {}
    for row in metrics:
        if row.name == metric:
            by_seed.setdefault(row.seed, []).append(row)
    tests = list(zip(*by_seed.values(), strict=False))
    found = []
    for step in steps:
        first = next((test for test in tests if min(row.t_env for row in test) >= step), None)
        if first is not None:
            found.append((step, sum(row.value for row in first) / len(first)))
    return found


def watched_metric(checked: CheckedPlan) -> str:
    """By which trials are stopped in their own tests."""
    return f"test_{checked.metric}_mean"


def trial_tests(checked: CheckedPlan, label: str, number: int) -> list[tuple[int, float]]:
    """The steps at which a trial could be stopped and was tested, and the values of these tests."""
    section = checked.plan.tune
    assert section is not None
    steps = section.rungs(section.t_max or checked.agents[label].t_max)
    return values_at(finished_run(trial_run(checked.folder, label, number)).metrics(), watched_metric(checked), steps)


def least_to_go_on(tests: Sequence[Sequence[tuple[int, float]]], factor: int) -> dict[int, float]:
    """Step -> the least value of those that successive halving lets go on.

    Of all that were tested at a step, the next one among them, one in `factor` goes on, and the best in any case.

    Args:
        tests: steps and values of every earlier trial.
        factor: how many of which one goes on.
    """
    by_step: dict[int, list[float]] = {}
    for one in tests:
        for step, value in one:
            if math.isfinite(value):
                by_step.setdefault(step, []).append(value)
    return {
        step: sorted(values, reverse=True)[max((len(values) + 1) // factor, 1) - 1]
        for step, values in sorted(by_step.items())
    }


def trial_rows(checked: CheckedPlan, label: str, trials: int) -> list[TrialRow]:
    """The first trials of an agent, which must be done."""
    return [row for number in range(trials) for row in read_rows(trial_file(checked.folder, label, number), TrialRow)]


def tried(checked: CheckedPlan, label: str, rows: Sequence[TrialRow]) -> list[Tried]:
    """What a search is told of trials."""
    return [
        Tried(
            drawn(checked, label, row.trial),
            row.mean,
            trial_tests(checked, label, row.trial) if row.chosen == STOPPED else (),
        )
        for row in rows
    ]


def judged_trials(checked: CheckedPlan, label: str) -> list[TrialRow]:
    """The trials of an agent, the one marked that did best; of equal ones the first.

    Raises:
        UserError: none of them has a score.
    """
    assert checked.plan.tune is not None
    rows = trial_rows(checked, label, checked.plan.tune.trials)
    sign = -1.0 if checked.plan.report.lower_is_better else 1.0
    scored = [row for row in rows if not math.isnan(row.mean)]
    if not scored:
        raise UserError(f"tune: no trial of {label} has a score with the validation partners.")
    best = max(scored, key=lambda row: sign * row.mean).trial
    words = {True: "yes", False: "no"}
    return [TrialRow.of({**row, "chosen": row.chosen or words[row.trial == best]}) for row in rows]


def chosen_trial(checked: CheckedPlan, label: str) -> int:
    """The number of the trial whose settings an agent is trained with."""
    return next(row.trial for row in judged_trials(checked, label) if row.chosen == "yes")
