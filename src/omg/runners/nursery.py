"""The process that worker processes are forked from.

It imports the game's package once. Workers that are copies of it start at once and, what matters more, share its memory
until they change it: where more workers than cores take turns, they find the game's code still in the processor's
caches. A game that keeps threads cannot be copied; its workers are started as programs of their own.

The run holds the other ends of two things: the nursery's standard input, which all workers share and at whose end all
of them end, and a socket for its requests.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np

from omg.envs.adapters.host import HostEnv
from omg.runners.worker import PROCESS, Ends, build_game, live, report, serve
from omg.stopping import leave_signals_to_parent
from omg.types import Tree

_BEAR, _BURY = range(2)
_REQUEST = struct.Struct("<Biid")
"""What to do; the first game and the number of games, or a process id and 0; how many seconds it may take to end."""
_DEATH = struct.Struct("<?i")
_LOOK_SECONDS = 2e-3
_CLOSE_SECONDS = 2.0


class Death(NamedTuple):
    """How a worker ended."""

    by_itself: bool
    """Not because its time was up."""
    code: int
    """Exit status; negative for the signal that killed it."""


class Nursery:
    """The run's side. The process is started when the first worker is asked for, and again should it be gone."""

    def __init__(self, order: str, fds: tuple[int, ...]) -> None:
        """Starts nothing yet.

        Args:
            order: what to play, see `worker.order_for`.
            fds: of the board's memory and the two ends of `worker.Finish`.
        """
        self._order, self._fds = order, fds
        self._process: subprocess.Popen[bytes] | None = None
        self._requests: socket.socket | None = None
        self._words: IO[bytes] | None = None
        self.generation = 0
        """How often the process has been started."""

    def bear(self, fds: tuple[int, int, int], first: int, count: int) -> None:
        """Asks for a worker; it speaks up when its game is built, or says why it cannot be.

        Args:
            fds: what it gets: its ends of a socket to speak on and of a pipe for commands, and a file for what it
                prints. The caller closes its own copies of the ends.
            first: its first game.
            count: number of its games.
        """
        if self._process is None or self._process.poll() is not None:
            self.close()
            self._start()
        assert self._requests is not None
        # Should the process be gone, nobody holds the connection's other end, and the run notices that.
        with contextlib.suppress(OSError):
            socket.send_fds(self._requests, [_REQUEST.pack(_BEAR, first, count, 0.0)], fds)

    def bury(self, pid: int, seconds: float) -> Death | None:
        """Gives a worker `seconds` to end, then ends it and all that it has started; None if the nursery is gone."""
        if self._requests is None:
            return None
        try:
            self._requests.settimeout(seconds + _CLOSE_SECONDS)
            self._requests.sendall(_REQUEST.pack(_BURY, pid, 0, seconds))
            answer = self._requests.recv(_DEATH.size)
            if len(answer) == _DEATH.size:
                return Death(*_DEATH.unpack(answer))
        except OSError:
            pass
        self.close()
        return None

    def cause_of_death(self) -> str:
        """How it ended by itself; empty if it did not."""
        if self._process is None or self._words is None:
            return ""
        try:
            return told_end(self._process.wait(1.0), self._words)
        except subprocess.TimeoutExpired:
            return ""

    def close(self) -> None:
        """Ends the process, and with it all its workers; may be called twice."""
        if self._process is None or self._requests is None or self._words is None:
            return
        assert self._process.stdin is not None
        self._process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_CLOSE_SECONDS)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._requests.close()
        self._words.close()
        self._process = self._requests = self._words = None

    def _start(self) -> None:
        self.generation += 1
        self._requests, theirs = socket.socketpair()
        self._words = tempfile.TemporaryFile()  # noqa: SIM115 (closed in `close`)
        passed = (theirs.fileno(), *self._fds)
        # One core each: games are stepped side by side, and no worker needs a GPU.
        settings = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "JAX_PLATFORMS": "cpu"}
        paths = [str(Path(__file__).resolve().parents[2]), os.environ.get("PYTHONPATH", "")]
        settings["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
        with theirs:
            # A new program, not a copy of this one, whose JAX threads a copy would not have. In a process group of its
            # own, so that Ctrl-C passes it by and it can be ended with everything it has started. Not in a session of
            # its own: Linux shares out time between sessions first, and would switch between workers more often.
            self._process = subprocess.Popen(
                [sys.executable, "-c", f"from omg.runners.nursery import main; main{passed}", self._order],
                stdin=subprocess.PIPE,
                stdout=self._words,
                stderr=self._words,
                pass_fds=passed,
                process_group=0,
                env={**os.environ, **settings},
            )


def told_end(code: int, words: IO[bytes]) -> str:
    """How a process ended, in words.

    Args:
        code: exit status; negative for the signal that killed it.
        words: what it has printed, of which the last line is told.
    """
    how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
    size = words.seek(0, os.SEEK_END)
    words.seek(max(size - 2000, 0))
    lines = [line.strip() for line in words.read().decode(errors="replace").splitlines() if line.strip()]
    return f"{how} ({lines[-1][:300]})" if lines else how


# --------------------------------------------------------------------------------------------------- the process itself


def main(request_fd: int, memory_fd: int, tokens_fd: int, wake_fd: int) -> None:
    """Builds the game of the order in `sys.argv`, then serves requests until the run is gone.

    Args:
        request_fd: this side of the socket.
        memory_fd: file that holds the board.
        tokens_fd: see `worker.Finish`.
        wake_fd: see `worker.Finish`.
    """
    # A batch system may send its signals to all processes; the run decides what they mean for its workers.
    leave_signals_to_parent()
    requests = socket.socket(fileno=request_fd)
    order: Tree = json.loads(sys.argv[1])
    env: HostEnv | None = None
    problem: Exception | None = None
    with _dying_with_the_run():
        try:
            env = build_game(order)
        except Exception as error:
            problem = error
    gc.collect()
    # What is there now stays; the collector of a copy need not walk through it, and so change it, again and again.
    gc.freeze()
    fds = (memory_fd, tokens_fd, wake_fd)
    children: dict[int, subprocess.Popen[bytes] | None] = {}
    while 0 not in select.select([0, request_fd], [], [])[0]:
        message, received, _, _ = socket.recv_fds(requests, _REQUEST.size, 3)
        if not message:
            break
        what, number, count, seconds = _REQUEST.unpack(message)
        if what == _BURY:
            requests.sendall(_DEATH.pack(*_bury(children, number, seconds)))
            continue
        connection, commands, words = socket.socket(fileno=received[0]), *received[1:]
        ends = Ends(connection, commands, *fds)
        if problem is not None:
            connection.sendall(PROCESS.pack(0))
            report(connection, problem)
        elif _has_threads():
            child = _start_program(order, ends, words, number, count)
            children[child.pid] = child
        else:
            pid = os.fork()
            if pid == 0:
                requests.close()
                assert env is not None
                _become_worker(env, order, ends, words, number, count)
            children[pid] = None
        connection.close()
        os.close(commands)
        os.close(words)
    # The run is gone or has closed everything, which ends all workers; they are waited for so that nothing is left.
    for pid in list(children):
        _bury(children, pid, _LOOK_SECONDS)


@contextlib.contextmanager
def _dying_with_the_run() -> Iterator[None]:
    """Ends this process with the run while it is busy, by a thread that is gone afterwards: copies are made then."""
    over, end = os.pipe()

    def watch() -> None:
        if 0 in select.select([0, over], [], [])[0]:
            os.killpg(0, signal.SIGKILL)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield
    finally:
        os.close(end)
        thread.join()
        os.close(over)


def _has_threads() -> bool:
    """Whether this process has, or may have, threads that a copy would lack."""
    tasks = Path("/proc/self/task")
    return not tasks.is_dir() or len(list(tasks.iterdir())) > 1


def _become_worker(env: HostEnv, order: Tree, ends: Ends, words: int, *share: int) -> None:
    """What a copy of this process does; it never returns."""
    code = 1
    try:
        os.setpgid(0, 0)
        live(ends.connection)
        os.dup2(words, 1)
        os.dup2(words, 2)
        os.close(words)
        # Else all copies would draw the same numbers where a game does not use its seed.
        np.random.seed()  # noqa: NPY002
        serve(env, order["games"], ends, *share)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _start_program(order: Tree, ends: Ends, words: int, *share: int) -> subprocess.Popen[bytes]:
    """A worker that is no copy but a program of its own."""
    passed = (ends.connection.fileno(), *ends[1:])
    return subprocess.Popen(
        [sys.executable, "-c", f"from omg.runners.worker import main; main{(*passed, *share)}", json.dumps(order)],
        stdin=0,
        stdout=words,
        stderr=words,
        pass_fds=passed,
        process_group=0,
    )


def _bury(children: dict[int, subprocess.Popen[bytes] | None], pid: int, seconds: float) -> Death:
    """Waits for the end of a child, makes it end when its time is up, and ends all that it has started."""
    child = children.pop(pid)
    deadline = time.monotonic() + seconds
    code = _poll(pid, child)
    while code is None and time.monotonic() < deadline:
        time.sleep(_LOOK_SECONDS)
        code = _poll(pid, child)
    # Its group may outlive it: a game that is a program of its own.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
    if code is not None:
        return Death(True, code)
    return Death(False, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) if child is None else child.wait())


def _poll(pid: int, child: subprocess.Popen[bytes] | None) -> int | None:
    if child is not None:
        return child.poll()
    found, status = os.waitpid(pid, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if found else None
