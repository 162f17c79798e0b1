"""Learning curves: one line per label, the mean over its seeds, and a band around it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from omg.errors import UserError, unknown_name
from omg.evaluation import bootstrap_interval
from omg.evaluation.rows import Seed
from omg.evaluation.tables import MetricRow
from omg.names import inert
from omg.report.style import marks_of
from omg.tracking import RunFolder
from omg.types import Row

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Band = Literal["range", "interval"]
FORMATS = ("png", "svg", "pdf")
_SHARES = {"battle_won": "battles won"}
"""Metrics between 0 and 1, which are drawn as percentages on a full axis, and what the axis is called."""

_LONGEST_TEXT = 300
"""More does not fit above or beside a figure."""


class Curve(NamedTuple):
    """One line of a figure, P points."""

    t_env: np.ndarray
    """[P] environment steps."""
    mean: np.ndarray
    """[P] mean over the seeds."""
    low: np.ndarray
    """[P] lower edge of the band."""
    high: np.ndarray
    """[P] upper edge of the band."""
    seeds: int


def mean_curve(rows: Iterable[Row], metric: str, band: Band = "range") -> Curve:
    """The mean of a metric over seeds that were measured at different steps.

    Every seed's values are joined by straight lines; the curve has a point wherever any seed has one, and covers the
    steps that all seeds have covered.

    Args:
        rows: columns of `MetricRow`.
        metric: the `name` to draw.
        band: `range` (lowest and highest seed) or `interval` (95 % bootstrap interval of the mean over seeds).

    Raises:
        UserError: no row has this name; the message lists the names there are.
    """
    points: dict[Seed, dict[int, float]] = {}
    names = set()
    for row in map(MetricRow.of, rows):
        names.add(row.name)
        if row.name == metric:
            points.setdefault(row.seed, {})[row.t_env] = row.value
    if not names:
        raise UserError(f"metric '{metric}': there are no metrics at all yet.")
    if not points:
        raise unknown_name("metric", metric, names)
    lines = [(sorted(seed), [seed[t_env] for t_env in sorted(seed)]) for seed in points.values()]
    first, last = max(steps[0] for steps, _ in lines), min(steps[-1] for steps, _ in lines)
    grid = np.asarray(sorted({t_env for steps, _ in lines for t_env in steps if first <= t_env <= last}))
    if not len(grid):
        raise UserError(f"metric '{metric}': the {len(lines)} seeds have no steps in common.")
    values = np.stack([np.interp(grid, steps, seen) for steps, seen in lines])
    if band == "range":
        low, high = values.min(axis=0), values.max(axis=0)
    else:
        low, high = np.transpose([bootstrap_interval(column) for column in values.T])
    return Curve(grid, values.mean(axis=0), low, high, len(lines))


def plot_curves(
    tables: Mapping[str, Iterable[Row]],
    metric: str,
    path: str | Path,
    *,
    band: Band = "range",
    title: str = "",
) -> Path:
    """Draws one metric of several labels over environment steps.

    Args:
        tables: label -> metrics (`Run.metrics`, or any rows with the columns of `MetricRow`).
        metric: the metric to draw, e.g. `test_battle_won_mean`.
        path: where the figure goes; its ending says the format (png, svg, pdf). It appears whole or not at all.
        band: see `mean_curve`; labels with one seed have no band.
        title: heading of the figure.

    Returns:
        The path.
    """
    target = figure_path(path)
    for what, given in (("title", title), ("metric", metric)):
        if len(given) > _LONGEST_TEXT:
            raise UserError(f"{what}: got {len(given)} characters; allowed: at most {_LONGEST_TEXT}.")
    if not tables:
        raise UserError(f"figure '{target}': there is nothing to draw.")
    curves = {label: mean_curve(rows, metric, band) for label, rows in tables.items()}
    save_figure(draw_curves(curves, metric, band, title), target)
    return target


def figure_path(path: str | Path) -> Path:
    """The path of a figure, refused if its ending is not a format that can be drawn."""
    target = Path(path)
    if target.suffix.removeprefix(".") not in FORMATS:
        raise UserError(f"figure '{target}': got the ending '{target.suffix}'. Allowed: .{', .'.join(FORMATS)}.")
    return target


def run_tables(folders: Sequence[str | Path]) -> dict[str, list[MetricRow]]:
    """The metrics of runs by label; runs of the same configuration name and game become seeds of one label.

    Args:
        folders: folders of runs, or folders that hold such folders, at any depth.

    Raises:
        UserError: a folder is and holds no run, or a run has no metrics yet.
    """
    paths = dict.fromkeys(path for folder in folders for path in run_folders(Path(folder)))
    runs = [RunFolder.open(path) for path in paths]
    labels = [_label(run) for run in runs]
    scenarios = {scenario for _, scenario in labels}
    tables: dict[str, list[MetricRow]] = {}
    for index, (run, (name, scenario)) in enumerate(zip(runs, labels, strict=True)):
        rows = [MetricRow.extended(row, seed=f"{index}:{row.seed}") for row in run.metrics()]
        if not rows:
            raise UserError(f"{run.path}: this run has no metrics yet.")
        tables.setdefault(name if len(scenarios) == 1 else f"{name} {scenario}", []).extend(rows)
    return tables


def run_folders(folder: Path) -> list[Path]:
    """The folder itself if it is a run, else all runs inside it."""
    if (folder / "config.yaml").is_file() or not folder.is_dir():
        return [folder]
    found = sorted(path.parent for path in folder.rglob("metrics.csv") if (path.parent / "config.yaml").is_file())
    if not found:
        raise UserError(f"{folder} is not a run folder: it has no config.yaml, and there is no run in it.")
    return found


def _label(run: RunFolder) -> tuple[str, str]:
    return run.config().name, run.where()


def draw_curves(curves: Mapping[str, Curve], metric: str, band: Band = "range", title: str = "") -> Figure:
    """The matplotlib figure of `plot_curves`, from curves that are already averaged."""
    # The figure class alone, without pyplot: no window system, nothing global.
    from matplotlib.figure import Figure
    from matplotlib.text import Text
    from matplotlib.ticker import EngFormatter, PercentFormatter

    figure = Figure(figsize=(6.4, 3.6), dpi=120, layout="constrained")
    axes = figure.add_subplot()
    for place, (label, curve) in enumerate(curves.items()):
        look = marks_of(place, len(curve.t_env))
        (line,) = axes.plot(curve.t_env, curve.mean, linewidth=1.6, label=inert(label), markersize=4, **look)
        if curve.seeds > 1:
            axes.fill_between(curve.t_env, curve.low, curve.high, color=line.get_color(), alpha=0.18, linewidth=0)
    base = metric.removeprefix("test_").removesuffix("_mean")
    if base in _SHARES:
        axes.set_ylim(-0.02, 1.02)
        axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    axes.set_xlim(left=0)
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.set_xlabel("environment steps")
    words = _SHARES.get(base, base.replace("_", " "))
    axes.set_ylabel(f"{words} in tests" if metric.startswith("test_") else words)
    axes.set_title(_heading(curves, band, title), fontsize=10, loc="left")
    axes.grid(alpha=0.25, linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    if len(curves) > 1:
        # Beside the lines: inside it would lie on one of them sooner or later.
        figure.legend(frameon=False, loc="outside right upper")
    for text in figure.findobj(Text):
        text.set_parse_math(False)  # A name or title is text, whatever dollars are in it.
        text.set_text(text.get_text().encode("utf-8", "replace").decode("utf-8"))
    return figure


def _heading(curves: Mapping[str, Curve], band: Band, title: str) -> str:
    """The title and what line and band mean."""
    counts = sorted({curve.seeds for curve in curves.values()})
    if counts == [1]:
        return title
    seeds = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    spread = "range" if band == "range" else "95 % interval"
    return "  ·  ".join(filter(None, (title, f"mean and {spread} of {seeds} seeds")))


def save_figure(figure: Figure, target: Path) -> None:
    """Writes a matplotlib figure in the format its ending names; it appears whole or not at all.

    Its folder is made if it is not there.
    """
    staging = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(staging, format=target.suffix.removeprefix("."))
        os.replace(staging, target)
    except OSError as error:
        raise UserError(f"figure: cannot write '{target}' ({error.strerror}).") from None
    finally:
        if target.parent.is_dir():
            staging.unlink(missing_ok=True)
