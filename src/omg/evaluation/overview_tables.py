"""Rows of what is on disk; see `omg.evaluation.tables`."""

from __future__ import annotations

from omg.evaluation.rows import Field, TableRow, real, text, whole


class OverviewRow(TableRow):
    """A run, a pipeline, a suite or a pool on disk (`omg runs`)."""

    folder: Field[str] = text("folder", "where it is")
    kind: Field[str] = text("kind", "run, pipeline, suite or pool")
    status: Field[str] = text("status", "running, finished, stopped (early stop), interrupted or failed")
    note: Field[str] = text("note", "what is being done, why it failed, what a pool holds")
    name: Field[str] = text("name", "of the algorithm, the team, the agent of a plan, or the plan")
    algorithm: Field[str] = text("algorithm", "that is trained")
    game: Field[str] = text("game", "and its scenario")
    seeds: Field[int] = whole("seeds", "that are trained at once; of a pool its members")
    done: Field[float] = real(
        "done", "share of the steps, or of the tasks, that is done; nan: not known", form="percent"
    )
    t_env: Field[float] = real("t_env", "environment steps so far, of the seed that has fewest", form="count")
    t_max: Field[float] = real("t_max", "environment steps it is to make", form="count")
    steps: Field[float] = real(
        "steps/s", "environment steps per second of all seeds together", form="count", name="env_steps_per_second"
    )
    left: Field[float] = real("left", "seconds it may still take at that speed; nan: unknown or none")
    metric: Field[str] = text("metric", "of the tests, by which agents are judged")
    last: Field[float] = real("last", "the metric in the newest test, mean over seeds", form="score")
    best: Field[float] = real("best", "the metric in each seed's best test, mean over seeds", form="score")
    age: Field[float] = real("age", "seconds since it last wrote anything")
    pages: Field[int] = whole("pages", "reports and replays in it")


OVERVIEW_TABLES: dict[str, type[TableRow]] = {"runs.csv": OverviewRow}
"""Table -> what its rows are."""
