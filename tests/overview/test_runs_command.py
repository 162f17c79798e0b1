"""`omg runs` as one types it: which rows, in which order, as a table, once or again and again."""

from __future__ import annotations

import io
import json
import math
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from helpers.refusing import refusal
from helpers.shelves import made_pipeline, made_run
from helpers.tiny import tiny_pool
from omg.cli import main
from omg.cli.overview import _table, duration
from omg.evaluation.overview_tables import OverviewRow
from omg.overview.listing import Shelf, chosen


def test_rows_are_chosen_and_sorted(tmp_path: Path) -> None:
    for name, status in (("b", "finished"), ("a", "failed"), ("c", "interrupted")):
        made_run(tmp_path / name, status, t_env={"a": 100, "b": 300, "c": 200}[name])
    listed = Shelf([tmp_path]).look().listed

    def names(*given: object, reverse: bool = False) -> str:
        found = chosen(listed, *given, reverse=reverse)  # type: ignore[arg-type]
        return "".join(one.found.path.parent.name for one in found)

    assert names([], "folder") == "abc"
    assert names([], "t_env") == "acb"
    assert names([], "t_env", reverse=True) == "bca"
    assert names(["status=f*"], "folder") == "ab"
    assert names(["status=f*", "t_env=300"], None) == "b"
    assert names(["t_env=x"], None) == ""
    assert refusal(lambda: names(["stat=x"], None)).startswith(
        "Unknown column (--where) 'stat'. Did you mean 'status'?"
    )
    assert "column=value" in refusal(lambda: names(["status"], None))
    assert refusal(lambda: names([], "speed")).startswith("Unknown column (--sort) 'speed'.")


def test_the_command_prints_what_there_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = made_run(tmp_path, "failed", reason="[red]x\x1b[2J")
    assert main(["runs", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert said.startswith("1 failed\n")
    assert str(folder.path) in said
    assert "[red]x\\x1b[2J" in said
    assert "60%" in said
    assert main(["runs", str(tmp_path), "--where", "kind=pool"]) == 0
    assert capsys.readouterr().out == "nothing of that kind (1 not shown)\n"
    table = tmp_path / "table.csv"
    assert main(["runs", str(tmp_path), "--json", "--csv", str(table)]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert list(row) == OverviewRow.names() == table.read_text().splitlines()[0].split(",")
    assert (row["t_env"], row["env_steps_per_second"]) == (600.0, None)


def test_what_the_command_refuses(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for words, reason in (
        ([], "no folder 'results'"),
        (["missing"], "missing: there is no such folder"),
        ([".", "--watch", "--json"], "give one of them"),
        ([".", "--watch", "--csv", "x.csv"], "shown once"),
    ):
        assert main(["runs", *words]) == 2
        assert reason in capsys.readouterr().err
    assert main(["runs", "."]) == 0
    assert capsys.readouterr().out == "no runs here\n"


def test_watching_shows_it_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = made_run(tmp_path, "interrupted")
    waits = iter([lambda: folder.set_status("finished"), signal.default_int_handler])

    def sleep(seconds: float) -> None:
        assert seconds == 3.0
        next(waits)(*(() if folder.status() == "interrupted" else (signal.SIGINT, None)))

    monkeypatch.setattr("omg.cli.overview.time.sleep", sleep)
    assert main(["runs", str(tmp_path), "--watch", "--every", "3"]) == 130
    said = capsys.readouterr()
    assert [line for line in said.out.splitlines() if line.startswith("1 ")] == ["1 interrupted", "1 finished"]
    assert said.err == "interrupted\n"


@pytest.mark.parametrize(("width", "without"), [(60, ["note", "name", "age"]), (100, ["note"]), (300, [])])
def test_a_narrow_terminal_shows_fewer_columns(tmp_path: Path, width: int, without: list[str]) -> None:
    folder = made_run(tmp_path, "failed", reason="a long reason " * 9)
    rows = Shelf([tmp_path]).look().rows
    screen = Console(width=width, record=True, file=io.StringIO())
    screen.print(_table(rows, screen))
    text = screen.export_text()
    head = text.split("\n")[1].split()
    assert [name for name in ("note", "name", "age") if name not in head] == without
    assert max(map(len, text.split("\n"))) <= width
    # However it is folded, the folder is whole.
    assert str(folder.path) in "".join(line.strip().split()[-1] for line in text.splitlines()[3:] if line.strip())


def test_looking_loads_no_jax(tmp_path: Path) -> None:
    folder = made_run(tmp_path)
    tiny_pool(tmp_path / "pool")
    made_pipeline(tmp_path / "exp")
    code = (
        "import sys; from omg.cli import main\n"
        f"assert main(['runs', {str(tmp_path)!r}]) == 0\n"
        f"assert main(['tail', {str(folder.path)!r}]) == 0\n"
        "import omg.overview.server\n"
        "print([name for name in ('jax', 'numpy', 'yaml', 'matplotlib') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_durations_have_one_unit() -> None:
    given = [math.nan, 0.4, 119, 121, 7_100, 7_300, 86_399, 90_000, 864_000]
    assert [duration(one) for one in given] == ["", "0 s", "119 s", "2 min", "118 min", "2 h", "24 h", "1 d", "10 d"]
