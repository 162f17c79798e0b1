"""`omg tail`: what is there, what comes, and the end."""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers.refusing import refusal
from helpers.shelves import made_run
from omg.cli import main
from omg.disk import write_text
from omg.overview import following
from omg.overview.following import follow, followed_run
from omg.tracking import RunFolder


def never() -> None:
    raise AssertionError("waited for a run that is over")


def test_a_run_that_is_over_is_shown_to_its_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = made_run(tmp_path).path
    assert list(follow(run, 2, None, never)) == ["2026-01-31 12:00:03 line 3", "2026-01-31 12:00:04 line 4"]
    assert list(follow(run, 0, None, never)) == []
    assert len(list(follow(run, 100, None, never))) == 5
    assert main(["tail", str(run), "--lines", "1"]) == 0
    assert capsys.readouterr().out == "2026-01-31 12:00:04 line 4\n"
    assert main(["tail", str(run), "--lines", "2", "--metric", "test_ret*"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "t_env 600  seed 1  test_return_mean 0.75",
        "t_env 600  seed 2  test_return_mean 0.5",
    ]


def test_what_comes_is_shown_until_the_run_ends(tmp_path: Path) -> None:
    folder = made_run(tmp_path, "running")
    steps = iter(["new \x1b[2J line\n", "half", " of it\n", "cut", "last words\n", "end"])

    def meanwhile() -> None:
        step = next(steps)
        if step == "end":
            folder.set_status("finished")
        elif step == "cut":
            write_text(folder.console_file, "anew\n")
        else:
            with folder.console_file.open("a") as file:
                file.write(step)

    with folder.lock():
        found = list(follow(folder.path, 1, None, meanwhile))
    assert found[:3] == ["2026-01-31 12:00:04 line 4", "new \\x1b[2J line", "half of it"]
    assert found[-1] == "last words", "a file that was cut back is gone on with"
    assert list(steps) == []


def test_a_killed_run_ends_it_too(tmp_path: Path) -> None:
    folder = made_run(tmp_path, "running")
    assert len(list(follow(folder.path, 10, None, never))) == 5


def test_a_line_without_an_end_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "_PART", 1000)
    folder = made_run(tmp_path, "running")
    write_text(folder.console_file, "")
    written = iter([f"{'x' * 5000}", "\nwhole\n", None])

    def meanwhile() -> None:
        text = next(written)
        if text is None:
            folder.set_status("finished")
            return
        with folder.console_file.open("a") as file:
            file.write(text)

    with folder.lock():
        found = list(follow(folder.path, 10, None, meanwhile))
    assert found[-1] == "whole"
    assert max(map(len, found)) < 5000


def test_a_folder_stands_for_the_run_that_is_running_in_it(tmp_path: Path) -> None:
    made_run(tmp_path / "a")
    folder = made_run(tmp_path / "b", "running")
    assert "0 of the 2 in it are running" in refusal(lambda: followed_run(tmp_path))
    with folder.lock():
        assert followed_run(tmp_path) == folder.path
        other = made_run(tmp_path / "c", "running")
        with other.lock():
            said = refusal(lambda: followed_run(tmp_path))
    assert str(folder.path) in said
    assert str(other.path) in said
    (tmp_path / "empty").mkdir()
    assert "there is none in it" in refusal(lambda: followed_run(tmp_path / "empty"))


def test_only_files_of_the_run_are_shown(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret\n")
    folder: RunFolder = made_run(tmp_path / "results")
    folder.console_file.unlink()
    folder.console_file.symlink_to(tmp_path / "secret")
    assert "it has no console.log that can be read" in refusal(lambda: list(follow(folder.path, 10, None, never)))
