"""`omg record`: games played to be looked at, or to be learned from elsewhere."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Annotated

import typer

from omg.cli.jobs import MOST_EPISODES, MOST_SEED
from omg.cli.lists import EnvConfigOption, TrustOption, read_words
from omg.cli.progress import show_progress
from omg.cli.tables import print_lines, print_table
from omg.errors import UserError, unknown_name
from omg.types import Tree

if TYPE_CHECKING:
    from omg.recordings import Recording

_MOST_SHOWN = 20
"""Games in the table; of more the first ones."""


def record(
    context: typer.Context,
    source: Annotated[
        str | None, typer.Argument(metavar="[SOURCE]", help="A run, an agent, POOL:member or a script; none: --team.")
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
    episodes: Annotated[int, typer.Option(min=1, max=MOST_EPISODES, help="Games.")] = 4,
    seed: Annotated[int, typer.Option(min=0, max=MOST_SEED, help="Seed of the games.")] = 0,
    which: Annotated[
        str, typer.Option(metavar="last|best", help="Agent of the first seed of a run that plays.")
    ] = "best",
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
    if which not in ("last", "best"):
        raise unknown_name("agent (--which)", which, ("last", "best"))
    if output.exists() and not output.is_dir():
        raise UserError(f"--output: '{output}' is a file. Give a folder.")
    game, options = game_of(env_config, context.args)
    if dataset is not None:
        from omg.recordings.dataset import check_minari

        check_minari()
        if dataset.exists():
            raise UserError(f"--dataset: {dataset} is there already. Give a folder that is not.")

    from omg import api
    from omg.recordings import ENDING

    with show_progress("playing") as say:
        games = api.record(
            source,
            pool=pool,
            pool_set=set_name,
            team=team,
            episodes=episodes,
            seed=seed,
            which=which,
            views=views or dataset is not None,
            env=game,
            env_args=options,
            trust=trust,
        )
        say(f"{len(games)} games played")
    if dataset is not None:
        from omg.recordings.dataset import write_dataset

        print_lines(f"Data set: {write_dataset(dataset, games)}")
        return
    files = [one.write(output / f"seed_{one.header['seed']}_game_{one.header['number']:02d}{ENDING}") for one in games]
    _print_games(games[:_MOST_SHOWN], files)
    print_lines(f"Recordings: {len(files)} in {output}")


def game_of(env_config: str | None, words: Sequence[str]) -> tuple[str | None, Tree]:
    """The game of a script and its options, from words like `env_args.map_name=8m`."""
    from omg.config.overrides import assignments

    line = read_words(None, env_config, list(words))
    if line.config is not None:
        raise UserError(f"--config: got '{line.config}', but nobody learns here.")
    options: Tree = {}
    for key, value in assignments(line.overrides).items():
        section, _, option = key.partition(".")
        if section != "env_args" or not option:
            raise UserError(f"{key}: only options of the game can be set here, e.g. env_args.map_name=8m.")
        options[option] = value
    return line.env_config, options


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
