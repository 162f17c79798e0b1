"""Agents that learn in all seats: what the last test of each seed found, as a part of a pipeline."""

from __future__ import annotations

from collections.abc import Mapping

from omg.evaluation.rows import read_rows, write_rows
from omg.evaluation.tables import SelfPlayRow, SelfPlayScoreRow
from omg.experiments.plan_check import CheckedPlan
from omg.experiments.results import finished_run, self_play_files
from omg.experiments.stages import Part
from omg.report.self_play import self_play_rows, self_play_summary


def self_play_part(checked: CheckedPlan, trained: Mapping[str, Part]) -> Part:
    """The part that writes `self_play.csv`; there must be agents that learn in all seats.

    Args:
        checked: the plan.
        trained: agent -> its training.
    """
    needs = tuple(trained[label] for label in checked.self_play)
    return Part("evaluate", "self-play", {}, self_play_files(checked), lambda: _write(checked), needs)


def self_play_table_rows(checked: CheckedPlan) -> list[SelfPlayRow]:
    """The rows of `self_play.csv`; none where no agent learns in all seats."""
    return read_rows(self_play_files(checked)[0], SelfPlayRow) if checked.self_play else []


def _write(checked: CheckedPlan) -> None:
    rows: list[SelfPlayScoreRow] = []
    for label in checked.self_play:
        run = finished_run(checked.runs(label))
        rows += self_play_rows(label, run.metrics(), checked.env.spec.success_metric, run.config().test_nepisode)
    summary, seeds = self_play_files(checked)
    write_rows(seeds, rows, SelfPlayScoreRow.names())
    write_rows(summary, self_play_summary(rows), SelfPlayRow.names())
