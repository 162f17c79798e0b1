"""A sweep: the part of a pipeline that looks for settings, and a page about what it found.

It is a pipeline that ends with the stage `tune`, so `omg pipeline FOLDER` goes on from it: it trains with the best
settings and evaluates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml
from rich.console import Console

from omg.config import read_yaml
from omg.config.algorithms import is_path
from omg.config.overrides import assignments, merge, nested
from omg.config.teams import looks_like_team
from omg.errors import UserError
from omg.evaluation.rows import read_rows
from omg.evaluation.suite_tables import ImportanceRow, TrialRow
from omg.experiments.ledger import PLAN_FILE
from omg.experiments.pipeline import run_pipeline
from omg.experiments.plan import Plan, parse_plan, plan_of, read_plan_file
from omg.experiments.plan_check import CheckedPlan, check_plan
from omg.experiments.search import GRID
from omg.experiments.stages.pool import POOL_FOLDER
from omg.experiments.stages.tune import TuneStage
from omg.experiments.suite import is_suite
from omg.experiments.trials import (
    TUNE_FOLDER,
    VALIDATION,
    best_file,
    journal_file,
    search_of,
    tables,
    trial_rows,
    trials_chapters,
    tried,
)
from omg.launchers import LauncherSettings
from omg.pools import Pool
from omg.report.sweep import sweep_screen, write_sweep_page
from omg.report.terminal import Screen

_AGENT = "tried"
"""Label of the only agent whose algorithm has no name that a folder could have."""


_UNLESS_SAID: Mapping[str, object] = {"trials": 20, "sampler": "tpe"}
"""Keys of the section `tune` of a sweep that no plan describes."""


@dataclass(frozen=True)
class SweepResult:
    """What a sweep has come to."""

    folder: Path
    done: tuple[str, ...]
    """Titles of the tasks that were done this time."""
    rows: list[TrialRow]
    """All trials of all agents."""
    shown: Screen
    """What is told on the screen."""
    best: dict[str, Path]
    """Label -> file with the best settings, for `--config`."""
    page: Path


def sweep_plan(
    algorithm: str,
    pool: str | Path,
    tune: Mapping[str, object],
    words: Sequence[str] = (),
    env_config: str | None = None,
    metric: str | None = None,
) -> Plan:
    """The plan of a sweep over the settings of one algorithm.

    Args:
        algorithm: its name, its file or a team.
        pool: whose `training` members it learns with and whose `validation` members judge it.
        tune: the section `tune`.
        words: `key=value`, settings of all trials.
        env_config: the game; that of the pool unless given.
        metric: what counts; the game's success metric unless given.

    Raises:
        UserError: something in it cannot be used.
    """
    opened, settings = Pool.open(pool), nested(assignments(list(words)))
    env_args = settings.pop("env_args", {})
    if not isinstance(env_args, Mapping):
        raise UserError(f"env_args: got {env_args}; expected options of the game, e.g. env_args.map_name=8m.")
    label = Path(algorithm).stem if is_path(algorithm) else _AGENT if looks_like_team(algorithm) else algorithm
    heldout = any(member.set == "heldout" for member in opened)
    return parse_plan(
        {
            "name": f"sweep_{label}",
            "game": {"env_config": env_config or opened.env, "env_args": merge(opened.env_args, env_args)},
            "pool": {"path": str(pool)},
            "tune": {**_UNLESS_SAID, **tune},
            "agents": {label: {"config": algorithm, **settings}},
            # Of no use to the sweep; whoever goes on from it meets those whom nobody has met yet.
            "report": {"metric": metric},
            "evaluation": {"sets": ["heldout" if heldout else VALIDATION], "crossplay_episodes": 0},
        }
    )


def read_sweep(
    source: str | Path, tune: Mapping[str, object], words: Sequence[str] = (), metric: str | None = None
) -> Plan:
    """The plan of a sweep over the settings of a plan's agents.

    Args:
        source: a preset, a YAML file, or the folder of a sweep or pipeline that was begun.
        tune: keys of the section `tune` that are said instead of the plan's.
        words: `section.key=value`.
        metric: what counts, instead of what the plan says.

    Raises:
        UserError: there is no such plan, it asks for no trials, or something in it cannot be used.
    """
    file = read_plan_file(source)
    if is_suite(file):
        raise UserError(f"PLAN: '{source}' lists plans. Give one of them, or run all with omg pipeline.")
    begun = {} if file.values.get("tune") else _UNLESS_SAID
    options = {"tune": {**begun, **tune}} if tune else {}
    options |= {} if metric is None else {"report": {"metric": metric}}
    said = merge(nested(assignments(list(words))), options)
    plan = plan_of(file, file.values, said, Path(source) / POOL_FOLDER)
    if plan.tune is None:
        raise UserError(f"PLAN: '{source}' has no section tune, which says what is tried. Give it, or --space.")
    return plan


def read_space(words: Sequence[str]) -> dict[str, object]:
    """What is tried: `lr=1e-4..1e-2,log`, `batch_size=8..64,step=8` or `agent=rnn,mlp`, as the section `tune` has it.

    Raises:
        UserError: a word says neither values nor a range.
    """
    found: dict[str, object] = {}
    for word in words:
        key, _, text = word.partition("=")
        if not key or not text.strip():
            raise UserError(f"--space: got '{word}'; write KEY=LOW..HIGH, KEY=LOW..HIGH,log or KEY=VALUE,VALUE.")
        if key in found:
            raise UserError(f"--space: {key} is named twice.")
        found[key] = _range(word, text) if ".." in text else _read(word, text if text[0] == "[" else f"[{text}]")
    return found


def _range(word: str, text: str) -> dict[str, object]:
    ends, *further = text.split(",")
    low, _, high = ends.partition("..")
    values: dict[str, object] = {"low": _read(word, low), "high": _read(word, high)}
    for more in further:
        name, _, value = more.strip().partition("=")
        if name not in ("log", "step") or (name == "log" and value):
            raise UserError(f"--space: got '{more}' in '{word}'; allowed behind a range: log, step=NUMBER.")
        values[name] = True if name == "log" else _read(word, value)
    return values


def _read(word: str, text: str) -> object:
    try:
        return read_yaml(text)
    except yaml.YAMLError:
        raise UserError(f"--space: got '{word}', in which '{text}' cannot be read.") from None


def run_sweep(
    plan: Plan,
    folder: str | Path,
    *,
    console: Console | None = None,
    quiet: bool = False,
    launcher: LauncherSettings | None = None,
) -> SweepResult:
    """Does what a sweep still lacks.

    Args:
        plan: from `sweep_plan` or `read_sweep`.
        folder: everything goes there.
        console: where to print.
        quiet: no output on the screen.
        launcher: who does the trials, and how many at once; what is found does not depend on it.

    Raises:
        UserError: the plan cannot be run, a trial failed (the others are done first), or another process has the
            folder.
        Stopped: after a signal, when what was running has been saved; the same call continues it.
    """
    shown = Path(folder)
    done = run_pipeline(
        plan, folder, until=TuneStage.name, console=console, quiet=quiet, launcher=launcher or LauncherSettings()
    )
    checked = check_plan(plan, folder)
    trials, _, importance = tables(checked.folder)
    rows, names = read_rows(trials, TrialRow), plan.report.names
    if plan.tune is not None and plan.tune.sampler != GRID:
        for label in checked.agents:
            _write_journal(checked, label)
    page = write_sweep_page(
        checked.folder / TUNE_FOLDER / "sweep.html",
        f"{plan.name}: {checked.env.spec.name} {checked.env.spec.scenario}",
        rows,
        trials_chapters(checked),
        _notes(checked, shown),
        names,
    )
    screen = sweep_screen(rows, read_rows(importance, ImportanceRow), names)
    best = {label: shown / best_file(checked.folder, label).relative_to(checked.folder) for label in checked.agents}
    return SweepResult(shown, done.done, rows, screen, best, shown / page.relative_to(checked.folder))


def _write_journal(checked: CheckedPlan, label: str) -> None:
    """Writes the trials anew for Optuna's own tools."""
    assert checked.plan.tune is not None
    path = journal_file(checked.folder, label)
    writing = path.with_name(f".writing-{path.name}")
    writing.unlink(missing_ok=True)
    rows = trial_rows(checked, label, checked.plan.tune.trials)
    search_of(checked.plan, label, checked.agents[label]).write_journal(
        tried(checked, label, rows), str(writing), label
    )
    writing.replace(path)


def _notes(checked: CheckedPlan, folder: Path) -> list[str]:
    """How a sweep was run."""
    section = checked.plan.tune
    assert section is not None
    drawn = (
        "Trials are drawn from a grid."
        if section.sampler == GRID
        else f"Trials are proposed by Optuna ({section.sampler}) in rounds of {section.size}; each round knows all "
        f"earlier ones, so the outcome does not depend on how many trials were done at once."
    )
    stop = section.stop
    return [
        f"{drawn} Each trained {section.seeds} seed(s) and then played {section.episodes} episodes of each with every "
        f"team of the validation set. The held-out set was not touched.",
        *(
            []
            if stop is None
            else [
                f"Trials that were not among the best of {stop.factor} in their own tests ended early, first after "
                f"{100 * stop.first:g} % of their steps."
            ]
        ),
        f"Go on: omg sweep {folder} tune.trials=NUMBER for more trials, omg pipeline {folder} to train with the best.",
        f"Everything that was set is in {PLAN_FILE}; all numbers are in the tables of {TUNE_FOLDER}.",
    ]
