"""The `omg` program: parse, call `omg.api`, print. A new command is a function in a module here and one line below.

Commands import what they need when they run, so that `--help` answers without loading JAX.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from omg import __version__
from omg.cli import adapt, demo, experiments, lists, plots, pools, prior, runs, toy, versus
from omg.errors import UserError, unknown_name

__all__ = ["app", "command_names", "main"]

# Typer 0.12 raises Click's exceptions, later versions their own copies; this finds the common ancestor of either.
_ClickException: type[Exception] = typer.BadParameter.__mro__[2]

app = typer.Typer(
    name="omg",
    help="Opponent modelling by subgoal inference: train, evaluate and inspect multi-agent learners.",
    epilog="Example: omg train --config=qmix --env-config=sc2 with env_args.map_name=3m",
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)


def _say_version(asked: bool) -> None:
    if asked:
        print(f"omg {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_say_version, help="Show the version and exit.")
    ] = False,
) -> None:
    """Opponent modelling by subgoal inference: train, evaluate and inspect multi-agent learners."""


for _command, _example, _extra in (
    (runs.train, "omg train --config=iql --env-config=sc2 with env_args.map_name=8m lr=0.001 --seed=3", True),
    (runs.resume, "omg resume results/qmix_sc2_8m_seed1_2026-01-31_12-00-00", False),
    (runs.evaluate, "omg evaluate results/iql results/omg --pool POOL --group 7_homologue --csv scores.csv", False),
    (adapt.adapt, "omg adapt results/hop results/ppo --pool POOL --players nearest_stag,random --episodes 64", True),
    (experiments.crossplay, "omg crossplay POOL --set heldout --output results/crossplay", False),
    (versus.versus, "omg versus POOL:qmix_s1 POOL:iql_s1 --episodes 200 --output results/versus", True),
    (experiments.pipeline, "omg pipeline quick --output results/quick train.t_max=50000", True),
    (prior.pretrain, "omg pretrain POOL subgoal_dim=32 t_max=200000", True),
    (plots.plot, "omg plot results/vdn_* results/qmix_* --metric test_battle_won_mean --output curves.png", False),
    (lists.envs, "omg envs sc2", False),
    (lists.algs, "omg algs qmix", False),
    (lists.config, "omg config --config=qmix --env-config=sc2 with lr=0.001", True),
    (runs.bench, "omg bench --seconds 10 --env sc2 map_name=3m", True),
    (toy.toy, "omg toy --seeds 10", False),
    (demo.demo, "omg demo --output results/quick", False),
):
    # Commands with `_extra` take any number of `key=value` and `--key=value` words, which Typer leaves alone.
    app.command(
        epilog=f"Example: {_example}",
        options_metavar="[OPTIONS] [KEY=VALUE]..." if _extra else "[OPTIONS]",
        context_settings={"ignore_unknown_options": True, "allow_extra_args": True} if _extra else None,
    )(_command)
# A group of commands is a Typer of its own, with an example for each of them.
app.add_typer(pools.app, name="pool")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the program and returns its exit code.

    Args:
        arguments: the words after `omg`; those of the process when left out.

    Returns:
        0 when all went well, 2 after input that cannot be used (one line on stderr, no traceback), 130 after Ctrl-C.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        _check_command(words)
        code = app(args=words or ["--help"], prog_name="omg", standalone_mode=False)
    except UserError as error:
        return _refuse(str(error))
    except _ClickException as error:
        return _refuse(_usage_message(error))
    except (typer.Abort, KeyboardInterrupt):
        print("interrupted", file=sys.stderr)
        return 130
    return code if isinstance(code, int) else 0


def command_names() -> list[str]:
    """The first words that the program knows: its commands and its groups of commands."""
    commands = [command.callback.__name__ for command in app.registered_commands if command.callback]
    return [*commands, *(str(group.name) for group in app.registered_groups)]


def _check_command(words: Sequence[str]) -> None:
    if words and not words[0].startswith("-") and words[0] not in command_names():
        raise unknown_name("command", words[0], command_names())


def _usage_message(error: Any) -> str:
    """Click's own words about a command line it cannot read, and where to look."""
    context = getattr(error, "ctx", None)
    hint = f" See `{context.command_path} --help`." if context else ""
    message = error.format_message().rstrip(".")
    return f"{message}{'' if message.endswith('?') else '.'}{hint}"


def _refuse(message: str) -> int:
    print("error: " + " ".join(message.split()), file=sys.stderr)
    return 2
