"""Trials that take no time: what a run and its games would have brought is a formula of its settings.

As a program, `python -m helpers.quick_trials FOLDER TITLE... TIE`, it is `omg.experiments.task_process` with such
trials, and waits in the middle of each, so that it can be killed there, or as long as `TRIAL_SECONDS` says.
"""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from helpers.tiny import metrics
from omg.components.files import write_text
from omg.config import Config, change_config, write_yaml
from omg.evaluation.tables import ScoreRow
from omg.experiments import task_process
from omg.experiments.runs import is_over
from omg.experiments.stages import Workplace
from omg.experiments.stages.tune import TuneStage
from omg.tracking import RunFolder
from omg.training.finite import DivergedError

TESTS = (100, 200, 300)
LONG = 600.0
TOO_LARGE = 0.05
"""A learning rate that nothing is learned with."""


def worth(config: Config) -> float:
    """Best at a learning rate of 0.01 with a discount of 0.9."""
    return 1.0 - (math.log10(config.lr) + 2) ** 2 / 10 - 5 * (config.gamma - 0.9) ** 2


def finish(place: Workplace, where: Path, config: Callable[[], Config], *, waits: float = 0.0) -> None:
    """A run whose tests come nearer and nearer to what its settings are worth, and which may stop early."""
    if is_over(where):
        return
    settings = config()
    folder = where / "run"
    folder.mkdir(parents=True, exist_ok=True)
    write_text(folder / "config.yaml", write_yaml(settings.model_dump()))
    time.sleep(waits)
    rates = settings.by_seed.get("lr", [settings.lr] * settings.seeds)
    if max(rates) > TOO_LARGE:
        raise DivergedError("diverged", settings.seed + rates.index(max(rates)), 42)
    rows, status, before = [], "finished", 0
    least = dict(zip(settings.early_stop_at, settings.early_stop_below, strict=True))
    for step in TESTS:
        value = worth(settings) * step / TESTS[-1]
        rows.append((settings.seed, step, "test_return_mean", value))
        if any(before < at <= step and not value >= bound for at, bound in least.items()):
            status = "stopped"
            break
        before = step
    write_text(folder / "metrics.csv", metrics(*rows))
    RunFolder(folder).set_status(status)


def scores(stage: TuneStage, label: str, run: Path) -> list[ScoreRow]:
    """Games with one validation partner."""
    config = RunFolder.open(run).config()
    found = []
    for place, rate in enumerate(config.by_seed.get("lr", [config.lr] * config.seeds)):
        own = {"agent": label, "seed": config.seed + place, "mean": worth(change_config(config, lr=rate, by_seed={}))}
        found.append(ScoreRow.of({**dict.fromkeys(ScoreRow.names(), 0), "metric": "return", **own}))
    return found


def quick(patch: pytest.MonkeyPatch, waits: float = 0.0) -> None:
    """Puts such trials in place of real ones."""

    def done(place: Workplace, where: Path, config: Callable[[], Config]) -> None:
        finish(place, where, config, waits=waits)

    patch.setattr(Workplace, "finish", done)
    patch.setattr(TuneStage, "_scores", scores)


if __name__ == "__main__":
    quick(pytest.MonkeyPatch(), float(os.environ.get("TRIAL_SECONDS", LONG)))
    sys.exit(task_process.main(sys.argv[1], sys.argv[2:-1], sys.argv[-1]))
