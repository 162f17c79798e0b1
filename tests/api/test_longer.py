"""Runs that are made longer, and agents and learners of any saved step."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import omg
from helpers.processes import SAVE_OFTEN
from helpers.stopping import shared_programs
from helpers.tiny import result, tiny_config, weights
from omg import api
from omg.cli import main
from omg.config import change_config
from omg.errors import UserError
from omg.recordings import Recording
from omg.tracking import RunFolder
from omg.tracking.extension import BEFORE_END, extend_run, keep_former_best
from omg.training.checkpoint import learner_arrays, list_checkpoints, saved_step

SHORT, LONG = 500, 1000
SEVERAL = {"seeds": 2, "test_interval": 200, "log_interval": 100, "save_model_interval": 150, "batch_size_run": 2}
"""Two seeds that reach the end at different steps, in chunks of several rounds."""


@pytest.fixture(scope="module", autouse=True)
def one_program() -> Iterator[None]:
    """Runs of the same configuration share a compilation."""
    with shared_programs():
        yield


def stored(folder: Path) -> tuple[str, bytes, dict[str, bytes]]:
    """What must not depend on whether a run had its end from the start."""
    return (folder / "config.yaml").read_text(), *result(folder)


@pytest.fixture(scope="module")
def whole(results: Path) -> Path:
    """A run that had the later end from the start."""
    return api.train_config(tiny_config(results, t_max=LONG, **SAVE_OFTEN), quiet=True).folder


@pytest.fixture(scope="module")
def kept(results: Path) -> Path:
    """A short run that keeps all its checkpoints."""
    return api.train_config(tiny_config(results, t_max=SHORT, **SAVE_OFTEN, keep_checkpoints=50), quiet=True).folder


@pytest.mark.parametrize("several", [False, True], ids=["one seed", "several seeds and rounds"])
def test_a_longer_run_is_the_run_that_was_longer_from_the_start(several: bool, results: Path, whole: Path):
    settings = SEVERAL if several else SAVE_OFTEN
    if several:
        whole = api.train_config(tiny_config(results, t_max=LONG, **settings), quiet=True).folder
    short = api.train_config(tiny_config(results, t_max=SHORT, **settings), quiet=True)
    assert short.status == "finished"
    ended = (short.folder / "metrics.csv").read_bytes()
    # The old end wrote rows that the longer run does not have: it is more than an appendix.
    assert not (whole / "metrics.csv").read_bytes().startswith(ended)
    longer = api.resume(short.folder, t_max=LONG, quiet=True)
    assert longer.status == "finished"
    assert stored(short.folder) == stored(whole)
    assert "goes on from the last checkpoint before the old end" in (short.folder / "console.log").read_text()


def test_without_a_checkpoint_before_the_end_it_starts_anew(results: Path, whole: Path, tmp_path: Path):
    short = api.train_config(tiny_config(results, t_max=SHORT, **SAVE_OFTEN), quiet=True).folder
    for checkpoint in list_checkpoints(short / "checkpoints")[:-1]:
        (checkpoint / "state.safetensors").write_bytes(b"damaged")
    assert main(["resume", str(short), f"t_max={LONG}"]) == 0
    assert "so it starts anew" in (short / "console.log").read_text()
    assert stored(short) == stored(whole)


def test_a_best_agent_that_only_the_end_has_found_is_taken_back(kept: Path, tmp_path: Path):
    folder = RunFolder(Path(shutil.copytree(kept, tmp_path / "run")))
    before = weights(folder.agent(1, "best"))
    keep_former_best(folder, 1)
    shutil.copytree(folder.agent(1, "last"), folder.agent(1, "best"))
    keep_former_best(folder, 1)  # The one that is kept aside is not overwritten by another of the end's.
    config, note = extend_run(folder, "0.6k")
    assert (config.t_max, folder.config()) == (600, config)
    assert note.startswith("t_max: 500 -> 600; goes on from the last checkpoint before the old end")
    assert not folder.agent(1, BEFORE_END).exists()
    for name, value in weights(folder.agent(1, "best")).items():
        np.testing.assert_array_equal(value, before[name])
    card = json.loads((folder.agent(1, "best") / "agent.json").read_text())
    assert card["config"]["t_max"] == 600
    assert omg.load(folder.path).card.t_env < 500
    steps = [saved_step(path) for path in list_checkpoints(folder.checkpoints)]
    assert steps == [
        step for step in (saved_step(path) for path in list_checkpoints(kept / "checkpoints")) if step < 500
    ]


def test_an_end_that_set_the_length_of_chunks_is_taken_back_to_the_start(kept: Path, tmp_path: Path):
    folder = RunFolder(Path(shutil.copytree(kept, tmp_path / "run")))
    folder.write_config(change_config(folder.config(), test_interval=900, log_interval=900))
    assert "so it starts anew" in extend_run(folder, LONG)[1]
    assert list_checkpoints(folder.checkpoints) == []


def test_a_run_that_stopped_early_cannot_be_longer(kept: Path, tmp_path: Path):
    folder = RunFolder(Path(shutil.copytree(kept, tmp_path / "run")))
    folder.set_status("stopped")
    with pytest.raises(UserError, match="was ended by its early stop"):
        extend_run(folder, LONG)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["lr=0.1"], "lr: cannot change when a run goes on; it would be another run. Allowed: t_max, devices."),
        (["--config=vdn"], "config: cannot change when a run goes on"),
        (["t_max=500"], "t_max: got 500, but "),
        (["t_max=soon"], "t_max: got 'soon' (text); expected a whole number >= 1 and <= "),
    ],
)
def test_nothing_else_can_change(words: list[str], message: str, kept: Path, capsys: pytest.CaptureFixture[str]):
    before = stored(kept)
    assert main(["resume", str(kept), *words]) == 2
    assert capsys.readouterr().err.startswith(f"error: {message}")
    assert stored(kept) == before
    assert RunFolder(kept).status() == "finished"


# ------------------------------------------------------------------------------------------------ steps


def test_every_saved_step_can_be_loaded(kept: Path):
    checkpoints = list_checkpoints(kept / "checkpoints")
    steps = [saved_step(path) for path in checkpoints]
    assert len(steps) > 4
    for step, wanted in ((0, -1), (steps[2], 2), (steps[3] - 1, 2), (10**6, -1)):
        agent = omg.load(kept, step=step)
        assert agent.card.t_env == steps[wanted]
        stored_weights = learner_arrays(checkpoints[wanted])
        for name, value in weights(kept / "agents" / "seed_1" / "last").items():
            leaf = np.asarray(stored_weights[f"mac.{name}"][0])
            assert leaf.shape == value.shape
            if wanted == -1:
                np.testing.assert_array_equal(leaf, value)
    with pytest.raises(UserError, match=rf"no checkpoint at step 1 or before\. Saved steps: {steps[0]}, {steps[1]}, "):
        omg.load(kept, step=1)
    with pytest.raises(UserError, match="is not a run folder"):
        omg.load(kept / "agents" / "seed_1" / "last", step=3)


def test_evaluate_takes_a_step(kept: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path):
    steps = [saved_step(path) for path in list_checkpoints(kept / "checkpoints")]
    tables = []
    for step in (steps[0], steps[-1]):
        table = tmp_path / f"{step}.csv"
        assert main(["evaluate", str(kept), "--episodes=16", "--explore", f"--step={step}", "--csv", str(table)]) == 0
        tables.append(table.read_text())
        assert f"seed 1, saved agent (t_env {step:,})" in capsys.readouterr().out
    assert tables[0] != tables[1]
    assert main(["evaluate", str(kept), "--step", "0", "--obs-adapter", "learn"]) == 2
    assert "Leave step out." in capsys.readouterr().err
    assert main(["evaluate", str(kept), "--step", "1"]) == 2
    assert "Saved steps: " in capsys.readouterr().err


def test_init_from_takes_a_step(kept: Path, results: Path):
    checkpoint = list_checkpoints(kept / "checkpoints")[3]
    config = tiny_config(results, init_from=str(kept), load_step=saved_step(checkpoint))
    given = api.build_program(config).weights
    assert given is not None
    for name, value in given.items():
        np.testing.assert_array_equal(np.asarray(value), learner_arrays(checkpoint)[f"mac.agent.{name}"])
    with pytest.raises(UserError, match="load_step: got 5, but of no run"):
        tiny_config(results, load_step=5)


# ------------------------------------------------------------------------------------------------ checkpoint_path


def test_checkpoint_path_goes_on_with_another_runs_learner(kept: Path, results: Path):
    checkpoint = list_checkpoints(kept / "checkpoints")[4]
    step = saved_step(checkpoint)
    config = tiny_config(results, checkpoint_path=str(kept), load_step=step, t_max=step + 40, lr=1e-9)
    run = api.train_config(config, quiet=True)
    rows = run.metrics.where(name="test_return_mean")
    assert rows[0]["t_env"] == step
    assert f"its learner goes on from t_env {step:,}" in (run.folder / "console.log").read_text()
    # Learning at this rate changes next to nothing: these are that run's networks.
    then = learner_arrays(checkpoint)
    for name, value in weights(run.folder / "agents" / "seed_1" / "last").items():
        np.testing.assert_allclose(value, then[f"mac.{name}"][0], atol=1e-4)
    with pytest.raises(UserError, match=f"t_max: got 100, but .* is at step {step} already"):
        api.train_config(tiny_config(results, checkpoint_path=str(kept), load_step=step, t_max=100), quiet=True)


def test_evaluate_tests_and_stops(kept: Path, results: Path, capsys: pytest.CaptureFixture[str]):
    config = tiny_config(results, checkpoint_path=str(kept), evaluate=True, save_replay=True)
    run = api.train_config(config, quiet=True)
    reached = saved_step(list_checkpoints(kept / "checkpoints")[-1])
    assert run.status == "finished"
    assert {row["t_env"] for row in run.metrics} == {reached}
    assert not (run.folder / "checkpoints").exists()
    assert not (run.folder / "agents").exists()
    files = sorted((run.folder / "replays").iterdir())
    assert [file.name for file in files] == [
        f"seed_1_game_0{number}.{ending}" for number in (1, 2, 3, 4) for ending in ("html", "omgrec")
    ]
    text = files[0].read_text()
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "").replace("http-equiv", "")
    games = [Recording.read(file) for file in files if file.suffix == ".omgrec"]
    tested = run.metrics.where(name="test_return_mean")[0]["value"]
    assert np.mean([game.header["facts"]["return"] for game in games]) == pytest.approx(tested)
    game = games[0]
    x, y, there = (game[name][:, :2] for name in ("x", "y", "there"))
    assert len(x) == game.header["facts"]["steps"] + 1
    assert there.all()
    # Nobody moves further than to a neighbouring cell.
    assert set(np.unique(np.abs(np.diff(x, axis=0)) + np.abs(np.diff(y, axis=0)))) <= {0, 1}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"evaluate": True}, r"evaluate: got True, but nothing is trained yet\. Give checkpoint_path=RUN"),
        ({"checkpoint_path": "nowhere"}, "nowhere is not a run folder: there is no such folder"),
        ({"checkpoint_path": "KEPT", "rnn_hidden_dim": 24}, r"does not fit this configuration: .*\(1, 17, 16\)"),
        ({"checkpoint_path": "KEPT", "obs_is_state": True}, "was trained with obs_is_state=False, but this run has"),
        ({"checkpoint_path": "KEPT", "seeds": 2}, "was trained with seeds=1, but this run has seeds=2"),
        ({"checkpoint_path": "KEPT", "init_from": "x"}, "init_from: given, but checkpoint_path brings all networks"),
    ],
)
def test_what_does_not_fit_is_refused(changes: dict[str, object], message: str, kept: Path, tmp_path: Path):
    given = {key: str(kept) if value == "KEPT" else value for key, value in changes.items()}
    with pytest.raises(UserError, match=message):
        api.train_config(tiny_config(tmp_path, **given), quiet=True)
    assert list(tmp_path.iterdir()) == []
