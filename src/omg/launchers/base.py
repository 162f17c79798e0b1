"""What a launcher is: it does parts of an experiment in processes of their own, somewhere.

A part is a `Job`. Its process hands nothing back but files, so whatever happens to it, the next call continues with
what is on disk. Whoever has jobs to be done writes this:

    def next_job() -> Job | None:  # What can be begun now; None if nothing, for now or for good.
        ...
        return Job("train omg", "omg.experiments.task_process", ("train omg",))

    def ended(outcome: JobEnd) -> None:  # However it ended; `next_job` is asked again after it.
        ...

    with opened(settings, Site(folder, folder / "logs", folder / "leases", say)) as launcher:
        launcher.run(next_job, ended)

and a module that can be run as `python -m MODULE FOLDER WORDS... TIE`:

    def main(folder: str, title: str, tie: str) -> int:
        return serve(lambda: do(Path(folder), title), tie)

    if __name__ == "__main__":
        sys.exit(main(*sys.argv[1:]))

`opened` is in `omg.launchers`, `serve` in `omg.launchers.serving`. A job that needs another is handed out by `next_job`
when `ended` has told that the other is done; a job may also be thought of only then.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeAlias

Say: TypeAlias = Callable[[str], None]
"""Prints a line."""


@dataclass(frozen=True)
class Needs:
    """What a part is given on its machine; of use where a cluster deals it out."""

    cpus: float = 1.0
    gpus: float = 0.0
    memory_gb: float | None = None
    """Main memory; None leaves it to the cluster."""
    minutes: int | None = None
    """Longest time at a stretch, where a cluster wants to know; a part that takes longer goes on after it."""


@dataclass(frozen=True)
class Job:
    """Work for a process of its own: `python -m MODULE FOLDER WORDS... TIE`."""

    label: str
    """In messages; the log file and the lease are named after it."""
    module: str
    """What the process runs; it must hand its last word to `omg.launchers.serving.serve`."""
    words: tuple[str, ...]
    """The words between the folder of the site, as its machine has it, and the last one."""
    needs: Needs = Needs()
    reads: tuple[str, ...] = ()
    """Files and folders, relative to the folder of the site, that it needs; those that are missing are no fault."""
    makes: tuple[str, ...] = ()
    """Files and folders, relative to the folder of the site, that it leaves; also what it goes on with when it was
    interrupted."""


@dataclass(frozen=True)
class JobEnd:
    """How a job ended."""

    label: str
    done: bool
    """Whether it succeeded."""
    seconds: float
    """Its share of the wall time: together what went by, however many ran side by side."""
    where: str
    """The machine that it ran on; empty if it never began."""


@dataclass(frozen=True)
class Site:
    """Where the parts of one experiment are done."""

    folder: Path
    """Absolute; everything that the parts read and make lies in it."""
    logs: Path
    """In `folder`: what the processes print, `LABEL.log`."""
    leases: Path
    """In `folder`: who works on what, see `omg.launchers.lease`."""
    say: Say


NextJob: TypeAlias = Callable[[], Job | None]
"""What can be begun now, or None; asked whenever there is room, so a job may wait for others."""
Ended: TypeAlias = Callable[[JobEnd], None]
"""Told of each job, however it ended."""


class Launcher(Protocol):
    """Does jobs somewhere; made by `omg.launchers.opened`."""

    site: Site
    jobs: int
    """Most processes at once."""
    elsewhere: bool
    """Whether jobs run on machines that this process does not run on, so that even a lone one is worth a job."""

    @property
    def at_once(self) -> bool:
        """Whether there is any use in handing it jobs, instead of doing the work in this process."""
        return self.elsewhere or self.jobs > 1

    def run(self, next_job: NextJob, ended: Ended) -> None:
        """Does jobs until there are no more.

        Raises:
            UserError: a job failed; all others were brought to their end first.
            Stopped: after a signal, when all that were running have saved and ended.
        """

    def close(self) -> None:
        """Lets go of whatever it holds; nothing runs any more."""
