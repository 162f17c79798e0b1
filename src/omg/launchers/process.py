"""The process of a job, whoever starts it: its command line, its surroundings, and why it ended."""

from __future__ import annotations

from pathlib import Path

from omg.launchers.base import Job
from omg.launchers.serving import Tie
from omg.stopping import SIGNALS, exit_code

STOPPED = {exit_code(number): number for number in SIGNALS}
"""Exit status of a process that a signal stopped, after it had saved what it could -> that signal."""
ENVIRONMENT = {
    # Processes that share a GPU take of its memory what they need, not most of it at once.
    "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
    "PYTHONUNBUFFERED": "1",
}


def command(job: Job, folder: Path, tie: Tie, python: str) -> list[str]:
    """The command line of a job.

    Args:
        job: what is to be done.
        folder: of the site, as the machine of the process has it.
        tie: what the process ends with.
        python: the interpreter there.
    """
    return [python, "-m", job.module, str(folder), *job.words, tie.word]


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
