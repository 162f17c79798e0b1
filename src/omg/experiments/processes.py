"""Work in processes of its own, several at once.

A process writes what it would print to a log file. It hands nothing back but files, so whatever happens to it, the next
call continues with what is on disk.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from omg.envs.trust import inherited
from omg.errors import UserError, disk_fault
from omg.names import LONGEST_FILE, file_name, inert
from omg.screen import forgiving_output
from omg.stopping import SIGNALS, Stopped, ends_by_signal, exit_code, leave_if_ended, signal_of

_LOOK = 0.2
"""Seconds between looks at the processes."""
_STOPPED = {exit_code(number): number for number in SIGNALS}
"""Exit status of a process that a signal stopped, after it had saved what it could -> that signal."""
_LAST_SECONDS = 3.0
"""How long processes have to end that are told to do so at once."""


@dataclass(frozen=True)
class Job:
    """Work for a process of its own."""

    label: str
    """In messages; the log file is named after it."""
    module: str
    """What the process runs; it must hand its last word, the id of this process, to `serve`."""
    words: tuple[str, ...]
    """The words before that."""


@dataclass
class _Running:
    process: subprocess.Popen[bytes]
    log: Path
    started: float
    share: float = 0.0
    """Seconds of the wall time that are counted for it."""


def run_jobs(
    next_job: Callable[[], Job | None],
    ended: Callable[[str, float, bool], None],
    jobs: int,
    logs: Path,
    say: Callable[[str], None],
) -> None:
    """Does jobs in processes of their own until there are no more.

    Args:
        next_job: what can be begun now, or None; asked whenever there is room, so a job may wait for others.
        ended: told of each job, however it ended: its label, its share of the wall time in seconds (together what went
            by, however many ran side by side), and whether it succeeded.
        jobs: most processes at once.
        logs: folder for what the processes print, `LABEL.log`.
        say: prints a line.

    Raises:
        UserError: a job failed; all others were brought to their end first.
        Stopped: after a signal, when all that were running have saved and ended.
    """
    running: dict[str, _Running] = {}
    failed: list[str] = []
    looked = time.perf_counter()

    def share_time() -> None:
        nonlocal looked
        now = time.perf_counter()
        for one in running.values():
            one.share += (now - looked) / len(running)
        looked = now

    try:
        while True:
            while len(running) < jobs and (job := next_job()) is not None:
                log = logs / f"{file_name('job', job.label.replace(' ', '-'), LONGEST_FILE)}.log"
                running[job.label] = _Running(_start(job, log), log, time.perf_counter())
                say(f"{job.label}: running, see {log}")
            if not running:
                break
            time.sleep(_LOOK)
            share_time()
            for label, one in list(running.items()):
                code = one.process.poll()
                if code is None:
                    continue
                del running[label]
                ended(label, one.share, code == 0)
                if code in _STOPPED:
                    raise Stopped(_STOPPED[code])
                if code:
                    failed.append(f"{label}: {_reason(code, one.log)}")
                say(f"{label}: {'failed' if code else 'finished'} after {time.perf_counter() - one.started:.0f} s")
    finally:
        _stop([one.process for one in running.values()])
        share_time()
        for label, one in running.items():
            ended(label, one.share, one.process.returncode == 0)
    if failed:
        raise UserError(failed[0])


def serve(work: Callable[[], object], parent: int) -> int:
    """What a process of its own does: some work, as long as the process that started it is there.

    Args:
        work: ends with `Stopped` after a signal, when it has saved what it can.
        parent: id of the process that started this one.

    Returns:
        The exit status of this process.
    """
    with forgiving_output(), ends_by_signal():
        code = _serve(work, parent)
    return leave_if_ended(code)


def _serve(work: Callable[[], object], parent: int) -> int:
    try:
        threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
        work()
    except UserError as error:
        print(f"error: {inert(str(error))}")
        return 2
    except KeyboardInterrupt as error:
        return exit_code(signal_of(error))
    except Exception as error:
        if isinstance(error, OSError) and (fault := disk_fault(error)) is not None:
            print(f"error: {inert(str(fault))}")
            return 2
        print(inert(traceback.format_exc(), lines=True), end="")
        # The last line is what the user is told; that of a traceback may be a note about the traceback.
        first = str(error).strip().partition("\n")[0]
        print(f"error: {type(error).__name__}: {inert(first)}")
        return 1
    return 0


def _start(job: Job, log: Path) -> subprocess.Popen[bytes]:
    log.parent.mkdir(parents=True, exist_ok=True)
    # Processes that share a GPU take of its memory what they need, not most of it at once.
    shared = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false", "PYTHONUNBUFFERED": "1"}
    with log.open("wb") as output:
        # In a session of its own: Ctrl-C reaches it once, from here.
        return subprocess.Popen(
            [sys.executable, "-m", job.module, *job.words, str(os.getpid())],
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **shared, **inherited()},
            start_new_session=True,
        )


def _stop(processes: list[subprocess.Popen[bytes]]) -> None:
    """Asks processes to save and end, and waits until they have; after another signal only for a moment."""
    for process in processes:
        process.send_signal(signal.SIGINT)
    try:
        for process in processes:
            process.wait()
    except KeyboardInterrupt:
        for process in processes:
            process.send_signal(signal.SIGINT)
        deadline = time.monotonic() + _LAST_SECONDS
        for process in processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(deadline - time.monotonic(), 0.0))
            process.kill()
            process.wait()
        raise


def _reason(code: int, log: Path) -> str:
    """Why a process failed: the last line of its log, unless it had no chance to write one."""
    if code < 0:
        return f"the process was ended by signal {-code}; its log is {log}."
    lines = [line.strip() for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    return lines[-1].removeprefix("error: ") if lines else f"the process ended without a word; its log is {log}."


def _end_with(parent: int) -> None:
    """Saves and ends this process as soon as the one that started it is gone, however it went."""
    while os.getppid() == parent:
        time.sleep(_LOOK)
    os.kill(os.getpid(), signal.SIGINT)
