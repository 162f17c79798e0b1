"""What a test says about whether a run goes on: it has reached what was asked for, or does too badly by then."""

from __future__ import annotations

import numpy as np

from omg.config import Config
from omg.errors import UserError
from omg.training.progress import Progress


def reached_goal(config: Config, progress: Progress) -> bool:
    """Whether the newest test of every seed has `early_stop_value`."""
    metric, value = config.early_stop_metric, config.early_stop_value
    if metric is None or value is None:
        return False
    return all(own >= value for own in _watched(progress, metric))


def does_badly(config: Config, progress: Progress, before: int) -> str:
    """Why the newest test ends the run; empty if it does not.

    Args:
        config: of the run; every step of `early_stop_at` concerns the first test from there on.
        progress: after the test.
        before: steps at the test before it.
    """
    metric = config.early_stop_metric
    for step, least in zip(config.early_stop_at, config.early_stop_below, strict=True):
        if metric is not None and before < step <= progress.last_test:
            value = float(np.mean(_watched(progress, metric)))
            # What is no number is no reason to go on.
            if not value >= least:
                return f"{metric} is {value:g}, and only runs with {least:g} go on from step {step:,}"
    return ""


def why_over(config: Config, progress: Progress) -> str:
    """Why the run ends before its steps are done; empty if it goes on."""
    if progress.given_up or config.early_stop_value is None or progress.streak < config.early_stop_patience:
        return progress.given_up
    return f"{config.early_stop_metric} >= {config.early_stop_value} in {progress.streak} tests in a row"


def _watched(progress: Progress, metric: str) -> list[float]:
    """The metric in the newest test of each seed."""
    if any(metric not in values for values in progress.newest_test):
        names = ", ".join(sorted(progress.newest_test[0]))
        raise UserError(f"early_stop_metric: got '{metric}', which is no test metric. Allowed: {names}.")
    return [values[metric] for values in progress.newest_test]
