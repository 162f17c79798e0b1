"""Commands that play: train, resume, evaluate, bench."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from omg.cli.lists import ConfigOption, EnvConfigOption, read_words
from omg.cli.tables import Row, print_rows, print_table
from omg.errors import UserError

if TYPE_CHECKING:
    from omg.api import Run


def train(
    context: typer.Context,
    config: ConfigOption = None,
    env_config: EnvConfigOption = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress display.")] = False,
) -> None:
    """Train an algorithm in a game.

    Every further word sets a key of the configuration: key=value or --key=value, dots for nesting, in any order, with
    or without PyMARL's word `with`. `omg config` lists the keys.
    """
    from omg.config.layers import algorithm_names, resolve

    line = read_words(config, env_config, context.args)
    if line.config is None:
        raise UserError(f"config: missing. Write --config=ALG with one of: {', '.join(algorithm_names())}.")
    settings = resolve(line.config, line.env_config, line.overrides).config

    from omg import api

    _print_run(api.train_config(settings, console=Console(), quiet=quiet))


def resume(run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of the run.")]) -> None:
    """Continue a run from its newest checkpoint, exactly as if it had never stopped."""
    from omg import api

    _print_run(api.resume(run, console=Console()))


def evaluate(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run or of a checkpoint.")],
    episodes: Annotated[int, typer.Option(min=1, help="Episodes to play.")] = 256,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the games.")] = 0,
    greedy: Annotated[bool, typer.Option("--greedy/--explore", help="Best actions, or exploring ones.")] = True,
    csv: Annotated[Path | None, typer.Option("--csv", metavar="FILE", help="Also write the table here.")] = None,
) -> None:
    """Play test episodes with a trained agent and print the results."""
    from omg import api

    table = api.evaluate(run, episodes=episodes, seed=seed, greedy=greedy)
    print_rows(f"{run}: {episodes} episodes", table)
    if csv is not None:
        try:
            table.write_csv(csv)
        except OSError as error:
            raise UserError(f"--csv: cannot write '{csv}' ({error.strerror}).") from None


def bench(
    context: typer.Context,
    seconds: Annotated[float, typer.Option(min=0.1, help="Time to measure for, compilation aside.")] = 40.0,
    env: Annotated[str, typer.Option(help="Game (see `omg envs`).")] = "sc2",
) -> None:
    """Measure the speed of playing and learning on this machine.

    Every further word is an option of the game: map_name=3m or env_args.map_name=3m.
    """
    from omg import api
    from omg.config.overrides import assignments, translate

    options = assignments(translate(context.args).overrides)
    env_args = {key.removeprefix("env_args."): value for key, value in options.items()}
    print_rows(f"Speed of {env}", api.bench(seconds=seconds, env=env, env_args=env_args))


def _print_run(run: Run) -> None:
    rows = final_tests(run.metrics)
    if rows:
        print_table("Last test", ("metric", "t_env", "mean over seeds", "lowest", "highest"), rows)
    Console(soft_wrap=True).print(f"Run folder: {run.folder}", markup=False, highlight=False)
    if run.status == "interrupted":
        raise typer.Exit(130)


def final_tests(metrics: Iterable[Row]) -> list[tuple[str, int, float, float, float]]:
    """The last value of every test metric: name, t_env, and its mean, lowest and highest value over the seeds.

    Args:
        metrics: rows with the keys `seed`, `t_env`, `name` and `value`.
    """
    last: dict[str, dict[int, Row]] = {}
    for row in metrics:
        if row["name"].startswith("test_"):
            by_seed = last.setdefault(row["name"], {})
            if row["seed"] not in by_seed or row["t_env"] >= by_seed[row["seed"]]["t_env"]:
                by_seed[row["seed"]] = row
    summaries = []
    for name, by_seed in last.items():
        values = [float(row["value"]) for row in by_seed.values()]
        t_env = max(int(row["t_env"]) for row in by_seed.values())
        summaries.append((name, t_env, sum(values) / len(values), min(values), max(values)))
    return summaries
