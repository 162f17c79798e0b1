"""What a worker of a cluster does for a part: it starts the part's process, watches over it, and tells how it ended.

It is imported on machines that may have no JAX in this process, and must start quickly: nothing heavy here.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path

from omg.launchers import carrying
from omg.launchers.base import Job
from omg.launchers.lease import HEAD, Holder, lease_name, look
from omg.launchers.process import command, reason, surroundings
from omg.launchers.serving import DISK_CODE, Tie

_LOOK = 0.2
_SEEN_WITHIN = 5.0
"""Seconds in which a network file system shows what another machine has written."""
SNAPSHOT_SECONDS = 60.0
"""How often the files of a part come back that is done on a machine which does not see the folder."""
UNSEEN_CODE = 76
"""Instead of an exit status: the machine does not see the folder, or not that of the head that asked."""
_PACKAGES = ("jax", "jaxlib")


@dataclass(frozen=True)
class Order:
    """A part, for a worker on any machine."""

    job: Job
    folder: str
    logs: str
    leases: str
    """These three as the head has them."""
    head: Holder
    environment: Mapping[str, str]
    copied: bool
    """Whether the part's files travel along, because machines do not see the folder."""
    snapshot_seconds: float = SNAPSHOT_SECONDS


@dataclass(frozen=True)
class Began:
    """A part has begun."""

    host: str
    pid: int
    """Of the part's process there."""
    versions: Mapping[str, str]
    """Of the packages that decide the last digits."""


@dataclass(frozen=True)
class Brought:
    """Files of a part that goes on."""

    files: Mapping[str, bytes]


@dataclass(frozen=True)
class Over:
    """A part has ended."""

    code: int
    reason: str
    files: Mapping[str, bytes]
    log: bytes


def versions() -> dict[str, str]:
    """Versions of the packages that decide the last digits of results; loads none of them."""
    found = {"python": ".".join(map(str, sys.version_info[:2]))}
    for name in _PACKAGES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


def sees(leases: str, head: Holder, seconds: float = _SEEN_WITHIN) -> bool:
    """Whether this machine sees the folder of leases as the head does, who has written its lease there."""
    end = time.monotonic() + seconds
    while look(Path(leases), HEAD).holder != head:
        # A folder that is not there at all will not come either.
        if time.monotonic() >= end or not Path(leases).is_dir():
            return False
        time.sleep(_LOOK)
    return True


def do_part(
    order: Order, files: Mapping[str, bytes], seconds: float = _SEEN_WITHIN
) -> Iterator[Began | Brought | Over]:
    """Does a part and tells how it goes.

    Args:
        order: what is to be done.
        files: what it needs, if they travel along.
        seconds: in which a network file system shows what the head has written.
    """
    try:
        yield from _do(order, files, seconds)
    except OSError as error:
        yield Over(DISK_CODE, f"{error.filename or 'the disk'}: {error.strerror or error}.", {}, b"")


def _do(order: Order, files: Mapping[str, bytes], seconds: float) -> Iterator[Began | Brought | Over]:
    job, place = order.job, Path(order.folder)
    if not order.copied and not sees(order.leases, order.head, seconds):
        told = f"{socket.gethostname()} does not see {place} as {order.head.host} does, or is no longer wanted there"
        yield Over(UNSEEN_CODE, told, {}, b"")
        return
    if order.copied:
        place = carrying.scratch(order.head.host, order.folder, job.label)
        carrying.spread(place, files, replaced=(*job.reads, *job.makes))
    local = _moved(order, place)
    log = Path(local.logs) / f"{lease_name(job.label)}.log"
    process = _start(local, log)
    try:
        yield Began(socket.gethostname(), process.pid, versions())
        yield from _watch(local, process)
    except BaseException:
        end_process(process)
        raise
    code = process.returncode
    back = carrying.collect(place, job.makes) if order.copied else {}
    told = reason(code, log) if code else ""
    yield Over(code, told, back, log.read_bytes() if order.copied else b"")
    if order.copied:
        carrying.clear(place)


def _watch(order: Order, process: subprocess.Popen[bytes]) -> Iterator[Brought]:
    """Waits for the end of a process; brings its files back from time to time, where that is needed."""
    looked = time.monotonic()
    last: Mapping[str, bytes] | None = None
    while process.poll() is None:
        time.sleep(_LOOK)
        if order.copied and time.monotonic() - looked >= order.snapshot_seconds:
            found = carrying.snapshot(Path(order.folder), order.job.makes)
            if found is not None and found != last:
                yield Brought(found)
                last = found
            looked = time.monotonic()


def _moved(order: Order, place: Path) -> Order:
    """An order whose folders are those of this machine."""
    logs, leases = (place / Path(one).relative_to(order.folder) for one in (order.logs, order.leases))
    return replace(order, folder=str(place), logs=str(logs), leases=str(leases))


def _start(order: Order, log: Path) -> subprocess.Popen[bytes]:
    log.parent.mkdir(parents=True, exist_ok=True)
    tie = Tie(os.getpid(), order.leases, order.job.label, head=not order.copied)
    with log.open("ab") as output:
        return subprocess.Popen(
            command(order.job, Path(order.folder), tie, sys.executable),
            stdout=output,
            stderr=subprocess.STDOUT,
            env=surroundings(order.environment),
            start_new_session=True,
        )


def end_process(process: subprocess.Popen[bytes]) -> None:
    """Lets a process save and end."""
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(signal.SIGINT)
    process.wait()
