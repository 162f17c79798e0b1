"""What launchers of clusters share: parts are handed over, listened to, and handed over again when a machine fails."""

from __future__ import annotations

import os
import time
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Generic, TypeVar

from omg.envs.trust import inherited
from omg.errors import UserError
from omg.launchers.base import Ended, Job, JobEnd, Launcher, NextJob, Site
from omg.launchers.lease import Lease, here
from omg.launchers.process import Shares, carried, may_go_better, told_again
from omg.launchers.remote import Order, Over
from omg.launchers.settings import MOST_JOBS, LauncherSettings


@dataclass
class ClusterPart:
    """A part that a cluster has."""

    job: Job
    tries: int = 0
    """How often it was handed over."""
    handed: float = 0.0
    """When it was handed over."""
    began: float = 0.0
    """When it was heard to have begun; 0 while nothing was heard, which of a short part may be to the end."""
    where: str = ""
    """Its machine; empty while it waits for one."""


Part = TypeVar("Part", bound=ClusterPart)


class ClusterLauncher(Launcher, Generic[Part]):
    """Does each job on a machine of a cluster."""

    elsewhere = True

    def __init__(self, site: Site, settings: LauncherSettings, head: Lease) -> None:
        self.site, self.jobs = site, settings.jobs or MOST_JOBS
        self._settings, self._head = settings, head

    @abstractmethod
    def _part(self, job: Job) -> Part:
        """A part that has not been handed over yet."""

    @abstractmethod
    def _hand_over(self, part: Part) -> None:
        """Gives a part to the cluster."""

    @abstractmethod
    def _look(self, parts: Sequence[Part]) -> Sequence[Part]:
        """Waits a little; those of some parts that may have something to tell."""

    @abstractmethod
    def _hear(self, part: Part) -> Over | None:
        """How a part has ended; None while it waits or goes on."""

    @abstractmethod
    def _take_back(self, parts: Sequence[Part]) -> Iterable[Part]:
        """Makes sure that parts which have not begun never do; those of which nothing more will be heard."""

    @abstractmethod
    def _kill(self, part: Part) -> None:
        """Ends a part at once."""

    def run(self, next_job: NextJob, ended: Ended) -> None:
        """See `Launcher`."""
        parts: list[Part] = []
        failed: list[str] = []
        shares = Shares()

        def close(part: Part, done: bool) -> None:
            ended(JobEnd(part.job.label, done, shares.end(part.job.label), part.where))

        try:
            while True:
                while len(parts) < self.jobs and (job := next_job()) is not None:
                    parts.append(self._part(job))
                    shares.begin(job.label)
                    self._begin(parts[-1])
                if not parts:
                    break
                shares.pass_time()
                for part in self._look(parts):
                    over = self._hear(part)
                    if over is None or (over.code and self._again(part, over)):
                        continue
                    parts.remove(part)
                    close(part, over.code == 0)
                    if over.code:
                        failed.append(f"{part.job.label}: {over.reason}")
                    seconds = time.perf_counter() - (part.began or part.handed)
                    self.site.say(f"{part.job.label}: {'failed' if over.code else 'finished'} after {seconds:.0f} s")
        finally:
            for part, done in self._stop(parts):
                close(part, done)
        if failed:
            raise UserError(failed[0])

    def _begin(self, part: Part) -> None:
        part.tries += 1
        part.handed = time.perf_counter()
        self._hand_over(part)

    def _again(self, part: Part, over: Over) -> bool:
        """Hands a part over again that its machine has failed, unless it was begun too often."""
        if not may_go_better(over.code) or part.tries > self._settings.retries:
            return False
        self.site.say(told_again(part.job.label, over.reason, part.tries, self._settings.retries))
        self._begin(part)
        return True

    def _stop(self, parts: Sequence[Part]) -> Iterator[tuple[Part, bool]]:
        """Lets parts save and end; each, with whether it was done by then."""
        if not parts:
            return
        # Those that are at work hear it from the head's lease.
        self._head.stop()
        try:
            left = list(parts)
            for part in self._take_back(parts):
                yield part, False
                left.remove(part)
            while left:
                for part in self._look(left):
                    with suppress(UserError):
                        over = self._hear(part)
                        if over is not None:
                            yield part, over.code == 0
                            left.remove(part)
        except KeyboardInterrupt:
            for part in parts:
                self._kill(part)
            raise

    def _order(self, job: Job, *, copied: bool) -> Order:
        """What the machine that gets a job is told."""
        site = self.site
        told = carried({**os.environ, **inherited()})
        return Order(job, str(site.folder), str(site.logs), str(site.leases), here(), told, copied)
