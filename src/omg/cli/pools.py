"""`omg pool`: train a pool of players, list it, look at one member."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from omg.cli.jobs import (
    MOST_EPISODES,
    AddressOption,
    FilesOption,
    JobsOption,
    LauncherOption,
    MachineOption,
    RetriesOption,
    SlurmOption,
    launcher_settings,
)
from omg.cli.lists import EnvConfigOption, TrustOption, read_words, say_old_words
from omg.cli.tables import print_table, shown
from omg.errors import UserError

if TYPE_CHECKING:
    from omg.pools.index import Member, Pool

app = typer.Typer(
    name="pool",
    help="Pools of trained and scripted players: train one, list it, look at a member.",
    epilog="Example: omg pool list POOL --set heldout",
    rich_markup_mode="rich",
)

PoolArgument = Annotated[Path, typer.Argument(metavar="POOL", help="Folder of the pool.")]
Numbers = Annotated[str | None, typer.Option(metavar="ALG=N,...", help="Members of this set, by algorithm.")]


@app.callback(invoke_without_command=True)
def pool(context: typer.Context) -> None:
    """Pools of trained and scripted players: train one, list it, look at a member."""
    if context.invoked_subcommand is None:
        Console().print(context.get_help(), markup=False, highlight=False)


@app.command(
    epilog="Example: omg pool train POOL --training iql=4,vdn=3,qmix=3 --heldout iql=10,vdn=10,qmix=10 "
    "--scripted random:heldout --env-config=sc2 with env_args.map_name=8m t_max=500000",
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
)
def train(
    context: typer.Context,
    pool: PoolArgument,
    training: Numbers = None,
    validation: Numbers = None,
    heldout: Numbers = None,
    scripted: Annotated[
        list[str] | None, typer.Option(metavar="SCRIPT:SET", help="Adds a scripted player; may be repeated.")
    ] = None,
    which: Annotated[str, typer.Option(metavar="best|last", help="Which agent of a seed becomes the member.")] = "best",
    episodes: Annotated[
        int, typer.Option(min=1, max=MOST_EPISODES, help="Episodes in which each member is measured.")
    ] = 256,
    env_config: EnvConfigOption = None,
    jobs: JobsOption = None,
    launcher: LauncherOption = "local",
    address: AddressOption = None,
    machine: MachineOption = None,
    slurm: SlurmOption = None,
    retries: RetriesOption = None,
    files: FilesOption = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress display.")] = False,
    trust: TrustOption = False,
) -> None:
    """Train a pool: all seeds of an algorithm as one program, divided among the sets.

    Further words set keys of the configuration, as for `omg train`. What is in the pool already is not trained again,
    and a run that was interrupted goes on: repeat the command.
    """
    if "=" in pool.name or pool.name == "with":
        raise UserError(f"POOL: got '{pool}'; the folder of the pool comes first, then the settings.")
    line = read_words(None, env_config, context.args)
    say_old_words(line)
    if line.config is not None:
        raise UserError(
            f"--config: got '{line.config}', but a pool's algorithms are named by --training and --heldout."
        )
    given = {"training": training, "validation": validation, "heldout": heldout}
    counts = {name: read_counts(f"--{name}", text) for name, text in given.items() if text is not None}
    scripts = read_scripts(scripted or [])

    settings = launcher_settings(
        launcher, jobs, address=address, machine=machine, slurm=slurm, retries=retries, files=files
    )

    from omg.experiments import train_pool

    made = train_pool(
        pool,
        counts,
        line.env_config,
        line.overrides,
        scripted=scripts,
        which=which,  # type: ignore[arg-type]
        episodes=episodes,
        console=Console(),
        launcher=settings,
        quiet=quiet,
    )
    _print_members(made, made.members())


@app.command(name="list", epilog="Example: omg pool list POOL --set heldout --algorithm qmix")
def list_members(
    pool: PoolArgument,
    set_name: Annotated[str | None, typer.Option("--set", help="training, validation or heldout.")] = None,
    algorithm: Annotated[str | None, typer.Option(help="Only this algorithm or script.")] = None,
) -> None:
    """List the members of a pool, after checking their files."""
    from omg.pools.index import Pool

    opened = Pool.open(pool)
    opened.check()
    _print_members(opened, opened.members(set_name, algorithm))


@app.command(epilog="Example: omg pool show POOL iql_s11")
def show(pool: PoolArgument, member: Annotated[str, typer.Argument(metavar="MEMBER", help="Its name.")]) -> None:
    """Show what is known of a member, and where its configuration differs from its algorithm's defaults."""
    from omg.experiments import changed_settings
    from omg.pools.index import Pool

    opened = Pool.open(pool)
    found = opened.member(member)
    changes = changed_settings(opened, member)
    facts = {key: value for key, value in vars(found).items() if key != "measured" and value is not None}
    if found.measured is not None:
        result = found.measured
        interval = f"{shown(result.value)} (95 % interval {shown(result.low)} to {shown(result.high)})"
        facts |= {result.metric: f"{interval} in {result.episodes} greedy episodes"}
    if found.kind == "learned":
        facts["folder"] = opened.folder(member)
    print_table(member, ("what", "value"), list(facts.items()))
    if changes:
        print_table("Settings that differ from the defaults", ("key", "value", "default"), changes)


def read_counts(option: str, text: str) -> dict[str, int]:
    """Numbers of members: `iql=4,vdn=3` -> `{"iql": 4, "vdn": 3}`."""
    from omg.experiments.pool import MOST_MEMBERS

    counts: dict[str, int] = {}
    for part in text.split(","):
        algorithm, _, number = part.strip().partition("=")
        if not algorithm or not number.isdecimal() or len(number) > 5 or not 1 <= int(number) <= MOST_MEMBERS:
            raise UserError(
                f"{option}: got '{part.strip()}'; write ALG=N with N of 1 to {MOST_MEMBERS}, e.g. iql=4,vdn=3."
            )
        if algorithm in counts:
            raise UserError(f"{option}: {algorithm} is named twice.")
        counts[algorithm] = int(number)
    return counts


def read_scripts(words: Iterable[str]) -> dict[str, str]:
    """Scripted members: `random:heldout` -> `{"random": "heldout"}`; a word may hold several, with commas between."""
    scripts: dict[str, str] = {}
    for part in (part.strip() for word in words for part in word.split(",")):
        script, _, name = part.partition(":")
        if not script or not name:
            raise UserError(f"--scripted: got '{part}'; write SCRIPT:SET, e.g. random:heldout.")
        if scripts.setdefault(script, name) != name:
            raise UserError(f"--scripted: {script} is named for the sets {scripts[script]} and {name}; allowed: one.")
    return scripts


def _print_members(pool: Pool, members: Sequence[Member]) -> None:
    rows: list[tuple[object, ...]] = []
    for member in members:
        measured = member.measured
        result = (measured.value, f"{measured.low:.3f}-{measured.high:.3f}") if measured else ("", "")
        seed = "" if member.seed is None else member.seed
        algorithm = member.algorithm if member.kind == "learned" else "script"
        rows.append((member.name, member.set, algorithm, seed, member.steps, *result))
    columns = ("name", "set", "algorithm", "seed", "steps", pool.spec.success_metric, "95 %")
    print_table(f"{pool.path}: {pool.where}", columns, rows)
