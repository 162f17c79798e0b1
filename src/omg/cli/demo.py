"""`omg demo`: the whole way once, in about a minute on two CPU cores."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from omg.cli.tables import print_rows

if TYPE_CHECKING:
    from omg.api import Run

METRIC = "test_battle_won_mean"
SETTINGS: dict[str, Any] = {
    "env_args.map_name": "3m",
    "t_max": 100_000,
    "epsilon_anneal_time": 20_000,
    "test_interval": 2_500,
    "log_interval": 2_500,
    "test_nepisode": 64,
    "save_buffer": False,
    # The demo is over when the team has won almost every battle in several tests in a row.
    "early_stop_metric": METRIC,
    "early_stop_value": 0.9,
    "early_stop_patience": 4,
}
"""Ordinary configuration: exploration falls faster and tests are closer together than in a full-length run."""


def demo(
    seed: Annotated[int, typer.Option(min=0, help="Seed of all random numbers.")] = 1,
    results: Annotated[Path, typer.Option(metavar="FOLDER", help="Where the run folder is made.")] = Path("results"),
    t_max: Annotated[int, typer.Option("--t_max", "--t-max", min=1, help="Most environment steps.")] = SETTINGS[
        "t_max"
    ],
) -> None:
    """Train three marines with VDN until they win, draw the curve, play the best team.

    The battles are those of the map 3m. It takes about a minute on two CPU cores.
    """
    from omg import api
    from omg.config import resolve

    overrides = {**SETTINGS, "seed": seed, "t_max": t_max, "local_results_path": str(results)}
    console = Console(soft_wrap=True)
    run = api.train_config(resolve("vdn", "sc2", overrides).config, console=console)
    _show_curve(run, console)
    print_rows("The best team in 256 new battles, 95 % intervals", api.evaluate(run.folder))
    console.print(f"Run folder: {run.folder}", markup=False, highlight=False)
    if run.status == "interrupted":
        raise typer.Exit(130)


def _show_curve(run: Run, console: Console) -> None:
    from omg.report import bar_lines, mean_curve, plot_curves

    figure = plot_curves({"vdn": run.metrics}, METRIC, run.folder / "win_rate.png", title="VDN on the map 3m")
    lines = ["", "Battles won in greedy test episodes", "    steps", *bar_lines(mean_curve(run.metrics, METRIC)), ""]
    console.print("\n".join(lines), markup=False, highlight=False)
    console.print(f"Figure: {figure}", markup=False, highlight=False)
