"""Worker processes as their run sees them: one `Worker` each, and the `RollCall` by which it waits for all of them."""

from __future__ import annotations

import contextlib
import math
import os
import select
import socket
import tempfile
import time
from typing import IO

from omg.runners.nursery import Death, Nursery, told_end
from omg.runners.worker import CLOSE, COMMAND, DONE, LENGTH, PROCESS, Finish


class RollCall:
    """The run's side of `Finish`: sleeps until the last of the workers is done, or one of them is gone or complains."""

    def __init__(self) -> None:
        tokens, self._give = os.pipe()
        self._woken, wake = os.pipe()
        self.finish = Finish(tokens, wake)
        os.set_blocking(tokens, False)
        os.set_blocking(self._woken, False)
        self._expected: list[Worker] = []
        self._speaking: dict[int, Worker] = {}
        self._poll = select.poll()

    def expect(self, workers: list[Worker]) -> None:
        """Gets ready for `workers` to be told."""
        if workers != self._expected:
            self._expected = workers
            self._speaking = {worker.fileno(): worker for worker in workers}
            self._poll = select.poll()
            for fd in (self._woken, *self._speaking):
                self._poll.register(fd, select.POLLIN)
        if len(workers) > 1:
            os.write(self._give, bytes(len(workers) - 1))

    def wait(self, seconds: float) -> list[Worker]:
        """Sleeps until woken, at most so long; returns the workers that are gone or complain, each of them once."""
        found = []
        for fd, _ in self._poll.poll(math.ceil(seconds * 1000)):
            if fd == self._woken:
                os.read(fd, 64)
            else:
                self._poll.unregister(fd)
                found.append(self._speaking[fd])
        return found

    def start_over(self) -> None:
        """After a failure: forgets tokens that nobody has taken and connections that are no more."""
        self._expected = []
        for fd in (self.finish.tokens, self._woken):
            with contextlib.suppress(BlockingIOError):
                while os.read(fd, 4096):
                    pass

    def close(self) -> None:
        """Closes the pipes; may be called twice."""
        for fd in (*self.finish, self._give, self._woken) if self._give >= 0 else ():
            os.close(fd)
        self._give = -1


class Worker:
    """One worker process."""

    def __init__(self, number: int, nursery: Nursery, first: int, count: int) -> None:
        """Starts it.

        Args:
            number: its name in messages.
            nursery: where it comes from.
            first: its first game.
            count: number of its games.
        """
        self.number, self.nursery = number, nursery
        self.first, self.count = first, count
        self.columns = slice(first, first + count)
        self.ready = False
        self.pid: int | None = None
        """None while it is on its way, and after its end."""
        self.connection: socket.socket | None = None
        self.words: IO[bytes] | None = None
        self.death: Death | None = None
        self.start()

    def start(self) -> None:
        """Asks for the process, which speaks up when its game is built."""
        self.ready, self.pid, self.death, self._over = False, None, None, False
        self.connection, theirs = socket.socketpair()
        self.words = tempfile.TemporaryFile()  # noqa: SIM115 (closed in `end`)
        # A pipe wakes its reader at a third of what a socket takes.
        commands, self._commands = os.pipe()
        with theirs:
            self.nursery.bear((theirs.fileno(), commands, self.words.fileno()), self.first, self.count)
        os.close(commands)
        self._generation = self.nursery.generation

    def fileno(self) -> int:
        """Of the connection, on which a worker that is ready says only what is wrong."""
        assert self.connection is not None
        return self.connection.fileno()

    def tell(self, command: bytes) -> None:
        """Sends a command."""
        try:
            os.write(self._commands, command)
        except OSError:
            # It is gone, which is noticed when its answer is waited for.
            return

    def await_start(self, deadline: float) -> str | None:
        """Waits until its game is built; None when it is, else what is wrong."""
        assert self.connection is not None
        with contextlib.suppress(OSError):
            announced = self._receive(PROCESS.size, deadline)
            if len(announced) == PROCESS.size:
                self.pid = PROCESS.unpack(announced)[0] or None
        trouble = self.explain(deadline)
        self.ready = trouble == ""
        return trouble or None

    def explain(self, deadline: float) -> str:
        """What is wrong with it; empty where it says that nothing is."""
        assert self.connection is not None
        try:
            answer = self._receive(1, deadline)
            if answer == DONE:
                return ""
            if answer:
                size = LENGTH.unpack(self._receive(LENGTH.size, deadline))[0]
                return self._receive(size, deadline).decode(errors="replace")
        except TimeoutError:
            return "no answer in time (worker_timeout)"
        except OSError:
            pass
        return self._cause_of_death()

    def dismiss(self) -> None:
        """Asks it to close its games and to end."""
        if self.connection is not None:
            self.tell(COMMAND.pack(CLOSE, 0, 0))

    def end(self, seconds: float) -> None:
        """Gives it `seconds` to end by itself, then ends it and all that it has started."""
        self._bury(seconds)
        if self.connection is not None and self.words is not None:
            self.connection.close()
            self.words.close()
            os.close(self._commands)
        self.connection = self.words = None

    def _bury(self, seconds: float) -> None:
        if self._over:
            return
        self._over = True
        if self.nursery.generation != self._generation:
            # The process it comes from is gone, and its workers with it.
            self.pid = None
        elif self.pid is not None:
            self.death = self.nursery.bury(self.pid, seconds)
            self.pid = None
        else:
            # Its game was not built, or not yet, by the process that builds it for all. Another try needs another one.
            self.nursery.close()

    def _receive(self, size: int, deadline: float) -> bytes:
        assert self.connection is not None
        parts: list[bytes] = []
        while size:
            self.connection.settimeout(max(deadline - time.monotonic(), 1e-3))
            part = self.connection.recv(size)
            if not part:
                break
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def _cause_of_death(self) -> str:
        assert self.words is not None
        if self.pid is None:
            return self.nursery.cause_of_death() or "ended while its game was built"
        self._bury(1.0)
        if self.death is None:
            return "ended with the process it was copied from"
        return told_end(self.death.code, self.words) if self.death.by_itself else "broke off its connection"
