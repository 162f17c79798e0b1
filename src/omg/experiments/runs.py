"""Runs that are brought to their end: one here, or several at once in processes of their own.

A process of its own writes what it would print to a log file. It holds nothing that the run folder does not hold, so
whatever happens to it, the next call continues where the run was last saved.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from rich.console import Console

from omg import api
from omg.components.files import write_text
from omg.config import Config
from omg.errors import UserError
from omg.tracking import RunFolder

_OVER = ("finished", "stopped")
_LOOK = 0.2
"""Seconds between looks at the processes."""
_INTERRUPTED = 130
"""Exit status of a process that was stopped by Ctrl-C after its run was saved."""


def known_runs(where: Path) -> list[Path]:
    """Run folders in `where`, oldest first."""
    return sorted((path.parent for path in where.glob("*/config.yaml")), key=lambda path: path.stat().st_mtime)


def is_over(where: Path) -> bool:
    """Whether the newest run in `where` has come to its end."""
    known = known_runs(where)
    return bool(known) and RunFolder.open(known[-1]).status() in _OVER


def finish(config: Config, *, console: Console | None = None, quiet: bool = False) -> RunFolder:
    """Brings the run in a configuration's `local_results_path` to its end: a new one, or the one that is there.

    Raises:
        KeyboardInterrupt: after Ctrl-C, when the run has been saved; the same call continues it.
    """
    where = Path(config.local_results_path)
    known = known_runs(where)
    if is_over(where):
        return RunFolder.open(known[-1])
    if known:
        run = api.resume(known[-1], console=console, quiet=quiet)
    else:
        run = api.train_config(config, console=console, quiet=quiet)
    if run.status == "interrupted":
        raise KeyboardInterrupt
    return RunFolder.open(run.folder)


def finish_all(configs: Mapping[str, Config], jobs: int, logs: Path, say: Callable[[str], None]) -> dict[str, float]:
    """Brings several runs to their end, `jobs` of them at once.

    Args:
        configs: label -> configuration; every run has a folder of its own.
        jobs: most processes at once.
        logs: folder for what the processes print, `LABEL.log`.
        say: prints a line.

    Returns:
        Label -> share of the wall time, in seconds, of every run that there was something to do for: together what
        went by, however many ran side by side.

    Raises:
        UserError: a run failed; the others were brought to their end first.
        KeyboardInterrupt: after Ctrl-C, when all that were running have been saved.
    """
    waiting = {label: config for label, config in configs.items() if not is_over(Path(config.local_results_path))}
    running: dict[str, tuple[subprocess.Popen[bytes], float]] = {}
    seconds: dict[str, float] = {}
    begun = time.perf_counter()
    failed: list[str] = []
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                label = next(iter(waiting))
                running[label] = (_start(waiting.pop(label), logs / f"{label}.log"), time.perf_counter())
                say(f"{label}: running, see {logs / f'{label}.log'}")
            time.sleep(_LOOK)
            for label, (process, started) in list(running.items()):
                if process.poll() is None:
                    continue
                del running[label]
                seconds[label] = time.perf_counter() - started
                if process.returncode == _INTERRUPTED:
                    raise KeyboardInterrupt
                if process.returncode:
                    failed.append(label)
                say(f"{label}: {'failed' if process.returncode else 'finished'} after {seconds[label]:.0f} s")
    finally:
        _stop([process for process, _ in running.values()])
    if failed:
        raise UserError(f"{failed[0]}: {_last_line(logs / f'{failed[0]}.log')}")
    share = (time.perf_counter() - begun) / max(sum(seconds.values()), 1e-9)
    return {label: spent * share for label, spent in seconds.items()}


def _start(config: Config, log: Path) -> subprocess.Popen[bytes]:
    log.parent.mkdir(parents=True, exist_ok=True)
    settings = log.with_suffix(".json")
    write_text(settings, config.model_dump_json())
    # Processes that share a GPU take of its memory what they need, not most of it at once.
    shared = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false", "PYTHONUNBUFFERED": "1"}
    with log.open("wb") as output:
        # In a session of its own: Ctrl-C reaches it once, from here.
        return subprocess.Popen(
            [sys.executable, "-m", "omg.experiments.runs", str(settings), str(os.getpid())],
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **shared},
            start_new_session=True,
        )


def _stop(processes: list[subprocess.Popen[bytes]]) -> None:
    """Asks processes to save and end, and waits until they have."""
    for process in processes:
        process.send_signal(signal.SIGINT)
    for process in processes:
        process.wait()


def _last_line(log: Path) -> str:
    lines = [line.strip() for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    return lines[-1].removeprefix("error: ") if lines else f"the process ended without a word; its log is {log}."


def _end_with(parent: int) -> None:
    """Saves and ends this process as soon as the one that started it is gone, however it went."""
    while os.getppid() == parent:
        time.sleep(_LOOK)
    os.kill(os.getpid(), signal.SIGINT)


def main(settings: str, parent: int) -> int:
    """What a process of its own does; returns its exit status. It ends with `parent`, which started it."""
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    try:
        finish(Config.model_validate_json(Path(settings).read_text(encoding="utf-8")))
    except UserError as error:
        print(f"error: {error}")
        return 2
    except KeyboardInterrupt:
        return _INTERRUPTED
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2])))
