"""Run folders that nobody trained: with a configuration, a status, metrics and speeds as a run leaves them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from helpers.tiny import SPEC, tiny_config
from omg.components.files import write_json
from omg.evaluation.rows import write_rows
from omg.evaluation.tables import MetricRow, SpeedRow
from omg.tracking import RunFolder

TESTS = ("test_return_mean", "test_ep_length_mean", "test_food_mean")
Level = Callable[[str, int, int], float]
"""Metric, seed and step -> value."""


def risen(height: float, random: int = 0) -> Level:
    """A curve that rises to a height, a little different for every seed."""
    noise = np.random.default_rng(random)
    lift = {seed: float(noise.normal(0, 0.02)) for seed in range(1000)}
    return lambda metric, seed, step: height * (1 - 0.5 ** (step / 200)) + lift[seed] + 0.1 * TESTS.index(metric)


def make_run(
    results: Path,
    algorithm: str = "iql",
    level: Level | None = None,
    *,
    points: int = 11,
    status: str = "finished",
    **changes: Any,
) -> Path:
    """A run folder with so many tests of every seed.

    Args:
        results: where it goes.
        algorithm: of `omg algs`.
        level: what the tests found.
        points: tests from step 0 to the end.
        status: how it ended.
        changes: keys of the configuration.
    """
    config = tiny_config(results, algorithm, **changes)
    folder = RunFolder.create(config, SPEC)
    found = level or risen(0.5)
    steps = [round(config.t_max * place / (points - 1)) for place in range(points)]
    seeds = range(config.seed, config.seed + config.seeds)
    rows = [
        MetricRow(seed=seed, t_env=step, name=metric, value=found(metric, seed, step))
        for step in steps
        for seed in seeds
        for metric in TESTS
    ]
    write_rows(folder.metrics_file, rows, MetricRow.names())
    speeds = [SpeedRow(t_env=step, steps=1000.0 + step, updates=50.0, host=0.01) for step in steps]
    write_rows(folder.speed_file, speeds, SpeedRow.names())
    write_json(folder.path / "status.json", {"status": status, "t_env": config.t_max, "peak_memory": 1_500_000_000})
    return folder.path
