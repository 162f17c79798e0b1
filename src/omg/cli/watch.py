"""`omg watch`: look at a game that was played."""

from __future__ import annotations

import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from omg.cli.lists import EnvConfigOption, TrustOption
from omg.cli.playing import PoolOption, SeedOption, SetOption, TeamOption, WhichOption, lineup
from omg.cli.tables import print_lines
from omg.errors import UserError

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
    team: TeamOption = None,
    pool: PoolOption = None,
    set_name: SetOption = None,
    seed: SeedOption = 0,
    which: WhichOption = "best",
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
    page = output or Path(f"{_name(source or team or 'game')}.html")
    if page.suffix.lower() not in (".html", ".htm"):
        raise UserError(f"--output: got '{page}'. Allowed: FILE.html; --export makes films and pictures.")
    for option, given in (("--step", step), ("--seat", seat)):
        if given is not None and not export:
            raise UserError(f"{option}: got {given}, but nothing is exported. Give --export FILE.")
    if beside is not None and source is None:
        raise UserError(f"--beside: got '{beside}', but there is no SOURCE that it could stand beside.")
    players = lineup(
        context.args,
        team=team,
        pool=pool,
        pool_set=set_name,
        seed=seed,
        which=which,
        env_config=env_config,
        trust=trust,
    )

    from omg.components.files import given_path, write_text
    from omg.recordings import Recording
    from omg.report.watch.page import watch_page
    from omg.report.watch.pictures import FILMS, check_export, check_name, export_game

    # A film beside pictures has all steps; alone it is told that it has.
    pictures = [file for file in export or () if file.suffix.lower() not in FILMS]
    exports = {file: step if file in pictures or not pictures else None for file in export or ()}
    for file, own_step in exports.items():
        check_name(file, own_step)

    def played(one: str | None) -> Recording:
        """A recording as it is; of anybody else a game."""
        if one is not None and Path(one).is_file():
            players.check_played(one)
            return Recording.read(one)
        return players.play(one, views=True)[0]

    games = [played(source), *([] if beside is None else [played(beside)])]
    own_seat = None if seat is None else seat - 1
    for file, own_step in exports.items():
        check_export(games[0], file, seat=own_seat, step=own_step)
    place = given_path(page)
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        write_text(place, watch_page(games, note))
    except OSError as error:
        raise UserError(f"--output: {page} cannot be written: {error.strerror or error}.") from None
    print_lines(f"Page: {page}")
    for file, own_step in exports.items():
        kind = "Picture" if file in pictures else "Film"
        print_lines(f"{kind}: {export_game(games[0], file, seat=own_seat, step=own_step)}")
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
