"""Commands that play: train, resume, evaluate, bench."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from omg.cli.jobs import MOST_EPISODES, MOST_SEED
from omg.cli.lists import ConfigOption, EnvConfigOption, read_words
from omg.cli.tables import Row, print_rows, print_table, with_interval
from omg.errors import UserError

if TYPE_CHECKING:
    from omg.api import Run
    from omg.tracking import Table


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
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Folders of runs or of agents.")],
    pool: Annotated[
        Path | None, typer.Option("--pool", metavar="POOL", help="Play in one seat beside players of this pool.")
    ] = None,
    set_name: Annotated[str, typer.Option("--set", help="Set of the pool: training, validation, heldout.")] = "heldout",
    group: Annotated[
        list[str] | None, typer.Option("--group", help="Group of teams, e.g. 7_homologue; may be repeated.")
    ] = None,
    episodes: Annotated[
        int | None, typer.Option(min=1, max=MOST_EPISODES, help="Episodes: 256, with a pool 100 per team.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, max=MOST_SEED, help="Seed of the games.")] = 0,
    which: Annotated[str, typer.Option(metavar="last|best", help="Agent of each seed that meets the pool.")] = "last",
    metric: Annotated[str | None, typer.Option(help="What the tables show; the game's success metric.")] = None,
    greedy: Annotated[bool, typer.Option("--greedy/--explore", help="Best actions, or exploring ones.")] = True,
    csv: Annotated[Path | None, typer.Option("--csv", metavar="FILE", help="Also write the table here.")] = None,
) -> None:
    """Play test episodes with trained agents and print the results.

    Without --pool an agent plays in all seats. With --pool all seeds of every run play one seat beside the same teams
    from the same starts, and the runs are compared with the first one.
    """
    if csv is not None and (not csv.name or csv.is_dir()):
        raise UserError(f"--csv: cannot write '{csv}' (Is a directory).")
    if pool is None:
        for option, given in (("--group", group), ("--metric", metric)):
            if given:
                raise UserError(f"{option}: needs a pool whose players make the teams. Give --pool POOL.")
        table = _evaluate_alone(runs, episodes, seed, greedy)
    else:
        if not greedy:
            raise UserError("--explore: with --pool agents play their best actions.")
        table = _evaluate_with_pool(runs, pool, set_name, group, episodes or 100, seed, which, metric)
    if csv is not None:
        try:
            table.write_csv(csv)
        except OSError as error:
            raise UserError(f"--csv: cannot write '{csv}' ({error.strerror}).") from None


def _evaluate_alone(runs: list[Path], episodes: int | None, seed: int, greedy: bool) -> Table:
    from omg import api
    from omg.tracking import Table

    found: list[dict[str, Any]] = []
    for run in runs:
        table = api.evaluate(run, episodes=episodes, seed=seed, greedy=greedy)
        print_rows(f"{run}: {table[0]['episodes']} episodes", table)
        found += [{"run": str(run), **row} if len(runs) > 1 else row for row in table]
    return Table(found)


def _evaluate_with_pool(
    runs: list[Path],
    pool: Path,
    set_name: str,
    groups: list[str] | None,
    episodes: int,
    seed: int,
    which: str,
    metric: str | None,
) -> Table:
    from omg.errors import unknown_name
    from omg.evaluation import group_names
    from omg.experiments.evaluation import evaluate_runs, run_labels
    from omg.pools import Pool

    if which not in ("last", "best"):
        raise unknown_name("agent (--which)", which, ("last", "best"))
    opened = Pool.open(pool)
    opened.members(set_name)
    known = group_names(opened.spec.n_agents)
    for name in groups or ():
        if name not in known:
            raise unknown_name(f"group (--group) of a game with {opened.spec.n_agents} seats:", name, known)
    labels = run_labels(runs)
    console = Console(soft_wrap=True)
    with console.status("loading") as status:
        table = evaluate_runs(
            labels,
            pool,
            pool_set=set_name,
            groups=groups or None,
            episodes=episodes,
            seed=seed,
            which=which,
            say=status.update,
        )
    _print_scores(
        f"{opened.where}, set {set_name}, {episodes} episodes per team",
        table,
        metric or opened.spec.success_metric,
        list(labels),
    )
    return table


def _print_scores(title: str, table: Table, metric: str, labels: list[str]) -> None:
    """How everybody does with each group, and the paired differences from the first."""
    from omg.evaluation import compare, summarise
    from omg.report.words import group_name, metric_words

    words = metric_words(metric)
    rows: list[tuple[Any, ...]] = []
    for row in summarise(table, metric):
        mean = with_interval(words.value(row["mean"]), words.bare, row["low"], row["high"])
        worst = f"{words.value(row['worst_team_mean'])} ({row['worst_team']})"
        scores = (mean, words.value(row["iqm"]), worst)
        rows.append((row["agent"], group_name(row["group"]), *scores, row["seeds"], row["teams"]))
    print_table(title, ("agent", "group", f"{words.noun} [95 %]", "IQM", "worst team", "seeds", "teams"), rows)
    first, *others = labels
    lines: list[tuple[Any, ...]] = []
    for row in (row for label in others for row in compare(table, metric, label, [first])):
        difference = with_interval(words.signed(row["difference"]), words.signed, row["low"], row["high"])
        lines.append((row["agent"], group_name(row["group"]), difference, row["p_improvement"], row["verdict"]))
    if lines:
        columns = ("agent", "group", "difference [95 %]", "P(improvement)", "verdict")
        print_table(f"Compared with {first}, on the same teams", columns, lines)


def bench(
    context: typer.Context,
    seconds: Annotated[float, typer.Option(min=0.1, max=86_400, help="Time to measure for, compilation aside.")] = 40.0,
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
