"""Leases: who works on a part, or on a whole experiment, on whatever machine that sees the folder.

A lease is a row of small files, `NAME.1.json`, `NAME.2.json` and so on; the one with the highest number counts. Whoever
takes it over makes the next number, which only one process can do: a file is created only where there is none, and none
is ever deleted. That holds on network file systems, too, however late they show what others have done.

The holder writes a new beat into its file every two seconds. Others take it over when it says that it was given back,
when its process is gone (on the same machine one can tell), or when no beat has come for `PATIENCE` seconds by the
clock of whoever is waiting: clocks of different machines are never compared. A holder that was paused finds the next
number when it wakes up, and must end at once.
"""

from __future__ import annotations

import json
import os
import re
import socket
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path

from omg.disk import DamagedFileError, read_json, write_json
from omg.errors import UserError
from omg.names import LONGEST_FILE, file_name, inert
from omg.types import Json

BEAT = 2.0
"""Seconds between beats."""
PATIENCE = 30.0
"""Seconds without a beat after which a holder is taken to be gone."""
HEAD = "head"
"""The lease of the process that hands out the parts."""
_LOOK = 0.2
"""Seconds between looks at a lease that somebody else has."""
_MOST_BYTES = 10_000
HELD, STOPPING, RELEASED = "held", "stopping", "released"


@dataclass(frozen=True)
class Holder:
    """A process, as other machines can know it."""

    host: str
    boot: str
    """Differs after every start of the machine; empty where it does not tell."""
    space: str
    """The space that the process id belongs to: containers have their own."""
    pid: int
    born: str
    """When the process began, since its id is given to others afterwards; empty where nobody can say."""

    @property
    def machine(self) -> tuple[str, str, str]:
        """Where its process id means something."""
        return self.host, self.boot, self.space

    def is_gone(self) -> bool | None:
        """Whether its process has ended; None of a process on another machine."""
        if self.machine != here().machine:
            return None
        return _born(self.pid) != self.born if self.born else not _is_there(self.pid)


def here() -> Holder:
    """This process."""
    return Holder(*_machine(), os.getpid(), _born(os.getpid()))


@dataclass(frozen=True)
class LeaseView:
    """A lease as somebody sees it who looks now."""

    number: int
    """Of its file; 0 where nobody ever had it."""
    holder: Holder | None
    """None where its file cannot be read, as in the moment when it is made."""
    state: str
    beat: int

    @property
    def is_free(self) -> bool:
        """Whether anybody may have it."""
        gone = self.holder is not None and self.holder.is_gone() is True
        return self.number == 0 or self.state == RELEASED or gone


def look(place: Path, name: str) -> LeaseView:
    """A lease as it is now, in the folder of leases `place`."""
    number = _newest(place, name)
    try:
        found = read_json(_file(place, name, number), _MOST_BYTES) if number else {}
        return LeaseView(number, _holder(found), str(found.get("state", HELD)), int(found.get("beat", 0)))
    except (OSError, DamagedFileError, AttributeError, TypeError, ValueError, KeyError):
        return LeaseView(number, None, HELD, -1)


class Watch:
    """Judges by beats whether a lease is still held."""

    def __init__(self, place: Path, name: str, patience: float = PATIENCE) -> None:
        self.place, self.name, self.patience = place, name, patience
        self.seen: LeaseView | None = None
        self.beats = 0
        """Changes that were seen: a holder that beats is alive."""
        self._since = time.monotonic()

    def look(self) -> LeaseView:
        """The lease as it is now."""
        found = look(self.place, self.name)
        if found != self.seen:
            self.beats += self.seen is not None and found.number == self.seen.number
            self.seen, self._since = found, time.monotonic()
        return found

    def is_free(self) -> bool:
        """Whether anybody may have it: nobody has, or its holder has not been heard of for too long."""
        return self.look().is_free or time.monotonic() - self._since >= self.patience


class Lease:
    """A lease that this process holds, from `take` to `release`."""

    def __init__(self, place: Path, name: str, number: int, lost: Callable[[], None]) -> None:
        self.place, self.name, self.number = place, name, number
        self.state = HELD
        self._lost, self._beat = lost, 0
        self._ended = threading.Event()
        self._writing = threading.Lock()
        self._thread = threading.Thread(target=self._keep, daemon=True, name=f"lease {name}")
        self._thread.start()

    @staticmethod
    def take(
        place: Path,
        name: str,
        *,
        lost: Callable[[], None],
        patience: float = PATIENCE,
        wait: Callable[[LeaseView], None] | None = None,
    ) -> Lease:
        """Takes a lease, as soon as it can be had.

        Args:
            place: folder of leases; made if it is not there.
            name: of the lease.
            lost: called in another thread if somebody else has taken it over, as after a long pause of this process.
            patience: seconds without a beat after which a holder is taken to be gone.
            wait: told once whom one is waiting for; None: a holder that is alive is not waited for.

        Raises:
            UserError: somebody has it, and is not waited for.
            OSError: the file cannot be written.
        """
        place.mkdir(parents=True, exist_ok=True)
        watch, told = Watch(place, name, patience), False
        while True:
            if watch.is_free():
                assert watch.seen is not None
                number = watch.seen.number + 1
                if _make(_file(place, name, number)):
                    return Lease(place, name, number, lost)
                continue
            seen = watch.seen
            assert seen is not None
            alive = watch.beats > 0 or (seen.holder is not None and seen.holder.is_gone() is False)
            if wait is None and alive:
                raise UserError(f"{place.parent}: {told_holder(seen)} is at work here.")
            if wait is not None and not told:
                wait(seen)
                told = True
            time.sleep(_LOOK)

    def stop(self) -> None:
        """Tells whoever watches the lease that this process is about to end: they save and end as well."""
        self._write(STOPPING)

    def release(self) -> None:
        """Gives it back."""
        self._ended.set()
        self._thread.join()
        if not self._is_lost():
            self._write(RELEASED)

    def __enter__(self) -> Lease:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def _keep(self) -> None:
        while not self._ended.wait(BEAT):
            if self._is_lost():
                self._lost()
                return
            self._write(self.state)

    def _is_lost(self) -> bool:
        return _file(self.place, self.name, self.number + 1).exists()

    def _write(self, state: str) -> None:
        """Writes a beat; one that cannot be written is left out, and whoever waits long enough takes over."""
        with self._writing, suppress(OSError):
            self.state, self._beat = state, self._beat + 1
            write_json(_file(self.place, self.name, self.number), _content(state, self._beat), durable=False)


def told_holder(seen: LeaseView) -> str:
    """Who has a lease, in words."""
    holder = seen.holder
    return "somebody" if holder is None else f"process {holder.pid} on {inert(holder.host)}"


def lease_name(label: str) -> str:
    """The name of the lease and of the log of a job: `train omg` -> `train-omg`."""
    return file_name("job", label.replace(" ", "-"), LONGEST_FILE - 20)


def _file(place: Path, name: str, number: int) -> Path:
    return place / f"{name}.{number}.json"


def _newest(place: Path, name: str) -> int:
    pattern = re.compile(rf"{re.escape(name)}\.([1-9][0-9]{{0,8}})\.json")
    try:
        found = [pattern.fullmatch(entry) for entry in os.listdir(place)]
    except OSError:
        return 0
    return max((int(one[1]) for one in found if one), default=0)


def _make(path: Path) -> bool:
    """Makes the file of a lease for this process; False if there is one."""
    try:
        handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666)
    except FileExistsError:
        return False
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(json.dumps(_content(HELD, 0)))
    return True


def _content(state: str, beat: int) -> Json:
    return {**asdict(here()), "state": state, "beat": beat}


def _holder(found: Mapping[str, object]) -> Holder:
    host, boot, space, born = (str(found[key])[:200] for key in ("host", "boot", "space", "born"))
    return Holder(host, boot, space, int(str(found["pid"])), born)


@lru_cache(maxsize=1)
def _machine() -> tuple[str, str, str]:
    boot = space = ""
    with suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    with suppress(OSError):
        space = os.readlink("/proc/self/ns/pid")
    return socket.gethostname(), boot, space


def _born(pid: int) -> str:
    """When a process began, in ticks since the machine did; empty if there is none, or nobody can say."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    # The name of the program stands in brackets and may hold anything.
    fields = text.rpartition(")")[2].split()
    return "" if fields[0] == "Z" else fields[19]


def _is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass
    return True
