"""The `omg` program: parse, call `omg.api`, print. A new command is a function in a module here and one line below.

Commands import what they need when they run, so that `--help` answers without loading JAX.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import typer

from omg.cli import adapt, demo, experiments, lists, plots, pools, prior, runs, toy, versus
from omg.cli.faults import FAULT, WANTS_TRACEBACK, report_fault
from omg.errors import UserError, out_of_memory, unknown_name

__all__ = ["app", "command_names", "main"]

# Typer 0.12 raises Click's exceptions, later versions their own copies; this finds the common ancestor of either.
_ClickException: type[Exception] = typer.BadParameter.__mro__[2]

_PATHS = ("--output", "-o", "--pool", "--csv")
"""Options that a path follows."""
_LONGEST_LINE = 4000
"""Of an error message; lists of allowed names are long."""

app = typer.Typer(
    name="omg",
    help="Opponent modelling by subgoal inference: train, evaluate and inspect multi-agent learners.",
    epilog="Example: omg train --config=qmix --env-config=sc2 with env_args.map_name=3m",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
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
    (lists.algs, "omg algs", False),
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
        0 when all went well, 2 after input that cannot be used (one line on stderr, no traceback), 130 after Ctrl-C,
        141 when nobody reads the output any more, 70 after a fault of the program: then one line says which file holds
        the traceback. With `OMG_TRACEBACK=1` in the environment a fault is raised as it is.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    _escape_what_cannot_be_printed()
    try:
        _check_command(words)
        code = app(args=words or ["--help"], prog_name="omg", standalone_mode=False)
        sys.stdout.flush()
    except UserError as error:
        return _refuse(str(error))
    except _ClickException as error:
        return _refuse(_usage_message(error))
    except (typer.Abort, KeyboardInterrupt):
        print("interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        return _nobody_reads()
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
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        return f"{error.filename}: {error.strerror}."
    return None


def _escape_what_cannot_be_printed() -> None:
    """A name that the terminal's encoding does not have is shown escaped, instead of ending the command."""
    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="backslashreplace")


def _nobody_reads() -> int:
    """Ends quietly after `omg config | head`; Python would complain once more when it closes stdout."""
    with contextlib.suppress(OSError, ValueError):  # A stream that is no file needs no such care.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 141


def command_names() -> list[str]:
    """The first words that the program knows: its commands and its groups of commands."""
    commands = [command.callback.__name__ for command in app.registered_commands if command.callback]
    return [*commands, *(str(group.name) for group in app.registered_groups)]


def _check_command(words: Sequence[str]) -> None:
    for before, word in pairwise(["", *words]):
        # An empty path would be the folder one is in, which nobody means by it.
        if (word == "" and (before in _PATHS or not before.startswith("-"))) or word in {f"{name}=" for name in _PATHS}:
            raise UserError(f"Cannot read an empty word{f' behind {before}' if before else ''}. Leave it out.")
    if words and not words[0].startswith("-") and words[0] not in command_names():
        raise unknown_name("command", words[0], command_names())


def _usage_message(error: Any) -> str:
    """Click's own words about a command line it cannot read, and where to look."""
    context = getattr(error, "ctx", None)
    hint = f" See `{context.command_path} --help`." if context else ""
    message = error.format_message().rstrip(".")
    return f"{message}{'' if message.endswith('?') else '.'}{hint}"


def _refuse(message: str) -> int:
    _say("error: " + message)
    return 2


def _say(message: str) -> None:
    """One line on stderr, whatever was given: no control characters, no thousands of letters."""
    line = "".join(letter if letter.isprintable() else f"\\x{ord(letter):02x}" for letter in " ".join(message.split()))
    line = line if len(line) <= _LONGEST_LINE else f"{line[: _LONGEST_LINE - 300]} ... {line[-280:]}"
    print(line.encode("utf-8", "backslashreplace").decode("utf-8"), file=sys.stderr)
