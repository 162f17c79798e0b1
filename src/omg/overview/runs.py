"""The row of a run: from its settings, its status, the tail of its speed and the tests in its metrics."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import NamedTuple

from omg.evaluation.overview_tables import OverviewRow
from omg.names import inert
from omg.overview.finding import Found
from omg.overview.reading import is_worked_on, newest, read_part, read_tree, signature
from omg.types import Json, Tree

STATUSES = ("running", "finished", "stopped", "interrupted", "failed")
OWN_RETURN = "own_return"
"""Counts in a team in which everybody has a reward; as `omg.runners.vector` has it, which cannot be asked in time."""
LONGEST = 200
"""Letters of a text that is shown."""
_MOST_SETTINGS, _MOST_METRICS, _SPEED_LINE = 200_000, 64_000_000, 4_000
_FRESH_SECONDS = 600.0
"""Where locks tell nothing, what wrote something this recently is running."""
_SETTING = re.compile(r"^(name|seed|seeds|t_max|env|train_alg):[ ]+(.+)$|^[ ]+(map_name):[ ]+(.+)$", re.MULTILINE)
_WRITTEN = ("status.json", "progress.json", "metrics.csv", "speed.csv", "console.log")


class Scores(NamedTuple):
    """What the tests of a run brought."""

    metric: str
    last: float
    best: float
    curve: tuple[float, ...] = ()
    """Mean over the seeds in each test, in their order; of many tests some."""


NO_SCORES = Scores("", math.nan, math.nan)
_CURVE = 48
"""Most points of a curve."""


class Reader:
    """Rows of runs; what has not changed since the last time is not read again."""

    def __init__(self) -> None:
        self._scores: dict[Path, tuple[tuple[tuple[int, int], ...], Scores]] = {}

    def row(self, found: Found) -> OverviewRow:
        """The row of a run."""
        folder = found.path
        settings, game = read_settings(folder), read_tree(folder / "game.json")
        status, note = run_status(folder)
        seeds, t_max = number(settings.get("seeds"), 1), number(settings.get("t_max"), 0)
        t_env, speed = _speed(folder)
        done = min(1.0, t_env / t_max) if t_max > 0 else math.nan
        runs = status == "running"
        scores = self._scored(folder, text_of(game.get("success_metric")))
        return OverviewRow(
            folder=inert(found.shown),
            kind="run",
            status=status,
            note=note,
            name=text_of(settings.get("name")),
            algorithm=_algorithm(settings),
            game=_game(settings, game),
            seeds=seeds,
            # A test of loaded agents (`evaluate`) plays no steps and yet comes to its end.
            done=1.0 if status == "finished" else done,
            t_env=t_env,
            t_max=t_max or math.nan,
            steps=speed if runs else math.nan,
            left=max(0.0, (t_max - t_env) * seeds / speed) if runs and speed > 0 and t_max else math.nan,
            metric=scores.metric,
            last=scores.last,
            best=scores.best,
            age=max(0.0, time.time() - last_sign(folder)),
            pages=len(found.pages),
        )

    def curve(self, found: Found) -> tuple[float, ...]:
        """The tests of a run whose row was read."""
        known = self._scores.get(found.path)
        return () if known is None else known[1].curve

    def _scored(self, folder: Path, success: str) -> Scores:
        file = folder / "metrics.csv"
        now = (*signature((file,)), (len(success), hash(success)))
        known = self._scores.get(folder)
        if known is None or known[0] != now:
            known = self._scores[folder] = (now, read_scores(read_part(file, -_MOST_METRICS, _MOST_METRICS), success))
        return known[1]


def read_settings(folder: Path) -> dict[str, str]:
    """The few settings of a run that tell it from others.

    Read line by line, as they were written: a YAML parser would take longer than all the rest, and a stranger's file
    could keep it busy.
    """
    text = read_part(folder / "config.yaml", 0, _MOST_SETTINGS).decode("utf-8", "replace")
    found: dict[str, str] = {}
    for key, value, inner, inner_value in _SETTING.findall(text):
        found.setdefault(key or inner, (value or inner_value).strip().strip("'\""))
    return found


def run_status(folder: Path) -> tuple[str, str]:
    """The status of a run, and what it is doing or why it failed.

    A run that says it is running, and that no process has, was killed: it can be resumed, as an interrupted one.
    """
    stored = read_tree(folder / "status.json")
    status = stored.get("status")
    if status in STATUSES and status != "running":
        return status, text_of(stored.get("reason")) if status == "failed" else ""
    worked_on = is_worked_on(folder)
    if worked_on is None:
        worked_on = abs(time.time() - last_sign(folder)) < _FRESH_SECONDS
    if not worked_on:
        return "interrupted", "its process is gone"
    return "running", text_of(read_tree(folder / "progress.json").get("doing"))


def last_sign(folder: Path) -> float:
    """When a run wrote something for the last time, in seconds since 1970."""
    return newest(tuple(folder / name for name in _WRITTEN)) or newest((folder,))


def read_scores(metrics: bytes, success: str) -> Scores:
    """Newest and best test by the metric that tells good from bad play, each the mean over seeds.

    Args:
        metrics: text of `metrics.csv`, or its end.
        success: the game's metric; the learner's own return counts where there is one.
    """
    for name in (OWN_RETURN, *((success,) if success else ()), "return"):
        metric = f"test_{name}_mean"
        tests: dict[bytes, list[float]] = {}
        best: dict[bytes, float] = {}
        for seed, t_env, value in _values(metrics, metric):
            tests.setdefault(seed, []).append(value)
            if t_env > 0 and value > best.get(seed, -math.inf):
                best[seed] = value
        if tests:
            return Scores(metric, _mean([values[-1] for values in tests.values()]), _mean(best.values()), _curve(tests))
    return NO_SCORES


def _values(metrics: bytes, metric: str) -> Iterator[tuple[bytes, int, float]]:
    """Seed, step and value of every whole line with this metric, in the order of the file."""
    mark = f",{metric},".encode()
    place = metrics.find(mark)
    while place >= 0:
        end = metrics.find(b"\n", place)
        if end < 0:
            break
        begin = metrics.rfind(b"\n", 0, place) + 1
        seed, _, t_env = metrics[begin:place].partition(b",")
        try:
            if len(t_env) < 20 and end - place < 200:
                yield seed[:20], int(t_env), float(metrics[place + len(mark) : end])
        except ValueError:
            pass
        place = metrics.find(mark, end)


def _curve(tests: dict[bytes, list[float]]) -> tuple[float, ...]:
    means = [_mean(values) for values in zip(*tests.values(), strict=False)]  # A test may be of some seeds so far.
    places = (
        range(len(means)) if len(means) <= _CURVE else (i * (len(means) - 1) // (_CURVE - 1) for i in range(_CURVE))
    )
    return tuple(means[place] for place in places if math.isfinite(means[place]))


def _mean(values: Collection[float]) -> float:
    return sum(values) / len(values) if values else math.nan


def _speed(folder: Path) -> tuple[float, float]:
    """Steps so far and steps per second, from the last whole line of `speed.csv`."""
    lines = read_part(folder / "speed.csv", -_SPEED_LINE, _SPEED_LINE).split(b"\n")[:-1]
    try:
        t_env, speed = (float(word) for word in lines[-1].split(b",")[:2])
    except (IndexError, ValueError):
        return 0.0, math.nan
    return (t_env, speed) if math.isfinite(t_env) and math.isfinite(speed) else (0.0, math.nan)


def _algorithm(settings: dict[str, str]) -> str:
    """What a run trains; it may be called otherwise, as a team or by its label in a plan."""
    trained = settings.get("train_alg", "null")
    return text_of(settings.get("name") if trained == "null" else trained)


def _game(settings: dict[str, str], game: Tree) -> str:
    name, scenario = game.get("name"), game.get("scenario")
    if isinstance(name, str) and isinstance(scenario, str):
        return text_of(f"{name} {scenario}")
    return text_of(f"{settings.get('env', '')} {settings.get('map_name', '')}".strip())


def number(text: Json, otherwise: int) -> int:
    """A whole number of a file; another one where it is none."""
    try:
        return int(text) if len(str(text)) < 20 else otherwise
    except (TypeError, ValueError):
        return otherwise


def text_of(value: Json) -> str:
    """A text of a file as it may be shown; nothing where it is none."""
    if not isinstance(value, str):
        return ""
    return inert(value if len(value) <= LONGEST else f"{value[: LONGEST - 3]}...")
