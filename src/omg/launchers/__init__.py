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
from typing import TYPE_CHECKING

from omg.errors import unknown_name
from omg.launchers.base import Ended, Job, JobEnd, Launcher, Needs, NextJob, Say, Site
from omg.launchers.lease import HEAD, Lease

if TYPE_CHECKING:
    from omg.launchers.settings import LauncherSettings

__all__ = [
    "LAUNCHERS",
    "Ended",
    "Job",
    "JobEnd",
    "Launcher",
    "LauncherSettings",
    "Needs",
    "NextJob",
    "Say",
    "Site",
    "opened",
]

LAUNCHERS: Mapping[str, str] = {
    "local": "omg.launchers.local:LocalLauncher",
    "ray": "omg.launchers.on_ray:RayLauncher",
    "slurm": "omg.launchers.on_slurm:SlurmLauncher",
}
"""Word of `--launcher` -> the class, imported when it is asked for."""


def __getattr__(name: str) -> object:
    """Loads the settings on first use: whoever only looks at leases does not wait for pydantic."""
    if name == "LauncherSettings":
        from omg.launchers.settings import LauncherSettings

        return LauncherSettings
    raise AttributeError(f"module 'omg.launchers' has no attribute '{name}'")


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
