"""Sacred: every seed of a run as a run of Sacred, with its file, TinyDB and MongoDB observers.

Sacred's own `Experiment` wants to call the program and to catch its output. Here the observers are told directly what
`Experiment` would tell them, so that training is the same with and without Sacred.
"""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Protocol

from omg.config import Config
from omg.errors import UserError
from omg.tracking.trackers.base import TrackerKind, alone
from omg.training.summary import Row
from omg.types import Json, Tree

if TYPE_CHECKING:
    from omg.tracking.folder import RunFolder

INSTALL = "pip install 'omg-marl[sacred]'"
FILES, TINYDB = "sacred", "sacred_tinydb"
"""Folders under `local_results_path`."""
_NEEDS = {
    "file": ("sacred",),
    "tinydb": ("sacred", "tinydb", "tinydb_serialization", "hashfs"),
    "mongo": ("sacred", "pymongo"),
}
"""Observer -> modules it imports."""
_BEAT_SECONDS = 10.0
"""Observers write all they have each time, so they are told of new metrics at most this often; as in Sacred itself."""
_MONGO_TIMEOUTS = {"serverSelectionTimeoutMS": 5000, "connectTimeoutMS": 5000, "socketTimeoutMS": 20000}
"""A database that does not answer holds the run up no longer than this, once."""
_MONGO_SCHEMES = ("mongodb://", "mongodb+srv://")


class Observer(Protocol):
    """What is asked of Sacred's observers, all of it by keyword."""

    def started_event(
        self,
        *,
        ex_info: Tree,
        command: str,
        host_info: Tree,
        start_time: datetime,
        config: Tree,
        meta_info: Tree,
        _id: str | None,
    ) -> object:
        """A run begins."""

    def heartbeat_event(self, *, info: Tree, captured_out: str, beat_time: datetime, result: object) -> object:
        """A run is alive."""

    def log_metrics(self, *, metrics_by_name: Mapping[str, Tree], info: Tree) -> object:
        """New metrics."""

    def completed_event(self, *, stop_time: datetime, result: object) -> object:
        """A run is over."""

    def interrupted_event(self, *, interrupt_time: datetime, status: str) -> object:
        """A run was stopped."""

    def failed_event(self, *, fail_time: datetime, fail_trace: Sequence[str]) -> object:
        """A run has failed."""

    def join(self) -> object:
        """Waits until all is written."""


def check(config: Config) -> None:
    """See `TrackerKind.check`."""
    url = config.sacred_mongo_url
    if "mongo" in config.sacred_observers and url is None:
        raise UserError(
            "sacred_mongo_url: missing, but sacred_observers names mongo. Give the address of the database, e.g. "
            "sacred_mongo_url=mongodb://localhost:27017."
        )
    if url is not None and not os.path.expandvars(url).startswith(_MONGO_SCHEMES):
        raise UserError(
            f"sacred_mongo_url: got '{_without_password(url)}'; expected an address that begins with "
            f"{' or '.join(_MONGO_SCHEMES)}"
        )
    for observer in _observer_names(config):
        missing = [module for module in _NEEDS[observer] if find_spec(module) is None]
        if missing:
            raise _not_installed(observer, missing[0])
    try:
        _observers_module()
    except ImportError as error:
        raise _not_installed("file", error.name or "sacred") from error


def build(folder: RunFolder, config: Config) -> Mapping[str, SacredTracker]:
    """See `TrackerKind.build`: a tracker for each observer."""
    # Not `local_results_path`: that of a run which came from elsewhere may be any folder of this machine.
    results = folder.path.parent

    def files() -> Observer:
        return _observers_module().FileStorageObserver(results / FILES)

    def tinydb() -> Observer:
        return _observers_module().TinyDbObserver(str(results / TINYDB))

    def mongo() -> Observer:
        url = os.path.expandvars(config.sacred_mongo_url or "")
        # Arguments would win over the same settings in the address.
        timeouts = {key: value for key, value in _MONGO_TIMEOUTS.items() if f"{key}=".lower() not in url.lower()}
        return _observers_module().MongoObserver(url=url, db_name=config.sacred_mongo_db, **timeouts)

    makers = {"file": files, "tinydb": tinydb, "mongo": mongo}
    locks = {"tinydb": results / TINYDB / ".lock"}
    return {
        f"sacred ({name})": SacredTracker(folder, config, makers[name], locks.get(name))
        for name in _observer_names(config)
    }


class SacredTracker:
    """Tells one kind of observer about all seeds; implements `Tracker`. A seed is a run of Sacred's."""

    def __init__(
        self, folder: RunFolder, config: Config, make_observer: Callable[[], Observer], lock: Path | None = None
    ) -> None:
        self.folder, self.config = folder, config
        self.make_observer = make_observer
        self.lock = lock
        self._runs: dict[int, _SeedRun] = {}
        self._last_beat = 0.0

    def begin(self, past: list[Row]) -> None:
        """See `Tracker.begin`. A resumed run is a new entry that begins with the metrics of the one before."""
        with alone(self.lock):
            for seed in range(self.config.seed, self.config.seed + self.config.seeds):
                observer = self.make_observer()
                self._start(observer, seed, resumed=bool(past))
                self._runs[seed] = _SeedRun(observer)
        self.rows(past)
        self.flush()

    def rows(self, rows: list[Row]) -> None:
        """See `Tracker.rows`."""
        now = _now()
        for row in rows:
            self._runs[row.seed].add(row, now)
        if time.monotonic() - self._last_beat > _BEAT_SECONDS:
            self.flush()

    def flush(self) -> None:
        """See `Tracker.flush`."""
        self._last_beat = time.monotonic()
        console = self.folder.console_file.read_text(encoding="utf-8")
        with alone(self.lock):
            for run in self._runs.values():
                run.beat(console)

    def close(self, status: str, error: BaseException | None) -> None:
        """See `Tracker.close`."""
        self.flush()
        with alone(self.lock):
            for run in self._runs.values():
                if status == "interrupted" or isinstance(error, KeyboardInterrupt):
                    run.observer.interrupted_event(interrupt_time=_now(), status="INTERRUPTED")
                elif error is not None:
                    trace = traceback.format_exception(type(error), error, error.__traceback__)
                    run.observer.failed_event(fail_time=_now(), fail_trace=trace)
                else:
                    run.observer.completed_event(stop_time=_now(), result=None)
                run.observer.join()

    def _start(self, observer: Observer, seed: int, *, resumed: bool) -> None:
        versions = json.loads((self.folder.path / "versions.json").read_text(encoding="utf-8"))
        revision = versions["git"]
        commit = {"url": "omg", "commit": revision, "dirty": str(revision).endswith("-dirty")}
        about = {
            "name": self.config.name,
            "base_dir": os.getcwd(),
            "mainfile": Path(sys.argv[0]).name,
            "sources": [],
            "dependencies": sorted(f"{name}=={version}" for name, version in versions["packages"].items()),
            "repositories": [] if revision is None else [commit],
        }
        observer.started_event(
            ex_info=about,
            command="main",
            host_info={**_host(), "device": versions["device"], "backend": versions["backend"]},
            start_time=_now(),
            # The configuration that would repeat this seed by itself.
            config={**self.config.model_dump(mode="json"), "seed": seed, "seeds": 1},
            meta_info={"command": versions["command"], "run_folder": str(self.folder.path), "resumed": resumed},
            _id=None,
        )


class _SeedRun:
    """What one observer was told, and is still to be told, about one seed."""

    def __init__(self, observer: Observer) -> None:
        self.observer = observer
        self._waiting: dict[str, Tree] = {}
        """Sacred's form of new metrics: name -> steps, values, timestamps."""
        self._info: Tree = {}
        """PyMARL's form of all metrics: name -> values, name_T -> steps. TinyDB keeps them nowhere else."""

    def add(self, row: Row, now: datetime) -> None:
        """Takes a metric in; it is written with the next beat."""
        new: Tree = {"name": row.name, "steps": [], "values": [], "timestamps": []}
        series = self._waiting.setdefault(row.name, new)
        for key, value in (("steps", row.t_env), ("values", row.value), ("timestamps", now)):
            series[key].append(value)
        self._info.setdefault(row.name, []).append(row.value)
        self._info.setdefault(f"{row.name}_T", []).append(row.t_env)

    def beat(self, console: str) -> None:
        """Hands over the waiting metrics and the console's text."""
        # MongoDB's observer adds the names of its documents to the info.
        if self._waiting:
            self.observer.log_metrics(metrics_by_name=self._waiting, info=self._info)
            self._waiting = {}
        self.observer.heartbeat_event(info=self._info, captured_out=console, beat_time=_now(), result=None)


def _observer_names(config: Config) -> tuple[str, ...]:
    """The observers that are asked for; an address of a database asks for its observer."""
    implied = ("mongo",) if config.sacred_mongo_url is not None else ()
    return tuple(dict.fromkeys((*config.sacred_observers, *implied)))


def _not_installed(observer: str, module: str) -> UserError:
    return UserError(
        f"tracker: sacred with its {observer} observer needs the package {module}, which is not installed. "
        f"Install it with: {INSTALL}"
    )


def _observers_module() -> ModuleType:
    with warnings.catch_warnings():
        # Sacred imports pkg_resources, which warns that it will be gone one day; users cannot change that.
        warnings.simplefilter("ignore")
        import sacred.observers

        return sacred.observers


@cache
def _host() -> Mapping[str, Json]:
    """Sacred's description of the machine; asking the processor takes a second."""
    from sacred.host_info import get_host_info

    return get_host_info()


def _now() -> datetime:
    """UTC without a time zone, as Sacred writes it."""
    return datetime.now(UTC).replace(tzinfo=None)


def _without_password(url: str) -> str:
    scheme, separator, rest = url.rpartition("://")
    return f"{scheme}{separator}{rest.rpartition('@')[2]}"


KIND = TrackerKind(check, build)
"""The line of this tracker in the registry."""
