"""`omg demo`: the whole way once, small enough for a laptop."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

PRESET = "demo"


def demo(
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FOLDER", help="Where everything goes.")] = Path(
        "results/demo"
    ),
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress display.")] = False,
) -> None:
    """Run the pipeline `demo`: agents meet partners who have a favourite corner, and must find out which.

    The same as `omg pipeline demo`, and one game of its OMG to look at. It takes a few minutes on two CPU cores. The
    first line that it prints in the end says how much of what there is to gain from knowing the partner each agent
    gains, the last two where the report and the game are. Repeat it to continue after Ctrl-C.
    """
    from omg.cli.experiments import print_verdict
    from omg.cli.tables import print_lines
    from omg.experiments.pipeline import run_pipeline
    from omg.experiments.plan import read_plan
    from omg.experiments.shown import show_pipeline

    result = run_pipeline(read_plan(PRESET), output, console=Console(), quiet=quiet)
    print_verdict(result)
    if result.report is not None:
        print_lines(f"Replay: {show_pipeline(result)}")
