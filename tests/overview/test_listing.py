"""What is on disk as rows: the status, progress and results of runs, and what pipelines, suites and pools say."""

from __future__ import annotations

import json
import math
import os
import threading
import time
from pathlib import Path

import pytest

from helpers.shelves import TESTS, made_pipeline, made_run, write_tests
from helpers.tiny import tiny_config, tiny_pool
from omg import api
from omg.disk import write_json, write_text
from omg.errors import UserError
from omg.evaluation.overview_tables import OverviewRow
from omg.experiments import ledger
from omg.overview import finding, stages
from omg.overview.finding import find
from omg.overview.listing import Shelf
from omg.overview.runs import OWN_RETURN, read_scores
from omg.runners import vector
from omg.tracking import RunFolder, RunReporter
from omg.tracking.heartbeat import Heartbeat


def rows(folder: Path) -> list[OverviewRow]:
    return Shelf([folder]).look().rows


def only(folder: Path) -> OverviewRow:
    (row,) = rows(folder)
    return row


# ------------------------------------------------------------------------------------------------------------- runs


def test_a_run_is_shown_as_its_files_have_it(tmp_path: Path) -> None:
    folder = made_run(tmp_path)
    row = only(tmp_path)
    assert (row.folder, row.kind, row.status) == (str(folder.path), "run", "finished")
    assert (row.name, row.algorithm, row.game, row.seeds) == ("iql", "iql", "foraging 4x4", 2)
    assert (row.done, row.t_env, row.t_max) == (1.0, 600.0, 1000.0)
    assert row.metric == "test_return_mean"
    assert row.last == (0.75 + 0.5) / 2
    assert row.best == (0.875 + 0.5) / 2, "what was tested before the training does not count"
    assert math.isnan(row.steps), "a run that is over has no speed now"
    assert 0 <= row.age < 3600


def test_best_is_what_the_python_interface_says(tmp_path: Path) -> None:
    folder = made_run(tmp_path)
    values = api.Run(folder.path, "finished").best.column("value")
    assert only(tmp_path).best == sum(values) / len(values)
    assert OWN_RETURN == vector.OWN_RETURN
    write_tests(folder, TESTS, OWN_RETURN)
    assert only(tmp_path).metric == api.Run(folder.path, "finished").success_metric == f"test_{OWN_RETURN}_mean"


def test_a_running_run_has_a_speed_and_time_left(tmp_path: Path) -> None:
    folder = made_run(tmp_path, "running", t_env=250)
    folder.set_doing("testing")
    with folder.lock():
        row = only(tmp_path)
    assert (row.status, row.note, row.done, row.steps) == ("running", "testing", 0.25, 200.0)
    assert row.left == 750 * 2 / 200
    row = only(tmp_path)
    assert (row.status, row.note) == ("interrupted", "its process is gone")


@pytest.mark.parametrize("status", ["stopped", "interrupted", "failed"])
def test_how_a_run_ended(tmp_path: Path, status: str) -> None:
    made_run(tmp_path, status, reason="ValueError: \x1b[2Jno")
    row = only(tmp_path)
    assert (row.status, row.done) == (status, 0.6)
    assert row.note == ("ValueError: \\x1b[2Jno" if status == "failed" else "")


def test_half_a_line_is_not_read(tmp_path: Path) -> None:
    folder = made_run(tmp_path, "running")
    with folder.metrics_file.open("a") as file:
        file.write("1,800,test_return_mean,9")
    with folder.speed_file.open("a") as file:
        file.write("80")
    row = only(tmp_path)
    assert (row.t_env, row.last) == (600.0, 0.625)


@pytest.mark.parametrize(
    "metrics",
    [b"", b"x,y,test_return_mean,1\n", b"1,2,test_return_mean,z\n", b"1," + b"9" * 50 + b",test_return_mean,1\n"],
)
def test_metrics_that_are_none_are_no_result(metrics: bytes) -> None:
    assert math.isnan(read_scores(metrics, "return").last)


def test_the_tests_of_a_run_make_a_curve(tmp_path: Path) -> None:
    folder = made_run(tmp_path)
    assert Shelf([tmp_path]).look().listed[0].curve == (0.375, 0.6875, 0.625)
    write_tests(folder, [(1, step, float(step)) for step in range(1000)])
    curve = Shelf([tmp_path]).look().listed[0].curve
    assert (len(curve), curve[0], curve[-1]) == (48, 0.0, 999.0)
    assert list(curve) == sorted(set(curve))
    write_tests(folder, [(1, 0, math.nan), (1, 1, 0.5), (2, 1, 0.5)])
    assert Shelf([tmp_path]).look().listed[0].curve == ()


def test_what_has_not_changed_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = made_run(tmp_path)
    read: list[Path] = []
    scores = read_scores
    monkeypatch.setattr("omg.overview.runs.read_scores", lambda *given: read.append(tmp_path) or scores(*given))
    shelf = Shelf([tmp_path])
    shelf.look()
    shelf.look()
    assert len(read) == 1
    write_tests(folder, [*TESTS, (1, 800, 1.0)])
    assert shelf.look().rows[0].last == 0.75
    assert len(read) == 2


def test_a_training_is_shown_while_it_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[OverviewRow] = []
    for name in ("step", "speed", "tested"):
        report = getattr(RunReporter, name)

        def and_look(self: RunReporter, *given: object, report=report) -> None:
            report(self, *given)
            seen.append(only(tmp_path))

        monkeypatch.setattr(RunReporter, name, and_look)
    run = api.train_config(tiny_config(tmp_path, test_interval=400), quiet=True)
    assert {row.status for row in seen} == {"running"}
    assert {row.note.partition(" ")[0] for row in seen} == {"compiling", "training"}
    shares = [row.done for row in seen if row.note == "training"]
    assert shares == sorted(shares)
    assert shares[0] < 0.1
    assert len({share for share in shares if 0 < share < 1}) > 10
    assert all(row.steps > 0 and row.left >= 0 for row in seen if row.done > 0)
    assert not math.isnan(seen[-1].last)
    after = only(tmp_path)
    assert (after.status, after.done, after.folder) == ("finished", 1.0, str(run.folder))
    assert after.best == sum(run.best.column("value"))
    assert after.last == run.metrics.last(name="test_return_mean")


def test_what_takes_long_is_said_and_is_a_sign_of_life(tmp_path: Path) -> None:
    folder = made_run(tmp_path, "running")
    for file in folder.path.iterdir():
        os.utime(file, (1000, 1000))
    assert only(tmp_path).age > 1e9
    with folder.lock(), RunReporter(folder, folder.config(), quiet=True) as reporter:
        reporter.heartbeat.close()
        reporter.heartbeat = Heartbeat(reporter._still, 0.02)
        reporter.busy("testing, 4 episodes")
        deadline = time.monotonic() + 20
        while (row := only(tmp_path)).note != "testing, 4 episodes":
            assert time.monotonic() < deadline
    assert row.age < 3600


def test_a_look_does_not_keep_anybody_from_a_run(tmp_path: Path) -> None:
    fcntl = pytest.importorskip("fcntl")
    folder = made_run(tmp_path)
    looking = (folder.path / ".lock").open()
    fcntl.flock(looking, fcntl.LOCK_SH)
    threading.Timer(0.03, looking.close).start()
    with folder.lock(), pytest.raises(UserError, match="another process"), folder.lock():
        raise AssertionError


def test_a_disk_that_takes_no_note_does_not_end_a_run(tmp_path: Path) -> None:
    folder = made_run(tmp_path)
    folder.progress_file.mkdir()
    (folder.progress_file / "x").touch()
    folder.set_doing("training")
    assert folder.progress_file.is_dir()


# ----------------------------------------------------------------------------------- pipelines, suites, pools


def test_a_pipeline_says_which_of_its_tasks_are_done(tmp_path: Path) -> None:
    made_pipeline(tmp_path / "exp", done=2, tasks=5, page="<p>report</p>")
    row = only(tmp_path)
    assert (row.kind, row.name, row.game) == ("pipeline", "tiny", "foraging")
    assert (row.status, row.done, row.pages) == ("interrupted", 0.4, 1)
    assert row.note == "2 of 5 tasks: train agent1"
    with RunFolder(tmp_path / "exp").lock():
        assert only(tmp_path).status == "running"
    note = tmp_path / "exp" / "stages" / "pool.json"
    write_json(note, {**json.loads(note.read_text()), "fingerprint": "another plan's"})
    assert only(tmp_path).done == 0.2
    assert stages.NOTES == ledger.NOTES
    assert stages.TASKS == ledger.TASKS_FILE


def test_a_pipeline_is_finished_with_its_last_task_and_its_runs_are_rows(tmp_path: Path) -> None:
    made_pipeline(tmp_path / "exp", done=4, tasks=4)
    made_run(tmp_path / "exp" / "runs" / "iql")
    pipeline, run = sorted(rows(tmp_path), key=lambda row: row.folder)
    assert (pipeline.status, pipeline.done) == ("finished", 1.0)
    assert run.folder.startswith(str(tmp_path / "exp" / "runs" / "iql"))
    (tmp_path / "exp" / "tasks.json").unlink()
    assert [row.status for row in rows(tmp_path) if row.kind == "pipeline"] == ["finished"], "of an earlier version"


def test_a_failed_run_is_a_failed_pipeline(tmp_path: Path) -> None:
    made_pipeline(tmp_path / "exp")
    made_run(tmp_path / "exp" / "runs" / "iql", "failed", reason="no")
    assert {row.status for row in rows(tmp_path)} == {"failed"}


def test_a_suite_holds_pipelines(tmp_path: Path) -> None:
    write_text(tmp_path / "pipeline.yaml", "name: all\nplans:\n- tiny\n")
    write_json(tmp_path / "tasks.json", {"tasks": [["part tiny 1", "a"], ["report", "b"]]})
    (tmp_path / "stages" / "part" / "tiny").mkdir(parents=True)
    write_json(tmp_path / "stages" / "part" / "tiny" / "1.json", {"fingerprint": "a", "status": "done", "seconds": 1.0})
    made_pipeline(tmp_path / "tiny" / "draw_1", done=4)
    found = {row.kind: row for row in rows(tmp_path)}
    assert (found["suite"].name, found["suite"].done) == ("all", 0.5)
    assert found["pipeline"].status == "finished"


def test_a_pool_says_whom_it_holds(tmp_path: Path) -> None:
    tiny_pool(tmp_path / "pool", scripted="random")
    row = only(tmp_path)
    assert (row.kind, row.status, row.seeds, row.game) == ("pool", "finished", 3, "foraging 4x4-2p-1f")
    assert row.note == "3 training"
    made_run(tmp_path / "pool" / "runs" / "iql", "interrupted")
    assert {row.status for row in rows(tmp_path)} == {"interrupted"}


# ---------------------------------------------------------------------------------------------------- what is looked at


def test_no_link_is_followed_and_the_look_has_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere, here = tmp_path / "elsewhere", tmp_path / "here"
    folder = made_run(elsewhere)
    here.mkdir()
    (here / "linked").symlink_to(elsewhere)
    (here / "round").symlink_to(here)
    (here / "report.html").symlink_to(folder.console_file)
    assert (find([here]).found, find([here]).pages) == ([], [])
    assert Shelf([here / "linked"]).look().rows[0].status == "finished", "what the user names is the user's word"
    deep = here.joinpath(*["x"] * 30)
    made_run(deep)
    assert find([here]).found == []
    for index in range(50):
        (here / f"file{index}").touch()
    monkeypatch.setattr(finding, "MOST_ENTRIES", 20)
    listing = Shelf([here]).look()
    assert not listing.complete
    with pytest.raises(UserError, match="this is a file"):
        find([here / "file1"])


@pytest.mark.parametrize(
    "name",
    ["status.json", "game.json", "metrics.csv", "speed.csv", "config.yaml", "console.log", ".lock", "progress.json"],
)
@pytest.mark.parametrize("kind", ["pipe", "link", "noise", "deep", "folder"])
def test_files_that_are_none_of_ours_do_no_harm(tmp_path: Path, name: str, kind: str) -> None:
    secret = tmp_path / "secret"
    secret.write_text('{"status": "secret", "doing": "secret", "name": "secret", "scenario": "secret"}')
    file = made_run(tmp_path / "results", "running").path / name
    file.unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(file)
    elif kind == "link":
        file.symlink_to(secret)
    elif kind == "folder":
        file.mkdir()
    else:
        file.write_bytes(os.urandom(5000) if kind == "noise" else b'{"a": ' + b"[" * 200_000)
    found = rows(tmp_path / "results")
    assert "secret" not in json.dumps(found)
    # Without its settings it is nothing that is known.
    assert len(found) == (0 if name == "config.yaml" and kind in ("pipe", "link", "folder") else 1)


def test_names_that_lead_elsewhere_are_no_notes(tmp_path: Path) -> None:
    made_pipeline(tmp_path / "exp", done=1, tasks=3)
    write_json(tmp_path / "note.json", {"fingerprint": "x", "status": "done", "seconds": 1.0})
    write_json(
        tmp_path / "exp" / "tasks.json",
        {"tasks": [["../../note", "x"], ["pool", "mark pool"], "x", [1, 2], ["", ""], ["/note", "x"], ["\x00", "x"]]},
    )
    assert only(tmp_path).note.startswith("1 of 5 tasks")
