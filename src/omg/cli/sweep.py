"""`omg sweep`: look for the settings of an algorithm that do best with validation partners."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from omg.cli.jobs import (
    MOST_EPISODES,
    AddressOption,
    FilesOption,
    LauncherOption,
    MachineOption,
    RetriesOption,
    SlurmOption,
    TrialsAtOnceOption,
    launcher_settings,
)
from omg.cli.lists import ConfigOption, EnvConfigOption, TrustOption, read_words, say_old_words
from omg.cli.tables import print_lines, print_screen
from omg.errors import UserError


def sweep(
    context: typer.Context,
    plan: Annotated[
        str | None,
        typer.Argument(metavar="[PLAN]", help="A plan with a section tune, or the folder of a sweep to go on with."),
    ] = None,
    config: ConfigOption = None,
    pool: Annotated[
        Path | None, typer.Option(metavar="POOL", help="Partners: training to learn with, validation to judge.")
    ] = None,
    space: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=...", help="What is tried: LOW..HIGH[,log|,step=N] or VALUE,VALUE; may be repeated."),
    ] = None,
    sampler: Annotated[
        str | None, typer.Option(metavar="tpe|cmaes|random|grid", show_default="tpe", help="How trials are drawn.")
    ] = None,
    trials: Annotated[
        int | None, typer.Option(min=2, max=1000, show_default="20", help="Settings that are tried, its own included.")
    ] = None,
    together: Annotated[
        int | None,
        typer.Option("--round", min=1, max=1000, show_default="5", help="Trials that are proposed together."),
    ] = None,
    stop: Annotated[
        bool, typer.Option("--stop", help="End trials early that do badly in their own tests (successive halving).")
    ] = False,
    seeds: Annotated[
        int | None, typer.Option(min=1, max=1000, show_default="2", help="Trainings of every trial.")
    ] = None,
    episodes: Annotated[
        int | None,
        typer.Option(min=1, max=MOST_EPISODES, show_default="64", help="Episodes of each with every validation team."),
    ] = None,
    metric: Annotated[
        str | None, typer.Option(show_default="the game's success metric", help="What counts, the higher the better.")
    ] = None,
    set_name: Annotated[
        str, typer.Option("--set", help="Set that judges: validation, and never those that agents are judged by.")
    ] = "validation",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FOLDER", help="Where everything goes (results/NAME).")
    ] = None,
    env_config: EnvConfigOption = None,
    jobs: TrialsAtOnceOption = None,
    launcher: LauncherOption = "local",
    address: AddressOption = None,
    machine: MachineOption = None,
    slurm: SlurmOption = None,
    retries: RetriesOption = None,
    files: FilesOption = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress display.")] = False,
    trust: TrustOption = False,
) -> None:
    """Look for settings: any keys of an algorithm, or of all agents of a plan, judged by validation partners.

    Further words set keys for all trials (t_max=200000), with a plan keys of it (tune.trials=40). What is found does
    not depend on --jobs or --launcher. Repeat the command, or give the folder, to go on after an interruption.
    """
    if set_name != "validation":
        raise UserError(
            f"--set: got '{set_name}'; settings are chosen with the validation set, never with partners that agents "
            f"learn with or are judged by. Leave it out; `omg pool train POOL --validation ...` makes such partners."
        )
    words = list(context.args)
    if plan is not None and ("=" in plan or plan == "with"):
        # Without a plan the first setting stands in its place.
        words, plan = [plan, *words], None
    line = read_words(config, env_config, words)
    say_old_words(line)
    settings = launcher_settings(
        launcher, jobs, address=address, machine=machine, slurm=slurm, retries=retries, files=files
    )
    given = {"trials": trials, "sampler": sampler, "round": together, "seeds": seeds, "episodes": episodes}
    tune: dict[str, object] = {key: value for key, value in given.items() if value is not None}
    tune |= {"stop": {}} if stop else {}

    from omg.experiments.sweep import read_space, read_sweep, run_sweep, sweep_plan

    if space:
        tune["space"] = read_space(space)
    if plan is not None:
        for option, value in (("--config", line.config), ("--env-config", line.env_config), ("--pool", pool)):
            if value is not None:
                raise UserError(f"{option}: got '{value}', but the plan '{plan}' says it. Leave out one of the two.")
        found = read_sweep(plan, tune, line.overrides, metric)
    else:
        needed = (("--config", line.config), ("--pool", pool), ("--space", space))
        for option, missing in ((option, not value) for option, value in needed):
            if missing:
                raise UserError(
                    f"{option}: missing. Give --config, --pool and --space, or a plan. See omg sweep --help."
                )
        assert line.config is not None
        assert pool is not None
        found = sweep_plan(line.config, pool, tune, line.overrides, line.env_config, metric)
    begun = Path(plan) if plan is not None and Path(plan).is_dir() else None
    folder = output or begun or Path("results") / found.name
    result = run_sweep(found, folder, console=Console(), quiet=quiet, launcher=settings)
    print_screen(result.shown)
    best = [f"Best of {label}: --config={path}" for label, path in result.best.items()]
    print_lines(*best, f"Folder: {result.folder}", f"Page: {result.page}")
