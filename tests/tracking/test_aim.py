"""Aim by the real library: a repository beside the runs, resumed runs, and no secret in it."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from helpers.tiny import SPEC, tiny_config
from omg import api
from omg.config import check_stored, resolve
from omg.envs.trust import trusting
from omg.errors import UserError
from omg.tracking import RunFolder, RunReporter
from omg.tracking.trackers import Exhibit
from omg.training.summary import Row

aim = pytest.importorskip("aim")
CONTEXT = pytest.importorskip("aim.storage.context").Context({})


def runs(results: Path) -> list[Any]:
    """The runs of a repository, opened again: for reading alone they would have to be indexed by Aim's server first."""
    place = str(results)
    off: dict[str, Any] = {"system_tracking_interval": None, "capture_terminal_logs": False}
    return [aim.Run(each, repo=place, **off) for each in aim.Repo.from_path(place).list_all_runs()]


def curve(run: Any, name: str) -> list[tuple[int, float]]:
    steps, (values, *_) = run.get_metric(name, CONTEXT).data.items_list()
    return sorted(zip((int(step) for step in steps), values, strict=True))


def test_a_run_and_no_secret_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "aws-secret-of-nobody")
    screen = io.StringIO()
    config = tiny_config(tmp_path, tracker="aim")
    done = api.train_config(config, console=Console(file=screen, width=500))
    assert "warning" not in screen.getvalue()
    (run,) = runs(tmp_path)
    assert run.name == f"{done.folder.name}_seed1"
    assert (run["settings", "lr"], run["seed"], run["status"]) == (config.lr, 1, "finished")
    expected: dict[str, list[tuple[int, float]]] = {}
    for row in done.metrics:
        expected.setdefault(row["name"], []).append((row["t_env"], row["value"]))
    for metric, points in expected.items():
        assert curve(run, metric) == sorted(points), metric
    assert {"console.log", "newest_test.csv", "test_return_mean.png"} <= set(run.artifacts)
    assert run.get_image_sequence("curves/test_return_mean", CONTEXT) is not None
    on_disk = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert any(path.is_relative_to(tmp_path / ".aim") for path in on_disk)
    assert [path for path in on_disk if b"aws-secret-of-nobody" in path.read_bytes()] == []


def test_a_resumed_run_begins_with_its_past_and_games_belong_to_their_seed(tmp_path: Path) -> None:
    config = tiny_config(tmp_path, tracker="aim", seeds=2)
    folder = RunFolder.create(config, SPEC)

    def rows(*steps: int) -> list[Row]:
        return [Row(seed, step, "test_return_mean", step / 4) for seed in (1, 2) for step in steps]

    with RunReporter(folder, config, quiet=True) as first:
        first.rewind(0)
        first.rows(rows(1, 2))
        position = first.position()
        first.rows(rows(3))
        folder.set_status("interrupted")
    page = tmp_path / "game.html"
    page.write_text("<p>a game</p>")
    with RunReporter(folder, config, quiet=True) as second:
        second.rewind(position)
        second.rows(rows(4))
        second.exhibit(lambda scratch: [Exhibit("replays/game", "page", page, 2)])
        folder.set_status("finished")
    found = {
        (run["seed"], run["resumed"]): (
            run["status"],
            [step for step, _ in curve(run, "test_return_mean")],
            "game.html" in run.artifacts,
        )
        for run in runs(tmp_path)
    }
    assert found == {
        (1, False): ("interrupted", [1, 2, 3], False),
        (2, False): ("interrupted", [1, 2, 3], False),
        (1, True): ("finished", [1, 2, 4], False),
        (2, True): ("finished", [1, 2, 4], True),
    }


def test_a_place_that_cannot_be_had_never_stops_training(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    config = tiny_config(tmp_path, tracker="aim", aim_repo=str(tmp_path / "file"))
    folder, screen = RunFolder.create(config, SPEC), io.StringIO()
    with RunReporter(folder, config, Console(file=screen, width=500)) as reporter:
        reporter.rewind(0)
        reporter.rows([Row(1, 1, "test_return_mean", 1.0)])
        folder.set_status("finished")
    assert screen.getvalue().count("warning: tracker aim is switched off (") == 1
    assert folder.metrics().column("t_env") == [1]


def test_who_is_sent_records_no_file_may_say() -> None:
    config = resolve("iql", "foraging", {"tracker": "aim", "aim_repo": "aim://elsewhere:53800"}).config
    with pytest.raises(UserError, match=r"that is sent the run's records.*add --trust"):
        check_stored("theirs/config.yaml", config)
    with trusting(True):
        check_stored("theirs/config.yaml", config)
