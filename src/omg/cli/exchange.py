"""`omg import` and `omg export`: agents from and for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from omg.cli.jobs import MOST_EPISODES, MOST_SEED
from omg.cli.lists import ConfigOption, EnvConfigOption, TrustOption, read_words
from omg.cli.tables import print_lines
from omg.errors import UserError

if TYPE_CHECKING:
    from omg.exchange import Written


def import_(
    context: typer.Context,
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="With agent.th and what belongs to it.")],
    config: ConfigOption = None,
    env_config: EnvConfigOption = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="AGENT", help="Folder that the agent goes to.")
    ] = None,
    pool: Annotated[Path | None, typer.Option("--pool", metavar="POOL", help="Pool that it joins.")] = None,
    set_name: Annotated[
        str, typer.Option("--set", help="Set of the pool: training, validation, heldout.")
    ] = "training",
    prior: Annotated[
        Path | None, typer.Option("--prior", metavar="PRIOR", help="Folder that the prior of vae.th goes to.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, max=MOST_SEED, help="Seed of its training: tells members apart.")
    ] = None,
    steps: Annotated[
        int | None,
        typer.Option(min=0, max=2**53, help="Steps of its training; else the folder's name, if that is a number."),
    ] = None,
    episodes: Annotated[
        int,
        typer.Option(
            min=0, max=MOST_EPISODES, help="Greedy episodes in which a pool's new member is measured; 0 for none."
        ),
    ] = 0,
    trust: TrustOption = False,
) -> None:
    """Take over an agent of PyMARL, EPyMARL or the old OMG code.

    Nothing in its files is run. Further words set keys of the configuration as for `omg train`; they must describe how
    the agent was trained, since the files do not say it.
    """
    if "=" in folder.name or folder.name == "with":
        raise UserError(f"FOLDER: got '{folder}'; the folder comes first, then the settings.")
    from omg.config import algorithm_names, resolve
    from omg.config.overrides import assignments

    line = read_words(config, env_config, context.args)
    if line.config is None:
        raise UserError(f"config: missing. Write --config=ALG with one of: {', '.join(algorithm_names())}.")
    if pool is None and episodes:
        raise UserError("--episodes: needs a pool that keeps the result. Give --pool POOL.")
    own = {} if seed is None else {"seed": seed}
    settings = resolve(line.config, line.env_config, {**assignments(line.overrides), **own}).config

    from omg.exchange import import_agent
    from omg.experiments.pool import measure

    _print(
        import_agent(
            folder,
            settings,
            output=output,
            pool=pool,
            pool_set=set_name,
            prior=prior,
            seed=settings.seed,
            steps=steps,
            measure=(lambda agent: measure(agent, episodes)) if episodes else None,
        )
    )


def export(
    agent: Annotated[Path, typer.Argument(metavar="AGENT", help="Folder of an agent or of a run.")],
    to: Annotated[str, typer.Option("--to", metavar="pymarl|torch|onnx", help="Who is to read it.")] = "pymarl",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="PATH", help="A new folder; for onnx a file.")
    ] = None,
    which: Annotated[str, typer.Option(metavar="last|best", help="Agent of a run.")] = "last",
    seed: Annotated[int | None, typer.Option(min=0, max=MOST_SEED, help="Seed of a run; the first by default.")] = None,
    trust: TrustOption = False,
) -> None:
    """Write an agent for PyMARL, for PyTorch alone, or as an ONNX graph.

    pymarl: agent.th, and mixer.th, critic.th and the optimisers' files where the agent's learner is known. torch:
    agent.th and agent.py, which defines the network. onnx: one step of the network in one file.
    """
    if output is None:
        raise UserError("--output: missing. Give a new folder, or for --to onnx a file.")
    from omg.exchange import export_agent

    _print(export_agent(agent, to, output, which=which, seed=seed))


def _print(written: Written) -> None:
    print_lines(*written.lines, *(f"note: {note}" for note in written.notes))
