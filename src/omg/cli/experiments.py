"""Commands about whole experiments: pipeline and crossplay."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from omg.cli.jobs import (
    MOST_EPISODES,
    MOST_SEED,
    AddressOption,
    FilesOption,
    LauncherOption,
    MachineOption,
    RetriesOption,
    SlurmOption,
    TasksOption,
    launcher_settings,
)
from omg.cli.lists import TrustOption, read_words, say_old_words
from omg.cli.progress import show_progress
from omg.cli.tables import print_lines, print_screen, print_table
from omg.errors import UserError
from omg.types import Tree

if TYPE_CHECKING:
    from omg.experiments.pipeline import PipelineResult
    from omg.experiments.suite import ReadSuite
    from omg.launchers.settings import LauncherSettings

_MOST_PLAYERS = 10
"""Widest cross-play matrix that a terminal can show player by player; larger ones are shown by algorithm."""


def pipeline(
    context: typer.Context,
    name: Annotated[
        str | None, typer.Argument(metavar="NAME|FILE", help="A preset, a file, or the folder of a pipeline.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FOLDER", help="Where everything goes (results/NAME).")
    ] = None,
    start: Annotated[
        str | None, typer.Option("--from", metavar="STAGE", help="Do this stage and all later ones anew.")
    ] = None,
    only: Annotated[str | None, typer.Option("--only", metavar="STAGE", help="Do no other stage.")] = None,
    jobs: TasksOption = None,
    launcher: LauncherOption = "local",
    address: AddressOption = None,
    machine: MachineOption = None,
    slurm: SlurmOption = None,
    retries: RetriesOption = None,
    files: FilesOption = None,
    show_sbatch: Annotated[
        bool, typer.Option("--show-sbatch", help="Slurm: only print what would be handed to sbatch, by stage.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress display.")] = False,
    trust: TrustOption = False,
) -> None:
    """Run a whole experiment: pool, room, prior, train, evaluate, adapt, report.

    Without a name the presets are listed. Further words change the plan: train.t_max=100000, agents.omg.lr=0.001.
    Repeat the command to continue: what is done is skipped, and what has changed is done again with all that depends
    on it.
    """
    settings = launcher_settings(
        launcher, jobs, address=address, machine=machine, slurm=slurm, retries=retries, files=files
    )

    from omg.experiments.plan import PLAN_FILE, preset_names, preset_summary, read_plan, read_plan_file
    from omg.experiments.suite import is_suite, read_suite

    if name is None:
        rows = [(preset, preset_summary(preset)) for preset in preset_names()]
        print_table("Presets (omg pipeline NAME)", ("name", "description"), rows)
        return
    if "=" in name or name == "with":
        raise UserError(f"NAME: got '{name}'; the preset or file comes first, then the settings.")
    line = read_words(None, None, context.args)
    say_old_words(line)
    for option, given in (("--config", line.config), ("--env-config", line.env_config)):
        if given is not None:
            raise UserError(f"{option}: got '{given}', but a pipeline names its game and agents in its file.")
    begun = Path(name) if Path(name).is_dir() and (Path(name) / PLAN_FILE).is_file() else None
    if is_suite(read_plan_file(name)):
        for option, stage in (("--from", start), ("--only", only)):
            if stage is not None:
                raise UserError(
                    f"{option}: got '{stage}', but '{name}' lists plans. Give it with one of their folders."
                )
        if show_sbatch:
            raise UserError(f"--show-sbatch: '{name}' lists plans. Give it with one of them.")
        suite = read_suite(name, line.overrides)
        _run_suite(suite, output or begun or Path("results") / suite.suite.name, settings, quiet=quiet)
        return
    plan = read_plan(name, line.overrides)
    folder = output or begun or Path("results") / plan.name

    if show_sbatch:
        from omg.experiments.batch import batch_texts

        for title, text in batch_texts(plan, folder, settings):
            print_lines(f"# {title}", *text.splitlines())
        return

    from omg.experiments.pipeline import run_pipeline

    result = run_pipeline(plan, folder, start=start, only=only, console=Console(), quiet=quiet, launcher=settings)
    print_verdict(result)


def _run_suite(suite: ReadSuite, folder: Path, settings: LauncherSettings, *, quiet: bool) -> None:
    """Runs a plan of plans and tells what was found."""
    from omg.experiments.suite import run_suite

    result = run_suite(suite, folder, console=Console(), quiet=quiet, launcher=settings)
    print_screen(result.shown)
    print_lines(f"Folder: {result.folder}", f"Report: {result.report}")


def print_verdict(result: PipelineResult) -> None:
    """What the stages of a pipeline have to show, once all is done, and where the report is."""
    if result.report is not None:
        print_screen(result.shown)
    times = ", ".join(f"{stage} {seconds:.0f} s" for stage, seconds in result.seconds.items() if seconds)
    lines = [f"Wall time: {times or '0 s'}", f"Folder: {result.folder}"]
    if result.report is not None:
        lines.append(f"Report: {result.report}")
    print_lines(*lines)


def crossplay(
    pool: Annotated[Path, typer.Argument(metavar="POOL", help="Folder of the pool.")],
    set_name: Annotated[
        str | None, typer.Option("--set", help="training, validation or heldout; all members by default.")
    ] = None,
    episodes: Annotated[int, typer.Option(min=1, max=MOST_EPISODES, help="Episodes per pair.")] = 32,
    seed: Annotated[int, typer.Option(min=0, max=MOST_SEED, help="Seed of the games.")] = 0,
    metric: Annotated[str | None, typer.Option(help="What is shown; the game's success metric by default.")] = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FOLDER", help="Where crossplay.csv and crossplay.png go.")
    ] = Path("results/crossplay"),
    trust: TrustOption = False,
) -> None:
    """Play every member of a pool with teams of every member.

    One seat is the row's player, all other seats have the column's player.
    """
    from omg.errors import unknown_name
    from omg.experiments.evaluation import cross_play_pool
    from omg.pools import Pool
    from omg.report.figures import plot_cross_play

    opened = Pool.open(pool)
    known = list(dict.fromkeys((*opened.spec.metrics, "return", "ep_length")))
    chosen = metric or opened.spec.success_metric
    if opened.spec.reward_per_agent:
        known.append("own_return")
    if chosen not in known:
        raise unknown_name("metric", chosen, known)
    if output.exists() and not output.is_dir():
        raise UserError(f"--output: '{output}' is a file. Give a folder.")
    with show_progress("cross-play") as say:
        table = cross_play_pool(pool, pool_set=set_name, episodes=episodes, seed=seed, say=say)
        rows = [{**row, "team": row["mate"]} for row in table.where(metric=chosen)]
        output.mkdir(parents=True, exist_ok=True)
        table.write_csv(output / "crossplay.csv")
        figure = plot_cross_play(rows, output / "crossplay.png", metric=chosen)
    algorithms = {member.name: member.algorithm for member in opened.members(set_name)}
    _print_matrix(f"{opened.where}: {chosen}, row's player among column's players", rows, algorithms)
    print_lines(f"Table: {output / 'crossplay.csv'}", f"Figure: {figure}")


def _print_matrix(title: str, rows: Sequence[Tree], algorithms: Mapping[str, str]) -> None:
    """The matrix player by player, or of many players the means by algorithm, a player with itself apart."""
    if len(algorithms) <= _MOST_PLAYERS:
        cells = {(row["agent"], row["team"]): [float(row["mean"])] for row in rows}
        names, columns = list(algorithms), list(algorithms)
    else:
        cells = {}
        for row in rows:
            alone = row["agent"] == row["team"]
            column = "itself" if alone else algorithms[row["team"]]
            cells.setdefault((algorithms[row["agent"]], column), []).append(float(row["mean"]))
        names = list(dict.fromkeys(algorithms.values()))
        columns = ["itself", *names]
    lines = [[name, *(_mean(cells.get((name, column), [])) for column in columns)] for name in names]
    print_table(title, ("", *columns), lines)


def _mean(values: Sequence[float]) -> str:
    return f"{sum(values) / len(values):.2f}" if values else "\N{EN DASH}"
