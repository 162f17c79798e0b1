"""Weights & Biases and MLflow, each by the real library: offline files, a local database, and no secret in either."""

from __future__ import annotations

import base64
import io
import json
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mlflow.tracking import MlflowClient
from rich.console import Console

import omg.tracking.trackers.base as tracker_base
from helpers.tiny import SPEC, tiny_config
from omg import api
from omg.cli import main
from omg.config import Config, check_stored, resolve
from omg.envs.trust import trusting
from omg.errors import UserError
from omg.tracking import RunFolder, RunReporter, check_trackers
from omg.tracking.trackers import Exhibit
from omg.tracking.trackers.wandb import mode
from omg.training.summary import Row

SECRETS = {
    "WANDB_API_KEY": "0123456789abcdef" * 2 + "deadbeef",
    "MLFLOW_TRACKING_TOKEN": "mlflow-token-of-nobody",
    "MLFLOW_TRACKING_PASSWORD": "mlflow-password-of-nobody",
    "MONGO_PASSWORD": "mongo-password-of-nobody",
    "HF_TOKEN": "hf_TokenOfNobodyAtAll",
}


@pytest.fixture(autouse=True)
def nothing_of_the_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No key, address or mode of whoever runs the tests; the libraries' own folders are elsewhere."""
    for name in (*SECRETS, "WANDB_MODE", "WANDB_BASE_URL", "MLFLOW_TRACKING_URI", "MLFLOW_TRACKING_USERNAME", "NETRC"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


def leveldb_log(data: bytes) -> Iterator[bytes]:
    """The records of a log of LevelDB's kind: blocks of 32 KiB, each piece with checksum, length and kind before it."""
    position, pieces = 7, []  # W&B's own header has seven bytes.
    while position + 7 <= len(data):
        if (left := -position % 32768) and left < 7:
            position += left
        _, length, kind = struct.unpack_from("<IHB", data, position)
        pieces.append(data[position + 7 : position + 7 + length])
        position += 7 + length
        if kind in (1, 4):  # All of a record, or its last piece.
            yield b"".join(pieces)
            pieces = []


def wandb_records(results: Path) -> dict[str, list[Any]]:
    """The records of every offline run: name -> protobuf messages, as `wandb sync` would read them."""
    from wandb.proto import wandb_internal_pb2

    found: dict[str, list[Any]] = {}
    for file in sorted((results / "wandb").glob("offline-run-*/run-*.wandb")):
        records = [wandb_internal_pb2.Record.FromString(data) for data in leveldb_log(file.read_bytes())]
        (started,) = (record.run for record in records if record.WhichOneof("record_type") == "run")
        found[started.display_name] = records
    return found


def wandb_history(records: list[Any]) -> list[dict[str, Any]]:
    """What was logged, without what the library adds."""
    rows = []
    for record in records:
        if record.WhichOneof("record_type") == "history":
            items = {item.key or ".".join(item.nested_key): json.loads(item.value_json) for item in record.history.item}
            rows.append({key: value for key, value in items.items() if not key.startswith("_")})
    return rows


def wandb_config(records: list[Any]) -> dict[str, Any]:
    (run,) = (record.run for record in records if record.WhichOneof("record_type") == "run")
    return {item.key: json.loads(item.value_json) for item in run.config.update}


def mlflow_runs(results: Path) -> tuple[MlflowClient, dict[str, Any]]:
    """The client, and the runs by their names."""
    client = MlflowClient(f"sqlite:///{results / 'mlflow.db'}")
    experiment = client.get_experiment_by_name("omg")
    return client, {run.info.run_name: run for run in client.search_runs([experiment.experiment_id])}


def curves(rows: list[Row]) -> dict[str, list[tuple[int, float]]]:
    found: dict[str, list[tuple[int, float]]] = {}
    for row in rows:
        found.setdefault(row.name, []).append((row.t_env, row.value))
    return found


# ------------------------------------------------------------------------------------------------ a whole run


def test_a_run_with_all_of_them_and_no_secret_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    results = tmp_path / "results"
    config = tiny_config(
        results,
        tracker="wandb,mlflow,sacred",
        wandb_mode="offline",
        sacred_mongo_url="mongodb://me:$MONGO_PASSWORD@127.0.0.1:1/?serverSelectionTimeoutMS=50",
    )
    screen = io.StringIO()
    run = api.train_config(config, console=Console(file=screen, width=500))
    assert run.status == "finished"
    warned = [line for line in screen.getvalue().splitlines() if line.startswith("warning:")]
    assert [line.partition(" is ")[0] for line in warned] == ["warning: tracker sacred (mongo)"]

    name = f"{run.folder.name}_seed1"
    expected = curves([Row(**row) for row in run.metrics])
    (records,) = wandb_records(results).values()
    assert list(wandb_records(results)) == [name]
    history = wandb_history(records)
    logged = [row for row in history if "t_env" in row]
    for metric, points in expected.items():
        assert [(row["t_env"], row[metric]) for row in logged if metric in row] == points
    kinds = {key.removesuffix("._type"): row[key] for row in history for key in row if key.endswith("._type")}
    assert kinds["curves/test_return_mean"] == "image-file"
    assert kinds["newest_test"] == "table-file"
    stored = wandb_config(records)
    assert (stored["lr"], stored["seed"], stored["run_folder"]) == (config.lr, 1, run.folder.name)
    assert "sacred_mongo_url" not in stored

    client, runs = mlflow_runs(results)
    assert list(runs) == [name]
    kept = runs[name]
    assert kept.info.status == "FINISHED"
    assert (kept.data.params["lr"], kept.data.params["seed"]) == (str(config.lr), "1")
    for metric, points in expected.items():
        got = sorted((one.step, one.value) for one in client.get_metric_history(kept.info.run_id, metric))
        assert got == sorted(points)
    files = {one.path for one in client.list_artifacts(kept.info.run_id)}
    assert {"console.log", "newest_test.csv", "test_return_mean.png"} <= files
    (picture,) = (results / "mlartifacts").glob("*/artifacts/test_return_mean.png")
    assert picture.read_bytes().startswith(b"\x89PNG")

    on_disk = [path for path in results.rglob("*") if path.is_file()]
    assert len(on_disk) > 30
    for word, secret in SECRETS.items():
        for form in (secret.encode(), base64.b64encode(f"api:{secret}".encode())):
            assert [path for path in on_disk if form in path.read_bytes()] == [], word
        assert secret not in screen.getvalue()


# ------------------------------------------------------------------------------------------------ their parts


def begun(config: Config) -> tuple[RunFolder, RunReporter, io.StringIO]:
    folder = RunFolder.create(config, SPEC)
    screen = io.StringIO()
    return folder, RunReporter(folder, config, Console(file=screen, width=500)), screen


def rows(*t_envs: int, seed: int = 1) -> list[Row]:
    return [Row(seed, t_env, "test_return_mean", t_env / 4) for t_env in t_envs]


def test_seeds_are_runs_of_one_group_and_a_resumed_one_begins_with_its_past(tmp_path: Path) -> None:
    config = tiny_config(tmp_path, tracker="wandb,mlflow", seeds=2, seed=5)
    folder, first, screen = begun(config)

    def broken(scratch: Path) -> list[Exhibit]:
        raise UserError("no curves at all")

    with first:
        first.rewind(0)
        first.exhibit(broken)
        first.rows([*rows(1, 2, seed=5), *rows(1, 2, seed=6)])
        position = first.position()
        first.rows(rows(3, seed=5))
        folder.set_status("interrupted")
    assert screen.getvalue() == "warning: trackers get no curves and games (no curves at all).\n"
    page = tmp_path / "game.html"
    page.write_text("<p>a game</p>")
    with RunReporter(folder, config, quiet=True) as second:
        second.rewind(position)
        second.rows(rows(4, seed=5))
        second.exhibit(lambda scratch: [Exhibit("replays/game", "page", page, 6)])
        folder.set_status("finished")

    client, _ = mlflow_runs(tmp_path)
    experiment = client.get_experiment_by_name("omg").experiment_id
    got = {}
    for run in client.search_runs([experiment]):
        points = client.get_metric_history(run.info.run_id, "test_return_mean")
        files = [one.path for one in client.list_artifacts(run.info.run_id)]
        key = (int(run.data.tags["seed"]), run.data.tags["resumed"])
        got[key] = (run.info.status, sorted(one.step for one in points), "game.html" in files)
    assert got == {
        (5, "False"): ("KILLED", [1, 2, 3], False),
        (6, "False"): ("KILLED", [1, 2], False),
        (5, "True"): ("FINISHED", [1, 2, 4], False),
        (6, "True"): ("FINISHED", [1, 2], True),
    }

    seen = {}
    for file in sorted((tmp_path / "wandb").glob("offline-run-*")):
        assert not any(path.is_symlink() for path in file.glob("files/**/*"))
        seen[len(seen)] = len(list(file.glob("files/media/html/replays/game*.html")))
        assert (file / "files" / "console.log").is_file()
    assert sorted(seen.values()) == [0, 0, 0, 1]


def test_a_tracker_that_fails_never_stops_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = tiny_config(tmp_path, tracker="mlflow,wandb", mlflow_uri="http://127.0.0.1:1")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    (tmp_path / "wandb").write_text("a file where the library wants a folder")
    folder, reporter, screen = begun(config)
    with reporter:
        reporter.rewind(0)
        reporter.rows(rows(1))
        reporter.exhibit(lambda scratch: pytest.fail("nobody is left to look"))
        folder.set_status("finished")
    lines = screen.getvalue().splitlines()
    assert sum(line.startswith("warning: tracker mlflow is switched off (") for line in lines) == 1
    assert folder.metrics().column("t_env") == [1]


# ------------------------------------------------------------------------------------------------ what is chosen


def test_without_a_key_nothing_goes_online(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = resolve("iql", "foraging", ["tracker=wandb"]).config
    assert mode(asked) == "offline"
    home = tmp_path / "home"
    home.mkdir()
    (home / ".netrc").write_text("machine api.wandb.ai login user password secret\n")
    assert mode(asked) == "online"
    monkeypatch.setenv("WANDB_BASE_URL", "https://wandb.example.org")
    assert mode(asked) == "offline"
    monkeypatch.setenv("WANDB_API_KEY", SECRETS["WANDB_API_KEY"])
    assert mode(asked) == "online"
    monkeypatch.setenv("WANDB_MODE", "offline")
    assert mode(asked) == "offline"
    assert mode(resolve("iql", "foraging", ["tracker=wandb", "wandb_mode=online"]).config) == "online"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["tracker=wandb", "wandb_mode=online"], "wandb_mode: got online, but no key is known. Set WANDB_API_KEY or"),
        (["tracker=wandb", "wandb_mode=live"], "Unknown wandb_mode 'live'.* Allowed: auto, offline, online"),
        (["wandb_project=x"], "wandb_project: got x, but no part of this run reads it; tracker=wandb would"),
        (["mlflow_uri=http://x"], "mlflow_uri: .*, but no part of this run reads it; tracker=mlflow would"),
        (["tracker=mlflow", "mlflow_uri=https://me:secret@x"], "mlflow_uri: has a password written out"),
        (["tracker=mlflow", "mlflow_uri=http://[x"], "mlflow_uri: got 'http://\\[x'; expected an address"),
    ],
)
def test_bad_settings_are_refused(settings: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message) as refused:
        check_trackers(resolve("iql", "foraging", settings).config)
    assert "secret" not in str(refused.value)


def test_a_missing_package_ends_the_command_before_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    there = tracker_base.find_spec
    for tracker, module in (("wandb", "wandb"), ("mlflow", "mlflow"), ("mlflow", "sqlalchemy")):
        monkeypatch.setattr(tracker_base, "find_spec", lambda name, gone=module: None if name == gone else there(name))
        given = ["train", "--config=iql", "--env-config=foraging", f"--tracker={tracker}"]
        assert main([*given, f"local_results_path={tmp_path / 'results'}"]) == 2
        message = capsys.readouterr().err
        assert f"tracker: {tracker} needs the package {module}, which is not installed." in message
        assert f"pip install 'omg-marl[{tracker}]'" in message
        assert message.count("\n") == 1
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize(
    "settings",
    [
        {"tracker": "mlflow", "mlflow_uri": "https://elsewhere"},
        {"tracker": "wandb", "wandb_entity": "somebody"},
    ],
)
def test_who_is_sent_records_no_file_may_say(settings: dict[str, str]) -> None:
    config = resolve("iql", "foraging", settings).config
    with pytest.raises(UserError, match=r"that is sent the run's records.*add --trust"):
        check_stored("theirs/config.yaml", config)
    with trusting(True):
        check_stored("theirs/config.yaml", config)


def test_nothing_of_them_is_imported_before_a_run_asks_for_it() -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys, omg.tracking.trackers as t; [e.build for _, e in t.TRACKERS.ours().items()];"
            "print([m for m in ('wandb', 'mlflow', 'sacred') if m in sys.modules])",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "[]"
