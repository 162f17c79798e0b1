"""Sacred's records of a run, written by the real library, and trackers that fail."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from sacred.observers import TinyDbReader

import omg.tracking.trackers.sacred as sacred_tracker
from helpers.tiny import SPEC, tiny_config
from omg import api
from omg.cli import main
from omg.config import Config, resolve
from omg.errors import UserError
from omg.tracking import RunFolder, RunReporter, check_trackers
from omg.tracking.trackers import chosen_trackers
from omg.tracking.trackers.base import AllTrackers
from omg.training.summary import Row

NO_DATABASE = "mongodb://somebody:secret@127.0.0.1:1/?serverSelectionTimeoutMS=50"


def begun(config: Config) -> tuple[RunFolder, RunReporter, io.StringIO]:
    folder = RunFolder.create(config, SPEC)
    screen = io.StringIO()
    return folder, RunReporter(folder, config, Console(file=screen, width=500)), screen


def rows(*t_envs: int, seed: int = 1) -> list[Row]:
    return [Row(seed, t_env, "test_return_mean", t_env / 4) for t_env in t_envs]


def entry(results: Path, number: int, file: str) -> Any:
    return json.loads((results / "sacred" / str(number) / file).read_text())


def series(values: dict[str, Any]) -> tuple[list[int], list[float]]:
    assert len(values["timestamps"]) == len(values["steps"])
    return values["steps"], values["values"]


# ------------------------------------------------------------------------------------------------ a whole run


def test_a_run_with_all_observers_and_no_database(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tiny_config(
        tmp_path, tracker="sacred", sacred_observers="file,tinydb", sacred_mongo_url=NO_DATABASE, seeds=2, seed=5
    )
    screen = io.StringIO()
    run = api.train_config(config, console=Console(file=screen, width=500))

    assert run.status == "finished"
    warnings = [line for line in screen.getvalue().splitlines() if line.startswith("warning:")]
    assert len(warnings) == 1
    assert warnings[0].startswith("warning: tracker sacred (mongo) is switched off (ServerSelectionTimeoutError: ")
    assert "secret" not in screen.getvalue()

    documents = {document["config"]["seed"]: document for document in TinyDbReader(tmp_path / "sacred_tinydb").runs}
    assert sorted(documents) == [5, 6]
    assert sorted(path.name for path in (tmp_path / "sacred").iterdir()) == ["1", "2"]
    for number, seed in ((1, 5), (2, 6)):
        stored = entry(tmp_path, number, "config.json")
        assert stored == {**config.model_dump(mode="json"), "seed": seed, "seeds": 1}
        assert resolve("iql", "foraging", stored).config.seed == seed

        measured = entry(tmp_path, number, "metrics.json")
        expected = run.metrics.where(seed=seed)
        assert sorted(measured) == sorted(set(expected.column("name")))
        info = entry(tmp_path, number, "info.json")
        for name in measured:
            own = expected.where(name=name)
            assert series(measured[name]) == (own.column("t_env"), own.column("value"))
            assert (info[f"{name}_T"], info[name]) == series(measured[name])
        assert documents[seed]["info"] == info

        about = entry(tmp_path, number, "run.json")
        assert about["status"] == documents[seed]["status"] == "COMPLETED"
        assert about["stop_time"] >= about["start_time"]
        assert about["meta"]["run_folder"] == str(run.folder)
        assert any(package.startswith("jax==") for package in about["experiment"]["dependencies"])
        assert about["experiment"]["name"] == "iql"
        assert {"hostname", "os", "python_version", "device"} <= set(about["host"])
        console = (run.folder / "console.log").read_text()
        assert (tmp_path / "sacred" / str(number) / "cout.txt").read_text() == console
        assert documents[seed]["captured_out"] == console
        assert "compiled in" in console


# ------------------------------------------------------------------------------------------------ its parts


def test_a_resumed_run_is_a_new_entry_that_is_whole(tmp_path: Path) -> None:
    config = tiny_config(tmp_path, tracker="sacred")
    folder, first, _ = begun(config)
    with first:
        first.rewind(0)
        first.rows(rows(1, 2))
        position = first.position()
        first.rows(rows(3))
        folder.set_status("interrupted")
    with RunReporter(folder, config, quiet=True) as second:
        second.rewind(position)
        second.rows(rows(4))
        folder.set_status("finished")
    assert series(entry(tmp_path, 1, "metrics.json")["test_return_mean"]) == ([1, 2, 3], [0.25, 0.5, 0.75])
    assert series(entry(tmp_path, 2, "metrics.json")["test_return_mean"]) == ([1, 2, 4], [0.25, 0.5, 1.0])
    assert [entry(tmp_path, number, "run.json")["status"] for number in (1, 2)] == ["INTERRUPTED", "COMPLETED"]
    assert [entry(tmp_path, number, "run.json")["meta"]["resumed"] for number in (1, 2)] == [False, True]


def test_metrics_are_on_disk_after_a_checkpoint_and_wait_for_a_beat_otherwise(tmp_path: Path) -> None:
    folder, reporter, _ = begun(tiny_config(tmp_path, tracker="sacred"))
    metrics = tmp_path / "sacred" / "1" / "metrics.json"
    with reporter:
        reporter.rewind(0)
        reporter.rows(rows(1))
        assert not metrics.exists()
        reporter.position()
        assert entry(tmp_path, 1, "metrics.json")["test_return_mean"]["steps"] == [1]
        folder.set_status("finished")


def test_a_failed_run_keeps_its_trace(tmp_path: Path) -> None:
    _, reporter, _ = begun(tiny_config(tmp_path, tracker="sacred"))
    reporter.rewind(0)
    with pytest.raises(ValueError, match="lost"), reporter:
        raise ValueError("lost")
    about = entry(tmp_path, 1, "run.json")
    assert about["status"] == "FAILED"
    assert about["fail_trace"][-1] == "ValueError: lost\n"


def test_a_tracker_that_breaks_down_is_switched_off_alone(tmp_path: Path) -> None:
    config = tiny_config(tmp_path, tracker="sacred", sacred_observers=["file", "tinydb"])
    folder, reporter, screen = begun(config)
    with reporter:
        reporter.rewind(0)
        (tmp_path / "sacred_tinydb" / "metadata.json").write_text("{ damaged")
        for step in (1, 2):
            reporter.rows(rows(step))
            reporter.position()
        folder.set_status("finished")
    assert screen.getvalue().count("warning: tracker sacred (tinydb) is switched off (JSONDecodeError: ") == 1
    assert "warning: tracker sacred (tinydb)" in folder.console_file.read_text()
    assert entry(tmp_path, 1, "metrics.json")["test_return_mean"]["steps"] == [1, 2]
    assert entry(tmp_path, 1, "run.json")["status"] == "COMPLETED"
    assert folder.metrics().column("t_env") == [1, 2]


def test_any_event_may_fail() -> None:
    class Broken:
        def __init__(self, event: str) -> None:
            self.event, self.calls = event, []

        def __getattr__(self, event: str) -> Any:
            def called(*_: Any) -> None:
                self.calls.append(event)
                if event == self.event:
                    raise OSError(28, "No space left on device")

            return called

    for event in ("begin", "rows", "flush", "close"):
        said: list[str] = []
        broken, whole = Broken(event), Broken("")
        group = AllTrackers({"broken": broken, "whole": whole}, said.append)
        group.begin([])
        for _ in range(2):
            group.rows([])
            group.flush()
        group.close("finished", None)
        assert broken.calls.count(event) == 1
        assert broken.calls[-1] == event
        assert whole.calls == ["begin", "rows", "flush", "rows", "flush", "close"]
        assert said == [
            "warning: tracker broken is switched off (OSError: [Errno 28] No space left on device); the run goes on."
        ]


# ------------------------------------------------------------------------------------------------ what is chosen


@pytest.mark.parametrize(
    ("word", "names"),
    [
        ("tracker=sacred,tensorboard", ("sacred", "tensorboard")),
        ("tracker=[sacred, tensorboard, sacred]", ("sacred", "tensorboard")),
        ("tracker=sacred", ("sacred",)),
        ("tracker=None", ()),
    ],
)
def test_words(word: str, names: tuple[str, ...]) -> None:
    config = resolve("iql", "foraging", [word, "use_tensorboard=False"]).config
    assert tuple(config.tracker) == chosen_trackers(config) == names
    assert chosen_trackers(resolve("iql", "foraging", [word]).config) == tuple(dict.fromkeys(("tensorboard", *names)))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            ["tracker=sacrd"],
            r"Unknown tracker 'sacrd'. Did you mean 'sacred'\? Allowed: aim, mlflow, sacred, ",
        ),
        (["tracker=3"], "Unknown tracker '3'"),
        (["tracker=sacred", "sacred_observers=sql"], "Unknown sacred_observers 'sql'.* Allowed: file, mongo, tinydb"),
        (["tracker=sacred", "sacred_observers=mongo"], "sacred_mongo_url: missing, but sacred_observers names mongo"),
        (
            ["tracker=sacred", "sacred_mongo_url=http://me:secret@here"],
            "sacred_mongo_url: got 'http://here'; expected an address that begins with mongodb://",
        ),
        (
            ["sacred_mongo_url=mongodb://here"],
            "sacred_mongo_url: .*, but no part of this run reads it; tracker=sacred would",
        ),
    ],
)
def test_bad_settings_are_refused(settings: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        check_trackers(resolve("iql", "foraging", settings).config)


def test_an_address_may_name_environment_variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_ADDRESS", NO_DATABASE)
    config = tiny_config(tmp_path, tracker="sacred", sacred_mongo_url="$SECRET_ADDRESS")
    check_trackers(config)
    folder, reporter, screen = begun(config)
    with reporter:
        reporter.rewind(0)
        folder.set_status("finished")
    assert "warning: tracker sacred (mongo) is switched off (ServerSelectionTimeoutError" in screen.getvalue()
    assert entry(tmp_path, 1, "config.json")["sacred_mongo_url"] == "$SECRET_ADDRESS"


def test_a_missing_package_ends_the_command_before_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    there = sacred_tracker.find_spec
    for module, words in (
        ("sacred", []),
        ("tinydb", ["sacred_observers=tinydb"]),
        ("pymongo", ["sacred_mongo_url=mongodb://x"]),
    ):
        monkeypatch.setattr(
            sacred_tracker, "find_spec", lambda name, gone=module: None if name == gone else there(name)
        )
        given = ["train", "--config=iql", "--env-config=foraging", "--tracker=sacred", *words]
        assert main([*given, f"local_results_path={tmp_path / 'results'}"]) == 2
        message = capsys.readouterr().err
        assert f"needs the package {module}, which is not installed." in message
        assert "pip install 'omg-marl[sacred]'" in message
        assert message.count("\n") == 1
    assert not (tmp_path / "results").exists()
