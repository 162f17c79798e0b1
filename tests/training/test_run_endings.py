"""How training ends and in what rhythm it goes: early stop, chunks of several iterations, divergence."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import equinox as eqx
import numpy as np
import pytest

from helpers.stopping import shared_programs
from helpers.tiny import result, tiny_config, weights
from omg import api
from omg.errors import UserError
from omg.tracking import RunFolder, Table
from omg.training import collecting, loop
from omg.training.early import does_badly, reached_goal
from omg.training.finite import DivergedError
from omg.training.loop import Trainer
from omg.training.program import Program
from omg.training.state import RunState


@pytest.fixture(scope="module", autouse=True)
def one_program() -> Iterator[None]:
    """What is tested here lies around the program; how a run is resumed by another process is tested elsewhere."""
    with shared_programs():
        yield


def steps(metrics: Table, name: str) -> list[int]:
    return metrics.where(name=name).column("t_env")


def test_early_stop(results: Path):
    goal = {"early_stop_metric": "test_return_mean", "early_stop_value": -1.0, "early_stop_patience": 3}
    stopped = api.train_config(tiny_config(results, **goal), quiet=True)
    assert stopped.status == "stopped"
    tests = steps(stopped.metrics, "test_return_mean")
    assert len(tests) == 3
    assert stopped.agents[0].card.t_env == tests[-1] < 1000
    assert "early stop: test_return_mean >= -1.0 in 3 tests in a row" in (stopped.folder / "console.log").read_text()
    with pytest.raises(UserError, match="this run is already stopped"):
        api.resume(stopped.folder, quiet=True)
    # Killed just before it could say so, it stops again at once.
    RunFolder(stopped.folder).set_status("running")
    before = result(stopped.folder)
    assert api.resume(stopped.folder, quiet=True).status == "stopped"
    assert result(stopped.folder) == before


def test_a_run_that_does_badly_at_a_step_ends(results: Path):
    # Returns are shares of one food: never below 0, never above 1.
    watch = {"early_stop_metric": "test_return_mean", "early_stop_at": [1, 250], "early_stop_below": [0.0, 2.0]}
    stopped = api.train_config(tiny_config(results, **watch), quiet=True)
    assert stopped.status == "stopped"
    tests = steps(stopped.metrics, "test_return_mean")
    assert tests[-2] < 250 <= tests[-1] == stopped.agents[0].card.t_env < 1000
    said = (stopped.folder / "console.log").read_text()
    assert "early stop: test_return_mean is " in said
    assert ", and only runs with 2 go on from step 250" in said
    # Killed just before it could say so, it stops again at once.
    RunFolder(stopped.folder).set_status("running")
    before = result(stopped.folder)
    assert api.resume(stopped.folder, quiet=True).status == "stopped"
    assert result(stopped.folder) == before


def test_what_is_no_number_does_badly(results: Path):
    config = tiny_config(results, early_stop_metric="test_x", early_stop_at=[10, 20], early_stop_below=[0.5, 0.7])
    found = [
        does_badly(config, loop.Progress(last_test=now, newest_test=[{"test_x": value}]), before)
        for before, now, value in ((-1, 5, 0.0), (5, 12, 0.5), (5, 12, 0.4), (12, 15, 0.0), (12, 30, math.nan))
    ]
    assert [bool(one) for one in found] == [False, False, True, False, True]


def test_early_stop_needs_tests_in_a_row(results: Path):
    trainer = Trainer(
        Program(tiny_config(results, early_stop_metric="test_x", early_stop_value=1.0, early_stop_patience=2)),
        results,
        SimpleNamespace(say=lambda line: None),
        print,
    )
    reached = [
        reached_goal(trainer.config, loop.Progress(newest_test=[{"test_x": first}, {"test_x": second}]))
        for first, second in ((1.0, 2.0), (0.9, 2.0), (1.0, 0.0))
    ]
    assert reached == [True, False, False]
    assert [trainer._stops_early(loop.Progress(streak=streak)) for streak in (0, 1, 2, 3)] == [False, False, True, True]
    with pytest.raises(UserError, match=r"early_stop_metric: got 'test_x'.*Allowed: test_a, test_b"):
        reached_goal(trainer.config, loop.Progress(newest_test=[{"test_b": 0.0, "test_a": 0.0}]))


def test_a_chunk_never_plays_past_the_next_test(results: Path):
    config = tiny_config(results, test_interval=300, log_interval=300)
    program = Program(config)
    most = program.iterations * config.batch_size_run * program.spec.episode_limit
    assert program.iterations > 1
    assert most <= 300


def test_rhythm_and_chunks_of_several_iterations(results: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(collecting, "iterations_per_chunk", lambda config, limit: 4)
    rare = tiny_config(results, updates_per_episode=0.125, log_interval=32, save_model=False)
    finished = api.train_config(rare, quiet=True)
    rows = finished.metrics
    episodes, updates = (rows.where(name=name).column("value") for name in ("episode", "updates"))
    assert episodes[:3] == [16.0, 32.0, 48.0]
    # One update after every second round of four episodes, the first after eight episodes.
    assert updates == [count // 8 for count in episodes]
    # Iterations after the one that reached t_max do not count.
    lengths = rows.where(name="ep_length_mean").column("value")
    played = sum(
        length * (now - before) for length, (before, now) in zip(lengths, pairwise([0, *episodes]), strict=True)
    )
    assert played == pytest.approx(rows[-1]["t_env"])
    assert 1000 <= rows[-1]["t_env"] < 1000 + 4 * 8


def test_divergence_stops_with_one_message_and_leaves_the_last_good_checkpoint(
    results: Path, monkeypatch: pytest.MonkeyPatch
):
    original, calls = Trainer._compile, []

    def compile_poisoned(self: Trainer, state: RunState) -> tuple[Any, Any]:
        chunk, test = original(self, state)

        def poisoned(state: RunState) -> Any:
            calls.append(int(state.t_env.numpy()[0]))
            if len(calls) == 20:
                state = eqx.tree_at(
                    lambda s: s.learner.mac.agent.fc2.weight, state, replace_fn=lambda leaf: leaf * 1e38
                )
            return chunk(state)

        return poisoned, test

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "_compile", compile_poisoned)
        with pytest.raises(DivergedError) as caught:
            api.train_config(tiny_config(results), quiet=True)
    message = str(caught.value)
    assert f"for seed {caught.value.seed} near t_env {caught.value.t_env:,}." in message
    assert len(calls) == 20, "the run went on after it had diverged"
    for part in (
        "Training diverged: ",
        "seed 1",
        "The last good checkpoint is /",
        "smaller lr (now 0.0005)",
        "grad_norm_clip (now 10.0)",
    ):
        assert part in message
    t_env = int(message.split("near t_env ")[1].split(".")[0].replace(",", ""))
    assert t_env > calls[-1]
    folder = max(results.iterdir(), key=lambda path: path.stat().st_mtime)
    status = json.loads((folder / "status.json").read_text())
    assert status["status"] == "failed"
    assert "Training diverged" in status["reason"]
    assert all(np.isfinite(row["value"]) for row in RunFolder.open(folder).metrics())
    for path in (folder / "agents").rglob("weights.safetensors"):
        assert all(np.isfinite(value).all() for value in weights(path.parent).values())
    # Without the poison, the run goes on from there and ends as if nothing had happened.
    assert api.resume(folder, quiet=True).status == "finished"
    assert result(folder) == result(api.train_config(tiny_config(results), quiet=True).folder)
