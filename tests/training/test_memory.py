"""What cannot fit into memory is refused before anything is compiled."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from helpers.refusing import refusal
from helpers.tiny import tiny_config
from omg.cli import main
from omg.config import adjust, resolve
from omg.errors import UserError, out_of_memory
from omg.training import memory
from omg.training.memory import check_memory
from omg.training.program import Program

MACHINE = (24 * 10**9, "this machine")


def battle(**changes: object) -> Program:
    overrides = {"env_args.map_name": "27m_vs_30m", **changes}
    return Program(adjust(resolve("iql", "sc2", overrides).config, has_gpu=False)[0])


def test_a_buffer_that_cannot_fit_is_refused_with_the_size_that_would(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(memory, "memory_bytes", lambda: MACHINE)
    message = refusal(lambda: check_memory(battle(buffer_size=5_000_000)))
    assert message.startswith("buffer_size: 5,000,000 episodes need 16,955 GB; this machine has 24 GB; at most ")
    most = int(re.search(r"at most ([\d,]+) fit", message)[1].replace(",", ""))  # type: ignore[index]
    check_memory(battle(buffer_size=most * 9 // 10))
    assert "buffer_size: " in refusal(lambda: check_memory(battle(buffer_size=most + 1)))


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"batch_size_run": 100_000, "buffer_size": 100_000}, "batch_size_run: 100,000 games"),
        ({"buffer_size": 1000, "seeds": 1000}, "buffer_size: 1,000 episodes"),
        ({"rnn_hidden_dim": 16_384, "buffer_size": 100, "seeds": 2}, "seeds: 2 networks of width 16,384 need 39 GB"),
    ],
)
def test_other_keys_that_take_memory_are_named(changes: dict[str, object], key: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(memory, "memory_bytes", lambda: MACHINE)
    assert refusal(lambda: check_memory(battle(**changes))).startswith(key)


def test_many_small_things_together_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    program = Program(tiny_config(tmp_path))
    needs = memory._needs(program)
    together = sum(need.bytes for need in needs)
    monkeypatch.setattr(memory, "memory_bytes", lambda: (int(together), "this machine"))
    assert " for all else; this machine has 0.00 GB; " in refusal(lambda: check_memory(program))
    monkeypatch.setattr(memory, "memory_bytes", lambda: (int(together / 0.9) + 10, "this machine"))
    check_memory(program)


def test_a_container_may_have_less_than_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    limit = tmp_path / "memory.max"
    monkeypatch.setattr(memory, "_CGROUP", (limit, tmp_path / "missing"))
    limit.write_text("max\n")
    everything = memory.memory_bytes()[0]
    limit.write_text("1000000\n")
    assert memory.memory_bytes() == (1_000_000, "this machine")
    assert 10**8 < everything < 2**62


def test_running_out_of_memory_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    assert out_of_memory(ValueError("x")) is None

    def exhausted(*_: object, **__: object) -> None:
        raise RuntimeError("RESOURCE_EXHAUSTED: Out of memory while trying to allocate 99999999 bytes.")

    monkeypatch.setattr("omg.config.layers.resolve", exhausted)
    assert main(["config"]) == 2
    shown = capsys.readouterr().err
    assert shown.count("\n") == 1
    assert "The memory is not enough (RESOURCE_EXHAUSTED: Out of memory while trying to allocate 99999999" in shown
    assert "buffer_size" in shown


def test_the_command_refuses_before_there_is_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    words = ["--config=iql", "--env-config=sc2", "env_args.map_name=27m_vs_30m", "buffer_size=1000000000"]
    assert main(["train", *words, f"local_results_path={tmp_path / 'results'}"]) == 2
    assert capsys.readouterr().err.startswith("error: buffer_size: 1,000,000,000 episodes need ")
    assert not (tmp_path / "results").exists()


def test_rounds_of_too_many_steps_are_refused():
    with pytest.raises(UserError, match=r"batch_size_run: got 1000000; .* Allowed: at most 71580."):
        battle(batch_size_run=1_000_000, buffer_size=1_000_000, **{"env_args.episode_limit": 30_000})
