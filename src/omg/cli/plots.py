"""Commands that draw."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from omg.cli.tables import print_lines


def plot(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Folders of runs, or folders that hold runs.")],
    metric: Annotated[str, typer.Option(help="A name from the runs' metrics.csv.")] = "test_return_mean",
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="The figure: FILE.png, .svg or .pdf.")
    ] = Path("curves.png"),
    interval: Annotated[
        bool, typer.Option("--interval", help="Band: 95 % interval of the mean instead of lowest and highest seed.")
    ] = False,
    title: Annotated[str, typer.Option(help="Heading of the figure.")] = "",
) -> None:
    """Draw learning curves of runs.

    A folder that is no run stands for all runs inside it. Every configuration name is one line: the mean over its
    seeds, be they of one run or of several.
    """
    from omg import api

    path = api.plot(list(runs), metric, output, interval=interval, title=title)
    print_lines(f"Figure: {path}")
