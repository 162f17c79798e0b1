"""SIGTERM and SIGHUP end work as Ctrl-C does: saved, told in one line, with the exit code of the signal."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from helpers.jobs import run_jobs
from helpers.processes import SAVE_OFTEN, command
from helpers.stopping import shared_programs
from helpers.tiny import result, tiny_config
from omg import api
from omg import stopping as signals
from omg.cli import main
from omg.errors import UserError
from omg.launchers import Job
from omg.launchers import local as processes
from omg.stopping import Stop, Stopped, ends_by_signal
from omg.tracking import RunFolder
from omg.training import saving
from omg.training.checkpoint import list_checkpoints
from omg.training.loop import Trainer

HOW = {signal.SIGTERM: 143, signal.SIGHUP: 129, signal.SIGINT: 130}


@pytest.fixture(scope="module", autouse=True)
def one_program() -> Iterator[None]:
    with shared_programs():
        yield


@pytest.fixture(scope="module")
def whole(results: Path) -> tuple[bytes, dict[str, bytes]]:
    """What a run comes to that nothing has disturbed."""
    return result(api.train_config(tiny_config(results, **SAVE_OFTEN), quiet=True).folder)


def raising_once(number: int, original: Callable[..., Any], call: int) -> Callable[..., Any]:
    """A function that gets a signal in the middle of one of its calls."""
    calls = []

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        calls.append(None)
        if len(calls) == call:
            signal.raise_signal(number)
        return original(*args, **kwargs)

    return wrapped


def in_compilation(patch: pytest.MonkeyPatch, number: int) -> None:
    patch.setattr(Trainer, "_compile", raising_once(number, Trainer._compile, 1))


def in_chunk(call: int) -> Callable[[pytest.MonkeyPatch, int], None]:
    def prepare(patch: pytest.MonkeyPatch, number: int) -> None:
        compile_both = Trainer._compile

        def compile_(self: Trainer, state: Any) -> Any:
            chunk, test = compile_both(self, state)
            return raising_once(number, chunk, call), test

        patch.setattr(Trainer, "_compile", compile_)

    return prepare


def in_save(patch: pytest.MonkeyPatch, number: int) -> None:
    patch.setattr(saving, "write_checkpoint", raising_once(number, saving.write_checkpoint, 3))


def in_test(patch: pytest.MonkeyPatch, number: int) -> None:
    patch.setattr(Trainer, "_test", raising_once(number, Trainer._test, 2))


PHASES = {
    "compiling": in_compilation,
    "playing": in_chunk(1),  # The buffer holds no batch yet.
    "learning": in_chunk(20),
    "saving": in_save,
    "testing": in_test,
}


def newest_run(results: Path) -> Path:
    return max(results.iterdir(), key=lambda path: path.stat().st_mtime_ns)


@pytest.mark.parametrize(
    ("phase", "number"),
    [*((phase, signal.SIGTERM) for phase in PHASES), ("learning", signal.SIGHUP), ("compiling", signal.SIGINT)],
)
def test_a_signal_in_any_phase_loses_nothing(
    phase: str,
    number: int,
    results: Path,
    whole: tuple[bytes, dict[str, bytes]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        PHASES[phase](patch, number)
        assert main(command(results)) == HOW[number]
    shown = capsys.readouterr()
    assert "Traceback" not in shown.out + shown.err
    folder = newest_run(results)
    assert json.loads((folder / "status.json").read_text())["status"] == "interrupted"
    assert f"continue with: omg resume {folder}\n" in shown.out
    saved = list_checkpoints(folder / "checkpoints")
    log = (folder / "console.log").read_text()
    if phase == "compiling":
        assert saved == []
        assert shown.err.split() == (["interrupted"] if number == signal.SIGINT else ["ended", "by", "SIGTERM"])
    else:
        assert f"{signal.Signals(number).name}: stopping after this chunk and saving (again to quit at once)" in log
        t_env = json.loads((saved[-1] / "host.json").read_text())["last_save"]
        assert f"saved at t_env {t_env:,}; continue with" in log
    assert main(["resume", str(folder)]) == 0
    assert result(folder) == whole


def test_a_signal_in_the_last_moment_ends_the_command_and_the_run_is_finished(
    results: Path, whole: tuple[bytes, dict[str, bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Trainer, "_finish", raising_once(signal.SIGTERM, Trainer._finish, 1))
    assert main(command(results)) == 143
    folder = newest_run(results)
    assert RunFolder(folder).status() == "finished"
    assert result(folder) == whole


def test_what_was_ignored_stays_ignored(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`nohup omg train`."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        in_chunk(2)(monkeypatch, signal.SIGHUP)
        assert main(command(results)) == 0
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_the_same_signal_again_ends_at_once_and_one_that_comes_along_does_not(
    results: Path, whole: tuple[bytes, dict[str, bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def several(seconds: float, *numbers: int) -> tuple[int, Path]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(signals, "_AGAIN_SECONDS", seconds)
            for number in reversed(numbers):
                in_chunk(9)(patch, number)
            return main(command(results)), newest_run(results)

    # A terminal that closes, a batch system that means it.
    code, folder = several(60.0, signal.SIGHUP, signal.SIGHUP, signal.SIGTERM)
    assert code == 129
    assert "t_env" in json.loads((folder / "status.json").read_text())
    code, folder = several(0.0, signal.SIGTERM, signal.SIGTERM)
    assert code == 143
    status = json.loads((folder / "status.json").read_text())
    assert status == {"status": "interrupted"}, "it was saved, which takes time"
    assert main(["resume", str(folder)]) == 0
    assert result(folder) == whole


def test_a_program_of_the_users_own_gets_its_signal_when_all_is_saved() -> None:
    got: list[str] = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: got.append("theirs"))
    try:
        with Stop() as stop:
            stop.tell = got.append
            with stop.holding():
                signal.raise_signal(signal.SIGTERM)
            got.append("saved")
        assert got == ["SIGTERM: stopping after this chunk and saving (again to quit at once)", "saved", "theirs"]
        with Stop() as stop, stop.holding():
            signal.raise_signal(signal.SIGINT)
        assert stop.number == signal.SIGINT
        assert len(got) == 3
    finally:
        signal.signal(signal.SIGTERM, before)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_other_commands_end_with_one_line(
    number: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    handlers = [signal.getsignal(each) for each in HOW]
    monkeypatch.setattr(api, "load_seeds", raising_once(number, api.load_seeds, 1))
    assert main(["evaluate", "nothing"]) == HOW[number]
    shown = capsys.readouterr()
    assert (shown.out, shown.err.strip()) == ("", f"ended by {signal.Signals(number).name}")
    assert [signal.getsignal(each) for each in HOW] == handlers


def test_a_screen_that_is_gone_or_full_ends_nothing(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout", open("/dev/full", "w"))  # noqa: SIM115
    reader, writer = os.pipe()
    os.close(reader)
    monkeypatch.setattr("sys.stderr", os.fdopen(writer, "w"))
    in_chunk(3)(monkeypatch, signal.SIGHUP)
    assert main(command(results)) == 129
    assert "saved at t_env" in (newest_run(results) / "console.log").read_text()


STUBBORN = """
import signal, sys, time
from omg.launchers.serving import serve
from omg.stopping import Stop

def work():
    with Stop() as stop, stop.holding():
        print("at work", flush=True)
        while True:
            time.sleep(0.01)

sys.exit(serve(work, sys.argv[-1]))
"""


def test_processes_that_do_not_end_are_ended_by_a_second_signal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "stubborn.py").write_text(STUBBORN)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    jobs = [Job("first", "stubborn", ()), Job("second", "stubborn", ())]
    logs = tmp_path / "logs"
    started: list[Any] = []

    def look(seconds: float) -> None:
        working = [path for path in logs.glob("*.log") if path.read_text()]
        if len(working) == 2 and not started:
            signal.raise_signal(signal.SIGINT)
        rest(seconds)

    def wait(process: Any, timeout: float | None = None) -> Any:
        if process not in started:
            started.append(process)
            if len(started) == 1:
                signal.raise_signal(signal.SIGINT)
        return original(process, timeout)

    original, rest = processes.subprocess.Popen.wait, processes.time.sleep
    monkeypatch.setattr(processes.subprocess.Popen, "wait", wait)
    monkeypatch.setattr(processes.time, "sleep", look)
    with ends_by_signal(), pytest.raises(Stopped):
        run_jobs(lambda: jobs.pop(0) if jobs else None, lambda *_: None, 2, logs, lambda line: None)
    assert len(started) == 2
    assert all(process.returncode is not None for process in started)


def test_a_job_ended_by_a_signal_stops_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ended.py").write_text("import sys; sys.exit(143)\n")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    jobs = [Job("one", "ended", ())]
    with pytest.raises(Stopped) as caught:
        run_jobs(lambda: jobs.pop(0) if jobs else None, lambda *_: None, 1, tmp_path, lambda line: None)
    assert caught.value.number == signal.SIGTERM
    assert not isinstance(caught.value, UserError)
