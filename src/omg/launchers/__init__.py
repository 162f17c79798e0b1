"""Who does the parts of an experiment: processes here, or machines of a cluster.

A launcher is a class as `Launcher` has it, built as `Class(site, settings, head)`, and a line in LAUNCHERS. What a part
is, and how one has parts done, stands in `omg.launchers.base`.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module

from omg.errors import unknown_name
from omg.launchers.base import Ended, Ending, Job, Launcher, Needs, NextJob, Say, Site
from omg.launchers.lease import HEAD, Lease
from omg.launchers.settings import HERE, LauncherSettings

__all__ = [
    "LAUNCHERS",
    "Ended",
    "Ending",
    "Job",
    "Launcher",
    "LauncherSettings",
    "Needs",
    "NextJob",
    "Say",
    "Site",
    "opened",
]

LAUNCHERS: Mapping[str, str] = {
    HERE: "omg.launchers.local:LocalLauncher",
    "ray": "omg.launchers.on_ray:RayLauncher",
    "slurm": "omg.launchers.on_slurm:SlurmLauncher",
}
"""Word of `--launcher` -> the class, imported when it is asked for."""


@contextmanager
def opened(settings: LauncherSettings, site: Site) -> Iterator[Launcher]:
    """A launcher for the parts of one experiment.

    Raises:
        UserError: there is no such launcher, its package is missing, or another process has the experiment.
    """
    if settings.launcher not in LAUNCHERS:
        raise unknown_name("launcher", settings.launcher, LAUNCHERS)
    module, _, name = LAUNCHERS[settings.launcher].partition(":")
    build: Callable[[Site, LauncherSettings, Lease], Launcher] = getattr(import_module(module), name)
    with Lease.take(site.leases, HEAD, lost=_give_up) as head:
        launcher = build(site, settings, head)
        try:
            yield launcher
        finally:
            launcher.close()


def _give_up() -> None:
    """Another process hands out the parts by now: what is done here is brought to its end."""
    os.kill(os.getpid(), signal.SIGINT)
