"""The traces of a run: its folder, metrics.csv, TensorBoard, the console, and the small table they are read into."""

from __future__ import annotations

import io
import json
import struct
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console
from tensorboardX.proto.event_pb2 import Event

from helpers.tiny import SPEC, tiny_config
from omg.errors import UserError
from omg.tracking import RunFolder, RunReporter, Table
from omg.tracking.heartbeat import Heartbeat
from omg.tracking.table import read_metrics
from omg.training.loop import Speed
from omg.training.summary import Row


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder.create(tiny_config(tmp_path, use_tensorboard=True), SPEC)


def reporter(folder: RunFolder, width: int = 40) -> tuple[RunReporter, io.StringIO]:
    screen = io.StringIO()
    return RunReporter(folder, folder.config(), Console(file=screen, width=width)), screen


def rows(*t_envs: int, seed: int = 1) -> list[Row]:
    return [Row(seed, t_env, "loss", t_env / 3) for t_env in t_envs]


# ------------------------------------------------------------------------------------------------ the folder


def test_folders_of_the_same_second_do_not_meet(tmp_path: Path):
    folders = [RunFolder.create(tiny_config(tmp_path, seed=2, seeds=3), SPEC) for _ in range(3)]
    assert len({folder.path for folder in folders}) == 3
    for folder in folders:
        assert folder.path.name.startswith("iql_foraging_4x4_seeds2-4_20")
        assert folder.config() == tiny_config(tmp_path, seed=2, seeds=3)
        assert folder.status() == "running"


def test_results_go_where_they_can_be_written(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=r"local_results_path: cannot write to '.*file': Not a directory"):
        RunFolder.create(tiny_config(tmp_path / "file"), SPEC)


def test_status(folder: RunFolder):
    folder.set_status("finished", t_env=7)
    assert folder.status() == "finished"
    assert json.loads((folder.path / "status.json").read_text()) == {"status": "finished", "t_env": 7}
    (folder.path / "status.json").write_text("{")
    assert folder.status() == "running"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [", "config.yaml cannot be read"),
        ("\xff\xfe", "config.yaml cannot be read"),
        ("just words", "config.yaml is damaged: it holds no keys"),
        ("leaning_rate: 1", "Unknown key 'leaning_rate'"),
    ],
)
def test_a_damaged_configuration_is_refused(folder: RunFolder, text: str, message: str):
    folder.config_file.write_bytes(text.encode("latin-1"))
    with pytest.raises(UserError, match=message):
        folder.config()


def test_a_run_belongs_to_one_process(folder: RunFolder):
    with folder.lock(), pytest.raises(UserError, match="another process is training this run"), folder.lock():
        pass
    with folder.lock():
        pass


# ------------------------------------------------------------------------------------------------ metrics


def test_metrics_are_exact_and_can_be_taken_back(folder: RunFolder):
    with reporter(folder)[0] as first:
        first.rewind(0)
        first.rows(rows(1, 2))
        position = first.position()
        first.rows(rows(3))
        assert folder.metrics().column("value") == [1 / 3, 2 / 3, 1.0]
    assert folder.metrics_file.read_bytes()[:position].endswith(b"1,2,loss,0.6666666666666666\n")
    with folder.metrics_file.open("ab") as file:
        file.write(b"1,4,lo")
    assert folder.metrics().column("t_env") == [1, 2, 3]
    with reporter(folder)[0] as second:
        second.rewind(position)
        assert second.position() == position
        second.rows(rows(5))
    assert folder.metrics().column("t_env") == [1, 2, 5]
    with reporter(folder)[0] as third:
        with pytest.raises(UserError, match=r"metrics.csv is damaged: it has \d+ bytes, its checkpoint knows 9999"):
            third.rewind(9999)
        third.rewind(0)
    assert folder.metrics_file.read_text() == "seed,t_env,name,value\n"


def test_a_damaged_table_is_refused(tmp_path: Path):
    path = tmp_path / "metrics.csv"
    assert len(read_metrics(path)) == 0
    path.write_text("seed,t_env,name,value\n1,2,loss,0.5\n1,x,loss,0.5\n")
    with pytest.raises(UserError, match=r"metrics.csv is damaged: line 3"):
        read_metrics(path)
    path.write_text("seed,t_env,name,value\n1,2,loss,nan\n1,3,loss,inf\n")
    assert read_metrics(path).column("value")[1] == float("inf")


def test_table(tmp_path: Path):
    table = Table([{"seed": 1, "name": "a", "value": 0.1}, {"seed": 2, "name": "a", "value": 0.2}])
    assert table.columns == ["seed", "name", "value"]
    assert table.where(seed=2).column("value") == [0.2]
    assert table.last(name="a") == 0.2
    assert table.last(name="b") is None
    assert len(table.where(seed=3)) == 0
    assert repr(table).splitlines()[0] == "Table(2 rows: seed, name, value)"
    table.write_csv(tmp_path / "table.csv")
    assert (tmp_path / "table.csv").read_text() == "seed,name,value\n1,a,0.1\n2,a,0.2\n"


# ------------------------------------------------------------------------------------------------ TensorBoard


def shown_by_tensorboard(folder: Path) -> list[tuple[str, int, float]]:
    """The scalars TensorBoard would show: a new session hides what older ones wrote from its first step on."""
    shown: list[tuple[str, int, float]] = []
    for path in sorted(folder.glob("events.*"), key=lambda path: path.stat().st_mtime_ns):
        data, place = path.read_bytes(), 0
        while place < len(data):
            (length,) = struct.unpack_from("<Q", data, place)
            event = Event.FromString(data[place + 12 : place + 12 + length])
            place += 16 + length
            if event.HasField("session_log"):
                shown = [scalar for scalar in shown if scalar[1] < event.step]
            shown += [(value.tag, event.step, value.simple_value) for value in event.summary.value]
    return shown


def test_tensorboard_follows_a_resume(folder: RunFolder):
    with reporter(folder)[0] as first:
        first.rewind(0)
        first.rows([*rows(3, 6), *rows(4, seed=2)])
        position = first.position()
        assert len(shown_by_tensorboard(folder.tensorboard / "seed_1")) == 2, "a save should bring them to the disk"
        first.rows([*rows(9), *rows(8, seed=2)])
    with reporter(folder)[0] as second:
        second.rewind(position)
        second.rows([*rows(12), *rows(10, seed=2)])
    assert shown_by_tensorboard(folder.tensorboard / "seed_1") == [
        ("loss", 3, 1.0),
        ("loss", 6, 2.0),
        ("loss", 12, 4.0),
    ]
    assert [step for _, step, _ in shown_by_tensorboard(folder.tensorboard / "seed_2")] == [4, 10]
    with reporter(folder)[0] as third:
        third.rewind(0)
        third.rows(rows(15))
    assert [step for _, step, _ in shown_by_tensorboard(folder.tensorboard / "seed_1")] == [15]
    assert not (folder.tensorboard / "seed_2").exists()


# ------------------------------------------------------------------------------------------------ the console


def test_lines_can_be_copied_from_the_console(folder: RunFolder):
    report, screen = reporter(folder, width=40)
    path = "/a/very/long/path" * 10
    with report:
        report.say(f"continue with: omg resume {path} [bold]")
    assert f"continue with: omg resume {path} [bold]\n" in screen.getvalue()
    assert f" continue with: omg resume {path} [bold]\n" in folder.console_file.read_text()


def test_progress_without_a_terminal_is_a_line_for_every_test_and_now_and_then_one_between(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
):
    report, screen = reporter(folder, width=300)
    clock = iter((0.0, 1.0, 12.0, 12.0, 13.0, 14.0, 15.0))
    monkeypatch.setattr("omg.tracking.reporter.time.monotonic", lambda: next(clock))
    with report:
        report.step("compiling")
        report.tested(0, {"test_return_mean": 0.25})
        for t_env in (10, 20):
            report.speed(Speed(t_env, 1234.5, 67.8, 0.25), {"test_return_mean": 0.25})
        report.tested(20, {"test_return_mean": 0.5})
        report.speed(Speed(120, 1234.5, 67.8, 0.25), {"test_return_mean": 0.5})
        report.speed(Speed(1000, 1234.5, 67.8, 0.25), {"test_return_mean": 0.5})
        report.tested(1000, {"test_return_mean": 0.75})
        monkeypatch.undo()
    shown = [line for line in screen.getvalue().splitlines() if line]
    pace = "1,234 steps/s  67.8 updates/s"
    assert shown == [
        "t_env 0/1,000  test_return_mean 0.250",
        f"t_env 20/1,000  {pace}",
        f"t_env 20/1,000  test_return_mean 0.500  {pace}",
        f"t_env 1,000/1,000  test_return_mean 0.750  {pace}",
    ]
    assert [line.split(" ", 2)[2] for line in folder.console_file.read_text().splitlines()] == shown
    header, *lines = folder.speed_file.read_text().splitlines()
    assert header == "t_env,env_steps_per_second,updates_per_second,host_share"
    assert lines == [f"{t_env},1234.5,67.80,0.2500" for t_env in (10, 20, 120, 1000)]


def test_long_work_is_never_silent(folder: RunFolder):
    report, screen = reporter(folder, width=300)
    with report:
        report.heartbeat = beat = Heartbeat(report._still, seconds=0.05)
        report.step("compiling play, learning and tests")
        wait_for(lambda: screen.getvalue().count("compiling play, learning and tests: 0 s so far\n") > 1)
        report.busy("playing and learning from t_env 0 on")
        wait_for(lambda: "playing and learning from t_env 0 on: 0 s so far\n" in screen.getvalue())
        report.tested(0, {"test_return_mean": 0.25})
        shown = screen.getvalue()
        assert shown.endswith("test_return_mean 0.250\n")
        time.sleep(0.2)
        # Nothing goes on, so nothing is said; and the console log keeps what lasts.
        assert screen.getvalue() == shown
        assert "so far" not in folder.console_file.read_text()
        beat.close()


def wait_for(happened: Callable[[], bool]) -> None:
    for _ in range(1000):
        if happened():
            return
        time.sleep(0.01)
    raise AssertionError("it never happened")


def test_the_bar_shows_a_test_as_soon_as_it_is_done(folder: RunFolder):
    screen = io.StringIO()
    report = RunReporter(folder, folder.config(), Console(file=screen, width=80, force_terminal=True))
    with report:
        report.speed(Speed(500, 1234.5, 67.8, 0.25), {"test_score_mean": 0.25})
        report.tested(500, {"test_reward_per_player_mean": 0.75, "test_return_mean": 3.0})
        (task,) = report.progress.tasks
        assert (task.completed, task.total) == (500, 1000)
    assert "test reward per player 0.750  1,234 steps/s\n" in screen.getvalue(), "80 columns hold all of it"
    assert "━" * 8 in screen.getvalue()
