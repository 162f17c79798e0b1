"""One case through `omg.cli.main`, with everything that takes long cut off at the last moment.

Training ends where it would compile, games end where they would be played; all that is checked before that is checked.
A case passes when it ends as a command may end: with code 0, 2 (and then one line on stderr) or 130, without a
traceback. What nobody foresaw is handed through (`OMG_TRACEBACK`), and a failure.
"""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import typer
import typer.main

SLOW_SECONDS = 20.0
"""Of computing. A case that takes longer has done what it should have refused."""


class Reached(typer.Exit):
    """Everything was accepted; from here on it would be computed."""

    def __init__(self, *_: Any, **__: Any) -> None:
        super().__init__(0)


@dataclass
class Case:
    """What is done: a command line, or any call, in a folder of its own."""

    words: list[str]
    prepare: Callable[[Path], None] = lambda folder: None
    """Puts files into the folder that the case runs in."""
    call: Callable[[], Any] | None = None
    """Instead of a command line; may raise `UserError`."""
    about: str = ""
    """For the report of a failure."""
    deep: bool = False
    """Whether training goes on to where a checkpoint has been read."""


@dataclass
class Outcome:
    """How a case ended."""

    code: int
    problem: str = ""
    """Why it is a failure; empty when it is none."""
    detail: str = ""
    seconds: float = field(default=0.0)


def scratch_root() -> str | None:
    """Where files are made and removed fastest: in memory, where there is such a folder."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


_build = typer.main.get_command


@cache
def _built_once(app: typer.Typer) -> Any:
    return _build(app)


def _stop(*_: Any, **__: Any) -> Any:
    raise Reached


@contextlib.contextmanager
def stubs(deep: bool = False) -> Iterator[None]:
    """Cuts off what takes long. With `deep` a run is cut off after it has read its checkpoint."""
    import omg.api.playing
    import omg.envs.adapters.jaxmarl
    import omg.experiments.adaptation
    import omg.experiments.pipeline
    import omg.experiments.versus
    import omg.launchers.local
    import omg.report.toy
    import omg.training.bench
    import omg.training.obs_adapter
    from omg.training.loop import Trainer

    targets: list[tuple[Any, str]] = [
        (omg.api.playing, "play_team"),
        (omg.api.playing, "pool_scores"),
        (omg.training.obs_adapter, "play_episodes"),
        (omg.experiments.evaluation, "pool_scores"),
        (omg.experiments.evaluation, "cross_play"),
        (omg.experiments.pool, "play_team"),
        (omg.experiments.versus, "versus"),
        (omg.experiments.adaptation.Meeting, "agent_rows"),
        (omg.experiments.adaptation.Meeting, "random_rows"),
        (omg.launchers.local.LocalLauncher, "_start"),
        (omg.report.toy, "toy_experiment"),
        (omg.envs.adapters.jaxmarl, "build_jaxmarl"),  # Compiles much of its game to learn its sizes.
        (omg.training.bench, "measure_play"),
        (omg.training.bench, "measure_learning"),
        (omg.training.bench, "measure_training"),
        (Trainer, "_compile" if deep else "_run"),
    ]
    with contextlib.ExitStack() as stack:
        # Typer takes all commands apart for every call, which takes longer than most cases.
        stack.enter_context(patch.object(typer.main, "get_command", _built_once))
        for owner, name in targets:
            stack.enter_context(patch.object(owner, name, _stop))
        yield


def run_case(case: Case) -> Outcome:
    """Runs a case in a new folder, which is removed again."""
    from omg.cli import main
    from omg.errors import UserError

    folder = Path(tempfile.mkdtemp(prefix="omg-fuzz-", dir=scratch_root()))
    before = Path.cwd()
    out, err = _Captured("strict"), _Captured("backslashreplace")
    began = time.process_time()
    code, problem = -1, ""
    kept = dict(os.environ)
    os.environ.update({"NO_COLOR": "1", "TERM": "dumb", "COLUMNS": "120", "OMG_TRACEBACK": "1"})
    try:
        os.chdir(folder)
        case.prepare(folder)
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), stubs(case.deep):
            if case.call is None:
                code = main(case.words)
            else:
                try:
                    case.call()
                    code = 0
                except UserError:
                    code = 2
                except Reached:
                    code = 0
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        problem = f"{type(error).__name__}: {str(error)[:300]}"
        err.write("".join(traceback.format_exception(error, limit=-12)))
    finally:
        os.chdir(before)
        os.environ.clear()
        os.environ.update(kept)
        text = err.text()
        shutil.rmtree(folder, ignore_errors=True)
    seconds = time.process_time() - began
    problem = problem or _judge(case, code, err.text(), out.text(), seconds)
    return Outcome(code, problem, text[-3000:] if problem else "", seconds)


def _judge(case: Case, code: int, err: str, out: str, seconds: float) -> str:
    if "Traceback (most recent call last)" in err + out:
        return "a traceback was printed"
    if code not in (0, 2, 130):
        return f"exit code {code}"
    if code == 2 and case.call is None and (not err.startswith("error: ") or len(err.splitlines()) != 1):
        return "exit code 2 without exactly one line on stderr"
    if seconds > SLOW_SECONDS:
        return f"took {seconds:.0f} s"
    return ""


class _Captured(io.TextIOWrapper):
    """A terminal's stand-in: UTF-8, on stdout strict as Python's own."""

    def __init__(self, errors: str) -> None:
        super().__init__(io.BytesIO(), encoding="utf-8", errors=errors, write_through=True)

    def text(self) -> str:
        """All that was written."""
        return self.buffer.getvalue().decode("utf-8", "replace")  # type: ignore[attr-defined]
