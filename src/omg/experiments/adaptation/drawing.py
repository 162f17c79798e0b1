"""Few-shot adaptation as a figure and as a table of words."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from omg.errors import UserError
from omg.evaluation.tables import AdaptationRow, EpisodeRow
from omg.experiments.adaptation.scores import (
    ALL,
    BEST_RESPONSE,
    RANDOM,
    Course,
    adaptation_curve,
    adaptation_summary,
    courses,
    episode_scores,
    scale_of,
)
from omg.names import inert
from omg.report.chapters import Chapter
from omg.report.charts import Axis, Chart, marks, metric_axis, series
from omg.report.curves import Curve, figure_path, save_figure
from omg.report.style import INK, agent_colours, figure_style
from omg.report.terminal import Screen, ScreenTable
from omg.report.words import agent_name, metric_words
from omg.types import Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

_MOST_PANELS = 12
"""Of single co-players; of more only the mean over all is drawn."""
_MOST_CO_PLAYERS = 8
"""Most columns of single co-players that a terminal can show; the file has them all."""
_COLUMNS = 4
_WORDS = metric_words("own_return")


def adaptation_chapter(rows: Sequence[Row], names: Mapping[str, str] | None = None) -> Chapter | None:
    """What a report says about the first episodes; None where there are none.

    Args:
        rows: of an adaptation table; see `omg.experiments.adaptation.scores`.
        names: label -> name of agents.
    """
    if not rows:
        return None
    summary = adaptation_summary(rows)
    return Chapter(
        "First episodes with new co-players",
        lambda colours: draw_adaptation(rows, names=names, colours=colours),
        "What each agent earns itself, from stretch to stretch of its episodes, with 95 % intervals over seeds.",
        scale_words(summary),
        "The mean over all co-players:",
        *adaptation_table(summary, names=names),
        lambda colours: _adaptation_chart(rows, names or {}, colours),
        {"adaptation.csv": [EpisodeRow.of(row) for row in rows]},
        episode_scores(rows),
    )


def _adaptation_chart(rows: Sequence[Row], names: Mapping[str, str], colours: Mapping[str, int]) -> Chart:
    """What `draw_adaptation` draws; `colours` are label -> number."""
    found = courses(rows)
    scale, panels = scale_of(found), []
    agents = [label for label in found if label not in (RANDOM, BEST_RESPONSE)]
    for co_player in _panels(next(iter(found.values())).co_players):
        lines = []
        for place, label in enumerate(agents):
            curve = adaptation_curve(found[label], co_player)
            drawn = Curve(curve.episode, curve.mean, curve.low, curve.high, len(found[label].seeds))
            lines.append(series(agent_name(label, names), colours.get(label, place), drawn))
        levels = [_level(level, found, co_player) for level in (scale.random, scale.best)]
        ends = dict(zip(("random player", scale.name), levels, strict=True))
        title = "all co-players" if co_player == ALL else inert(co_player)
        panels.append({"title": title, "series": lines, "marks": marks(ends)})
    across = Axis(title="episodes with the co-players", short="episodes", digits=0)
    view = {"x": across, "y": metric_axis(_WORDS, "own reward"), "panels": panels}
    return Chart("lines", "own reward over the first episodes", [view])


def _panels(co_players: Sequence[str]) -> Sequence[str]:
    """All co-players together, and each by itself if they are few."""
    if len(co_players) == 1:
        return co_players
    return (ALL, *(co_players if len(co_players) <= _MOST_PANELS else ()))


def _level(level: np.ndarray, found: Mapping[str, Course], co_player: str) -> float:
    """An end of the scale with one co-player, or with all of them."""
    if co_player == ALL:
        return float(level.mean())
    return float(level[next(iter(found.values())).co_players.index(co_player)])


def plot_adaptation(
    rows: Iterable[Row],
    path: str | Path,
    *,
    names: Mapping[str, str] | None = None,
    colours: Mapping[str, str] | None = None,
) -> Path:
    """Draws `draw_adaptation` into a png, svg or pdf file."""
    target = figure_path(path)
    with figure_style():
        save_figure(draw_adaptation(rows, names=names, colours=colours), target)
    return target


@figure_style()
def draw_adaptation(
    rows: Iterable[Row], *, names: Mapping[str, str] | None = None, colours: Mapping[str, str] | None = None
) -> Figure:
    """One panel for all co-players and one for each: own reward of every agent over its episodes.

    Lines are means over stretches of episodes and over seeds, bands their 95 % intervals over seeds. Dashed lines are
    what a random player and the best response earn.

    Args:
        rows: of an adaptation table; see `omg.experiments.adaptation.scores`.
        names: label -> name of agents.
        colours: label -> colour; by order of appearance when left out.
    """
    from matplotlib.figure import Figure

    rows = list(rows)
    if not rows:
        raise UserError("figure of adaptation: there is nothing to draw.")
    found = courses(rows)
    scale, first = scale_of(found), next(iter(found.values()))
    agents = {label: course for label, course in found.items() if label not in (RANDOM, BEST_RESPONSE)}
    palette = {**agent_colours([row for row in rows if row["agent"] in agents]), **(colours or {})}
    panels = _panels(first.co_players)
    columns = min(len(panels), _COLUMNS)
    lines = -(-len(panels) // columns)
    figure = Figure(figsize=(max(2.5 * columns, 5.0), 0.7 + 2.1 * lines), dpi=150, layout="constrained")
    grid = figure.subplots(lines, columns, squeeze=False, sharex=True)
    for axes in grid.flat[len(panels) :]:
        axes.set_visible(False)
    dashed: list[Line2D] = []
    for panel, axes in zip(panels, grid.flat, strict=False):
        for level in (scale.random, scale.best):
            height = _level(level, found, panel)
            if not math.isnan(height):
                dashed.append(axes.axhline(height, color=INK, linewidth=0.9, linestyle=(0, (4, 3)), alpha=0.55))
        for label, course in agents.items():
            _draw_curve(axes, course, panel, palette[label], agent_name(label, names))
        axes.set_title("all co-players" if panel == ALL else inert(panel), loc="left", fontweight="bold")
        axes.grid(alpha=0.25, linewidth=0.6)
    figure.supxlabel("episodes with the co-players", fontsize=9)
    figure.supylabel("own reward", fontsize=9)
    handles, labels = grid.flat[0].get_legend_handles_labels()
    levels = {f"random player, {scale.name}": line for line in dashed[:1]}
    everything = ([*handles, *levels.values()], [*labels, *levels])
    figure.legend(*everything, loc="outside upper left", ncols=min(len(handles) + 1, _COLUMNS + 1))
    return figure


def _draw_curve(axes: Axes, course: Course, panel: str, colour: str, name: str) -> None:
    curve = adaptation_curve(course, panel)
    axes.plot(curve.episode, curve.mean, color=colour, linewidth=1.6, label=name)
    if len(course.seeds) > 1:
        axes.fill_between(curve.episode, curve.low, curve.high, color=colour, alpha=0.16, linewidth=0)


MEASURES: Mapping[str, str] = {
    "mean": "own reward [95 %]",
    "last_quarter": "last quarter [95 %]",
    "normalised": "normalised [95 %]",
    "last_quarter_normalised": "last quarter, normalised [95 %]",
}
"""Measures of a summary -> heads of columns."""


def adaptation_table(
    summary: Sequence[AdaptationRow],
    co_player: str = ALL,
    names: Mapping[str, str] | None = None,
    measures: Sequence[str] = tuple(MEASURES),
) -> tuple[Sequence[str], list[Sequence[str]]]:
    """Head and lines of a table with one co-player, or with all of them.

    Args:
        summary: from `adaptation_summary`.
        co_player: one of the summary's.
        names: label -> name of agents.
        measures: the columns.
    """
    rows = [row for row in summary if row.co_player == co_player]
    head = ("agent", *(MEASURES[measure] for measure in measures))
    lines: list[Sequence[str]] = [
        (_agent(row.agent, names), *(_estimate(row, measure) for measure in measures)) for row in rows
    ]
    return head, lines


def co_player_table(
    summary: Sequence[AdaptationRow], names: Mapping[str, str] | None = None
) -> tuple[Sequence[str], list[Sequence[str]]]:
    """Head and lines of a table of every agent's own reward, mean over all episodes, with each co-player."""
    found = {(row.agent, row.co_player): row.mean for row in summary}
    agents = dict.fromkeys(agent for agent, _ in found)
    co_players = [name for name in dict.fromkeys(name for _, name in found) if name != ALL]
    lines: list[Sequence[str]] = [
        (_agent(agent, names), *(_WORDS.bare(found[agent, name]) for name in co_players)) for agent in agents
    ]
    return ("agent", *co_players), lines


def adaptation_screen(title: str, summary: Sequence[AdaptationRow], names: Mapping[str, str] | None = None) -> Screen:
    """For a terminal: the table of all co-players, one of each by itself if they are few, and what the scale is."""
    # The file and the page have one measure more; a narrow terminal has no room for it.
    whole = adaptation_table(summary, ALL, names, ("mean", "last_quarter", "normalised"))
    single = co_player_table(summary, names)
    co_players = len(single[0]) - 1
    few = [ScreenTable("Own reward with each co-player", *single)] if 1 < co_players <= _MOST_CO_PLAYERS else []
    return [ScreenTable(f"{title}: all {co_players} co-players", *whole), *few, scale_words(summary)]


def scale_words(summary: Sequence[AdaptationRow]) -> str:
    """What the normalised scores are, in a sentence."""
    scale = summary[0].scale
    one = {
        "best response": "a best response to the same co-player",
        "best agent compared": "the best of these agents with the same co-player, in its last quarter (no best "
        "response was given or trained)",
    }[scale]
    left_out = [row.co_player for row in summary if row.agent == summary[0].agent and _unscaled(row)]
    missing = f" No scale, and not counted: {', '.join(left_out)}." if left_out else ""
    return f"Normalised: 0 is a random player, 1 is {one}.{missing}"


def _unscaled(row: AdaptationRow) -> bool:
    return row.co_player != ALL and math.isnan(row.normalised)


def _agent(label: str, names: Mapping[str, str] | None) -> str:
    return "best response" if label == BEST_RESPONSE else agent_name(label, names)


def _estimate(row: AdaptationRow, measure: str) -> str:
    value, low, high = (float(row[key]) for key in (measure, f"{measure}_low", f"{measure}_high"))
    if math.isnan(value):
        return "\N{EN DASH}"
    text = _WORDS.bare(value)
    return text if math.isnan(low) else f"{text} [{_WORDS.bare(low)}, {_WORDS.bare(high)}]"
