"""`omg record`: games played to be looked at, or to be learned from elsewhere."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Annotated

import typer

from omg.cli.jobs import MOST_EPISODES
from omg.cli.lists import EnvConfigOption, TrustOption
from omg.cli.playing import PoolOption, SeedOption, SetOption, TeamOption, WhichOption, lineup
from omg.cli.tables import print_lines, print_table
from omg.errors import UserError

if TYPE_CHECKING:
    from omg.recordings import Recording

_MOST_SHOWN = 20
"""Games in the table; of more the first ones."""


def record(
    context: typer.Context,
    source: Annotated[
        str | None, typer.Argument(metavar="[SOURCE]", help="A run, an agent, POOL:member or a script; none: --team.")
    ] = None,
    team: TeamOption = None,
    pool: PoolOption = None,
    set_name: SetOption = None,
    episodes: Annotated[int, typer.Option(min=1, max=MOST_EPISODES, help="Games.")] = 4,
    seed: SeedOption = 0,
    which: WhichOption = "best",
    views: Annotated[bool, typer.Option("--views", help="Record observations and states as well.")] = False,
    env_config: EnvConfigOption = None,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FOLDER", help="Where the recordings go.")] = Path(
        "results/recordings"
    ),
    dataset: Annotated[
        Path | None, typer.Option("--dataset", metavar="FOLDER", help="Write a Minari data set, and no recordings.")
    ] = None,
    trust: TrustOption = False,
) -> None:
    """Play games and record them: places, actions, rewards, values, and what players believe about the others.

    An agent has all seats, or with --pool one of them; with --team whole teams of a pool play. For a script the game is
    named: --env-config=foraging env_args.players=3. A recording is a small file, see docs/recordings.md.
    """
    if output.exists() and not output.is_dir():
        raise UserError(f"--output: '{output}' is a file. Give a folder.")
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
    if dataset is not None:
        from omg.recordings.dataset import check_minari

        check_minari()
        if dataset.exists():
            raise UserError(f"--dataset: {dataset} is there already. Give a folder that is not.")

    games = players.play(source, episodes, views=views or dataset is not None)
    if dataset is not None:
        from omg.recordings.dataset import write_dataset

        print_lines(f"Data set: {write_dataset(dataset, games)}")
        return

    files = [one.write(output / one.file_name) for one in games]
    _print_games(games[:_MOST_SHOWN], files)
    print_lines(f"Recordings: {len(files)} in {output}")


def _print_games(games: Sequence[Recording], files: Sequence[Path]) -> None:
    rows = []
    for game, file in zip(games, files, strict=False):
        kinds = sorted({belief["kind"] for belief in game.beliefs})
        wrong, stay = (_mean_distance(game, name) for name in ("distance", "stay_distance"))
        size = f"{file.stat().st_size / 1000:.0f} kB"
        facts = game.header["facts"]
        rows.append((file.name, size, game.steps, f"{facts['return']:.3g}", ", ".join(kinds), wrong, stay))
    heads = ("file", "size", "steps", "return", "beliefs", "belief is off by", "they stay")
    print_table(f"{games[0].header['game']} {games[0].header['scenario']}", heads, rows)


def _mean_distance(game: Recording, name: str) -> str:
    """Over the moments of all seats at which a place is believed."""
    found = [belief["columns"][name] for belief in game.beliefs if belief["kind"] == "places"]
    known = [float(value) for values in found for value in values.flat if math.isfinite(value)]
    return f"{fmean(known):.2f}" if known else ""
