"""`omg watch`: look at a game that was played."""

from __future__ import annotations

import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from omg.cli.jobs import MOST_SEED
from omg.cli.lists import EnvConfigOption, TrustOption
from omg.cli.progress import show_progress
from omg.cli.record import game_of
from omg.cli.tables import print_lines
from omg.errors import UserError, unknown_name

if TYPE_CHECKING:
    from omg.recordings import Recording


def watch(
    context: typer.Context,
    source: Annotated[
        str | None,
        typer.Argument(metavar="[SOURCE]", help="A recording, a run, an agent, POOL:member or a script; none: --team."),
    ] = None,
    beside: Annotated[
        str | None, typer.Option("--beside", metavar="OTHER", help="Another one from the same start, side by side.")
    ] = None,
    team: Annotated[
        str | None, typer.Option("--team", metavar="TEAM", help="All seats, e.g. 4iql3qmix1iql_omg; needs --pool.")
    ] = None,
    pool: Annotated[
        Path | None, typer.Option("--pool", metavar="POOL", help="Where the other players come from.")
    ] = None,
    set_name: Annotated[
        str | None, typer.Option("--set", help="Set of the pool: training, validation, heldout; all by default.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, max=MOST_SEED, help="Seed of the game.")] = 0,
    which: Annotated[
        str, typer.Option(metavar="last|best", help="Agent of the first seed of a run that plays.")
    ] = "best",
    env_config: EnvConfigOption = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="PAGE.html", help="The page (its name in this folder).")
    ] = None,
    export: Annotated[
        list[Path] | None,
        typer.Option("--export", metavar="FILE", help="Also FILE.gif or .mp4 of the game, FILE.png or .svg of a step."),
    ] = None,
    step: Annotated[int | None, typer.Option(min=0, help="Step of an exported picture (the middle).")] = None,
    seat: Annotated[
        int | None, typer.Option(min=1, help="Seat whose beliefs are exported, from 1 (the first that has any).")
    ] = None,
    note: Annotated[
        str, typer.Option("--note", metavar="TEXT", help="Stands on the page: which game this is, and why.")
    ] = "",
    show: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    trust: TrustOption = False,
) -> None:
    """Make a page that plays a game: what happened, what each seat saw and valued, and what it believed of the others.

    A recording is shown as it is. An agent plays one game, in all seats or with --pool in one of them; with --team a
    team of a pool plays. The page is complete in one file: it opens from disk, asks for nothing and can be mailed.
    """
    if which not in ("last", "best"):
        raise unknown_name("agent (--which)", which, ("last", "best"))
    page = output or Path(f"{_name(source or team or 'game')}.html")
    if page.suffix.lower() not in (".html", ".htm"):
        raise UserError(f"--output: got '{page}'. Allowed: FILE.html; --export makes films and pictures.")
    for option, given in (("--step", step), ("--seat", seat)):
        if given is not None and not export:
            raise UserError(f"{option}: got {given}, but nothing is exported. Give --export FILE.")
    if beside is not None and source is None:
        raise UserError(f"--beside: got '{beside}', but there is no SOURCE that it could stand beside.")
    game, options = game_of(env_config, context.args)

    from omg import api
    from omg.components.files import given_path, write_text
    from omg.recordings import Recording
    from omg.report.watch.page import watch_page
    from omg.report.watch.pictures import check_export, check_name, export_game

    for file in export or ():
        check_name(file, step)

    def played(one: str | None) -> Recording:
        """A recording as it is; of anybody else a game."""
        if one is not None and Path(one).is_file():
            for option, given in (("--team", team), ("--pool", pool), ("--set", set_name), ("--env-config", game)):
                if given is not None:
                    raise UserError(f"{option}: got '{given}', but '{one}' is a game that has been played.")
            return Recording.read(one)
        with show_progress("playing"):
            return api.record(
                one,
                pool=pool,
                pool_set=set_name,
                team=team,
                seed=seed,
                which=which,
                views=True,
                env=game,
                env_args=options,
                trust=trust,
            )[0]

    games = [played(source), *([] if beside is None else [played(beside)])]
    own_seat = None if seat is None else seat - 1
    for file in export or ():
        check_export(games[0], file, seat=own_seat, step=step)
    place = given_path(page)
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        write_text(place, watch_page(games, note))
    except OSError as error:
        raise UserError(f"--output: {page} cannot be written: {error.strerror or error}.") from None
    print_lines(f"Page: {page}")
    for file in export or ():
        kind = "Film" if file.suffix.lower() in (".gif", ".mp4") else "Picture"
        print_lines(f"{kind}: {export_game(games[0], file, seat=own_seat, step=step)}")
    if show and not webbrowser.open(place.resolve().as_uri()):
        print_lines("No browser was found to open it with.")


def _name(source: str) -> str:
    """A page's name: that of the recording, run, agent or member that it shows, if a file may be called so."""
    from omg.names import file_name

    path = Path(source.rpartition(":")[2])
    try:
        return file_name("SOURCE", path.stem if path.is_file() else path.name)
    except UserError:
        return "game"
