"""Training in games outside JAX: the loop, logs, checkpoints and tests are those of every run."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import omg
from helpers.host_games import worker_processes
from helpers.stopping import Stopping
from helpers.tiny import result
from omg import api
from omg.config import adjust, resolve
from omg.errors import UserError
from omg.tracking import RunFolder
from omg.training.checkpoint import list_checkpoints
from omg.training.collecting import CompiledCollector
from omg.training.hosted import HostCollector
from omg.training.program import build_program

SETTINGS: dict[str, Any] = {
    "t_max": 400,
    "test_interval": 150,
    "test_nepisode": 4,
    "log_interval": 4,
    "save_model_interval": 100,
    "batch_size_run": 4,
    "batch_size": 8,
    "buffer_size": 32,
    "rnn_hidden_dim": 16,
    "epsilon_anneal_time": 300,
    "target_update_interval": 16,
    "workers": 2,
    "use_cuda": False,
    "use_tensorboard": False,
}


def settings(results: Path, kwargs: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    game = {"key": "helpers.host_games:Walk", "time_limit": 8, "kwargs": kwargs or {}, "metrics": ["place"]}
    return {**SETTINGS, "env_args": game, "local_results_path": str(results), **changes}


def train(results: Path, kwargs: dict[str, Any] | None = None, algorithm: str = "iql", **changes: Any) -> omg.Run:
    return omg.train(algorithm, "gymma", **settings(results, kwargs, **changes))


def values(run: omg.Run, name: str) -> list[float]:
    return [row["value"] for row in run.metrics.where(name=name)]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> omg.Run:
    """A run that nothing has disturbed."""
    return train(tmp_path_factory.mktemp("whole"))


def test_a_run_has_everything(whole: omg.Run) -> None:
    assert whole.status == "finished"
    assert worker_processes() == []
    names = {row["name"] for row in whole.metrics}
    assert {"return_mean", "place_mean", "loss", "epsilon", "test_return_mean", "test_place_mean"} <= names
    assert set(values(whole, "episodes_dropped")) == {0.0}
    episodes, lengths = values(whole, "episode"), values(whole, "ep_length_mean")
    steps = [row["t_env"] for row in whole.metrics.where(name="episode")]
    assert steps[-1] == round(sum(4 * length for length in lengths)) >= 400
    assert episodes == [4.0 * (index + 1) for index in range(len(episodes))]
    # One update per episode, from the moment the buffer holds a batch.
    assert values(whole, "updates")[-1] == episodes[-1] - 4
    assert 3 <= min(lengths) <= max(lengths) <= 8
    assert len(values(whole, "test_return_mean")) == 4
    assert np.std(values(whole, "test_return_mean")) > 0
    log = (whole.folder / "console.log").read_text()
    assert "gymma: helpers.host_games:Walk, played in Python" in log
    agent = omg.load(whole.folder)
    assert agent.card.spec.scenario == "Walk"
    seen = np.zeros((1, 2, 3), np.float32)
    actions, _ = agent.act(seen, np.array([[[0, 1, 0], [1, 0, 0]]], bool))
    assert actions.tolist() == [[1, 0]]
    shares = [float(line.split(",")[3]) for line in (whole.folder / "speed.csv").read_text().splitlines()[1:]]
    assert all(0 < share < 1 for share in shares)


@pytest.mark.parametrize("workers", [1, 3])
def test_the_number_of_workers_changes_nothing(workers: int, whole: omg.Run, tmp_path: Path) -> None:
    other = train(tmp_path, workers=workers)
    assert (other.folder / "metrics.csv").read_bytes() == (whole.folder / "metrics.csv").read_bytes()


def test_a_worker_killed_in_mid_run(whole: omg.Run, tmp_path: Path) -> None:
    run = train(tmp_path, {"fault": "kill", "marker": str(tmp_path / "once")})
    assert run.status == "finished"
    assert worker_processes() == []
    lines = [line for line in (run.folder / "console.log").read_text().splitlines() if "dropped" in line]
    assert len(lines) == 1
    assert "was killed by SIGKILL" in lines[0]
    dropped = values(run, "episodes_dropped")
    # The fault was met in the first test, before the first training episode; its episodes count all the same.
    said = int(lines[0].split(" unfinished episode(s) dropped")[0].rpartition(" ")[2])
    assert set(dropped) == {said}
    assert said >= 1
    assert values(run, "episode") == values(whole, "episode")


def test_dropped_training_episodes_are_counted(tmp_path: Path) -> None:
    marker = tmp_path / "once"
    marker.touch()

    class Breaking(Stopping):
        def speed(self, speed: Any, headline: dict[str, float]) -> None:
            super().speed(speed, headline)
            if self.chunks == 0:
                marker.unlink()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(api, "RunReporter", partial(Breaking, chunks=5, presses=0))
        run = train(tmp_path, {"fault": "nan", "marker": str(marker)})
    dropped = values(run, "episodes_dropped")
    log = (run.folder / "console.log").read_text()
    said = int(log.split(" unfinished episode(s) dropped")[0].rpartition(" ")[2])
    assert dropped[:5] == [0.0] * 5
    assert dropped[-1] == dropped[5] == said >= 1
    assert values(run, "episode") == [4.0 * (index + 1) for index in range(len(dropped))]


def test_interrupted_and_resumed_it_ends_the_same(
    whole: omg.Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(api, "RunReporter", partial(Stopping, chunks=7))
        half = train(tmp_path)
    assert half.status == "interrupted"
    assert worker_processes() == []
    assert omg.resume(half.folder, quiet=True).status == "finished"
    metrics, agents = result(half.folder)
    expected, weights = result(whole.folder)
    assert metrics == expected
    for name in weights:
        if name.endswith("weights.safetensors"):
            assert agents[name] == weights[name], name


def test_games_that_keep_failing_end_the_run_with_a_checkpoint(whole: omg.Run, tmp_path: Path) -> None:
    pause = tmp_path / "pause"

    class Pausing(Stopping):
        def speed(self, speed: Any, headline: dict[str, float]) -> None:
            super().speed(speed, headline)
            if self.chunks == 0:
                pause.touch()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(api, "RunReporter", partial(Pausing, chunks=5, presses=0))
        with pytest.raises(UserError, match=r"failed 3 times.*RuntimeError: paused\. The run is saved at t_env [\d,]+"):
            train(tmp_path, {"pause": str(pause)}, worker_failures=2, save_model_interval=10_000)
    assert worker_processes() == []
    folder = next(path for path in tmp_path.iterdir() if path.is_dir())
    assert json.loads((folder / "status.json").read_text())["status"] == "failed"
    assert len(list_checkpoints(folder / "checkpoints")) == 1
    pause.unlink()
    assert omg.resume(folder, quiet=True).status == "finished"
    # What failed was never counted: the run ends as if nothing had happened.
    assert (folder / "metrics.csv").read_bytes() == (whole.folder / "metrics.csv").read_bytes()


def test_one_process_two_seeds_and_a_team(tmp_path: Path) -> None:
    run = train(
        tmp_path,
        algorithm="1vdn1iql",
        runner="episode",
        seeds=2,
        t_max=60,
        batch_size=4,
        test_interval=30,
        workers=None,
    )
    assert worker_processes() == []
    config = RunFolder.open(run.folder).config()
    assert (config.runner, config.batch_size_run, config.team) == ("episode", 1, "1vdn1iql")
    own = run.metrics.where(name="test_own_return_mean")
    assert {row["seed"] for row in own} == {1, 2}
    assert len({row["value"] for row in own}) > 2
    returns = {seed: [row["value"] for row in run.metrics.where(name="return_mean", seed=seed)] for seed in (1, 2)}
    assert returns[1][0] != returns[2][0], "each seed has games of its own"


def test_the_runner_fits_the_game() -> None:
    hosted, notes = adjust(resolve("iql", "gymma", {"runner": "vector"}).config, has_gpu=True)
    assert hosted.runner == "parallel"
    assert notes == ["runner: vector -> parallel, as gymma is no JAX program and plays in worker processes."]
    compiled, _ = adjust(resolve("iql", "foraging", {"runner": "parallel"}).config, has_gpu=True)
    assert isinstance(build_program(compiled).collector, CompiledCollector)
    assert compiled.runner == "parallel", "PyMARL's configurations of built-in games stay as they are"
    assert isinstance(build_program(hosted).collector, HostCollector)


def test_what_games_on_the_host_cannot_do(tmp_path: Path) -> None:
    def refused(**changes: Any) -> str:
        config = resolve(changes.pop("algorithm", "iql"), "gymma", settings(tmp_path, **changes)).config
        with pytest.raises(UserError) as error:
            build_program(adjust(config, has_gpu=False)[0])
        return str(error.value)

    assert "devices: got 2, but games of gymma are no JAX programs; what they bring is learned" in refused(devices=2)
    assert "save_replay: got True, but gymma Walk writes no replays" in refused(save_replay=True)
    oracle = refused(algorithm="1iql1iql_omg", omg_q_input="oracle")
    assert "omg_q_input: got oracle, which looks ahead in a copy of the game" in oracle
