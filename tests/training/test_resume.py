"""Resuming: a run that was stopped, killed or damaged ends with the very same bytes as one that never was."""

from __future__ import annotations

import errno
import functools
import json
import os
import random
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers.processes import SAVE_OFTEN, Process, command, only_run, size_of_metrics
from helpers.stopping import Stopping, shared_programs
from helpers.tiny import result, tiny_config
from omg import api
from omg.cli import main
from omg.components import files
from omg.errors import UserError
from omg.tracking import RunFolder, RunReporter
from omg.training.checkpoint import list_checkpoints, load_newest, save_checkpoint
from omg.training.program import Program
from omg.training.state import RunState


@pytest.fixture(scope="module", autouse=True)
def one_program() -> Iterator[None]:
    """All runs of this process are one program; how others resume what was built elsewhere is tested at the end."""
    with shared_programs():
        yield


@pytest.fixture(scope="module")
def uninterrupted(results: Path) -> tuple[bytes, dict[str, bytes]]:
    """The result that all others are compared with."""
    run = api.train_config(tiny_config(results, **SAVE_OFTEN), quiet=True)
    assert run.status == "finished"
    return result(run.folder)


@pytest.fixture
def stop_after(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Makes later runs stop after a number of chunks, or no more with 0."""

    def stop(chunks: int, presses: int = 1) -> None:
        reporter = functools.partial(Stopping, chunks=chunks, presses=presses)
        monkeypatch.setattr(api, "RunReporter", reporter if chunks else RunReporter)

    return stop


# ------------------------------------------------------------------------------------------------ stopped by the user


def test_a_run_stopped_again_and_again_ends_the_same(
    results: Path, uninterrupted: tuple[bytes, dict[str, bytes]], stop_after: Callable[..., None]
):
    stop_after(1)
    run = api.train_config(tiny_config(results, **SAVE_OFTEN), quiet=True)
    reached = []
    for chunks in (7, 2, 16, 0):
        assert run.status == "interrupted"
        status = json.loads((run.folder / "status.json").read_text())
        assert status["status"] == "interrupted"
        reached.append(status["t_env"])
        stop_after(chunks)
        run = api.resume(run.folder, quiet=True)
    assert run.status == "finished"
    assert sorted(set(reached)) == reached
    assert reached[0] > 0
    assert reached[-1] < 1000
    assert result(run.folder) == uninterrupted
    log = (run.folder / "console.log").read_text()
    for t_env in reached:
        assert f"saved at t_env {t_env:,}; continue with: omg resume {run.folder}" in log
        assert f"resuming at t_env {t_env:,}" in log


def test_a_second_ctrl_c_ends_at_once(
    results: Path, uninterrupted: tuple[bytes, dict[str, bytes]], stop_after: Callable[..., None]
):
    before = set(results.iterdir())
    stop_after(9, presses=2)
    with pytest.raises(KeyboardInterrupt):
        api.train_config(tiny_config(results, **SAVE_OFTEN), quiet=True)
    (folder,) = set(results.iterdir()) - before
    assert RunFolder(folder).status() == "interrupted"
    assert f"continue with: omg resume {folder}" in (folder / "console.log").read_text()
    stop_after(0)
    api.resume(folder, quiet=True)
    assert result(folder) == uninterrupted


# ------------------------------------------------------------------------------------------------ damage


@pytest.fixture(scope="module")
def half_done(results: Path) -> Path:
    """A run that was stopped in the middle; tests resume copies of it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(api, "RunReporter", functools.partial(Stopping, chunks=25))
        return api.train_config(tiny_config(results, **SAVE_OFTEN), quiet=True).folder


def truncate(checkpoint: Path) -> str:
    path = checkpoint / "state.safetensors"
    os.truncate(path, path.stat().st_size // 2)
    return "state.safetensors does not match its checksum"


def flip_a_bit(checkpoint: Path) -> str:
    path = checkpoint / "state.safetensors"
    data = bytearray(path.read_bytes())
    data[-100] ^= 1
    path.write_bytes(data)
    return "state.safetensors does not match its checksum"


def lose_the_state(checkpoint: Path) -> str:
    (checkpoint / "state.safetensors").unlink()
    return "state.safetensors is missing"


def change_the_counters(checkpoint: Path) -> str:
    path = checkpoint / "host.json"
    path.write_text(path.read_text().replace('"last_test": ', '"last_test": 1'))
    return "host.json does not match its checksum"


def empty_the_manifest(checkpoint: Path) -> str:
    (checkpoint / "checkpoint.json").write_text("")
    return "checkpoint.json cannot be read"


def from_the_future(checkpoint: Path) -> str:
    path = checkpoint / "checkpoint.json"
    path.write_text(path.read_text().replace('"format": 1', '"format": 99'))
    return "checkpoint.json has format 99, known is 1"


DAMAGES = (truncate, flip_a_bit, lose_the_state, change_the_counters, empty_the_manifest, from_the_future)


@pytest.mark.parametrize("damage", DAMAGES[:3], ids=lambda damage: damage.__name__)
def test_a_damaged_checkpoint_is_passed_over(
    damage: Callable[[Path], str],
    half_done: Path,
    uninterrupted: tuple[bytes, dict[str, bytes]],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
):
    folder = Path(shutil.copytree(half_done, tmp_path / "run"))
    older, newest = list_checkpoints(folder / "checkpoints")
    problem = damage(newest)
    # What a process that was killed while saving leaves behind does no harm either.
    leftover = folder / "checkpoints" / ".writing-000000000444"
    leftover.mkdir()
    (leftover / "state.safetensors").write_bytes(b"half of a checkpo")
    assert main(["resume", str(folder)]) == 0
    shown = capsys.readouterr().out
    assert f"checkpoint {newest.name} is damaged ({problem}); using the one before it" in shown
    assert result(folder) == uninterrupted
    assert not leftover.exists()
    assert older not in (kept := list_checkpoints(folder / "checkpoints"))
    assert len(kept) == 2


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_every_damage_is_recognised(damage: Callable[[Path], str], half_done: Path, tmp_path: Path):
    folder = Path(shutil.copytree(half_done / "checkpoints", tmp_path / "checkpoints"))
    template = state_shapes(half_done)
    said: list[str] = []
    older, newest = list_checkpoints(folder)
    found = load_newest(folder, template, said.append)
    assert found is not None
    assert int(found[0].episodes) == int(newest.name)
    assert said == []
    problem = damage(newest)
    found = load_newest(folder, template, said.append)
    assert found is not None
    assert int(found[0].episodes) == int(older.name)
    assert len(said) == 1
    assert problem in said[0]
    damage(older)
    with pytest.raises(UserError, match=r"All 2 checkpoints in .* are damaged; the run cannot be resumed"):
        load_newest(folder, template, said.append)
    assert load_newest(tmp_path / "nothing", template, said.append) is None


def state_shapes(folder: Path) -> Any:
    program = Program(RunFolder.open(folder).config())
    return jax.eval_shape(program.init, jnp.array([1], jnp.uint32))._replace(tuned=None)


def test_all_damaged_is_refused(half_done: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    folder = Path(shutil.copytree(half_done, tmp_path / "run"))
    for checkpoint in list_checkpoints(folder / "checkpoints"):
        flip_a_bit(checkpoint)
    before = (folder / "metrics.csv").read_bytes()
    assert main(["resume", str(folder)]) == 2
    assert "error: All 2 checkpoints in" in capsys.readouterr().err
    assert (folder / "metrics.csv").read_bytes() == before


def test_a_checkpoint_of_another_configuration_is_refused(half_done: Path, tmp_path: Path):
    folder = Path(shutil.copytree(half_done, tmp_path / "run"))
    for old, new, leaf in (
        ("rnn_hidden_dim: 16", "rnn_hidden_dim: 24", "has shape (1, 17, 16), expected (1, 17, 24)"),
        ("players: 2", "players: 3", "'learner.mac.agent.fc1.weight' has shape (1, 17, 16), expected (1, 21, 16)"),
        ("buffer_size: 32", "buffer_size: 16", "'storage.obs' has shape (1, 32, 9, 2, 9), expected (1, 16, 9, 2, 9)"),
    ):
        original = (folder / "config.yaml").read_text()
        assert old in original
        (folder / "config.yaml").write_text(original.replace(old, new))
        with pytest.raises(UserError, match="does not fit this configuration") as caught:
            api.resume(folder, quiet=True)
        assert leaf in str(caught.value)
        (folder / "config.yaml").write_text(original)


# ------------------------------------------------------------------------------------------------ saving


@pytest.fixture(scope="module")
def saved(half_done: Path) -> tuple[Any, RunState]:
    """Shapes of a state and a state."""
    template = state_shapes(half_done)
    found = load_newest(half_done / "checkpoints", template, print)
    assert found is not None
    return template, found[0]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_a_state_comes_back_bit_for_bit(dtype: str, tmp_path: Path):
    program = Program(tiny_config(tmp_path, buffer_dtype=dtype, seeds=2))
    template = jax.eval_shape(program.init, jnp.array([1, 2], jnp.uint32))._replace(tuned=None)
    rng = np.random.default_rng(0)

    def fill(leaf: jax.ShapeDtypeStruct) -> jax.Array:
        bits = rng.integers(0, 2, leaf.shape) if leaf.dtype == bool else rng.normal(0, 50, leaf.shape)
        return jnp.asarray(bits, leaf.dtype)

    state = jax.tree.map(fill, template)._replace(episodes=jnp.int32(20), stored=jnp.int32(20))
    # Rows that were never filled are not stored and come back as zeros.
    storage = jax.tree.map(lambda leaf: leaf.at[:, 20:].set(jnp.zeros((), leaf.dtype)), state.storage)
    state = state._replace(storage=storage)
    host = {"last_test": 3, "best": {"1": 0.1 + 0.2}, "streak": -float("inf")}
    path = save_checkpoint(tmp_path / "checkpoints", state, host, with_buffer=True, keep=2)
    assert path.name == "000000000020"
    found = load_newest(tmp_path / "checkpoints", template, print)
    assert found is not None
    assert found[1] == host
    for old, new in zip(jax.tree.leaves(state), jax.tree.leaves(found[0]), strict=True):
        assert (old.dtype, old.shape) == (new.dtype, new.shape)
        np.testing.assert_array_equal(np.asarray(old), np.asarray(new))


def test_only_the_newest_checkpoints_are_kept(saved: tuple[Any, RunState], tmp_path: Path):
    _, state = saved
    for episodes in (4, 8, 12, 16):
        save_checkpoint(tmp_path, state._replace(episodes=jnp.int32(episodes)), {}, with_buffer=True, keep=3)
    assert [int(path.name) for path in list_checkpoints(tmp_path)] == [8, 12, 16]
    # After a resume from 8 (the later ones were damaged) the later ones are no part of the run any more.
    save_checkpoint(tmp_path, state._replace(episodes=jnp.int32(10)), {}, with_buffer=True, keep=2)
    assert [int(path.name) for path in list_checkpoints(tmp_path)] == [8, 10]


def test_without_the_buffer_learning_waits_until_it_has_filled_again(
    half_done: Path, saved: tuple[Any, RunState], tmp_path: Path
):
    template, state = saved
    save_checkpoint(tmp_path / "checkpoints", state, {}, with_buffer=False, keep=2)
    said: list[str] = []
    found = load_newest(tmp_path / "checkpoints", template, said.append)
    assert found is not None
    assert len(said) == 1
    assert "no replay buffer (save_buffer=False)" in said[0]
    resumed = found[0]
    assert int(resumed.episodes) == int(state.episodes) > 32
    assert int(resumed.stored) == 0
    assert not any(np.asarray(leaf).any() for leaf in jax.tree.leaves(resumed.storage))
    program = Program(RunFolder.open(half_done).config())
    chunk = program.chunk.lower(resumed).compile()
    updates = []
    for _ in range(3):
        resumed, log = chunk(resumed)
        updates.append(int(log.updates[0, 0]))
    assert updates == [0, 4, 4]
    assert int(resumed.storage.filled[0, :, 0].sum()) == int(resumed.stored) == 12


def test_a_full_disk_is_reported_and_harms_nothing(
    saved: tuple[Any, RunState], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    template, state = saved
    first = save_checkpoint(tmp_path, state._replace(episodes=jnp.int32(4)), {}, with_buffer=True, keep=2)

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(files, "write_tensors", full)
    with pytest.raises(UserError, match=r"The checkpoint .*8 cannot be written: .*No space left on device"):
        save_checkpoint(tmp_path, state._replace(episodes=jnp.int32(8)), {}, with_buffer=True, keep=2)
    assert list(tmp_path.iterdir()) == [first]
    assert load_newest(tmp_path, template, print) is not None


# ------------------------------------------------------------------------------------------------ refused


def test_what_cannot_be_resumed(results: Path, half_done: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    def refused(folder: Path) -> str:
        assert main(["resume", str(folder)]) == 2
        out, err = capsys.readouterr()
        assert "Traceback" not in out + err
        assert err.count("\n") == 1
        return err

    assert refused(tmp_path / "nowhere").endswith("nowhere is not a run folder: there is no such folder.\n")
    assert refused(tmp_path).endswith("is not a run folder: it has no config.yaml.\n")

    finished = Path(shutil.copytree(half_done, tmp_path / "finished"))
    RunFolder(finished).set_status("finished")
    assert refused(finished) == (
        f"error: {finished}: this run is already finished. `omg resume {finished} t_max=N` makes it longer.\n"
    )

    busy = Path(shutil.copytree(half_done, tmp_path / "busy"))
    before = (busy / "metrics.csv").read_bytes()
    with RunFolder(busy).lock():
        assert refused(busy) == f"error: {busy}: another process is training this run.\n"
    assert (busy / "metrics.csv").read_bytes() == before
    assert RunFolder(busy).status() == "interrupted"

    (busy / "config.yaml").write_text("")
    assert "config.yaml is damaged" in refused(busy)
    shutil.copy(half_done / "config.yaml", busy / "config.yaml")
    os.truncate(busy / "metrics.csv", 100)
    assert "metrics.csv is damaged: it has 100 bytes" in refused(busy)


# ------------------------------------------------------------------------------------------------ other processes


def test_killed_again_and_again_the_run_ends_the_same(tmp_path: Path, uninterrupted: tuple[bytes, dict[str, bytes]]):
    rng, whole, results = random.Random(5), len(uninterrupted[0]), tmp_path / "results"
    # Before the first checkpoint, well past it and while resuming; each a few milliseconds after a line was written.
    moments = (0.01, rng.uniform(0.3, 0.6), 0.0)
    process, kills, folder = Process(*command(results)), 0, results
    for moment in moments:
        process.wait_until(lambda moment=moment: size_of_metrics(results) > moment * whole)  # type: ignore[misc]
        time.sleep(rng.uniform(0, 0.01))
        process.process.kill()
        code, _ = process.end()
        kills += code == -signal.SIGKILL
        folder = only_run(results) or results
        assert RunFolder(folder).status() == "running"
        process = Process("resume", str(folder))
    code, shown = process.end()
    assert code == 0, shown
    assert kills == len(moments)
    assert RunFolder(folder).status() == "finished"
    metrics, agents = result(folder)
    assert metrics == uninterrupted[0]
    for name, content in uninterrupted[1].items():
        if name.endswith("weights.safetensors"):
            assert agents[name] == content, name
    assert not list(folder.rglob(".writing-*"))
    assert not list(folder.rglob(".old-*"))


def test_ctrl_c_saves_and_says_how_to_go_on(tmp_path: Path):
    results = tmp_path / "results"
    process = Process(*command(results, test_interval=4, save_model_interval=4))
    process.wait_until(lambda: size_of_metrics(results) > 3000)
    process.process.send_signal(signal.SIGINT)
    code, shown = process.end()
    folder = only_run(results)
    assert folder is not None
    assert code == 130, shown
    assert "Traceback" not in shown
    assert f"continue with: omg resume {folder}\n" in shown
    status = json.loads((folder / "status.json").read_text())
    assert status["status"] == "interrupted"
    assert f"saved at t_env {status['t_env']:,}" in shown
    newest = list_checkpoints(folder / "checkpoints")[-1]
    assert json.loads((newest / "host.json").read_text())["last_save"] == status["t_env"]
