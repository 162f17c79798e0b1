"""`omg watch`: look at a game that was played."""

from __future__ import annotations

import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from omg.cli.tables import print_lines
from omg.errors import UserError


def watch(
    source: Annotated[Path, typer.Argument(metavar="SOURCE", help="A recording.")],
    beside: Annotated[
        Path | None, typer.Option("--beside", metavar="OTHER", help="Another one from the same start, side by side.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="PAGE.html", help="The page (SOURCE's name in this folder)."),
    ] = None,
    export: Annotated[
        list[Path] | None,
        typer.Option("--export", metavar="FILE", help="Also FILE.gif or .mp4 of the game, FILE.png or .svg of a step."),
    ] = None,
    step: Annotated[int | None, typer.Option(min=0, help="Step of an exported picture (the middle).")] = None,
    seat: Annotated[
        int | None, typer.Option(min=1, help="Seat whose beliefs are exported, from 1 (the first that has any).")
    ] = None,
    show: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
) -> None:
    """Make a page that plays a game: what happened, what each seat saw and valued, and what it believed of the others.

    The page is complete in one file: it opens from disk, asks for nothing and can be mailed.
    """
    from omg.components.files import given_path, write_text
    from omg.recordings import Recording
    from omg.report.watch.page import watch_page
    from omg.report.watch.pictures import check_export, export_game

    page = given_path(output or Path(f"{source.stem}.html"))
    if page.suffix.lower() not in (".html", ".htm"):
        raise UserError(
            f"--output: got '{page}'. Allowed: a file that ends in .html; --export makes films and pictures."
        )
    for option, given in (("--step", step), ("--seat", seat)):
        if given is not None and not export:
            raise UserError(
                f"{option}: got {given}, but nothing is exported. Give --export FILE, or choose on the page."
            )
    games = [Recording.read(path) for path in (source, beside) if path is not None]
    own_seat = None if seat is None else seat - 1
    for file in export or ():
        check_export(games[0], file, seat=own_seat, step=step)
    try:
        page.parent.mkdir(parents=True, exist_ok=True)
        write_text(page, watch_page(games))
    except OSError as error:
        raise UserError(f"--output: {page} cannot be written: {error.strerror or error}.") from None
    print_lines(f"Page: {page}")
    for file in export or ():
        print_lines(f"Film: {export_game(games[0], file, seat=own_seat, step=step)}")
    if show and not webbrowser.open(page.resolve().as_uri()):
        print_lines("No browser was found to open it with.")
