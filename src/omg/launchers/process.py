"""The process of a job, whoever starts it: its command line, its surroundings, its time, and why it ended."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path

from omg.launchers.base import Job
from omg.launchers.serving import DISK_CODE, LOST_CODE, Tie
from omg.stopping import SIGNALS, exit_code

STOPPED = {exit_code(number): number for number in SIGNALS}
"""Exit status of a process that a signal stopped, after it had saved what it could -> that signal."""
ENVIRONMENT = {
    # Processes that share a GPU take of its memory what they need, not most of it at once.
    "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
    "PYTHONUNBUFFERED": "1",
}
_CARRIED = ("OMG_", "JAX_", "XLA_", "PYTHONPATH")
"""How the variables begin that change what is computed, or find the program; machines elsewhere are told them."""


class Shares:
    """What each of several jobs that run side by side has of the wall time."""

    def __init__(self) -> None:
        self._shares: dict[str, float] = {}
        self._looked = time.perf_counter()

    def begin(self, label: str) -> None:
        """A job begins."""
        self.pass_time()
        self._shares[label] = 0.0

    def end(self, label: str) -> float:
        """A job ends; its share in seconds."""
        self.pass_time()
        return self._shares.pop(label)

    def pass_time(self) -> None:
        """Deals out what went by since the last look."""
        now = time.perf_counter()
        for label in self._shares:
            self._shares[label] += (now - self._looked) / len(self._shares)
        self._looked = now


def command(job: Job, folder: Path, tie: Tie, python: str) -> list[str]:
    """The command line of a job.

    Args:
        job: what is to be done.
        folder: of the site, as the machine of the process has it.
        tie: what the process ends with.
        python: the interpreter there.
    """
    return [python, "-m", job.module, str(folder), *job.words, tie.word]


def carried(environment: Mapping[str, str]) -> dict[str, str]:
    """Those variables that a process on another machine is told."""
    return {name: value for name, value in environment.items() if name.startswith(_CARRIED)}


def surroundings(told: Mapping[str, str]) -> dict[str, str]:
    """The variables of a process that a cluster's worker starts.

    Args:
        told: variables that it was told from elsewhere.
    """
    own = dict(os.environ)
    # Ray says how many cores NumPy may use; a process of this machine would not be told.
    if "OMP_NUM_THREADS" not in told:
        own.pop("OMP_NUM_THREADS", None)
    return {**own, **ENVIRONMENT, **told}


def may_go_better(code: int) -> bool:
    """Whether a part that ended so may well succeed elsewhere, or once more: it was its machine that failed."""
    return code < 0 or code in STOPPED or code in (DISK_CODE, LOST_CODE)


def told_again(label: str, why: str, tries: int, most: int) -> str:
    """The line that says that a part is begun again."""
    return f"{label}: {why.rstrip('.')}; begun again ({tries} of at most {most})"


def reason(code: int, log: Path) -> str:
    """Why a process failed: the last line of its log, unless it had no chance to write one."""
    if code < 0:
        return f"the process was ended by signal {-code}; its log is {log}."
    return last_line(log) or f"the process ended without a word; its log is {log}."


def last_line(log: Path) -> str:
    """What a process said last; empty if it said nothing."""
    try:
        text = log.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1].removeprefix("error: ") if lines else ""
