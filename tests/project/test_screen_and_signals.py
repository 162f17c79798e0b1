"""Printing that cannot fail, and signals in this process alone; `test_signals` has whole runs and processes."""

from __future__ import annotations

import io
import os
import signal
import sys
import threading
from pathlib import Path

import pytest

from omg.screen import forgiving_output
from omg.stopping import Coming, Stop, Stopped, ends_by_signal, exit_code, signal_of, told_end


def test_letters_that_a_screen_does_not_know_are_written_out(monkeypatch: pytest.MonkeyPatch) -> None:
    buffer = io.BytesIO()
    screen = io.TextIOWrapper(buffer, encoding="ascii")
    monkeypatch.setattr(sys, "stdout", screen)
    with forgiving_output():
        print("share ≥ 日")
    assert buffer.getvalue() == b"share \\u2265 \\u65e5\n"
    assert sys.stdout is screen


def test_what_cannot_be_printed_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    reached = False
    with os.fdopen(writing, "w") as pipe:
        monkeypatch.setattr(sys, "stdout", pipe)
        with forgiving_output():
            print("nobody reads this", flush=True)
            print("nor this")
            reached = True
    assert reached


def test_a_process_without_streams_can_print(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    with forgiving_output():
        print("into nothing")
        assert sys.stdout is None


@pytest.mark.parametrize(
    ("number", "code", "line"),
    [
        (signal.SIGINT, 130, "interrupted"),
        (signal.SIGTERM, 143, "ended by SIGTERM"),
        (signal.SIGHUP, 129, "ended by SIGHUP"),
    ],
)
def test_a_signal_ends_work_with_its_code_and_its_line(number: signal.Signals, code: int, line: str) -> None:
    with pytest.raises(Stopped) as caught, ends_by_signal():
        signal.raise_signal(number)
    assert signal_of(caught.value) == number
    assert (exit_code(number), told_end(number)) == (code, line)


def test_a_signal_is_only_noted_while_work_is_held(tmp_path: Path) -> None:
    said: list[str] = []
    file = tmp_path / "saved"
    with ends_by_signal(), Stop() as stop:
        stop.tell = said.append
        with stop.holding():
            signal.raise_signal(signal.SIGTERM)
            file.write_text("whole")
    assert stop.number == signal.SIGTERM
    assert said == ["SIGTERM: stopping after this chunk and saving (again to quit at once)"]
    assert file.read_text() == "whole"


def test_the_signal_behind_an_error_is_found() -> None:
    error = RuntimeError()
    error.__cause__ = Stopped(signal.SIGHUP)
    assert signal_of(error) == signal.SIGHUP
    assert signal_of(KeyboardInterrupt()) == signal.SIGINT
    assert exit_code(None) == 130


def test_what_comes_from_another_thread_is_there_or_its_error_or_a_signal_was_first() -> None:
    with pytest.raises(ZeroDivisionError):
        Coming(lambda: 1 // 0).result()
    go, stop = threading.Event(), Stop()
    coming = Coming(lambda: go.wait(60) and 7)
    assert not coming.there
    stop.number = signal.SIGTERM
    assert not coming.arrives(stop)
    go.set()
    assert coming.result() == 7
    assert coming.there
    # What is there is taken, signal or not.
    assert coming.arrives(stop)
