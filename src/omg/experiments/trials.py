"""Trials of settings: what each changes, where it is kept, and which did best."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from omg.config import Config
from omg.errors import UserError
from omg.evaluation.rows import read_rows
from omg.evaluation.suite_tables import TrialRow
from omg.names import file_name
from omg.report.chapters import Chapter
from omg.report.trials import trials_chapter
from omg.training.tuned import rate_keys

if TYPE_CHECKING:
    from omg.experiments.plan import Plan
    from omg.experiments.plan_check import CheckedPlan

TUNE_FOLDER = "tune"
VALIDATION = "validation"
_MOST_CHOICES = 100_000
_FIXED = {
    "seed": "the seeds of trials follow from the plan's",
    "seeds": "the section tune says how many",
    "t_max": "the section tune says how long",
}
"""Keys that no trial may change, beside those that the pipeline sets."""


def trial_run(folder: Path, label: str, number: int) -> Path:
    """Where the run of a trial is made."""
    return folder / TUNE_FOLDER / "runs" / file_name("label", label) / f"trial_{number}"


def trials_run(folder: Path, label: str) -> Path:
    """Where the run is made whose seeds are the trials of an agent."""
    return folder / TUNE_FOLDER / "runs" / file_name("label", label) / "trials"


def trial_file(folder: Path, label: str, number: int) -> Path:
    """What a trial came to."""
    return folder / TUNE_FOLDER / "parts" / f"{file_name('label', label)}-{number}.csv"


def trials_file(folder: Path) -> Path:
    """The table of all trials of all agents."""
    return folder / TUNE_FOLDER / "trials.csv"


def trials_chapters(checked: CheckedPlan) -> list[Chapter]:
    """What the report says about the trials; nothing where the plan does not ask for any."""
    if checked.plan.tune is None:
        return []
    return [trials_chapter(read_rows(trials_file(checked.folder), TrialRow), checked.plan.report.names)]


def judged_trials(checked: CheckedPlan, label: str) -> list[TrialRow]:
    """The trials of an agent, the one marked that did best; of equal ones the first."""
    assert checked.plan.tune is not None
    numbers = range(checked.plan.tune.trials)
    rows = [row for number in numbers for row in read_rows(trial_file(checked.folder, label, number), TrialRow)]
    sign = -1.0 if checked.plan.report.lower_is_better else 1.0
    best = max(rows, key=lambda row: sign * row.mean).trial
    return [TrialRow.of({**row, "chosen": "yes" if row.trial == best else "no"}) for row in rows]


def chosen_trial(checked: CheckedPlan, label: str) -> int:
    """The number of the trial whose settings an agent is trained with."""
    return next(row.trial for row in judged_trials(checked, label) if row.chosen == "yes")


def trial_settings(plan: Plan, label: str, config: Config) -> list[dict[str, object]]:
    """What each trial of an agent changes: nothing in the first, then so many choices from the space.

    Agents with the same space have the same choices. The choice that is the plan's own settings is not made again.

    Args:
        plan: has a section `tune`.
        label: of the agent.
        config: of its training.

    Raises:
        UserError: the space has fewer choices than there are trials, or more than can be looked through.
    """
    section = plan.tune
    assert section is not None
    space = {**section.space, **plan.agents[label].space}
    for key, values in space.items():
        if key in _FIXED:
            raise UserError(f"tune.space.{key}: cannot be tried ({_FIXED[key]}).")
        if not values:
            raise UserError(f"tune.space.{key}: got nothing to choose from.")
    if np.prod([len(values) for values in space.values()]) > _MOST_CHOICES:
        raise UserError(f"tune.space: more than {_MOST_CHOICES:,} choices for {label}; name fewer values.")
    choices = [dict(zip(space, values, strict=True)) for values in itertools.product(*space.values())]
    other = [choice for choice in choices if any(getattr(config, key, None) != choice[key] for key in choice)]
    if len(other) < section.trials - 1:
        raise UserError(
            f"tune.trials: got {section.trials}, but the space of {label} has {len(other)} choices beside the plan's "
            f"own settings; all agents get the same number. Give fewer trials, or agents.{label}.space."
        )
    return [{}, *_drawn(other, section.draw)[: section.trials - 1]]


def side_by_side(settings: Sequence[Mapping[str, object]], config: Config, seeds: int) -> dict[str, object] | None:
    """What makes all trials of an agent the seeds of one run, so many for each; None where a trial is another program.

    Args:
        settings: from `trial_settings`.
        config: of the agent's training.
        seeds: of each trial.
    """
    tried = sorted({key for one in settings for key in one})
    if not set(tried) <= set(rate_keys(config)):
        return None
    own = {key: [one.get(key, getattr(config, key)) for one in settings for _ in range(seeds)] for key in tried}
    return {"seeds": seeds * len(settings), "by_seed": own}


def _drawn(choices: Sequence[dict[str, object]], draw: int) -> list[dict[str, object]]:
    """Choices in an order that the number of the draw alone decides."""

    def place(choice: dict[str, object]) -> bytes:
        return hashlib.sha256(f"{draw}/{json.dumps(choice, sort_keys=True)}".encode()).digest()

    return sorted(choices, key=place)
