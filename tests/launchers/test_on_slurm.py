"""Slurm through submitit, whose local executor stands in for the cluster: requeued parts, and what sbatch is given."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from helpers.parts import offer_parts, part
from helpers.refusing import refusal
from omg.cli import main
from omg.config import Config, resolve
from omg.errors import UserError
from omg.experiments.runs import finish, finish_all, known_runs
from omg.launchers import JobEnd, LauncherSettings, Site, opened
from omg.launchers.lease import look
from omg.launchers.settings import Slurm, read_machine, read_slurm

pytest.importorskip("submitit")

HERE = LauncherSettings(launcher="slurm", executor="local", retries=1)


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def tiny(where: Path) -> Config:
    values: dict[str, Any] = {
        **{"t_max": 3000, "test_interval": 100, "batch_size_run": 2, "batch_size": 2, "buffer_size": 4},
        **{"test_nepisode": 2, "rnn_hidden_dim": 8, "use_tensorboard": False, "local_results_path": str(where)},
        "env_args.size": 3,
    }
    return resolve("iql", "toy_grid", values).config


def scores(where: Path) -> str:
    (run,) = known_runs(where)
    return (run / "metrics.csv").read_text()


def test_a_run_that_is_preempted_is_queued_again_and_ends_as_if_it_was_not(tmp_path: Path) -> None:
    finish(tiny(tmp_path / "here"), quiet=True)
    said: list[str] = []
    site = Site(tmp_path, tmp_path / "logs", tmp_path / "leases", said.append)
    told: list[int] = []

    def preempt() -> None:
        end = time.monotonic() + 120
        log = tmp_path / "logs" / "one.log"
        while time.monotonic() < end and not (log.exists() and "steps/s" in log.read_text()):
            time.sleep(0.02)
        holder = look(tmp_path / "leases", "one").holder
        assert holder is not None
        # As Slurm does: all processes of the job get it.
        for pid in (holder.pid, parent_of(holder.pid)):
            os.kill(pid, signal.SIGUSR2)
            told.append(pid)

    thread = threading.Thread(target=preempt)
    thread.start()
    with opened(HERE, site) as launcher:
        finish_all({"one": tiny(tmp_path / "one")}, launcher)
    thread.join()
    assert len(told) == 2
    # One lease for each of two processes, one job of Slurm, one run.
    assert look(tmp_path / "leases", "one").number == 2
    assert sum("handed to Slurm as job" in line for line in said) == 1
    assert sum(line.startswith("one: running on ") for line in said) == 2
    assert scores(tmp_path / "one") == scores(tmp_path / "here")
    assert not list(tmp_path.glob("leases/slurm-*")), "what submitit wrote is gone"


def test_parts_that_are_lost_are_handed_over_again_and_refusals_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    offer_parts(tmp_path, monkeypatch)
    jobs = [part("killed"), part("refused")]
    endings: dict[str, JobEnd] = {}
    said: list[str] = []
    folder = tmp_path / "results"
    site = Site(folder, folder / "logs", folder / "leases", said.append)
    with opened(HERE, site) as launcher, pytest.raises(UserError, match="refused: lr: got -1"):
        launcher.run(lambda: jobs.pop(0) if jobs else None, lambda ending: endings.update({ending.label: ending}))
    assert {label: ending.done for label, ending in endings.items()} == {"killed": True, "refused": False}
    assert any("killed: the process was ended by signal 9" in line and "begun again" in line for line in said)
    assert (folder / "logs" / "killed.log").read_text().split("\n")[:2] == ["from 0", "from 5"]


def test_what_sbatch_is_given_can_be_looked_at(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["pipeline", "quick", "-o", str(tmp_path / "out"), "--launcher", "slurm", "--show-sbatch"]
    words += ["--machine", "cpus=4,memory_gb=16,minutes=240", "--slurm", "partition=gpu,constraint=a100,account=lab"]
    assert main([*words, "machine.stages={train: {gpus: 1}}"]) == 0
    stages: dict[str, list[str]] = {}
    for line in capsys.readouterr().out.splitlines():
        if line.startswith("# ") and line[2:] not in ("Parameters", "command"):
            stages[line[2:]] = []
        elif stages:
            stages[list(stages)[-1]].append(line)
    assert list(stages) == ["pool", "prior", "train", "evaluate"]
    train = [line for line in stages["train"] if line.startswith("#SBATCH")]
    for line in (
        *("--partition=gpu", "--constraint=a100", "--account=lab", "--gpus-per-node=1", "--cpus-per-task=4"),
        *("--mem=16384M", "--time=240", "--signal=USR2@120", "--open-mode=append", "--job-name=omg-train"),
    ):
        assert f"#SBATCH {line}" in train
    assert any(line.startswith("srun ") and "submitit.core._submit" in line for line in stages["train"])
    assert not any("gpus" in line for line in stages["evaluate"])
    assert not (tmp_path / "out").exists()


def test_words_for_clusters_are_refused_in_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert "Did you mean 'gpus'" in refusal(lambda: read_machine("--machine", "gpu=1"))
    assert refusal(lambda: read_machine("--machine", "cpus=0")).startswith("--machine: cpus: got '0'.")
    # Nothing that a shell would read comes into a batch script.
    for word in ("gpu;rm -rf ~", "$(id)", "a\n#SBATCH --x", "-x", ""):
        assert refusal(lambda word=word: read_slurm("--slurm", f"partition={word}")).startswith(
            "--slurm: partition: got"
        )
    assert read_slurm("--slurm", "constraint=a100,ib,partition=gpu") == Slurm(constraint="a100,ib", partition="gpu")
    site = Site(tmp_path, tmp_path / "logs", tmp_path / "leases", lambda line: None)

    def start(**settings: Any) -> None:
        with opened(LauncherSettings(launcher="slurm", **settings), site):
            raise AssertionError

    assert "Start omg where sbatch and srun are" in refusal(start)
    monkeypatch.setitem(sys.modules, "submitit", None)
    expected = "--launcher slurm: submitit is not installed. Install it with: pip install 'omg-marl[slurm]'"
    assert refusal(start) == expected


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("--launcher rya", "Did you mean 'ray'?"),
        ("--address auto", "--address: got 'auto', but it needs --launcher ray; got --launcher local."),
        ("--launcher slurm --files copied", "--files: got 'copied', but it needs --launcher ray"),
        ("--launcher ray --slurm partition=gpu", "but it needs --launcher slurm; got --launcher ray."),
        ("--machine cpus=2", "but it needs --launcher ray or --launcher slurm; got --launcher local."),
        ("--launcher ray --files share", "Unknown word of --files 'share'. Did you mean 'shared'?"),
        ("--show-sbatch", "--show-sbatch: needs --launcher slurm; got --launcher local."),
        ("machine.stages={trian: {gpus: 1}}", "Unknown stage (machine.stages) 'trian'. Did you mean 'train'?"),
        ("--launcher slurm --show-sbatch --machine gpus=0.5", "Slurm deals out whole GPUs"),
    ],
)
def test_options_for_another_launcher_are_refused(
    words: str, expected: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    options = words.split(" ") if not words.startswith("machine") else [words]
    assert main(["pipeline", "quick", "-o", str(tmp_path / "out"), *options]) == 2
    said = capsys.readouterr().err
    assert expected in " ".join(said.split())
    assert not (tmp_path / "out").exists()
