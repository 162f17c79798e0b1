"""Who plays the games of a board: worker processes (`parallel`) or this process itself (`episode`).

Both tell which games they lost: when a worker dies, hangs, or shows something that no game may show, its unfinished
episodes are lost, it is started anew, and everybody else plays on.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from mmap import mmap
from pathlib import Path
from typing import IO, Any, Protocol

import numpy as np

from omg.envs.adapters.host import HostEnv
from omg.errors import UserError
from omg.runners.board import Board, board_bytes
from omg.runners.worker import (
    CLOSE,
    COMMAND,
    DONE,
    LENGTH,
    RESET,
    SAVE_REPLAY,
    STEP,
    GameShare,
    describe,
    order_for,
    split_games,
)

_START_SECONDS = 300.0
"""A worker may take so long to import its game's package."""
_RESET_FACTOR = 10
"""A reset may take as many times longer than a step: StarCraft II starts with it."""
_CLOSE_SECONDS = 5.0

Say = Callable[[str], None]


class GamesFailedError(Exception):
    """Too many failures in a row; the message says of whom and why."""


class Table(Protocol):
    """Plays the games of a board."""

    board: Board
    failures: int
    """Since the last whole round; whoever plays rounds sets it back to 0."""

    def reset(self) -> np.ndarray:
        """Starts an episode in every playing game; returns which games were lost, [G] bool."""
        ...

    def step(self, t: int) -> np.ndarray:
        """Plays the actions of slot `t`; returns which games were lost, [G] bool."""
        ...

    def save_replays(self) -> None:
        """Writes replays of the episodes just played."""
        ...

    def close(self) -> None:
        """Ends all games; may be called twice."""
        ...


@dataclass
class Patience:
    """How long to wait for a worker, and how often to try again."""

    seconds: float
    """For a step of all its games."""
    failures: int
    """In a row, without a whole round in between; one more ends the run."""


class InlineTable:
    """All games in this process, one after the other. A game that hangs cannot be noticed here."""

    def __init__(self, env: HostEnv, games: int, patience: Patience, say: Say) -> None:
        self.env, self.patience, self.say = env, patience, say
        self.board = Board(env.spec, games)
        self.failures = 0
        self._share = GameShare(env, self.board, 0, games)

    def reset(self) -> np.ndarray:
        """See `Table`."""
        return self._try(self._share.reset)

    def step(self, t: int) -> np.ndarray:
        """See `Table`."""
        return self._try(lambda: self._share.step(t))

    def save_replays(self) -> None:
        """See `Table`."""
        self._share.save_replays()

    def close(self) -> None:
        """See `Table`."""
        self._share.close()

    def _try(self, play: Callable[[], None]) -> np.ndarray:
        lost = np.zeros(self.board.games, bool)
        try:
            play()
        except Exception as error:
            lost |= self.board.playing
            self.board.playing[:] = False
            self._share.close()
            _note_failure(self, "the game failed", describe(error), int(lost.sum()))
        return lost


class WorkerTable:
    """Games spread over processes. They are started at once and awaited when they are first needed."""

    def __init__(
        self, env: HostEnv, name: str, env_args: dict[str, Any], games: int, workers: int, patience: Patience, say: Say
    ) -> None:
        """Starts the workers.

        Args:
            env: the game.
            name: its name in the registry; workers build it from this and `env_args`.
            env_args: its options, as JSON can hold them.
            games: number of games G.
            workers: number of processes, at most G.
            patience: how long to wait, and how often to try again.
            say: receives one line for every failure.
        """
        if os.name != "posix":
            raise UserError("runner: parallel needs Linux or macOS. Allowed here: episode.")
        self.patience, self.say, self.failures = patience, say, 0
        self._memory_file = _memory_file(board_bytes(env.spec, games))
        self.board = Board(env.spec, games, mmap(self._memory_file.fileno(), 0))
        self.workers: list[_Worker] = []
        try:
            for first, count in split_games(games, workers):
                order = order_for(env, name, env_args, games, first, count)
                self.workers.append(_Worker(len(self.workers), order, self._memory_file.fileno(), first, count))
        except BaseException:
            self.close()
            raise

    def reset(self) -> np.ndarray:
        """See `Table`."""
        return self._everybody(RESET, 0, self.patience.seconds * _RESET_FACTOR)

    def step(self, t: int) -> np.ndarray:
        """See `Table`."""
        return self._everybody(STEP, t, self.patience.seconds)

    def save_replays(self) -> None:
        """See `Table`."""
        self.board.playing[:] = True  # So that all are asked; the next round begins with marks of its own.
        self._everybody(SAVE_REPLAY, 0, self.patience.seconds * _RESET_FACTOR)
        self.board.playing[:] = False

    def close(self) -> None:
        """See `Table`."""
        for worker in self.workers:
            worker.dismiss()
        deadline = time.monotonic() + _CLOSE_SECONDS
        for worker in self.workers:
            worker.end(max(deadline - time.monotonic(), 0.0))
        self.workers = []
        self._memory_file.close()

    def _everybody(self, what: int, t: int, seconds: float) -> np.ndarray:
        """Tells all workers with games that are going on what to do, and waits for all of them."""
        lost = np.zeros(self.board.games, bool)
        busy = [worker for worker in self.workers if self.board.playing[worker.columns].any()]
        troubles: dict[int, str] = {}
        for worker in busy:
            if not worker.ready:
                # Workers start side by side, so all of them are told before the first is waited for.
                trouble = worker.await_answer(time.monotonic() + _START_SECONDS)
                worker.ready = trouble is None
                if trouble is not None:
                    troubles[worker.number] = f"did not start: {trouble}"
                    continue
            worker.tell(what, t)
        deadline = time.monotonic() + seconds
        for worker in busy:
            if worker.number not in troubles:
                trouble = worker.await_answer(deadline)
                if trouble is not None:
                    troubles[worker.number] = trouble
        for worker in busy:
            if worker.number in troubles:
                lost[worker.columns] = self.board.playing[worker.columns]
                self._replace(worker, troubles[worker.number])
        return lost

    def _replace(self, worker: _Worker, trouble: str) -> None:
        worker.end(0.0)
        episodes = int(self.board.playing[worker.columns].sum())
        self.board.playing[worker.columns] = False
        _note_failure(self, f"worker {worker.number}", trouble, episodes)
        worker.start()


def _note_failure(table: InlineTable | WorkerTable, who: str, why: str, episodes: int) -> None:
    """Says what was lost; raises when it has happened too often."""
    table.failures += 1
    if table.failures > table.patience.failures:
        raise GamesFailedError(
            f"The games failed {table.failures} times without a whole round in between (worker_failures="
            f"{table.patience.failures}). The last time {who}: {why}."
        )
    table.say(f"{who}: {why}; {episodes} unfinished episode(s) dropped, starting it anew")


class _Worker:
    """One worker process as its run sees it."""

    def __init__(self, number: int, order: bytes, memory_fd: int, first: int, count: int) -> None:
        self.number, self.order, self.memory_fd = number, order, memory_fd
        self.columns = slice(first, first + count)
        self.ready = False
        self.process: subprocess.Popen[bytes] | None = None
        self.connection: socket.socket | None = None
        self.words: IO[bytes] | None = None
        self.start()

    def start(self) -> None:
        """Starts the process; it answers once when its game is built."""
        self.ready = False
        self.connection, theirs = socket.socketpair()
        self.words = tempfile.TemporaryFile()  # noqa: SIM115 (closed in `end`)
        passed = (theirs.fileno(), self.memory_fd)
        program = f"from omg.runners.worker import main; main{passed}"
        # One core each: games are stepped side by side, and no worker needs a GPU.
        settings = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "JAX_PLATFORMS": "cpu"}
        paths = [str(Path(__file__).resolve().parents[2]), os.environ.get("PYTHONPATH", "")]
        settings["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
        with theirs:
            # A new program, not a copy of this one, whose JAX threads a copy would not have. In a session of its own,
            # so that Ctrl-C passes it by and it can be ended with everything it has started.
            self.process = subprocess.Popen(
                [sys.executable, "-c", program],
                stdin=subprocess.PIPE,
                stdout=self.words,
                stderr=self.words,
                pass_fds=passed,
                start_new_session=True,
                env={**os.environ, **settings},
            )
        self._send(self.order)

    def tell(self, what: int, t: int) -> None:
        """Sends a command."""
        self._send(COMMAND.pack(what, t))

    def await_answer(self, deadline: float) -> str | None:
        """Waits for the answer to the last command; None when it was done, else what is wrong."""
        assert self.connection is not None
        try:
            answer = self._receive(1, deadline)
            if answer == DONE:
                return None
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
        if self.process is not None:
            self.tell(CLOSE, 0)

    def end(self, seconds: float) -> None:
        """Gives it `seconds` to end by itself, then ends it and all that it has started."""
        if self.process is None:
            return
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(seconds)
        # Its group may outlive it: a game that is a program of its own.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        for end in (self.process.stdin, self.connection, self.words):
            if end is not None:
                end.close()
        self.process = None

    def _send(self, message: bytes) -> None:
        assert self.connection is not None
        # A worker that is gone is noticed when its answer is waited for.
        with contextlib.suppress(OSError):
            self.connection.sendall(message)

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
        assert self.process is not None
        try:
            code = self.process.wait(1.0)
        except subprocess.TimeoutExpired:
            return "broke off its connection"
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
        last = self._last_words()
        return f"{how} ({last})" if last else how

    def _last_words(self) -> str:
        """The last line it wrote."""
        assert self.words is not None
        size = self.words.seek(0, os.SEEK_END)
        self.words.seek(max(size - 2000, 0))
        lines = [line.strip() for line in self.words.read().decode(errors="replace").splitlines() if line.strip()]
        return lines[-1][:300] if lines else ""


def _memory_file(size: int) -> IO[bytes]:
    """A file without a name, in memory where the system can: nothing is left of it, however the processes end."""
    folder = "/dev/shm"
    file: IO[bytes] = tempfile.TemporaryFile(dir=folder if os.access(folder, os.W_OK) else None)  # noqa: SIM115
    file.truncate(size)
    return file
