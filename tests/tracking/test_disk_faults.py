"""A disk that takes nothing more, and folders where files should be: one line, exit code 2, and all goes on later."""

from __future__ import annotations

import errno
import json
import os
import resource
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

from helpers.processes import SAVE_OFTEN, command
from helpers.stopping import shared_programs
from helpers.tiny import result, tiny_config
from omg import api
from omg.cli import main
from omg.components.files import save_arrays, write_text
from omg.launchers import serving
from omg.tracking import RunFolder, RunReporter
from omg.tracking.trackers.base import AllTrackers
from omg.tracking.trackers.tensorboard import TensorBoardTracker
from omg.training.checkpoint import list_checkpoints
from omg.training.loop import Speed
from omg.training.summary import Row


@pytest.fixture(scope="module", autouse=True)
def one_program() -> Iterator[None]:
    with shared_programs():
        yield


@pytest.fixture(scope="module")
def whole(results: Path) -> api.Run:
    """A run whose disk takes everything."""
    return api.train_config(tiny_config(results, **SAVE_OFTEN), quiet=True)


@contextmanager
def files_up_to(size: int) -> Iterator[None]:
    """The system refuses to write more into a file, as a full disk does (with another number)."""
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))


class Filling(RunReporter):
    """The disk is full after some chunks."""

    chunks, size = 12, 0

    def speed(self, speed: Speed, headline: dict[str, float]) -> None:
        super().speed(speed, headline)
        self.chunks -= 1
        if self.chunks == 0:
            _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
            resource.setrlimit(resource.RLIMIT_FSIZE, (self.size, hard))


def one_line(capsys: pytest.CaptureFixture[str]) -> str:
    shown = capsys.readouterr()
    assert "Traceback" not in shown.out + shown.err
    assert shown.err.startswith("error: ")
    assert shown.err.count("\n") == 1, shown.err
    return shown.err


@pytest.mark.parametrize(
    ("size", "status", "said"),
    [
        (0, "running", r": File too large. Once it can be written, continue with: omg resume "),
        (600, "failed", r": File too large. Once it can be written, continue with: omg resume "),
        (30_000, "failed", " cannot be written: File too large. Once it can, continue with omg resume."),
    ],
    ids=["nothing", "status only", "no checkpoint"],
)
def test_a_run_whose_disk_is_full_goes_on_when_it_is_not(
    size: int, status: str, said: str, results: Path, whole: api.Run, capsys: pytest.CaptureFixture[str]
) -> None:
    class FillingUp(Filling):
        pass

    FillingUp.size = size
    before = set(results.iterdir())
    with pytest.MonkeyPatch.context() as patch, files_up_to(resource.RLIM_INFINITY):
        patch.setattr(api, "RunReporter", FillingUp)
        assert main(command(results)) == 2
    assert said in one_line(capsys)
    (folder,) = set(results.iterdir()) - before
    stored = json.loads((folder / "status.json").read_text())
    assert stored["status"] == status
    assert status == "running" or "File too large" in stored["reason"]
    assert list_checkpoints(folder / "checkpoints"), "what was there is gone"
    assert RunFolder.open(folder).metrics()
    assert not list(folder.rglob(".writing-*"))
    assert main(["resume", str(folder)]) == 0
    assert result(folder) == result(whole.folder)


@pytest.mark.parametrize("name", ["metrics.csv", "speed.csv", "console.log", ".lock", "status.json"])
def test_a_folder_where_a_file_of_a_run_should_be(
    name: str, whole: api.Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(whole.folder, folder)
    RunFolder(folder).set_status("running")
    (folder / name).unlink()
    (folder / name).mkdir()
    assert main(["resume", str(folder)]) == 2
    assert f"{folder / name}: Is a directory. Once it can be written, continue with: omg resume" in one_line(capsys)


@pytest.mark.parametrize("name", ["checkpoints", "agents"])
def test_a_file_where_a_folder_of_a_run_should_be(
    name: str, whole: api.Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(whole.folder, folder)
    RunFolder(folder).set_status("running")
    for given in ("checkpoints", name):
        shutil.rmtree(folder / given, ignore_errors=True)
    (folder / name).write_text("")
    assert main(["resume", str(folder)]) == 2
    assert str(folder / name) in one_line(capsys)
    (folder / name).unlink()
    assert main(["resume", str(folder)]) == 0
    assert (folder / "metrics.csv").read_bytes() == (whole.folder / "metrics.csv").read_bytes()


def test_no_room_for_a_new_run(results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = tmp_path / "results"
    with files_up_to(100):
        assert main(command(place)) == 2
    assert f"local_results_path: cannot write to '{place}" in one_line(capsys)
    assert list(place.iterdir()) == [], "half a run is left"


@pytest.mark.parametrize("write", [write_text, lambda path, _: save_arrays(path, {"a": np.ones(9999)})])
def test_a_fault_names_the_file_and_leaves_the_old_one(write: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "a").write_text("old")
    target = tmp_path / ("a" if write is write_text else "b")
    with files_up_to(1000), pytest.raises(OSError, match="File too large") as caught:
        write(target, "new" * 1000)
    assert caught.value.errno == errno.EFBIG
    assert caught.value.filename == str(target)
    assert (tmp_path / "a").read_text() == "old"
    with pytest.raises(IsADirectoryError) as caught:
        write_text(tmp_path.parent, "text")
    assert caught.value.filename == str(tmp_path.parent)


def test_other_commands_tell_it_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def failing(number: int) -> None:
        error = OSError(number, os.strerror(number), "results/scores.csv")
        monkeypatch.setattr(api, "load_seeds", Mock(side_effect=error))

    for number in (errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EISDIR, errno.ENOTDIR):
        failing(number)
        assert main(["evaluate", "x"]) == 2
        assert one_line(capsys) == f"error: results/scores.csv: {os.strerror(number)}.\n"
    several = shutil.Error([("pool/a", "copy/a", "No space left on device"), ("pool/b", "copy/b", "so, too")])
    monkeypatch.setattr(api, "load_seeds", Mock(side_effect=several))
    assert main(["evaluate", "x"]) == 2
    assert one_line(capsys) == "error: copy/a: No space left on device.\n"
    monkeypatch.setattr(api, "load_seeds", Mock(side_effect=OSError(errno.ECONNREFUSED, "refused")))
    assert main(["evaluate", "x"]) == 70, "not the disk's fault"


def test_a_process_of_its_own_tells_it_in_its_last_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(serving, "_end_with", lambda tie: None)

    def work() -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "scores.csv")

    assert serving.serve(work, serving.Tie(0).word) == serving.DISK_CODE
    assert capsys.readouterr().out == "error: scores.csv: No space left on device.\n"


def test_a_full_disk_switches_tensorboard_off_and_holds_nothing_up(tmp_path: Path) -> None:
    lines: list[str] = []
    group = AllTrackers({"tensorboard": TensorBoardTracker(tmp_path)}, lines.append)
    group.begin([])
    rows = [Row(1, step, "loss", 0.5) for step in range(2000)]
    group.rows(rows[:10])
    with files_up_to(4000):
        for _ in range(3):
            group.rows(rows)
        group.flush()
    group.close("finished", None)
    assert len(lines) == 1
    assert "File too large" in lines[0]
