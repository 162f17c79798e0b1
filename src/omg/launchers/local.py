"""Parts in processes of this machine, several at once."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from omg.envs.trust import inherited
from omg.errors import UserError
from omg.launchers.base import Ended, Job, JobEnd, Launcher, NextJob, Site
from omg.launchers.lease import Lease, lease_name
from omg.launchers.process import ENVIRONMENT, STOPPED, command, reason
from omg.launchers.serving import Tie
from omg.launchers.settings import LauncherSettings
from omg.stopping import Stopped

_LOOK = 0.2
"""Seconds between looks at the processes."""
_LAST_SECONDS = 3.0
"""How long processes have to end that are told to do so at once."""


@dataclass
class _Running:
    process: subprocess.Popen[bytes]
    log: Path
    started: float
    share: float = 0.0
    """Seconds of the wall time that are counted for it."""


class LocalLauncher(Launcher):
    """Does jobs in processes of this machine."""

    elsewhere = False

    def __init__(self, site: Site, settings: LauncherSettings, head: Lease | None = None) -> None:
        # `head` is what parts elsewhere end with; these end with this process.
        self.site, self.jobs = site, settings.jobs or 1

    def run(self, next_job: NextJob, ended: Ended) -> None:
        """See `Launcher`."""
        running: dict[str, _Running] = {}
        failed: list[str] = []
        looked = time.perf_counter()
        say = self.site.say

        def share_time() -> None:
            nonlocal looked
            now = time.perf_counter()
            for one in running.values():
                one.share += (now - looked) / len(running)
            looked = now

        try:
            while True:
                while len(running) < self.jobs and (job := next_job()) is not None:
                    log = self.site.logs / f"{lease_name(job.label)}.log"
                    running[job.label] = _Running(self._start(job, log), log, time.perf_counter())
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
                    ended(JobEnd(label, code == 0, one.share, socket.gethostname()))
                    if code in STOPPED:
                        raise Stopped(STOPPED[code])
                    if code:
                        failed.append(f"{label}: {reason(code, one.log)}")
                    say(f"{label}: {'failed' if code else 'finished'} after {time.perf_counter() - one.started:.0f} s")
        finally:
            _stop([one.process for one in running.values()])
            share_time()
            for label, one in running.items():
                ended(JobEnd(label, one.process.returncode == 0, one.share, socket.gethostname()))
        if failed:
            raise UserError(failed[0])

    def close(self) -> None:
        """Nothing is held."""

    def _start(self, job: Job, log: Path) -> subprocess.Popen[bytes]:
        log.parent.mkdir(parents=True, exist_ok=True)
        tie = Tie(os.getpid(), str(self.site.leases), job.label)
        with log.open("wb") as output:
            # In a session of its own: Ctrl-C reaches it once, from here.
            return subprocess.Popen(
                command(job, self.site.folder, tie, sys.executable),
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **ENVIRONMENT, **inherited()},
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
