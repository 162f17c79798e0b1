"""Signals to whole processes, as shells, terminals and batch systems send them: all is saved and nobody is left."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from helpers.host_games import worker_processes
from helpers.plans import PLAN as SMALL
from helpers.plans import RUN
from helpers.processes import PROGRAM, command, only_run
from omg.config import write_yaml
from omg.tracking import RunFolder
from omg.training.checkpoint import list_checkpoints

LONG = {"t_max": 1_000_000_000, "test_interval": 1_000_000_000}


@pytest.fixture(autouse=True)
def own_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes find the games of the tests."""
    paths = [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path for path in paths if path))


def start(words: list[str], before: str = "", **how: Any) -> subprocess.Popen[str]:
    how = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, **how}
    return subprocess.Popen([sys.executable, "-c", before + PROGRAM, *words], **how)


def wait_for(process: subprocess.Popen[str], what: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 90
    while not what():
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


def processes_about(path: Path) -> list[int]:
    """Processes with this path among their words."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes()
        except OSError:
            continue
        if os.fsencode(path) in words and int(folder.name) != os.getpid():
            found.append(int(folder.name))
    return found


def gone(pids: list[int]) -> bool:
    """Whether none of some processes is left; a zombie whose new parent is slow to bury it is none."""
    states = [Path(f"/proc/{pid}/stat") for pid in pids]
    return all(not state.exists() or state.read_text().rpartition(")")[2].split()[0] == "Z" for state in states)


def says(path: Path | None, name: str, text: str) -> bool:
    return path is not None and (path / name).is_file() and text in (path / name).read_text()


def chunks(results: Path) -> int:
    """How many chunks the only run has trained."""
    folder = only_run(results)
    speeds = None if folder is None else folder / "speed.csv"
    return len(speeds.read_text().splitlines()) - 1 if speeds is not None and speeds.is_file() else 0


@pytest.mark.parametrize("how", ["work()", "Coming(work).result()"])
def test_a_signal_is_not_kept_waiting_by_a_compilation(how: str, tmp_path: Path) -> None:
    # Compiled code that takes minutes and looks at nothing meanwhile.
    stuck = "import hashlib; from omg.training.loop import Trainer; from omg.stopping import Coming\n"
    stuck += "work = lambda: hashlib.pbkdf2_hmac('sha256', b'', b'', 10**9)\n"
    stuck += f"Trainer._compile = lambda self, state: {how}\n"
    process = start(command(tmp_path), stuck)
    wait_for(process, lambda: says(only_run(tmp_path), "console.log", "replay buffer"))
    process.send_signal(signal.SIGTERM)
    sent = time.monotonic()
    shown, _ = process.communicate(timeout=30)
    assert time.monotonic() - sent < 10
    folder = only_run(tmp_path)
    assert folder is not None
    assert process.returncode == 143
    assert f"continue with: omg resume {folder}\nended by SIGTERM\n" in shown
    assert RunFolder(folder).status() == "interrupted"
    assert processes_about(tmp_path) == []


def test_a_signal_in_the_middle_of_a_trace(tmp_path: Path) -> None:
    process = start(command(tmp_path, t_max=1001, log_interval=5))
    wait_for(process, lambda: says(only_run(tmp_path), "console.log", "replay buffer"))
    process.send_signal(signal.SIGTERM)
    shown, _ = process.communicate(timeout=60)
    assert process.returncode == 143, "the interpreter crashed at its end"
    assert "continue with: omg resume" in shown


STUCK = """
import hashlib
from omg.stopping import Stop, ends_by_signal
with ends_by_signal(), Stop() as stop, stop.holding():
    stop.tell = lambda line: print(line, flush=True)
    print("at work", flush=True)
    hashlib.pbkdf2_hmac("sha256", b"", b"", 10**9)
"""


def test_a_chunk_that_takes_long_hears_of_the_first_signal_and_is_ended_by_the_second() -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", STUCK], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "at work\n"
    process.send_signal(signal.SIGTERM)
    assert process.stdout.readline() == "SIGTERM: stopping after this chunk and saving (again to quit at once)\n"
    process.send_signal(signal.SIGTERM)  # So soon it does not count.
    time.sleep(1.2)
    assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    shown, _ = process.communicate(timeout=20)
    assert (process.returncode, shown) == (143, "ended by SIGTERM\n")


def test_a_terminal_that_closes(tmp_path: Path) -> None:
    master, slave = os.openpty()
    # The run that other tests have compiled already, with some rest after every chunk.
    slow = "import time; from omg.training import loop\nloop._headline = lambda progress: time.sleep(0.2) or {}\n"
    # The leader of a session takes the terminal for its own; only then does it hear that it closes.
    takes = "import fcntl, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0)\n"
    screen = {"stdin": slave, "stdout": slave, "stderr": slave}
    process = start(command(tmp_path), takes + slow, **screen, start_new_session=True)
    os.close(slave)
    os.set_blocking(master, False)

    def trained() -> bool:
        with contextlib.suppress(BlockingIOError):  # A terminal that nobody reads from takes no more after a while.
            os.read(master, 65536)
        return chunks(tmp_path) >= 3

    wait_for(process, trained)
    os.close(master)
    assert process.wait(timeout=60) == 129
    folder = only_run(tmp_path)
    assert folder is not None
    assert "SIGHUP: stopping after this chunk and saving" in (folder / "console.log").read_text()
    status = json.loads((folder / "status.json").read_text())
    newest = list_checkpoints(folder / "checkpoints")[-1]
    assert status["status"] == "interrupted"
    assert json.loads((newest / "host.json").read_text())["last_save"] == status["t_env"]


def test_a_pipeline_of_several_processes(tmp_path: Path) -> None:
    plan = {
        "name": "beside",
        "game": SMALL["game"],
        "pool": {"scripted": {"random": "heldout"}, "episodes": 8},
        "train": {**RUN, **LONG, "self_play": True},
        "agents": {"iql": None, "other": {"config": "iql", "seed": 11}},
        "evaluation": {"groups": ["1_partner"], "episodes": 2, "untrained": False, "crossplay_episodes": 0},
        "report": {"agent": "other"},
    }
    (tmp_path / "plan.yaml").write_text(write_yaml(plan))
    folder = tmp_path / "out"
    process = start(["pipeline", str(tmp_path / "plan.yaml"), "--output", str(folder), "--jobs", "2"])
    labels = ("iql", "other")
    logs = folder / "logs"
    wait_for(process, lambda: all(says(logs, f"train-{label}.log", "steps/s") for label in labels))
    everybody = processes_about(tmp_path)
    assert len(everybody) == 3
    process.send_signal(signal.SIGTERM)
    shown, _ = process.communicate(timeout=60)
    assert process.returncode == 143, shown
    assert "Traceback" not in shown
    assert shown.endswith("continue with the same command\nended by SIGTERM\n")
    assert gone(everybody)
    runs = [path.parent for path in folder.rglob("status.json")]
    assert len(runs) == 2
    for run in runs:
        assert "t_env" in json.loads((run / "status.json").read_text()), "it was not saved"
        assert list_checkpoints(run / "checkpoints")


def test_a_run_with_worker_processes(tmp_path: Path) -> None:
    game = {"env_args.key": "helpers.host_games:Walk", "env_args.time_limit": 8}
    settings = {**RUN, **LONG, **game, "workers": 2, "runner": "parallel", "local_results_path": tmp_path}
    words = ["train", "--config=iql", "--env-config=gymma", "with", *(f"{k}={v}" for k, v in settings.items())]
    process = start(words)
    wait_for(process, lambda: chunks(tmp_path) >= 3)
    workers = worker_processes(process.pid)
    assert len(workers) == 3
    # A batch system sends its signals to all processes.
    for pid in (*workers, process.pid):
        os.kill(pid, signal.SIGTERM)
    shown, _ = process.communicate(timeout=60)
    assert process.returncode == 143, shown
    assert "dropped" not in shown, "a worker has ended by itself"
    folder = only_run(tmp_path)
    assert folder is not None
    assert "t_env" in json.loads((folder / "status.json").read_text())
    assert list_checkpoints(folder / "checkpoints")
    assert gone(workers)
