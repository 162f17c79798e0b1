"""The figures of a report as files for a paper, each drawn from a tidy table alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from omg.errors import UserError
from omg.evaluation.report_tables import ProfileRow
from omg.names import file_name
from omg.report.curves import FORMATS, Curve, draw_curves, figure_path, save_figure
from omg.report.derived import profile_rows
from omg.report.figures import draw_cross_play, draw_differences, draw_groups, draw_offsets, draw_profiles
from omg.report.inputs import ReportInput, by_metric
from omg.report.style import agent_colours, figure_style
from omg.report.words import agent_name

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MOST_COMPARED = 60
"""Most lines of a figure of differences that can still be read."""


def write_figures(folder: Path, report: ReportInput, kind: str = "png") -> list[Path]:
    """Draws every figure of a report into a file of its own.

    Args:
        folder: where they go; it is made if need be.
        report: what is drawn.
        kind: png, svg or pdf.

    Returns:
        The files, `scores.png` and so on.

    Raises:
        UserError: there is no such format, or the files cannot be written.
    """
    if kind not in FORMATS:
        raise UserError(f"format: got '{kind}'. Allowed: {', '.join(FORMATS)}.")
    drawn = []
    for name, draw in _figures(report).items():
        target = figure_path(folder / f"{file_name('figure', name)}.{kind}")
        with figure_style():
            save_figure(draw(), target)
        drawn.append(target)
    return drawn


def _figures(report: ReportInput) -> dict[str, Callable[[], Figure]]:
    """Name -> what draws it."""
    found: dict[str, Callable[[], Figure]] = {}
    names, colours = report.names, agent_colours({"agent": label} for label in report.agents)
    if report.summary:
        found["scores"] = partial(draw_groups, report.summary, names=names, colours=colours)
    if report.scores:
        profiles = profile_rows(report.scores, report.metric)
        for group, rows in _by_group(profiles).items():
            name = "profiles" if len(report.groups) == 1 else f"profiles_{group}"
            found[name] = partial(draw_profiles, rows, names=names, colours=colours)
    kinds = by_metric(report.comparison) if len(report.comparison) <= _MOST_COMPARED else {}
    for metric, compared in kinds.items():
        name = "differences" if len(kinds) == 1 else f"differences_{metric}"
        found[name] = partial(draw_differences, compared, names=names)
    for metric, curves in list(report.curves.items())[:1]:
        shown = {agent_name(label, names): curve for label, curve in curves.items()}
        found["curves"] = partial(_curves, shown, metric, [colours[label] for label in curves])
    if report.cross_play:
        found["crossplay"] = partial(draw_cross_play, report.cross_play, metric=report.metric, names=names)
    if report.far_offsets:
        found["offsets"] = partial(draw_offsets, report.offsets, names=names, colours=colours)
    if report.adaptation is not None:
        found["adaptation"] = partial(report.adaptation.draw, colours)
    for chapter in report.chapters:
        found[chapter.title.lower().replace(" ", "_")] = partial(chapter.draw, colours)
    return found


def _curves(shown: Mapping[str, Curve], metric: str, colours: Sequence[str]) -> Figure:
    with figure_style(colours):
        return draw_curves(shown, metric, "interval")


def _by_group(rows: Sequence[ProfileRow]) -> dict[str, list[ProfileRow]]:
    found: dict[str, list[ProfileRow]] = {}
    for row in rows:
        found.setdefault(row.group, []).append(row)
    return found
