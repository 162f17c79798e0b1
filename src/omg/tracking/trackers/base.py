"""What a tracker must provide, and the group that keeps a failing one from stopping a run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, runtime_checkable

from omg.config import Config
from omg.config.sections import OUTWARD
from omg.errors import UserError
from omg.training.summary import Row
from omg.types import Tree

try:
    import fcntl
except ImportError:  # Windows: two processes that write one file are not kept apart there.
    fcntl = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from omg.tracking.folder import RunFolder


class Tracker(Protocol):
    """A record of a run beside metrics.csv, in somebody else's format."""

    def begin(self, past: list[Row]) -> None:
        """The run starts, or goes on after a resume; `past` holds the metrics up to the checkpoint it goes on from."""

    def rows(self, rows: list[Row]) -> None:
        """New metrics."""

    def flush(self) -> None:
        """Brings what was given so far to its place: a checkpoint is being written."""

    def close(self, status: str, error: BaseException | None) -> None:
        """The run is over.

        Args:
            status: as in status.json: finished, stopped, interrupted or failed.
            error: what it failed with.
        """


class Exhibit(NamedTuple):
    """Something to look at that a run has left: a picture of its curves, a page that plays a game, a table."""

    name: str
    kind: Literal["picture", "page", "table"]
    file: Path
    """A PNG, a page that needs no other file, or a CSV. It is gone when the call is over."""
    seed: int | None = None
    """None: of all seeds."""


@runtime_checkable
class Exhibiting(Protocol):
    """A tracker that also takes what can be looked at."""

    def exhibit(self, exhibits: Sequence[Exhibit]) -> None:
        """Takes them over; called once, when the run is over and before `close`."""


class TrackerKind(NamedTuple):
    """An entry of the registry. Both functions import the package they need when they are called."""

    check: Callable[[Config], None]
    """Raises `UserError` for settings that cannot work and for a package that is not installed."""
    build: Callable[[RunFolder, Config], Mapping[str, Tracker]]
    """Title -> tracker. Several, where one of them may fail without the others."""


class AllTrackers:
    """Hands everything to all trackers. One that raises an error is switched off with a warning; the run goes on."""

    def __init__(self, trackers: Mapping[str, Tracker], warn: Callable[[str], None]) -> None:
        self._trackers = dict(trackers)
        self._warn = warn
        self._begun = False

    def begin(self, past: list[Row]) -> None:
        """See `Tracker.begin`."""
        self._begun = True
        self._tell(lambda tracker: tracker.begin(past))

    def rows(self, rows: list[Row]) -> None:
        """See `Tracker.rows`."""
        self._tell(lambda tracker: tracker.rows(rows))

    def flush(self) -> None:
        """See `Tracker.flush`."""
        self._tell(lambda tracker: tracker.flush())

    @property
    def exhibiting(self) -> bool:
        """Whether anybody takes what can be looked at; drawing it for nobody would cost time."""
        return self._begun and any(isinstance(tracker, Exhibiting) for tracker in self._trackers.values())

    def exhibit(self, exhibits: Sequence[Exhibit]) -> None:
        """See `Exhibiting`."""

        def show(tracker: Tracker) -> None:
            if isinstance(tracker, Exhibiting):
                tracker.exhibit(exhibits)

        self._tell(show)

    def close(self, status: str, error: BaseException | None) -> None:
        """See `Tracker.close`; a run that never began leaves nothing."""
        if self._begun:
            self._tell(lambda tracker: tracker.close(status, error))

    def _tell(self, event: Callable[[Tracker], None]) -> None:
        for title, tracker in list(self._trackers.items()):
            try:
                event(tracker)
            except Exception as error:
                # Whatever it is, a database or a full disk: a record is not worth a run.
                del self._trackers[title]
                reason = " ".join(str(error).split())[:300]
                self._warn(
                    f"warning: tracker {title} is switched off ({type(error).__name__}: {reason}); the run goes on."
                )


def seed_settings(config: Config, seed: int) -> Tree:
    """The configuration that would repeat one seed by itself; addresses, which may hold a password, are left out."""
    kept = {key: value for key, value in config.model_dump(mode="json").items() if key not in OUTWARD}
    return {**kept, "seed": seed, "seeds": 1}


def check_packages(tracker: str, *modules: str) -> None:
    """Refuses a tracker whose packages are not installed.

    Args:
        tracker: its name, which is also that of the extra.
        modules: what it imports.

    Raises:
        UserError: names the first that is missing and the command that installs it.
    """
    for module in modules:
        if find_spec(module) is None:
            raise UserError(
                f"tracker: {tracker} needs the package {module}, which is not installed. Install it with: "
                f"pip install 'omg-marl[{tracker}]'"
            )


@contextmanager
def alone(lock: Path | None) -> Iterator[None]:
    """Keeps other processes of ours out while a file that all of them write is changed; None: there is no such file."""
    if lock is None or fcntl is None:
        yield
        return
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
