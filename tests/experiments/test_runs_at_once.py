"""Work in processes of its own, and several runs brought to their end at once."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from helpers.jobs import run_jobs
from omg.config import Config, resolve
from omg.errors import UserError
from omg.experiments.runs import finish, finish_all, is_over, known_runs
from omg.launchers import Job, JobEnd, LauncherSettings, Site, serving
from omg.launchers.local import LocalLauncher
from omg.launchers.serving import Tie, serve
from omg.tracking import RunFolder

SLEEPER = """
import sys, time
_, seconds, how, _ = sys.argv[1:]
time.sleep(float(seconds))
print(how)
if how == "killed":
    import os
    os.kill(os.getpid(), 9)
sys.exit(how == "broken")
"""


@pytest.fixture
def sleepers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a module that sleeps for its first word and ends as the second one says."""
    (tmp_path / "sleeper.py").write_text(SLEEPER)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return tmp_path


def test_jobs_begin_when_they_can_and_share_the_time(sleepers: Path):
    lines: list[str] = []
    ended: dict[str, float] = {}
    waiting = [("long one", "0.9"), ("short", "0.1"), ("last", "0.1")]

    def next_job() -> Job | None:
        # The last one waits for the second, not for the first.
        if not waiting or (waiting[0][0] == "last" and "short" not in ended):
            return None
        label, seconds = waiting.pop(0)
        return Job(label, "sleeper", (seconds, "well"))

    started = time.perf_counter()

    def note(outcome: JobEnd) -> None:
        ended[outcome.label] = outcome.seconds * outcome.done

    run_jobs(next_job, note, 3, sleepers / "logs", lines.append)
    assert list(ended) == ["short", "last", "long one"]
    assert all(ended.values())
    # Side by side they took no longer than it took.
    assert sum(ended.values()) == pytest.approx(time.perf_counter() - started, abs=0.1)
    assert lines[0] == f"long one: running, see {sleepers / 'logs' / 'long-one.log'}"
    assert (sleepers / "logs" / "long-one.log").read_text() == "well\n"


@pytest.mark.parametrize(
    ("how", "reason"), [("broken", "bad: broken"), ("killed", "bad: the process was ended by signal 9; its log is ")]
)
def test_a_job_that_fails_is_told_when_the_others_have_ended(how: str, reason: str, sleepers: Path):
    jobs = [
        Job("bad", "sleeper", ("0", how)),
        Job("good", "sleeper", ("0.5", "well")),
        Job("late", "sleeper", ("0", "x")),
    ]
    ended: dict[str, bool] = {}

    def note(outcome: JobEnd) -> None:
        ended[outcome.label] = outcome.done

    with pytest.raises(UserError, match=reason):
        run_jobs(lambda: jobs.pop(0) if jobs else None, note, 2, sleepers, lambda line: None)
    assert ended == {"bad": False, "good": True, "late": True}


def tiny(where: Path, **changes: Any) -> Config:
    values = {
        "t_max": 40,
        "batch_size_run": 2,
        "batch_size": 2,
        "buffer_size": 4,
        "test_nepisode": 2,
        "rnn_hidden_dim": 8,
    }
    values |= {"use_tensorboard": False, "local_results_path": str(where), "env_args.size": 3} | changes
    return resolve("iql", "toy_grid", values).config


def at_once(folder: Path, jobs: int, say: Any) -> LocalLauncher:
    return LocalLauncher(Site(folder, folder / "logs", folder / "leases", say), LauncherSettings(jobs=jobs))


def scores(where: Path) -> list[list[str]]:
    with (known_runs(where)[0] / "metrics.csv").open() as file:
        return list(csv.reader(file))


def test_runs_in_processes_end_as_they_do_here(tmp_path: Path):
    # This one first: it leaves the compiled programs that the processes need.
    here = finish(tiny(tmp_path / "here", seed=1), quiet=True)
    assert here.status() == "finished"
    lines: list[str] = []
    configs = {f"run{seed}": tiny(tmp_path / f"run{seed}", seed=seed) for seed in (1, 2)}
    finish_all(configs, at_once(tmp_path, 2, lines.append))
    assert [line.split(":")[0] for line in lines[:2]] == ["run1", "run2"]
    assert all(line.split(": ")[1].startswith("finished") for line in lines[2:])
    assert (tmp_path / "logs" / "run1.log").stat().st_size > 0
    assert scores(tmp_path / "here") == scores(tmp_path / "run1")
    assert scores(tmp_path / "here") != scores(tmp_path / "run2")
    # There is nothing left to do, and nothing is begun.
    del lines[:]
    finish_all(configs, at_once(tmp_path, 2, lines.append))
    assert lines == []
    assert len(known_runs(tmp_path / "run1")) == 1


def test_a_run_that_fails_says_why(tmp_path: Path):
    config = tiny(tmp_path / "bad", init_from=str(tmp_path / "nowhere"))
    with pytest.raises(UserError, match=r"bad: .*nowhere"):
        finish_all({"bad": config}, at_once(tmp_path, 1, lambda line: None))
    assert not is_over(tmp_path / "bad")


PARENT = """
import sys
from pathlib import Path
from omg.config import Config
from omg.experiments.runs import finish_all
from omg.launchers import LauncherSettings, Site, opened
config = Config.model_validate_json(Path(sys.argv[1]).read_text())
folder = Path(sys.argv[2])
with opened(LauncherSettings(), Site(folder, folder, folder / "leases", print)) as launcher:
    finish_all({"orphan": config}, launcher)
"""


def wait_for(what: Any, seconds: float = 90.0) -> None:
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.05)


def test_a_run_saves_and_ends_when_the_process_that_started_it_is_killed(tmp_path: Path):
    where, settings = tmp_path / "orphan", tmp_path / "config.json"
    settings.write_text(tiny(where, t_max=10_000_000, test_interval=10_000_000).model_dump_json())
    parent = subprocess.Popen([sys.executable, "-c", PARENT, str(settings), str(tmp_path)], env=dict(os.environ))
    log = tmp_path / "orphan.log"
    try:
        wait_for(lambda: log.exists() and b"steps/s" in log.read_bytes())
    finally:
        parent.kill()
        parent.wait()
    wait_for(lambda: RunFolder.open(known_runs(where)[0]).status() == "interrupted")
    assert list(RunFolder.open(known_runs(where)[0]).checkpoints.iterdir())


BACKGROUND = """
import signal, sys, time
from omg.launchers.serving import Tie, serve
signal.signal(signal.SIGINT, signal.SIG_IGN)
sys.exit(serve(lambda: time.sleep(60), Tie(0).word))
"""


def test_a_process_that_inherits_ignored_interrupts_still_ends_with_its_parent():
    assert subprocess.run([sys.executable, "-c", BACKGROUND], timeout=30).returncode == 130


def test_the_last_word_of_a_process_is_the_reason_not_a_note(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    # This process does not end with anybody.
    monkeypatch.setattr(serving, "_end_with", lambda tie: None)

    def work() -> None:
        error = ValueError("too large\nfor this GPU")
        error.add_note("Some frames are not shown.")
        raise error

    assert serve(work, Tie(os.getppid()).word) == 1
    assert capsys.readouterr().out.splitlines()[-1] == "error: ValueError: too large"
