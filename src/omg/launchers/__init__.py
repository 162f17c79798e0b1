"""Who does the parts of an experiment: processes here, or machines of a cluster.

A launcher is a class as `Launcher` has it, built as `Class(site, settings)`, and a line in LAUNCHERS. What a part is,
and how one has parts done, stands in `omg.launchers.base`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module

from omg.errors import unknown_name
from omg.launchers.base import Ended, Job, Launcher, Needs, NextJob, Outcome, Say, Site
from omg.launchers.settings import LauncherSettings

__all__ = [
    "LAUNCHERS",
    "Ended",
    "Job",
    "Launcher",
    "LauncherSettings",
    "Needs",
    "NextJob",
    "Outcome",
    "Say",
    "Site",
    "opened",
]

LAUNCHERS: Mapping[str, str] = {"local": "omg.launchers.local:LocalLauncher"}
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
    build: Callable[[Site, LauncherSettings], Launcher] = getattr(import_module(module), name)
    launcher = build(site, settings)
    try:
        yield launcher
    finally:
        launcher.close()
