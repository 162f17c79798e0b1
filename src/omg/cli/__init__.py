"""The `omg` program: parse, call `omg.api`, print. A new command is a function in a module here and one line below.

Commands import what they need when they run, so that `--help` answers without loading JAX.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextvars import copy_context
from itertools import pairwise
from typing import Annotated, Any, Protocol, runtime_checkable

import typer
from typer.core import TyperGroup

from omg import __version__
from omg.cli import (
    adapt,
    demo,
    exchange,
    experiments,
    lists,
    overview,
    plots,
    pools,
    prior,
    record,
    reports,
    room,
    runs,
    sharing,
    sweep,
    toy,
    versus,
    watch,
)
from omg.cli.faults import FAULT, WANTS_TRACEBACK, report_fault
from omg.errors import UserError, disk_fault, out_of_memory, unknown_name
from omg.names import inert
from omg.screen import forgiving_output
from omg.stopping import ends_by_signal, exit_code, leave_if_ended, signal_of, told_end

__all__ = ["app", "command_names", "main"]

# Typer 0.12 raises Click's exceptions, later versions their own copies; this finds the common ancestor of either.
_ClickException: type[Exception] = typer.BadParameter.__mro__[2]

_PATHS = ("--output", "-o", "--pool", "--csv", "--dataset", "--beside", "--export", "--scores")
"""Options that a path follows."""
_LONGEST_LINE = 4000
"""Of an error message; lists of allowed names are long."""


class _EndedError(Exception):
    """A signal has ended a command. Typer makes something of its own of a `KeyboardInterrupt`, each version another."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class _Commands(TyperGroup):
    def invoke(self, ctx: Any) -> object:  # Its class is Click's or a copy of it, depending on the version of Typer.
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as error:
            raise _EndedError(signal_of(error)) from error


app = typer.Typer(
    name="omg",
    cls=_Commands,
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
    (runs.resume, "omg resume results/qmix_sc2_8m_seed1_2026-01-31_12-00-00 t_max=4M", True),
    (runs.evaluate, "omg evaluate results/iql results/omg --pool POOL --group 7_homologue --csv scores.csv", False),
    (adapt.adapt, "omg adapt results/hop results/ppo --pool POOL --players nearest_stag,random --episodes 64", True),
    (room.room, "omg room POOL --set heldout --steps 500000", False),
    (experiments.crossplay, "omg crossplay POOL --set heldout --output results/crossplay", False),
    (versus.versus, "omg versus POOL:qmix_s1 POOL:iql_s1 --episodes 200 --output results/versus", True),
    (record.record, "omg record --team 4iql3qmix1iql_omg --pool POOL --episodes 8 --output results/recordings", True),
    (experiments.pipeline, "omg pipeline quick --output results/quick train.t_max=50000", True),
    (sweep.sweep, "omg sweep --config=ippo_liam --pool POOL --space lr=1e-4..1e-2,log --trials 20 --jobs 4", True),
    (prior.pretrain, "omg pretrain POOL subgoal_dim=32 t_max=200000", True),
    (
        exchange.import_,
        "omg import results/models/qmix/2050000 --config=qmix --env-config=sc2 with env_args.map_name=3m --pool POOL",
        True,
    ),
    (exchange.export, "omg export results/qmix_sc2_3m_seed1 --to pymarl --output models/qmix", False),
    (sharing.push, "omg push results/qmix_sc2_3m_seed1/agents/seed_1/best hf://me/qmix-3m --licence apache-2.0", False),
    (sharing.pull, "omg pull hf://me/qmix-3m --output agents/qmix-3m", False),
    (plots.plot, "omg plot results/vdn_* results/qmix_* --metric test_battle_won_mean --output curves.png", False),
    (reports.report, "omg report results/vdn_* results/qmix_* --output comparison.html", False),
    (reports.figures, "omg figures results/quick --output paper --format pdf", False),
    (overview.runs, "omg runs results --where status=running --watch", False),
    (overview.tail, "omg tail results/qmix_sc2_8m_seed1_2026-01-31_12-00-00 --lines 20", False),
    (lists.envs, "omg envs sc2", False),
    (lists.algs, "omg algs qmix", False),
    (lists.config, "omg config --config=qmix --env-config=sc2 with lr=0.001", True),
    (runs.bench, "omg bench --seconds 10 --env sc2 map_name=3m", True),
    (toy.toy, "omg toy --seeds 10", False),
    (watch.watch, "omg watch --team 4iql3qmix1iql_omg --pool POOL --output game.html --export game.gif", True),
    (demo.demo, "omg demo --output results/demo", False),
):
    # Commands with `_extra` take any number of `key=value` and `--key=value` words, which Typer leaves alone.
    # A command may be called what no function of Python's can: `import`.
    app.command(
        name=_command.__name__.rstrip("_"),
        epilog=f"Example: {_example}",
        options_metavar="[OPTIONS] [KEY=VALUE]..." if _extra else "[OPTIONS]",
        context_settings={"ignore_unknown_options": True, "allow_extra_args": True} if _extra else None,
    )(_command)
# A family of commands is a Typer of its own, with an example for each of them.
app.add_typer(pools.app, name="pool")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the program and returns its exit code.

    Args:
        arguments: the words after `omg`; those of the process when left out.

    Returns:
        0 when all went well, 2 after input that cannot be used and a disk that takes nothing (one line on stderr, no
        traceback), 130 after Ctrl-C, 143 after SIGTERM, 129 after SIGHUP, 70 after a fault of the program: then one
        line says which file holds the traceback. With `OMG_TRACEBACK=1` in the environment a fault is raised as it is.
    """
    with forgiving_output(), ends_by_signal():
        code = _run(list(sys.argv[1:] if arguments is None else arguments))
    return leave_if_ended(code)


def _run(words: list[str]) -> int:
    try:
        _check_command(words)
        # In a context of its own: what this command line trusts, the next one in the same process does not.
        code = copy_context().run(app, args=words or ["--help"], prog_name="omg", standalone_mode=False)
        sys.stdout.flush()
    except UserError as error:
        return _refuse(str(error))
    except _ClickException as error:
        return _refuse(_usage_message(error))
    except (_EndedError, typer.Abort, KeyboardInterrupt) as error:
        number = error.number if isinstance(error, _EndedError) else signal_of(error)
        print(told_end(number), file=sys.stderr)
        return exit_code(number)
    except Exception as error:
        if (reason := _reason(error)) is not None:
            return _refuse(reason)
        if os.environ.get(WANTS_TRACEBACK):
            raise
        _say("error: " + report_fault(error, words))
        return FAULT
    return code if isinstance(code, int) else 0


def _reason(error: Exception) -> str | None:
    """What an error says that the system is to blame for, or the paths and sizes that were given; None of others."""
    if (message := out_of_memory(error)) is not None:
        return message
    if isinstance(error, OSError) and (fault := disk_fault(error)) is not None:
        return str(fault)
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        return f"{error.filename}: {error.strerror}."
    return None


def command_names() -> list[str]:
    """The first words that the program knows: its commands and its families of commands."""
    commands = [str(command.name) for command in app.registered_commands]
    return [*commands, *(str(group.name) for group in app.registered_groups)]


def _check_command(words: Sequence[str]) -> None:
    for before, word in pairwise(["", *words]):
        # No file can be called that, and the libraries that look for one fail each in a way of its own.
        if "\0" in word:
            shown = word.replace("\0", "\\0")
            raise UserError(f"Cannot read '{shown}': a word of the command line has no NUL bytes.")
        # An empty path would be the folder one is in, which nobody means by it.
        if (word == "" and (before in _PATHS or not before.startswith("-"))) or word in {f"{name}=" for name in _PATHS}:
            raise UserError(f"Cannot read an empty word{f' behind {before}' if before else ''}. Leave it out.")
    if words and not words[0].startswith("-") and words[0] not in command_names():
        raise unknown_name("command", words[0], command_names())


@runtime_checkable
class _Explained(Protocol):
    """What all errors of Click have."""

    def format_message(self) -> str: ...


@runtime_checkable
class _Placed(Protocol):
    """What those have that know which command they are about."""

    ctx: typer.Context | None


def _usage_message(error: Exception) -> str:
    """Click's own words about a command line it cannot read, and where to look."""
    context = error.ctx if isinstance(error, _Placed) else None
    hint = f" See `{context.command_path} --help`." if context else ""
    message = (error.format_message() if isinstance(error, _Explained) else str(error)).rstrip(".")
    return f"{message}{'' if message.endswith('?') else '.'}{hint}"


def _refuse(message: str) -> int:
    _say("error: " + message)
    return 2


def _say(message: str) -> None:
    """One line on stderr, whatever was given: no control characters, no thousands of letters."""
    line = inert(" ".join(message.split()))
    line = line if len(line) <= _LONGEST_LINE else f"{line[: _LONGEST_LINE - 300]} ... {line[-280:]}"
    print(line.encode("utf-8", "backslashreplace").decode("utf-8"), file=sys.stderr)
