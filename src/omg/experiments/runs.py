"""Runs that are brought to their end: one here, or several at once in processes of their own."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from rich.console import Console

from omg import api
from omg.components.files import read_json, write_text
from omg.config import Config, parse_config
from omg.experiments.processes import Job, run_jobs, serve
from omg.names import file_name, inside
from omg.stopping import Stopped
from omg.tracking import RunFolder

_OVER = ("finished", "stopped")


def known_runs(where: Path) -> list[Path]:
    """Run folders in `where`, oldest first.

    Raises:
        UserError: one of them is a link that leads elsewhere.
    """
    found = [inside(where, path) for path in where.glob("*/config.yaml")]
    return sorted((path.parent for path in found), key=lambda path: path.stat().st_mtime)


def is_over(where: Path) -> bool:
    """Whether the newest run in `where` has come to its end."""
    known = known_runs(where)
    return bool(known) and RunFolder.open(known[-1]).status() in _OVER


def finish(config: Config, *, console: Console | None = None, quiet: bool = False) -> RunFolder:
    """Brings the run in a configuration's `local_results_path` to its end: a new one, or the one that is there.

    Raises:
        Stopped: after a signal, when the run has been saved; the same call continues it.
    """
    where = Path(config.local_results_path)
    known = known_runs(where)
    if is_over(where):
        return RunFolder.open(known[-1])
    if known:
        run = api.resume(known[-1], config=config, console=console, quiet=quiet)
    else:
        run = api.train_config(config, console=console, quiet=quiet)
    if run.status == "interrupted" or run.signal is not None:
        raise Stopped(signal.SIGINT if run.signal is None else run.signal)
    return RunFolder.open(run.folder)


def finish_all(configs: Mapping[str, Config], jobs: int, logs: Path, say: Callable[[str], None]) -> None:
    """Brings several runs to their end, `jobs` of them at once.

    Args:
        configs: label -> configuration; every run has a folder of its own.
        jobs: most processes at once.
        logs: folder for what the processes print, `LABEL.log`.
        say: prints a line.

    Raises:
        UserError: a run failed; the others were brought to their end first.
        Stopped: after a signal, when all that were running have been saved.
    """
    waiting = [label for label, config in configs.items() if not is_over(Path(config.local_results_path))]

    def next_job() -> Job | None:
        if not waiting:
            return None
        label = waiting.pop(0)
        settings = logs / f"{file_name('run', label)}.json"
        settings.parent.mkdir(parents=True, exist_ok=True)
        write_text(settings, configs[label].model_dump_json())
        return Job(label, "omg.experiments.runs", (str(settings),))

    run_jobs(next_job, lambda label, seconds, done: None, jobs, logs, say)


def main(settings: str, parent: int) -> int:
    """What a process of its own does; returns its exit status. It ends with `parent`, which started it."""
    return serve(lambda: finish(parse_config(read_json(Path(settings)))), parent)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2])))
