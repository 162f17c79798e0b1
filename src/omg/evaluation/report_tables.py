"""Rows that reports and figures are made of, beside those of `omg.evaluation.tables`."""

from __future__ import annotations

from omg.evaluation.rows import Field, TableRow, real, text, whole
from omg.evaluation.tables import OffsetRow, TeamRow

_LOW, _HIGH = "lower end of the 95 % interval", "upper end of the 95 % interval"


class CurveRow(TableRow):
    """A point of a learning curve."""

    agent: Field[str] = text("agent", "label of the agent", form="agent")
    metric: Field[str] = text("metric", "a name of `metrics.csv`")
    t_env: Field[int] = whole("t_env", "environment steps so far")
    mean: Field[float] = real("mean", "over seeds", interval=("low", "high"))
    low: Field[float] = real("low", f"{_LOW}, over seeds")
    high: Field[float] = real("high", f"{_HIGH}, over seeds")
    seeds: Field[int] = whole("seeds", "trainings")


class ProfileRow(TableRow):
    """A point of a performance profile."""

    agent: Field[str] = text("agent", "label of the agent", form="agent")
    group: Field[str] = text("group", "of teams", form="group")
    metric: Field[str] = text("metric", "what the level is")
    level: Field[float] = real("level", "a score", form="score")
    share: Field[float] = real(
        "above", "share of all trainings and teams that score more", form="share", interval=("low", "high")
    )
    low: Field[float] = real("low", f"{_LOW}, over seeds; nan below three seeds", form="share")
    high: Field[float] = real("high", f"{_HIGH}, over seeds; nan below three seeds", form="share")


class GapRow(TableRow):
    """How much less a player reaches among copies of others than among copies of itself."""

    agent: Field[str] = text("agent", "who has one seat", form="agent")
    metric: Field[str] = text("metric", "what the numbers are")
    mates: Field[int] = whole("team-mates", "others in the other seats")
    self_play: Field[float] = real("with itself", "mean in self-play", form="score")
    cross_play: Field[float] = real("with others", "mean over the others", form="score")
    gap: Field[float] = real("self-play gap", "the first minus the second", form="difference", interval=("low", "high"))
    low: Field[float] = real("low", f"{_LOW}, over the others; nan below three", form="difference")
    high: Field[float] = real("high", f"{_HIGH}, over the others; nan below three", form="difference")


class TrainingRow(TableRow):
    """How far a run is, how fast it was and what it took."""

    agent: Field[str] = text("agent", "label of the agent", form="agent")
    run: Field[str] = text("run", "name of the run's folder")
    status: Field[str] = text("status", "finished, stopped, interrupted, failed or running")
    seeds: Field[int] = whole("seeds", "trainings in it")
    steps: Field[int] = whole("steps", "environment steps that all its seeds have come to")
    planned: Field[int] = whole("of", "environment steps that were asked for")
    env_steps: Field[float] = real("steps/s", "environment steps per second, median of the second half", form="speed")
    updates: Field[float] = real("updates/s", "updates per second, median of the second half", form="speed")
    host: Field[float] = real("host", "share of the time outside the compiled program", form="percent")
    memory: Field[float] = real("peak memory", "most bytes held at once, in GB; nan: not noted", form="share")
    device: Field[str] = text("device", "what it ran on")


class SettingRow(TableRow):
    """A key that is not as its default, or not the same in all runs."""

    key: Field[str] = text("key", "of the configuration")
    value: Field[str] = text("value", "what it is")
    default: Field[str] = text("default", "what it would be")
    runs: Field[str] = text("agents", "`all`, or the labels of those that have it")
    differs: Field[str] = text("between runs", "`differs` where runs have different values")


REPORT_TABLES: dict[str, type[TableRow]] = {
    "curves.csv": CurveRow,
    "profiles.csv": ProfileRow,
    "gaps.csv": GapRow,
    "offsets.csv": OffsetRow,
    "teams.csv": TeamRow,
    "trainings.csv": TrainingRow,
    "settings.csv": SettingRow,
}
"""File -> what its rows are."""
