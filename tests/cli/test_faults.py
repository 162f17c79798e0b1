"""What nobody foresaw: one line, a file with the traceback, and its own exit code."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any

import pytest

import omg
from omg.cli import main
from omg.errors import UserError
from omg.pools import Pool, load_prior


@pytest.fixture
def fault(monkeypatch: pytest.MonkeyPatch) -> None:
    """`omg resume` ends in a fault of the program."""

    def faulty(*args: Any, **kwargs: Any) -> None:
        raise ZeroDivisionError("by \u65e5\ud800\n")

    monkeypatch.setattr("omg.api.resume", faulty)


@pytest.mark.usefixtures("fault")
def test_a_fault_of_the_program_is_written_down(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OMG_CACHE", str(tmp_path))
    assert main(["resume", "x"]) == 70
    (written,) = (tmp_path / "errors").iterdir()
    shown = capsys.readouterr().err
    assert shown.count("\n") == 1
    assert shown.startswith("error: ZeroDivisionError: by ")
    assert shown.endswith(f"please report it and attach {written}, which says all about it.\n")
    text = written.read_text(encoding="utf-8")
    assert "command: omg ['resume', 'x']" in text
    assert "Traceback (most recent call last)" in text
    assert "ZeroDivisionError: by" in text


@pytest.mark.usefixtures("fault")
def test_a_developer_gets_the_fault_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMG_TRACEBACK", "1")
    with pytest.raises(ZeroDivisionError):
        main(["resume", "x"])


@pytest.mark.usefixtures("fault")
def test_a_fault_is_told_even_where_nothing_can_be_written(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setattr("omg.cli.faults._places", lambda: [tmp_path / "file" / "x"])
    assert main(["resume", "x"]) == 70
    assert "OMG_TRACEBACK=1 shows all of it" in capsys.readouterr().err


def test_nobody_reads_any_more(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """As in `omg algs | head`."""

    class Closed(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError

    monkeypatch.setattr(sys, "stdout", Closed())
    assert main(["algs"]) == 0
    assert capsys.readouterr().err == ""


def test_a_path_that_the_system_refuses_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["resume", "x" * 5000]) == 2
    shown = capsys.readouterr().err
    assert shown.startswith("error: 'xxx")
    assert shown.endswith("xxx': there can be no such path (File name too long).\n")


@pytest.mark.parametrize("path", ["x" * 5000, "x" * 253, "x/" * 3000, "\0", "", "missing"])
def test_python_callers_get_the_same_refusal(path: str) -> None:
    for call in (omg.load, omg.resume, omg.evaluate, Pool.open, load_prior):
        with pytest.raises(UserError):
            call(path)


def test_an_error_of_the_system_that_names_a_path_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*args: Any, **kwargs: Any) -> None:
        raise OSError(28, "No space left on device", "results/a")

    monkeypatch.setattr("omg.api.resume", full)
    assert main(["resume", "x"]) == 2
    assert capsys.readouterr().err == "error: results/a: No space left on device.\n"
