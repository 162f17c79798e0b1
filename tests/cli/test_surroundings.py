"""Odd surroundings: other languages, no home, no cache, two at once, a clock that is set back."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import jax
import pytest

from helpers.processes import PROGRAM, command, only_run
from helpers.stopping import shared_programs
from helpers.tiny import tiny_config
from omg import api
from omg.cli import main
from omg.tracking import RunFolder, folder
from omg.training import device


@pytest.fixture(scope="module", autouse=True)
def one_program() -> Iterator[None]:
    with shared_programs():
        yield


@pytest.fixture
def unprepared() -> Iterator[None]:
    """The compilation cache of the other tests comes back afterwards, and notes are printed anew."""
    before = jax.config.jax_compilation_cache_dir  # type: ignore[attr-defined]
    for remembered in (device._cache_folder, device._note):
        remembered.cache_clear()
    yield
    jax.config.update("jax_compilation_cache_dir", before)
    for remembered in (device._cache_folder, device._note):
        remembered.cache_clear()


def test_a_path_with_spaces_and_chinese_in_a_process_without_language_and_home(tmp_path: Path) -> None:
    results = tmp_path / "my results 结果"
    surroundings = {key: value for key, value in os.environ.items() if key not in ("HOME", "LANG")}
    process = subprocess.run(
        [sys.executable, "-c", PROGRAM, *command(results)],
        env={**surroundings, "LC_ALL": "C"},
        capture_output=True,
        timeout=120,
    )
    assert process.returncode == 0, process.stderr
    run = only_run(results)
    assert run is not None
    assert f"Run folder: {run}" in process.stdout.decode()
    assert f"run folder: {run}\n" in (run / "console.log").read_text(encoding="utf-8")
    assert RunFolder.open(run).config().local_results_path == str(results)


def test_letters_that_the_screen_does_not_know(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = tmp_path / "shown"
    with shown.open("w", encoding="ascii") as stream:
        monkeypatch.setattr("sys.stdout", stream)
        assert main(command(tmp_path / "结果")) == 0
    assert "\\u7ed3\\u679c" in shown.read_text()
    assert capsys.readouterr().err == ""


def test_a_cache_that_cannot_be_written_is_told_once_and_done_without(
    unprepared: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("OMG_CACHE", str(tmp_path / "file" / "cache"))
    for _ in range(2):
        device.prepare(use_cuda=False)
    note = (
        f"note: compiled programs are not kept: the cache {tmp_path}/file/cache cannot be written (Not a directory).\n"
    )
    assert capsys.readouterr().err == note
    assert jax.config.jax_compilation_cache_dir is None  # type: ignore[attr-defined]
    monkeypatch.setenv("OMG_CACHE", str(tmp_path / "cache"))
    device.prepare(use_cuda=False)
    assert jax.config.jax_compilation_cache_dir == str(tmp_path / "cache" / "compiled")  # type: ignore[attr-defined]
    assert list((tmp_path / "cache" / "compiled").iterdir()) == []


def test_nobody_knows_where_home_is(
    unprepared: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def unknown(path: Path) -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("OMG_CACHE")
    monkeypatch.setattr(Path, "expanduser", unknown)
    device.prepare(use_cuda=False)
    assert "the cache ~/.cache/omg cannot be written (Could not determine home" in capsys.readouterr().err


def test_a_clock_that_is_set_back(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(10**9, 0, -3600))

    class Backwards(datetime):
        @classmethod
        def now(cls, tz: object = None) -> datetime:
            return datetime(2020, 1, 1, 12, 0, 0)

    monkeypatch.setattr(folder, "datetime", Backwards)
    monkeypatch.setattr(time, "time", lambda: float(next(clock)))
    # TensorBoard's events carry the time.
    runs = [api.train_config(tiny_config(results, use_tensorboard=True), quiet=True) for _ in range(2)]
    assert [run.folder.name[-21:] for run in runs] == ["1_2020-01-01_12-00-00", "2020-01-01_12-00-00_1"]
    assert (runs[0].folder / "metrics.csv").read_bytes() == (runs[1].folder / "metrics.csv").read_bytes()
    for line in (runs[0].folder / "speed.csv").read_text().splitlines()[1:]:
        assert all(float(value) >= 0 for value in line.split(","))


def test_two_pipelines_in_one_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = tmp_path / "pipeline"
    place.mkdir()
    with RunFolder(place).lock():
        assert main(["pipeline", "quick", "--output", str(place)]) == 2
    shown = capsys.readouterr().err
    assert shown == f"error: {place}: another process is training this run.\n"
    assert [path.name for path in place.iterdir()] == [".lock"]
