"""What a process does that was started for a job: its work, as long as those are there who want it done."""

from __future__ import annotations

import errno
import json
import os
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from omg.errors import UserError, disk_fault
from omg.launchers.lease import HEAD, STOPPING, Lease, LeaseView, Watch, lease_name, told_holder
from omg.names import inert
from omg.screen import forgiving_output
from omg.stopping import SIGNALS, ends_by_signal, exit_code, leave_if_ended, signal_of

DISK_CODE = 74
"""Exit status after a fault of the machine's own disk: another machine may do better."""
LOST_CODE = 75
"""Exit status of a process whose part somebody else has taken over meanwhile."""
_DISK_FAULTS = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.ESTALE)
"""Faults that another machine's disk need not have."""
_LOOK = 0.2
"""Seconds between looks at the process that started this one."""
_LOOK_AT_HEAD = 1.0
"""Seconds between looks at the head's lease, which may be on another machine's disk."""


@dataclass(frozen=True)
class Tie:
    """What ties a process to those that want it; it is handed over as its last word."""

    parent: int
    """Id of the process that started it, on the same machine."""
    leases: str = ""
    """Folder of the leases; empty where nothing is leased."""
    label: str = ""
    """Of the job, whose lease it takes."""
    head: bool = False
    """Whether it also ends with the holder of the head's lease, which may be on another machine."""

    @property
    def word(self) -> str:
        """The last word of the process."""
        return json.dumps(asdict(self))

    @staticmethod
    def read(word: str) -> Tie:
        """The tie in a last word."""
        found = json.loads(word)
        return Tie(int(found["parent"]), str(found["leases"]), str(found["label"]), bool(found["head"]))


def serve(work: Callable[[], object], tie: str) -> int:
    """What a process of its own does: some work, as long as those are there who want it done.

    Args:
        work: ends with `Stopped` after a signal, when it has saved what it can.
        tie: the last word that the process was given.

    Returns:
        The exit status of this process.
    """
    # Whoever started the process may have kept signals from it, as Ray does.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    # Slurm sends this one to all processes before the time is over; the one that started this process passes it on.
    signal.signal(signal.SIGUSR2, lambda number, frame: None)
    with forgiving_output(), ends_by_signal():
        code = _serve(work, Tie.read(tie))
    return leave_if_ended(code)


def _serve(work: Callable[[], object], tie: Tie) -> int:
    try:
        threading.Thread(target=_end_with, args=(tie,), daemon=True).start()
        with _leased(tie):
            work()
    except UserError as error:
        print(f"error: {inert(str(error))}")
        return DISK_CODE if _is_of_disk(error) else 2
    except KeyboardInterrupt as error:
        return exit_code(signal_of(error))
    except Exception as error:
        if isinstance(error, OSError) and (fault := disk_fault(error)) is not None:
            print(f"error: {inert(str(fault))}")
            return DISK_CODE
        print(inert(traceback.format_exc(), lines=True), end="")
        # The last line is what the user is told; that of a traceback may be a note about the traceback.
        first = str(error).strip().partition("\n")[0]
        print(f"error: {type(error).__name__}: {inert(first)}")
        return 1
    return 0


def _is_of_disk(error: BaseException | None) -> bool:
    """Whether the machine's own disk is behind an error, however often that was put into other words."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in _DISK_FAULTS:
            return True
        error = error.__cause__ or error.__context__
    return False


@contextmanager
def _leased(tie: Tie) -> Iterator[None]:
    """Holds the lease of the job; one that somebody else still has is waited for: it is about to save and end."""
    if not tie.leases:
        yield
        return

    def wait(seen: LeaseView) -> None:
        print(f"waiting: {told_holder(seen)} is still at {inert(tie.label)}", flush=True)

    with Lease.take(Path(tie.leases), lease_name(tie.label), lost=_leave_at_once, wait=wait):
        yield


def _leave_at_once() -> None:
    """Ends the process without saving: what it would write belongs to somebody else by now."""
    print("error: this process was away for so long that another has taken over its work", flush=True)
    os._exit(LOST_CODE)


def _end_with(tie: Tie) -> None:
    """Saves and ends this process as soon as the one that started it is gone, however it went, or the head is."""
    watch, looked = Watch(Path(tie.leases), HEAD), time.monotonic()
    first = watch.look().number if tie.head else 0
    while os.getppid() == tie.parent:
        time.sleep(_LOOK)
        if tie.head and time.monotonic() - looked >= _LOOK_AT_HEAD:
            looked = time.monotonic()
            if watch.is_free() or watch.look().number != first or watch.look().state == STOPPING:
                break
    os.kill(os.getpid(), signal.SIGINT)
