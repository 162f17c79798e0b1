"""`omg toy`: the experiment that shows, with tables alone, what a subgoal is good for."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from omg.cli.jobs import MOST_EPISODES, MOST_SEED
from omg.cli.progress import show_progress
from omg.cli.tables import print_lines, print_rows


def toy(
    seeds: Annotated[int, typer.Option(min=1, max=MOST_EPISODES, help="Tables of each kind.")] = 20,
    episodes: Annotated[
        int, typer.Option(min=1, max=MOST_EPISODES, help="Games that each table learns from.")
    ] = 32_000,
    size: Annotated[int, typer.Option(help="Rows and columns of the board, an odd number.")] = 11,
    seed: Annotated[int, typer.Option(min=0, max=MOST_SEED, help="Seed of all random numbers.")] = 0,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FOLDER", help="Where toy.csv and toy.png go.")
    ] = Path("results/toy"),
) -> None:
    """Learn tables of values in the toy grid: Q(s, g, a) forms long before Q(s, a⁻, a).

    Two players race for two cells that pay only the first to arrive. One of them learns; it is told the other's
    subgoal (inferred from its moves), the other's action, or neither. It takes about a minute on two CPU cores.
    """
    from omg.envs import parse_env_args
    from omg.envs.toy_grid import ToyGridArgs
    from omg.errors import UserError
    from omg.report.toy import formed_rows, speed_rows, toy_experiment, write_results

    args = parse_env_args("toy_grid", {"size": size})
    assert isinstance(args, ToyGridArgs)
    if output.exists() and not output.is_dir():
        raise UserError(f"--output: '{output}' is a file. Give a folder.")
    with show_progress("toy grid") as say:
        table = toy_experiment(args, seeds=seeds, episodes=episodes, seed=seed, progress=say)
        paths = write_results(table, args, output)
    print_rows("Games until greedy play earns 90 % of the best return, medians over seeds", speed_rows(table, args))
    print_rows("Share of the entries within 10 % of exact, in %, s = both cells", formed_rows(table))
    print_lines(f"Table: {paths['table']}", f"Figure: {paths['figure']}")
