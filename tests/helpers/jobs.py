"""Jobs in processes of this machine, without an experiment around them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from omg.launchers import JobEnd, LauncherSettings, NextJob, Site
from omg.launchers.local import LocalLauncher


def run_jobs(
    next_job: NextJob, ended: Callable[[JobEnd], object], jobs: int, logs: Path, say: Callable[[str], None]
) -> None:
    """Does jobs, at most so many at once; what they print goes to the folder `logs`, leases into it."""

    def told(outcome: JobEnd) -> None:
        ended(outcome)

    LocalLauncher(Site(logs, logs, logs / "leases", say), LauncherSettings(jobs=jobs)).run(next_job, told)
