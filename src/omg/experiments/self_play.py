"""Agents that learn in all seats: what the last test of each seed found, as a part of a pipeline."""

from __future__ import annotations

from collections.abc import Mapping

from omg.experiments.plan_check import CheckedPlan
from omg.experiments.results import SCORE_COLUMNS, Row, finished_run, read_rows, self_play_files, write_rows
from omg.experiments.stages import Part
from omg.report.self_play import COLUMNS, self_play_rows, self_play_summary


def self_play_part(checked: CheckedPlan, trained: Mapping[str, Part]) -> Part:
    """The part that writes `self_play.csv`; there must be agents that learn in all seats.

    Args:
        checked: the plan.
        trained: agent -> its training.
    """
    needs = tuple(trained[label] for label in checked.self_play)
    return Part("evaluate", "self-play", {}, self_play_files(checked), lambda: _write(checked), needs)


def self_play_table_rows(checked: CheckedPlan) -> list[Row]:
    """The rows of `self_play.csv`; none where no agent learns in all seats."""
    return read_rows(self_play_files(checked)[0]) if checked.self_play else []


def _write(checked: CheckedPlan) -> None:
    rows: list[Row] = []
    for label in checked.self_play:
        run = finished_run(checked.runs(label))
        rows += self_play_rows(label, run.metrics(), checked.env.spec.success_metric, run.config().test_nepisode)
    summary, seeds = self_play_files(checked)
    write_rows(seeds, rows, (*SCORE_COLUMNS[1:], "steps"))
    write_rows(summary, self_play_summary(rows), COLUMNS)
