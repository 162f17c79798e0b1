"""Figures of an evaluation: scores by group, paired differences, cross-play, selected offsets.

Each `plot_*` takes tidy rows and a path; each `draw_*` returns the matplotlib figure. Pages have charts of their own,
`omg.report.charts`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from omg.errors import UserError
from omg.evaluation.report_tables import ProfileRow
from omg.evaluation.rows import R
from omg.evaluation.tables import ComparisonRow, OffsetRow, ScoreRow, SummaryRow
from omg.report.curves import figure_path, save_figure
from omg.report.style import INK, agent_colours, figure_style, marks_of
from omg.report.words import agent_name, group_name, metric_words
from omg.types import Row, Tree

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    Draw = Callable[..., Figure]

Look = Tree
"""Properties of a line as matplotlib names them."""

VERDICT_COLOURS = {"better": "#116b4c", "worse": "#a8283f", "no difference shown": "#57606a"}

_MOST_COLUMNS = 3
_MOST_VALUES = 24
"""Longest side of a cross-play matrix whose values are written into its cells."""


def plot_groups(rows: Iterable[Row], path: str | Path, **options: object) -> Path:
    """Draws `draw_groups(rows, **options)` into a png, svg or pdf file."""
    return _plot(draw_groups, rows, path, options)


def plot_differences(rows: Iterable[Row], path: str | Path, **options: object) -> Path:
    """Draws `draw_differences(rows, **options)` into a png, svg or pdf file."""
    return _plot(draw_differences, rows, path, options)


def plot_cross_play(rows: Iterable[Row], path: str | Path, **options: object) -> Path:
    """Draws `draw_cross_play(rows, **options)` into a png, svg or pdf file."""
    return _plot(draw_cross_play, rows, path, options)


def plot_offsets(rows: Iterable[Row], path: str | Path, **options: object) -> Path:
    """Draws `draw_offsets(rows, **options)` into a png, svg or pdf file."""
    return _plot(draw_offsets, rows, path, options)


@figure_style()
def draw_groups(
    rows: Iterable[Row], *, names: Mapping[str, str] | None = None, colours: Mapping[str, str] | None = None
) -> Figure:
    """One panel per group, one line per agent: mean, its 95 % interval and the worst team.

    Args:
        rows: what `omg.evaluation.summarise` returns, of one metric.
        names: label -> name of agents.
        colours: label -> colour, e.g. from `agent_colours`; by order of appearance when left out.
    """
    given = _given(rows, SummaryRow, "scores by group")
    words, palette = metric_words(given[0].metric), {**agent_colours(given), **(colours or {})}
    groups, agents = _order(row.group for row in given), _order(row.agent for row in given)
    columns = min(len(groups), _MOST_COLUMNS)
    lines = -(-len(groups) // columns)
    # The legend needs this much width even above a single group.
    size = (max(2.1 + 2.35 * columns, 5.4), lines * (0.95 + 0.34 * len(agents)))
    figure, grid = _figure(size, lines, columns, shared=True)
    for axes in grid.flat[len(groups) :]:
        axes.set_visible(False)
    for group, axes in zip(groups, grid.flat, strict=False):
        for row in (row for row in given if row.group == group):
            height, colour = agents.index(row.agent), palette[row.agent]
            mean, low, high, worst = (value * words.factor for value in (row.mean, row.low, row.high, row.worst))
            axes.plot([worst, mean], [height, height], color=colour, linewidth=1, alpha=0.35, zorder=1)
            axes.plot(worst, height, "D", color=colour, markersize=4.5, markerfacecolor="none", zorder=2)
            axes.plot([low, high], [height, height], color=colour, linewidth=3.6, solid_capstyle="round", zorder=3)
            axes.plot(mean, height, "o", color=colour, markersize=6.5, markeredgecolor="white", zorder=4)
            axes.annotate(
                words.bare(row.mean),
                (mean, height),
                xytext=(0, 7),
                textcoords="offset points",
                ha="center",
                fontsize=8,
            )
        axes.set_title(group_name(group), loc="left", fontweight="bold")
        axes.grid(axis="x", alpha=0.25, linewidth=0.6)
        axes.tick_params(axis="y", length=0)
    first = grid.flat[0]
    first.set_yticks(range(len(agents)), [agent_name(agent, names) for agent in agents])
    first.set_ylim(len(agents) - 0.5, -0.75)
    ends = [value * words.factor for row in given for value in (row.mean, row.low, row.high, row.worst)]
    span = max(np.nanmax(ends) - np.nanmin(ends), 1e-9)
    first.set_xlim(np.nanmin(ends) - 0.08 * span, np.nanmax(ends) + 0.08 * span)
    figure.supxlabel(f"{words.noun}{', %' if words.share else ''}", fontsize=9)
    _legend(
        figure,
        [
            ({"marker": "o", "markersize": 7}, "mean over seeds and teams"),
            ({"linewidth": 3.2}, "95 % interval"),
            ({"marker": "D", "markersize": 4.5, "markerfacecolor": "none"}, "worst team"),
        ],
    )
    return figure


@figure_style()
def draw_differences(rows: Iterable[Row], *, names: Mapping[str, str] | None = None) -> Figure:
    """Forest plot of paired differences with their 95 % intervals, coloured by verdict.

    Args:
        rows: what `omg.evaluation.compare` returns, of one metric.
        names: label -> name of agents.
    """
    given = _given(rows, ComparisonRow, "differences")
    words = metric_words(given[0].metric)
    agents = _order(row.agent for row in given)
    lines: list[tuple[str, ComparisonRow | None]] = []
    for group in _order(row.group for row in given):
        lines.append((group_name(group), None))
        lines += [(_versus(row, names, len(agents) == 1), row) for row in given if row.group == group]
    figure, grid = _figure((7.2, 0.9 + 0.3 * len(lines)), 1, 1)
    axes = grid.flat[0]
    axes.axvline(0, color=INK, linewidth=1)
    # The numbers stand at the right of the frame, in line with their rows.
    beside = axes.get_yaxis_transform()
    for height, (label, row) in enumerate(lines):
        if row is None:
            axes.text(-0.02, height, label, transform=beside, ha="right", va="center", fontsize=9, fontweight="bold")
            continue
        colour = VERDICT_COLOURS[row.verdict]
        value, low, high = (number * words.factor for number in (row.difference, row.low, row.high))
        axes.plot([low, high], [height, height], color=colour, linewidth=2.6, solid_capstyle="round")
        axes.plot(value, height, "s", color=colour, markersize=7, markeredgecolor="white")
        axes.text(-0.02, height, label, transform=beside, ha="right", va="center", fontsize=9)
        axes.text(1.02, height, _numbers(row), transform=beside, ha="left", va="center", fontsize=8.5)
    axes.set_yticks([])
    axes.set_ylim(len(lines) - 0.4, -0.6)
    axes.spines["left"].set_visible(False)
    _around_zero(axes)
    axes.grid(axis="x", alpha=0.25, linewidth=0.6)
    minuend = f"{agent_name(agents[0], names)} minus baseline" if len(agents) == 1 else "difference"
    axes.set_xlabel(f"{minuend}: {words.noun}{', percentage points' if words.share else ''}")
    shown = [verdict for verdict in VERDICT_COLOURS if any(row.verdict == verdict for row in given)]
    looks: dict[str, Look] = {
        verdict: {"marker": "s", "color": VERDICT_COLOURS[verdict], "linewidth": 2.6} for verdict in shown
    }
    _legend(figure, [(look, verdict) for verdict, look in looks.items()])
    return figure


@figure_style()
def draw_cross_play(
    rows: Iterable[Row],
    *,
    metric: str = "battle_won",
    names: Mapping[str, str] | None = None,
    labels: tuple[str, str] = ("agent", "team-mates"),
) -> Figure:
    """Heat map of every agent (row) with every kind of team-mate (column).

    Args:
        rows: tidy rows with `agent`, `team` and `mean`, one per pair; pairs that were not played stay empty.
        metric: what `mean` is, e.g. `battle_won`.
        names: label -> name of agents and team-mates.
        labels: what rows and columns are.
    """
    from matplotlib.collections import PatchCollection
    from matplotlib.patches import Rectangle

    given = _given(rows, ScoreRow, "cross-play")
    words = metric_words(metric)
    agents, teams = _order(row.agent for row in given), _order(row.team for row in given)
    values = np.full((len(agents), len(teams)), np.nan)
    for row in given:
        values[agents.index(row.agent), teams.index(row.team)] = row.mean * words.factor
    cell = 0.42 if max(values.shape) <= _MOST_VALUES else 0.24
    longest = max(len(agent_name(agent, names)) for agent in agents)
    size = (1.4 + 0.075 * longest + cell * 1.15 * len(teams), 1.3 + 0.05 * longest + cell * len(agents))
    figure, grid = _figure((max(size[0], 4.0), size[1]), 1, 1)
    axes = grid.flat[0]
    limits = (0.0, 100.0) if words.share else (float(np.nanmin(values)), float(np.nanmax(values)))
    # Small numbers need a second decimal to tell tiles apart.
    digits = 2 if np.nanmax(np.abs(values)) < 10 else 1
    # Separate tiles instead of one picture: the gaps have the colour of the page, and every tile stays sharp.
    places = [(line, column) for line, column in np.ndindex(values.shape) if not np.isnan(values[line, column])]
    tiles = PatchCollection([Rectangle((column - 0.48, line - 0.48), 0.96, 0.96) for line, column in places], lw=0)
    tiles.set(array=np.asarray([values[place] for place in places]), cmap="viridis", clim=limits)
    axes.add_collection(tiles)
    axes.set(xlim=(-0.5, len(teams) - 0.5), ylim=(len(agents) - 0.5, -0.5))
    if max(values.shape) <= _MOST_VALUES:
        for (line, column), value in np.ndenumerate(values):
            text = "\N{EN DASH}" if np.isnan(value) else f"{value:.0f}" if words.share else f"{value:.{digits}f}"
            colour = INK if np.isnan(value) else _on(tiles.to_rgba(value))
            axes.text(column, line, text, ha="center", va="center", fontsize=8.5, color=colour)
    slanted = max(len(agent_name(team, names)) for team in teams) > 5
    axes.set_xticks(
        range(len(teams)),
        [agent_name(team, names) for team in teams],
        rotation=40 if slanted else 0,
        ha="right" if slanted else "center",
        rotation_mode="anchor" if slanted else "default",
    )
    axes.set_yticks(range(len(agents)), [agent_name(agent, names) for agent in agents])
    axes.set_xlabel(labels[1])
    axes.set_ylabel(labels[0])
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    bar = figure.colorbar(tiles, ax=axes, aspect=30, pad=0.02)
    bar.set_label(f"{words.noun}{', %' if words.share else ''}")
    bar.outline.set_visible(False)
    return figure


@figure_style()
def draw_offsets(
    rows: Iterable[Row], *, names: Mapping[str, str] | None = None, colours: Mapping[str, str] | None = None
) -> Figure:
    """How many steps ahead the selected subgoals lay, as shares of all selections.

    Args:
        rows: columns of `OffsetRow`.
        names: label -> name of agents.
        colours: label -> colour, e.g. from `agent_colours`; by order of appearance when left out.
    """
    given = _given(rows, OffsetRow, "offsets")
    agents, palette = _order(row.agent for row in given), {**agent_colours(given), **(colours or {})}
    horizon = max(row.offset for row in given)
    figure, grid = _figure((max(4.4, 1.2 + 0.5 * horizon), 2.7), 1, 1)
    axes = grid.flat[0]
    width = 0.78 / len(agents)
    for index, agent in enumerate(agents):
        counts = np.zeros(horizon)
        for row in (row for row in given if row.agent == agent):
            counts[row.offset - 1] += row.count
        shares = 100 * counts / max(counts.sum(), 1)
        places = np.arange(1, horizon + 1) + (index - (len(agents) - 1) / 2) * width
        bars = axes.bar(places, shares, width * 0.92, color=palette[agent], label=agent_name(agent, names))
        if len(agents) * horizon <= _MOST_VALUES:
            axes.bar_label(bars, [f"{share:.0f}" for share in shares], fontsize=8, padding=1.5)
    axes.set_xticks(range(1, horizon + 1))
    axes.set_xlabel("steps ahead, k")
    axes.set_ylabel("selected subgoals, %")
    axes.tick_params(axis="x", length=0)
    axes.grid(axis="y", alpha=0.25, linewidth=0.6)
    if len(agents) > 1:
        axes.legend()
    return figure


@figure_style()
def draw_profiles(
    rows: Iterable[Row], *, names: Mapping[str, str] | None = None, colours: Mapping[str, str] | None = None
) -> Figure:
    """Performance profiles of one group: the share of trainings and teams that reach more than each level.

    Args:
        rows: columns of `ProfileRow`.
        names: label -> name of agents.
        colours: label -> colour; by order of appearance when left out.
    """
    given = _given(rows, ProfileRow, "profiles")
    words, palette = metric_words(given[0].metric), {**agent_colours(given), **(colours or {})}
    figure, grid = _figure((5.6, 3.2), 1, 1)
    axes = grid.flat[0]
    for place, agent in enumerate(_order(row.agent for row in given)):
        own = [row for row in given if row.agent == agent]
        levels = [row.level * words.factor for row in own]
        share, low, high = ([100 * row[key] for row in own] for key in ("share", "low", "high"))
        look = {"color": palette[agent], "markersize": 4, **marks_of(place, len(levels), all_up_to=0)}
        axes.step(levels, share, where="post", linewidth=1.6, label=agent_name(agent, names), **look)
        if not np.isnan(low).any():
            axes.fill_between(levels, low, high, step="post", color=palette[agent], alpha=0.16, linewidth=0)
    axes.set_xlabel(f"{words.noun}{', %' if words.share else ''}")
    axes.set_ylabel("share above, %")
    axes.set_ylim(-2, 102)
    axes.grid(alpha=0.25, linewidth=0.6)
    figure.legend(loc="outside upper left", ncols=4)
    return figure


def _plot(draw: Draw, rows: Iterable[Row], path: str | Path, options: Mapping[str, object]) -> Path:
    target = figure_path(path)
    with figure_style():
        save_figure(draw(rows, **options), target)
    return target


def _figure(size: tuple[float, float], lines: int, columns: int, *, shared: bool = False) -> tuple[Figure, np.ndarray]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, dpi=150, layout="constrained")
    return figure, figure.subplots(lines, columns, squeeze=False, sharex=shared, sharey=shared)


def _given(rows: Iterable[Row], kind: type[R], what: str) -> list[R]:
    given = [kind.of(row) for row in rows]
    if not given:
        raise UserError(f"figure of {what}: there is nothing to draw.")
    return given


def _order(labels: Iterable[str]) -> list[str]:
    """Each of them once, in order of appearance."""
    return list(dict.fromkeys(labels))


def _on(colour: np.ndarray) -> str:
    """Black or white, whichever can be read on a colour [3 or 4] (red, green, blue from 0 to 1)."""
    red, green, blue = colour[:3]
    return "#000000" if 0.299 * red + 0.587 * green + 0.114 * blue > 0.5 else "#ffffff"


def _versus(row: ComparisonRow, names: Mapping[str, str] | None, one_agent: bool) -> str:
    against = f"against {agent_name(row.baseline, names)}"
    return against if one_agent else f"{agent_name(row.agent, names)} {against}"


def _numbers(row: ComparisonRow) -> str:
    words = metric_words(row.metric)
    value, low, high = row.difference, row.low, row.high
    return f"{words.signed(value)}  " + (
        "(too few seeds)" if np.isnan(low) else f"[{words.signed(low)}, {words.signed(high)}]"
    )


def _around_zero(axes: Axes) -> None:
    """Zero is always in sight, with room on both sides."""
    axes.margins(x=0.06)
    low, high = axes.get_xlim()
    span = max(high - low, 1e-9)
    axes.set_xlim(min(low, -0.12 * span), max(high, 0.12 * span))


def _legend(figure: Figure, entries: Sequence[tuple[Look, str]]) -> None:
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], **{"color": "#808993", "linewidth": 0, **look}, label=label) for look, label in entries]
    figure.legend(handles=handles, loc="outside upper left", ncols=len(handles), handletextpad=0.5, columnspacing=1.6)
