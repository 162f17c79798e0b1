"""`omg room`: is there anything to gain from knowing the others?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from omg.cli.jobs import MOST_EPISODES, MOST_SEED
from omg.cli.lists import TrustOption
from omg.cli.progress import show_progress
from omg.cli.tables import print_lines, print_screen
from omg.errors import UserError


def room(
    pools: Annotated[list[Path], typer.Argument(metavar="POOL", help="Folders of pools; several of one game.")],
    set_name: Annotated[str, typer.Option("--set", help="Set of the pool that the partners are made of.")] = "heldout",
    group: Annotated[
        list[str] | None,
        typer.Option(help="Group of teams; may be repeated. All team-mates alike by default."),
    ] = None,
    episodes: Annotated[
        int, typer.Option(min=4, max=MOST_EPISODES, help="Episodes of each responder with each partner.")
    ] = 256,
    seeds: Annotated[int, typer.Option(min=1, max=1000, help="Restarts of every training.")] = 3,
    steps: Annotated[
        int, typer.Option(min=0, max=2**53, help="Most steps of every training; 0: train nothing, use what is kept.")
    ] = 1_000_000,
    seed: Annotated[int, typer.Option(min=0, max=MOST_SEED, help="Seed of teams, games and trainings.")] = 0,
    metric: Annotated[
        str | None, typer.Option(help="What counts; own_return in general-sum games, else the success metric.")
    ] = None,
    starts: Annotated[
        int, typer.Option(min=1, max=4096, help="Starts for which a game that is small enough is solved exactly.")
    ] = 4,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FOLDER", help="Where tables and page go (POOL/room).")
    ] = None,
    trust: TrustOption = False,
) -> None:
    """Measure what there is to gain from knowing the others, before any method is run.

    Every pool member, every script, a best response trained for each partner and an agent trained on the mixture play
    with every partner. Shown are the floor (a random player), the best fixed player, the ceiling (the best responder to
    each partner) and the room between the last two. Trained responses are kept in POOL/room/responses; repeat the
    command to go on after an interruption.
    """
    if output is not None and output.exists() and not output.is_dir():
        raise UserError(f"--output: '{output}' is a file. Give a folder.")
    for pool in pools:
        if pools.count(pool) > 1:
            raise UserError(f"POOL: got '{pool}' twice.")

    from omg.experiments.room.measuring import MeasuredRoom, RoomRules, default_folder, measure_room, pooled, write_room
    from omg.pools import Pool
    from omg.report.room import plot_room, room_screen, write_room_page

    rules = RoomRules(set_name, tuple(group) if group else None, episodes, seeds, steps, seed, metric, starts)
    where = {Pool.open(pool).where for pool in pools}
    if len(where) > 1:
        raise UserError(f"POOL: got pools of {' and '.join(sorted(where))}; give pools of one game.")
    with show_progress("loading") as say:
        found = []
        for pool in pools:
            found.append(measure_room(pool, rules, say))
            write_room(default_folder([pool]), found[-1])
    folder = output or default_folder(pools)
    one = found[0] if len(found) == 1 else None
    rows = found[0].rows if one is not None else pooled(found)
    responses, trained = ((), ()) if one is None else (one.responses, one.trained)
    files = write_room(folder, found[0] if one is not None else MeasuredRoom(rows, [], [], []))
    figures = plot_room(folder, rows, responses)
    page = write_room_page(folder / "room.html", f"Room: {where.pop()}", rows, responses, trained)
    print_screen(room_screen(Pool.open(pools[0]).where, rows, responses, None if one is None else trained))
    print_lines(f"Tables: {', '.join(map(str, files))}", f"Figures: {', '.join(map(str, figures))}", f"Page: {page}")
