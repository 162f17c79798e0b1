"""The experiment of `omg toy`: which table of values forms first in the toy grid, as rows, summaries and a figure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy import stats

from omg.envs.toy_grid import ToyGridArgs
from omg.envs.toy_grid.tables import RaceTables, race_tables, visits
from omg.errors import UserError
from omg.evaluation.tables import ToyRow
from omg.learners.tabular import CONTEXTS, TOLERANCE, VIEWS, Context, Settings, TableHistory, View, solve, train
from omg.report.curves import save_figure
from omg.tracking.table import Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.gridspec import SubplotSpec

GOOD = 0.9
"""Share of the optimum that counts as good play."""
EPISODES = 32_000
FIRST_POINT, POINTS = 50, 40
"""Measurements are closest together at the start, where most happens."""
NAMES: dict[Context, str] = {"subgoal": "Q(s,g,a)", "action": "Q(s,a⁻,a)", "none": "Q(s,a)"}
STATES: dict[View, str] = {"own": "own cell", "joint": "both cells"}

_COLOURS: dict[Context, str] = {"subgoal": "#0b6fb8", "action": "#d9570d", "none": "#7a7a7a"}
_LABELS: dict[Context, str] = {
    "subgoal": r"$Q(s,\,g,\,a)$  the other's subgoal",
    "action": r"$Q(s,\,a^-,\,a)$  the other's action",
    "none": r"$Q(s,\,a)$  neither",
}
_INK, _OTHER, _PAY = "#333333", "#d9570d", "#e0a800"


class Band(NamedTuple):
    """Medians over seeds and their 95 % intervals, P points each."""

    median: np.ndarray
    low: np.ndarray
    high: np.ndarray


def toy_settings(args: ToyGridArgs) -> Settings:
    """The learner's settings for a board: games last long enough to walk to one cell, and then to the other."""
    return Settings(episode_limit=max(args.episode_limit, 4 * (args.size - 1)))


def toy_experiment(
    args: ToyGridArgs,
    *,
    seeds: int = 20,
    episodes: int = EPISODES,
    seed: int = 0,
    contexts: Sequence[Context] = tuple(CONTEXTS),
    progress: Callable[[str], None] = lambda text: None,
) -> Table[ToyRow]:
    """Learns tables in both views.

    Args:
        args: the board.
        seeds: number of tables of each kind.
        episodes: games that each table learns from.
        seed: of all random numbers.
        contexts: the kinds of tables; all unless given.
        progress: told in a few words what is being learned now.

    Returns:
        Rows whose metrics are `return`, the discounted return of greedy
        play; `of_optimum`, the same as a share of what a player earns who knows the other's goal from the start;
        `formed`, the share of the table's entries that are within 10 % of their exact value (view `joint` only).
    """
    tables, settings = race_tables(args), toy_settings(args)
    best = solve(tables, settings.gamma, "subgoal").start
    first = min(FIRST_POINT, -(-episodes // 20))
    points = np.unique(np.geomspace(first, episodes, POINTS).round().astype(int)).tolist()
    rows: list[ToyRow] = []
    for view in VIEWS:
        for context in contexts:
            progress(f"{NAMES[context]} with s = {STATES[view]}")
            learned = train(tables, settings, view, context, seeds=seeds, points=points, seed=seed)
            rows.extend(_rows(view, context, learned, best))
    return Table(rows)


def _rows(view: View, context: Context, learned: TableHistory, best: float) -> Iterator[ToyRow]:
    metrics = {"return": learned.returns, "of_optimum": learned.returns / best}
    if learned.formed is not None:
        metrics["formed"] = learned.formed
    for metric, values in metrics.items():
        for episodes, by_seed in zip(learned.episodes.tolist(), values.tolist(), strict=True):
            for seed, value in enumerate(by_seed):
                yield ToyRow(view=view, context=context, seed=seed, episodes=episodes, metric=metric, value=value)


def median_band(values: np.ndarray, level: float = 0.95) -> Band:
    """Medians of `values` [..., N] over N seeds and intervals that hold the true median with probability `level`.

    The interval goes from the k-th lowest to the k-th highest value, with the largest k that the binomial distribution
    allows; it assumes nothing about the values, which may be infinite. Fewer than 6 seeds give lowest and highest.
    """
    ordered = np.sort(np.asarray(values, np.float64), axis=-1)
    count = ordered.shape[-1]
    rank = max(int(stats.binom.ppf((1 - level) / 2, count, 0.5)), 1)
    # Half of two infinities is infinity, but their difference is not a number: hence no interpolation.
    lower, upper = ordered[..., (count - 1) // 2], ordered[..., count // 2]
    return Band((lower + upper) / 2, ordered[..., rank - 1], ordered[..., count - rank])


def spread_name(table: Table[ToyRow]) -> str:
    """What the ends of `median_band` are for the seeds of this table."""
    return "95 % interval" if len(set(table.column("seed"))) >= 6 else "lowest and highest"


def contexts_of(table: Table[ToyRow]) -> list[Context]:
    """The kinds of tables that were learned."""
    learned = set(table.column("context"))
    return [context for context in CONTEXTS if context in learned]


def curve(table: Table[ToyRow], view: View, context: Context, metric: str) -> tuple[np.ndarray, np.ndarray]:
    """Games learned from [P] and the values of a metric [P, N seeds]."""
    rows = table.where(view=view, context=context, metric=metric)
    episodes = sorted(set(rows.column("episodes")))
    values = {(row.episodes, int(row.seed)): row.value for row in rows}
    seeds = sorted({int(row.seed) for row in rows})
    return np.asarray(episodes), np.asarray([[values[point, seed] for seed in seeds] for point in episodes])


def episodes_until_good(table: Table[ToyRow], view: View, context: Context) -> np.ndarray:
    """[N seeds] games until greedy play first earned `GOOD` of the optimum; infinite where it never did."""
    episodes, share = curve(table, view, context, "of_optimum")
    good = share >= GOOD
    return np.where(good.any(axis=0), episodes[good.argmax(axis=0)], np.inf)


def speed_rows(table: Table[ToyRow], args: ToyGridArgs) -> list[dict[str, str]]:
    """One row per view and kind of table: its size, and how many games until good play."""
    tables, settings = race_tables(args), toy_settings(args)
    rows = []
    for view in VIEWS:
        for context in contexts_of(table):
            entries = solve(tables, settings.gamma, context).entries.reshape(tables.cells, tables.cells, -1, 5)
            # Seen by the own cell alone, all cells of the other are one state.
            entries = np.any(entries, axis=1, keepdims=True) if view == "own" else entries
            until = median_band(episodes_until_good(table, view, context))
            _, share = curve(table, view, context, "of_optimum")
            rows.append(
                {
                    "s": STATES[view],
                    "table": NAMES[context],
                    "entries": f"{entries.size:,}",
                    "occur": f"{int(entries.sum()):,}",
                    f"games to {GOOD:.0%}": _games(until.median),
                    spread_name(table): f"{_games(until.low)} - {_games(until.high)}",
                    "at the end": f"{np.median(share[-1]):.0%}",
                }
            )
    return rows


def formed_rows(table: Table[ToyRow], shares: Sequence[float] = (0.1, 0.25, 0.5, 1.0)) -> list[dict[str, str]]:
    """One row per kind of table in the view `joint`: how much of it has formed after some shares of all games."""
    rows = []
    for context in contexts_of(table):
        episodes, values = curve(table, "joint", context, "formed")
        row: dict[str, str] = {"table": NAMES[context]}
        for share in shares:
            index = int(np.abs(episodes - share * episodes[-1]).argmin())
            band = median_band(100 * values[index])
            row[f"{episodes[index]:,} games"] = f"{band.median:.1f} ({band.low:.1f}-{band.high:.1f})"
        rows.append(row)
    return rows


def _games(number: np.ndarray) -> str:
    return f"{number:,.0f}" if np.isfinite(number) else "never"


def plot_toy(table: Table[ToyRow], args: ToyGridArgs, path: Path) -> Path:
    """Draws the board, the greedy returns in both views and how the tables form, as png, svg or pdf by the ending."""
    # The figure class alone, without pyplot: no window system, nothing global.
    from matplotlib.figure import Figure
    from matplotlib.ticker import EngFormatter, PercentFormatter

    figure = Figure(figsize=(10.4, 7.4), dpi=130, layout="constrained")
    grid = figure.add_gridspec(2, 2, width_ratios=(1, 1.25), wspace=0.06, hspace=0.08)
    _draw_board(figure.add_subplot(grid[0, 0]), args)
    panels: tuple[tuple[SubplotSpec, View, str, str], ...] = (
        (grid[0, 1], "own", "of_optimum", "Greedy return, s = own cell"),
        (grid[1, 1], "joint", "of_optimum", "Greedy return, s = both players' cells"),
        (grid[1, 0], "joint", "formed", f"Entries within {TOLERANCE:.0%} of exact, s = both players' cells"),
    )
    for place, view, metric, title in panels:
        axes = figure.add_subplot(place)
        for context in contexts_of(table):
            episodes, values = curve(table, view, context, metric)
            band = median_band(values)
            colour, dashes = _COLOURS[context], (0, (2.5, 1.2)) if context == "none" else "solid"
            axes.fill_between(episodes, band.low, band.high, color=colour, alpha=0.16, linewidth=0)
            # Dashed, since it runs on top of the subgoal's where the state tells the goal anyway.
            axes.plot(episodes, band.median, color=colour, linewidth=2, linestyle=dashes, label=_LABELS[context])
        if metric == "of_optimum":
            axes.axhline(GOOD, color=_INK, linewidth=0.8, linestyle=(0, (4, 4)), alpha=0.6)
            axes.set_ylabel("share of the optimum")
        else:
            axes.set_ylabel("share of the table")
        axes.set_ylim(-0.03, 1.05)
        axes.set_xscale("log")
        axes.set_xlim(episodes[0], episodes[-1])
        axes.xaxis.set_major_formatter(EngFormatter(sep=""))
        axes.xaxis.set_minor_formatter("")
        axes.yaxis.set_major_formatter(PercentFormatter(1.0))
        axes.set_xlabel("games learned from")
        axes.set_title(title, fontsize=10.5, loc="left", color=_INK)
        axes.grid(alpha=0.25, linewidth=0.6)
        axes.spines[["top", "right"]].set_visible(False)
    handles, labels = axes.get_legend_handles_labels()
    seeds = len(set(table.column("seed")))
    figure.legend(
        handles,
        labels,
        loc="outside lower center",
        ncols=3,
        frameon=False,
        fontsize=10.5,
        title=f"Median of {seeds} seeds, {spread_name(table)}",
        title_fontsize=9,
    )
    save_figure(figure, path)
    return path


def _draw_board(axes: Axes, args: ToyGridArgs) -> None:
    """The board: starts, reward cells, where the other walks, and a game in which each takes a cell."""
    from matplotlib.colors import LinearSegmentedColormap

    size, middle, last = args.size, args.middle, args.size - 1
    tables: RaceTables = race_tables(args)
    tint = LinearSegmentedColormap.from_list("tint", ["#ffffff", "#f8cfb4"])
    likely = visits(tables).max(axis=0).reshape(size, size)
    axes.imshow(np.sqrt(likely), cmap=tint, vmin=0, vmax=1, extent=(-0.5, size - 0.5, size - 0.5, -0.5))
    for edge in np.arange(size + 1) - 0.5:
        axes.plot([-0.5, size - 0.5], [edge, edge], color="#d0d0d0", linewidth=0.6, zorder=1)
        axes.plot([edge, edge], [-0.5, size - 0.5], color="#d0d0d0", linewidth=0.6, zorder=1)
    marker = min(170 * (11 / size) ** 2, 600)
    for row, col in args.goals:
        axes.scatter(col, row, marker="*", s=1.6 * marker, color=_PAY, edgecolor="white", linewidth=0.8, zorder=4)
    quarter = middle + (last - middle + 1) // 2
    paths = (
        (_OTHER, [(middle, last), (middle, quarter), (0, quarter), (0, middle)]),
        (_COLOURS["subgoal"], [(middle, 0), (middle, middle), (last, middle)]),
    )
    for colour, corners in paths:
        rows, cols = np.transpose(corners).astype(float)
        # The head of the arrow ends before the star, so that both can be seen.
        rows[-1] -= 0.55 * np.sign(rows[-1] - rows[-2])
        cols[-1] -= 0.55 * np.sign(cols[-1] - cols[-2])
        axes.plot(cols[:-1], rows[:-1], color=colour, linewidth=2, solid_capstyle="round", zorder=2)
        arrow = {"arrowstyle": "-|>", "color": colour, "linewidth": 2, "shrinkA": 0, "shrinkB": 0}
        axes.annotate("", (cols[-1], rows[-1]), (cols[-2], rows[-2]), arrowprops=arrow, zorder=2)
    for (row, col), colour, text, side in (
        (args.starts[0], _COLOURS["subgoal"], "learner", "left"),
        (args.starts[1], _OTHER, "other", "right"),
    ):
        axes.scatter(col, row, s=marker, color=colour, edgecolor="white", linewidth=1.2, zorder=5)
        edge = -0.4 if side == "left" else size - 0.6
        axes.text(edge, row + max(0.115 * size, 0.42), text, color=colour, ha=side, fontsize=9.5, zorder=5)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[:].set_visible(False)
    axes.set_title("Each star pays only the first to arrive", fontsize=10.5, loc="left", color=_INK)
    axes.set_xlabel("shaded: where the other may walk, to the top or the bottom", fontsize=8.5, color=_INK)


def write_results(table: Table[ToyRow], args: ToyGridArgs, folder: Path) -> Mapping[str, Path]:
    """Writes `toy.csv` and `toy.png` into `folder`, which is made if need be.

    Returns:
        `table` and `figure` -> where they are.
    """
    csv, figure = folder / "toy.csv", folder / "toy.png"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        table.write_csv(csv)
    except OSError as error:
        raise UserError(f"--output: cannot write to '{folder}' ({error.strerror}).") from None
    return {"table": csv, "figure": plot_toy(table, args, figure)}
