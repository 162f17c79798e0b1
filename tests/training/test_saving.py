"""Checkpoints that are written while training goes on: the same bytes, one at a time, and nothing lost by an error."""

from __future__ import annotations

import errno
import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import save_file

from helpers.processes import SAVE_OFTEN, command
from helpers.stopping import shared_programs
from helpers.tiny import result, tiny_config
from omg import api
from omg.cli import main
from omg.components.files import checksum, save_arrays
from omg.training import checkpoint, loop, memory, saving
from omg.training.checkpoint import list_checkpoints, save_checkpoint, write_checkpoint
from omg.training.loop import Trainer
from omg.training.memory import bytes_of_copy
from omg.training.program import Program
from omg.training.saving import Saver

WORDS = ["checkpoint.json", "host.json", "state.safetensors"]


@pytest.fixture(scope="module", autouse=True)
def one_program() -> Iterator[None]:
    with shared_programs():
        yield


@pytest.fixture(scope="module")
def whole(results: Path) -> api.Run:
    """A run that saves while training waits."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "fits_beside", lambda program: False)
        run = api.train_config(tiny_config(results, keep_checkpoints=50, **SAVE_OFTEN), quiet=True)
    assert "checkpoints: training waits for them, as memory has no room" in (run.folder / "console.log").read_text()
    return run


def saved_bytes(folder: Path) -> dict[str, list[bytes]]:
    found = list_checkpoints(folder / "checkpoints")
    return {path.name: [(path / name).read_bytes() for name in WORDS] for path in found}


class Slow:
    """Writes checkpoints so late that training is far ahead by then; counts how many are under way."""

    def __init__(self, patch: pytest.MonkeyPatch, chunks: int = 3) -> None:
        self.trained, self.most, self.beside = 0, 0, 0
        self.chunks, self.now, self.over = chunks, 0, threading.Event()
        compile_both, wait = Trainer._compile, Saver.wait

        def compile_(trainer: Trainer, state: Any) -> Any:
            chunk, test = compile_both(trainer, state)

            def counted(state: Any) -> Any:
                self.trained += 1
                return jax.block_until_ready(chunk(state))

            return counted, test

        def hurried(saver: Saver) -> None:
            self.over.set()
            wait(saver)
            self.over.clear()

        patch.setattr(Trainer, "_compile", compile_)
        patch.setattr(Saver, "wait", hurried)
        patch.setattr(saving, "write_checkpoint", self.write)

    def write(self, *args: Any, **kwargs: Any) -> Path:
        self.now += 1
        self.most = max(self.most, self.now)
        begun, deadline = self.trained, time.monotonic() + 20
        while self.trained < begun + self.chunks and not self.over.is_set():
            assert time.monotonic() < deadline, "training waits for the checkpoint"
            time.sleep(0.001)
        self.beside += self.trained > begun
        try:
            return write_checkpoint(*args, **kwargs)
        finally:
            self.now -= 1


def test_written_late_they_have_the_same_bytes(results: Path, whole: api.Run, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = Slow(monkeypatch)
    run = api.train_config(tiny_config(results, keep_checkpoints=50, **SAVE_OFTEN), quiet=True)
    assert slow.most == 1, "two writes at a time"
    assert slow.beside > 5
    assert "training waits" not in (run.folder / "console.log").read_text()
    assert len(saved_bytes(run.folder)) > 10
    assert saved_bytes(run.folder) == saved_bytes(whole.folder)
    assert result(run.folder) == result(whole.folder)


def test_a_disk_that_is_full_beside_training_ends_the_run_with_one_line(
    results: Path, whole: api.Run, capsys: pytest.CaptureFixture[str]
) -> None:
    written: list[Path] = []

    def full(path: Path, *given: Any) -> str:
        written.append(path)
        if len(written) > 3:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return save_arrays(path, *given)

    before = set(results.iterdir())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checkpoint, "save_arrays", full)
        assert main(command(results, keep_checkpoints=50)) == 2
    shown = capsys.readouterr()
    assert shown.err.count("\n") == 1
    assert "cannot be written: No space left on device. Once it can, continue with omg resume." in shown.err
    (folder,) = set(results.iterdir()) - before
    status = json.loads((folder / "status.json").read_text())
    assert (status["status"], "No space left" in status["reason"]) == ("failed", True)
    assert len(list_checkpoints(folder / "checkpoints")) == 3
    assert not list(folder.rglob(".writing-*"))
    assert main(["resume", str(folder)]) == 0
    assert result(folder) == result(whole.folder)


def test_a_second_signal_gives_up_what_is_being_written(
    results: Path, whole: api.Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends between two blocks, leaves nothing, and nothing is written when the run's lock is free again."""
    under_way = threading.Event()

    def endless(folder: Path, saved: Any, host: Any, *, keep: int, between: Callable[[], None]) -> Path:
        def forever() -> None:
            under_way.set()
            while True:
                between()
                time.sleep(0.001)

        return write_checkpoint(folder, saved, host, keep=keep, between=forever)

    class Pressing(api.RunReporter):
        def speed(self, *args: Any) -> None:
            super().speed(*args)
            if under_way.is_set():
                signal.raise_signal(signal.SIGINT)
                signal.raise_signal(signal.SIGINT)

    before = set(results.iterdir())
    with monkeypatch.context() as patch:
        patch.setattr(saving, "write_checkpoint", endless)
        patch.setattr(api, "RunReporter", Pressing)
        # Of many saves the first is never over; training goes on until it has begun, and would wait at the second.
        with pytest.raises(KeyboardInterrupt):
            api.train_config(tiny_config(results, keep_checkpoints=50, **SAVE_OFTEN), quiet=True)
    (folder,) = set(results.iterdir()) - before
    assert not list(folder.rglob(".writing-*"))
    assert not list_checkpoints(folder / "checkpoints")
    assert api.resume(folder, quiet=True).status == "finished"
    assert result(folder) == result(whole.folder)


def test_a_copy_outlives_the_state_it_was_made_of(tmp_path: Path) -> None:
    program = Program(tiny_config(tmp_path, seeds=2))
    state = program.init(jnp.array([1, 2], jnp.uint32))._replace(episodes=jnp.int32(20), stored=jnp.int32(20))
    noise = jax.tree.map(lambda leaf: (leaf + 1).astype(leaf.dtype), state.storage)
    state = state._replace(storage=noise)
    expected = save_checkpoint(tmp_path / "expected", state, {}, with_buffer=True, keep=2)
    saver = Saver(tmp_path / "found", with_buffer=True, keep=2, beside=True)
    for episodes in (10, 20):
        saver.save(state._replace(episodes=jnp.int32(episodes)), {})
    jax.tree.map(lambda leaf: leaf.delete(), state)
    found = saver.newest()
    assert found is not None
    assert [(found / name).read_bytes() for name in WORDS] == [(expected / name).read_bytes() for name in WORDS]


def test_the_copy_is_among_what_needs_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = Program(tiny_config(tmp_path))
    copy = bytes_of_copy(program)
    assert copy > program.storage_bytes()
    together = sum(need.bytes for need in memory._needs(program)) + copy
    for given, fits in ((together / memory._SHARE + 10, True), (together / memory._SHARE - 10, False)):
        monkeypatch.setattr(memory, "memory_bytes", lambda given=given: (int(given), "this machine"))
        assert memory.fits_beside(program) == fits
    smaller = Program(tiny_config(tmp_path, save_buffer=False))
    assert bytes_of_copy(smaller) == copy - program.storage_bytes()


def test_files_are_those_of_safetensors(tmp_path: Path) -> None:
    kinds = ["b1", "u1", "i1", "u2", "i2", "f2", "u4", "i4", "f4", "u8", "i8", "f8"]
    arrays = {f"{place}.{kind}": np.ones(shape, kind) for kind in kinds for place, shape in (("z", 3), ("a", (2, 2)))}
    arrays |= {"one": np.array(3.5, np.float32), "none": np.zeros((0, 3), np.float32), 'a "name" é': np.arange(9)}
    save_file(arrays, tmp_path / "theirs")
    digest = save_arrays(tmp_path / "ours", arrays)
    assert (tmp_path / "ours").read_bytes() == (tmp_path / "theirs").read_bytes()
    assert digest == checksum(tmp_path / "ours")
    rows = np.arange(24.0).reshape(2, 4, 3)
    save_arrays(tmp_path / "rows", {"rows": rows[:, :3]})
    save_arrays(tmp_path / "whole", {"rows": rows[:, :3].copy()})
    assert (tmp_path / "rows").read_bytes() == (tmp_path / "whole").read_bytes()
