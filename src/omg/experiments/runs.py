"""Runs that are brought to their end: one here, or several at once in processes of their own, here or elsewhere."""

from __future__ import annotations

import signal
import sys
from collections.abc import Mapping
from pathlib import Path

from rich.console import Console

from omg import api
from omg.components.files import read_json, write_text
from omg.config import Config, change_config, parse_config
from omg.errors import UserError
from omg.launchers import Job, Launcher, Needs
from omg.launchers.serving import serve
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


def finished_run(where: Path) -> RunFolder:
    """The newest run in a folder.

    Raises:
        UserError: there is none.
    """
    runs = known_runs(where)
    if not runs:
        raise UserError(f"{where}: there is no run.")
    return RunFolder.open(runs[-1])


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


def finish_all(
    configs: Mapping[str, Config], launcher: Launcher, *, label: str = "{}", needs: Needs | None = None
) -> None:
    """Brings several runs to their end, as many at once as the launcher does.

    Args:
        configs: name -> configuration; every run has a folder of its own in that of the launcher's site.
        launcher: starts the processes; a file with each run's settings is put beside their logs.
        label: of the jobs; `{}` stands for the name.
        needs: what the machine of a run is to give it.

    Raises:
        UserError: a run failed; the others were brought to their end first.
        Stopped: after a signal, when all that were running have been saved.
    """
    site = launcher.site
    waiting = [name for name, config in configs.items() if not is_over(Path(config.local_results_path))]

    def next_job() -> Job | None:
        if not waiting:
            return None
        name = waiting.pop(0)
        settings = site.logs / f"{file_name('run', name)}.json"
        settings.parent.mkdir(parents=True, exist_ok=True)
        where = Path(configs[name].local_results_path).absolute().relative_to(site.folder)
        # The folder of the site may be another one where the process is.
        write_text(settings, change_config(configs[name], local_results_path=str(where)).model_dump_json())
        word = str(settings.relative_to(site.folder))
        return Job(label.format(name), "omg.experiments.runs", (word,), needs or Needs(), (word,), (str(where),))

    launcher.run(next_job, lambda outcome: None)


def main(folder: str, settings: str, tie: str) -> int:
    """What a process of its own does; returns its exit status. It ends with those that `tie` names."""

    def work() -> None:
        config = parse_config(read_json(Path(folder) / settings))
        finish(change_config(config, local_results_path=str(Path(folder) / config.local_results_path)))

    return serve(work, tie)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
