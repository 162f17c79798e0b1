"""`omg demo`: the whole way once, small enough for a laptop."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

PRESET = "quick"


def demo(
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FOLDER", help="Where everything goes.")] = Path(
        "results/quick"
    ),
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress display.")] = False,
) -> None:
    """Run the pipeline `quick`: agents learn to forage with some players, and then meet others.

    The same as `omg pipeline quick`. It takes a few minutes on two CPU cores. Repeat it to continue after Ctrl-C.
    """
    from omg.cli.experiments import print_verdict
    from omg.experiments.pipeline import run_pipeline
    from omg.experiments.plan import read_plan

    print_verdict(run_pipeline(read_plan(PRESET), output, console=Console(), quiet=quiet))
