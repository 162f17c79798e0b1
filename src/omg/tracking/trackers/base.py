"""What a tracker must provide, and the group that keeps a failing one from stopping a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple, Protocol

from omg.config import Config
from omg.training.summary import Row

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
