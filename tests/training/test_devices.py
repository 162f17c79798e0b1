"""One run on two devices, which a CPU simulates in a process of its own: the numbers and the bytes of one device."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from helpers.refusing import refusal
from helpers.tiny import tiny_config
from omg.cli import main
from omg.training import spread
from omg.training.spread import Spread

HELPERS = Path(__file__).parents[1]
SCRIPT = """
import functools, hashlib, json, sys
from pathlib import Path

import jax
import numpy as np

from helpers.stopping import Stopping, shared_programs
from helpers.tiny import tiny_config, weights
from omg import api
from omg.cli import main
from omg.tracking import RunReporter
from omg.training.program import Program

results, found = Path(sys.argv[1]), {"devices": len(jax.devices())}


def train(stop, **changes):
    api.RunReporter = functools.partial(Stopping, chunks=stop) if stop else RunReporter
    return api.train_config(tiny_config(results, save_model_interval=50, **changes), quiet=True)


def digest(run):
    agents = [weights(path) for path in sorted(run.folder.glob("agents/seed_*/*"))]
    arrays = b"".join(array.tobytes() for agent in agents for array in agent.values())
    return hashlib.sha256((run.folder / "metrics.csv").read_bytes() + arrays).hexdigest()


def resumed(run, devices):
    api.RunReporter = RunReporter
    assert main(["resume", str(run.folder), f"devices={devices}"]) == 0
    return run


with shared_programs():
    for seeds in (2, 1):
        both = [train(0, seeds=seeds, devices=devices) for devices in (1, 2)]
        found[f"whole {seeds}"] = [digest(run) for run in both]
        found[f"log {seeds}"] = [(run.folder / "console.log").read_text().count("device: 2 x cpu") for run in both]
        moved = [resumed(train(17, seeds=seeds, devices=devices), 3 - devices) for devices in (1, 2)]
        found[f"moved {seeds}"] = [digest(run) for run in moved]
        # A program that shared_programs has made for the run above.
        program = api.build_program(tiny_config(results, save_model_interval=50, seeds=seeds, devices=2))
        state = program.init(np.arange(1, seeds + 1, dtype=np.uint32))
        found[f"buffer {seeds}"] = [list(shard.data.shape) for shard in state.storage.obs.addressable_shards]
        text = program.chunk.lower(state).compile().as_text()
        found[f"exchanged {seeds}"] = any(word in text for word in ("all-gather", "all-reduce", "collective-permute"))
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What happened in a process with two devices."""
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=2"
    paths = os.pathsep.join([str(HELPERS), *sys.path])
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path_factory.mktemp("devices"))],
        env={**os.environ, "XLA_FLAGS": flags, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


@pytest.mark.parametrize("seeds", [2, 1])
def test_two_devices_come_to_what_one_does(seeds: int, found: dict[str, Any]) -> None:
    assert found["devices"] == 2
    one, two = found[f"whole {seeds}"]
    assert one == two
    assert found[f"log {seeds}"] == [0, 1], "it did not say on what it ran"


@pytest.mark.parametrize("seeds", [2, 1])
def test_a_run_goes_on_with_other_devices(seeds: int, found: dict[str, Any]) -> None:
    assert found[f"moved {seeds}"] == found[f"whole {seeds}"]


def test_buffers_of_seeds_are_shared_out_and_games_of_one_seed(found: dict[str, Any]) -> None:
    (first, second), (whole, copy) = found["buffer 2"], found["buffer 1"]
    assert first == second == whole == copy == [1, *whole[1:]]
    assert not found["exchanged 2"], "devices wait for each other"
    assert found["exchanged 1"], "every device plays all games"


def test_devices_that_cannot_be_had(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(**changes: object) -> str:
        return refusal(lambda: Spread(tiny_config(tmp_path, **changes)))

    assert refused(devices=2, seeds=2).startswith(
        "devices: got 2, but this machine has 1 device of kind cpu. Allowed: at most 1. For tests, XLA_FLAGS="
    )
    monkeypatch.setattr(spread, "_devices", lambda: [None] * 4)
    assert refused(devices=4, seeds=6) == (
        "devices: got 4, but seeds=6 cannot be shared out to so many evenly. Allowed: 1, 2, 3."
    )
    assert refused(devices=3) == (
        "devices: got 3, but batch_size_run=4 cannot be shared out to so many evenly. Allowed: 1, 2, 4."
    )
    assert refused(devices=4, test_nepisode=6) == (
        "devices: got 4, but test_nepisode=6 cannot be shared out to so many evenly. Allowed: 1, 2, 3."
    )


def test_the_command_refuses_before_there_is_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--config=iql", "--env-config=foraging", "with", f"local_results_path={tmp_path / 'results'}"]
    assert main(["train", *words, "devices=64"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: devices: got 64, but this machine has 1 device of kind cpu.")
    assert error.count("\n") == 1
    assert not (tmp_path / "results").exists()
    assert main(["train", *words, "devices=0"]) == 2
    assert capsys.readouterr().err.startswith("error: devices: ")
