"""Commands that show what was measured: a page, and figures for a paper."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from omg.cli.tables import print_lines
from omg.errors import UserError

PathsArgument = Annotated[
    list[Path],
    typer.Argument(metavar="FOLDER...", help="A run, a pipeline, a suite, kept tables, or folders that hold runs."),
]
MetricOption = Annotated[
    str | None, typer.Option(help="What runs are judged by, e.g. return; the game's success metric by default.")
]
AgentOption = Annotated[
    str | None, typer.Option(help="The agent that the others are compared with; the best one by default.")
]
TitleOption = Annotated[str | None, typer.Option(help="Heading of the page.")]
LowerOption = Annotated[bool, typer.Option("--lower-is-better", help="For metrics such as ep_length.")]


class FigureFormat(StrEnum):
    """What figures are drawn as."""

    png = "png"
    svg = "svg"
    pdf = "pdf"


class TablesFormat(StrEnum):
    """What tables are written as."""

    csv = "csv"
    parquet = "parquet"


def report(
    folders: PathsArgument,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="The page; report.html in the folder, or here, by default."
        ),
    ] = None,
    metric: MetricOption = None,
    agent: AgentOption = None,
    title: TitleOption = None,
    lower: LowerOption = False,
) -> None:
    """Write one page about a run, an experiment, a suite, or several runs side by side.

    The page answers first and shows curves, tables and settings after. It is one file that needs no other and no
    network.
    """
    from omg.experiments.reports import Asked, page_place, read_report
    from omg.report.page import write_page
    from omg.report.suite import SuitePage, write_suite_page

    target = output or page_place(folders)
    if target.suffix != ".html":
        raise UserError(f"--output: got '{target}'; a page ends in .html.")
    found = read_report(folders, Asked(metric, agent, title, lower))
    page = write_suite_page(target, found) if isinstance(found, SuitePage) else write_page(target, found)
    print_lines(f"Report: {page}")


def figures(
    folders: PathsArgument,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FOLDER", help="Where figures and their tables go.")
    ] = Path("figures"),
    format: Annotated[FigureFormat, typer.Option(help="What figures are drawn as.")] = FigureFormat.pdf,
    tables: Annotated[
        TablesFormat, typer.Option(help="What the tables are written as that the figures are made of.")
    ] = TablesFormat.csv,
    metric: MetricOption = None,
    agent: AgentOption = None,
    lower: LowerOption = False,
) -> None:
    """Draw the figures of a report for a paper, each from a tidy table that is written beside it.

    OUTPUT/tables holds the tables: given to this command, or to omg report, they make the same figures and the same
    page again, without the runs.
    """
    from omg.experiments.reports import Asked, read_report
    from omg.report.figure_files import write_figures
    from omg.report.kept import write_tables
    from omg.report.suite import SuitePage

    found = read_report(folders, Asked(metric, agent, None, lower))
    if isinstance(found, SuitePage):
        print_lines(f"Figure: {found.plot(output / f'room.{format.value}')}")
        return
    kept = write_tables(output / "tables", found, tables.value)
    drawn = write_figures(output, found, format.value)
    print_lines(*(f"Figure: {path}" for path in drawn), f"Tables: {kept[-1].parent}")
