"""Who plays the games of a board: worker processes (`parallel`) or this process itself (`episode`).

Both tell which games they lost: when a worker dies, hangs, or shows something that no game may show, its unfinished
episodes are lost, it is started anew, and everybody else plays on.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from mmap import mmap
from typing import IO, Protocol

import numpy as np

from omg.envs.adapters.host import HostEnv
from omg.errors import UserError
from omg.runners.board import Blackboard, board_bytes
from omg.runners.crew import RollCall, Worker
from omg.runners.nursery import Nursery
from omg.runners.worker import (
    COMMAND,
    RESET,
    SAVE_REPLAY,
    STEP,
    GameShare,
    describe,
    order_for,
    split_games,
)
from omg.types import Tree

_START_SECONDS = 300.0
"""A worker may take so long to import its game's package."""
_RESET_FACTOR = 10
"""A reset may take as many times longer than a step: StarCraft II starts with it."""
_CLOSE_SECONDS = 5.0
_SLEEP_SECONDS = 60.0
_LOOK_SECONDS = 1e-3
"""How often the run looks whether all are done, once somebody has failed and nobody will say so."""

Say = Callable[[str], None]


class GamesFailedError(Exception):
    """Too many failures in a row; the message says of whom and why."""


class Venue(Protocol):
    """Where the games of a blackboard are played."""

    board: Blackboard
    failures: int
    """Since the last whole round; whoever plays rounds sets it back to 0."""

    def reset(self) -> np.ndarray | None:
        """Starts an episode in every playing game; returns which games were lost, [N] bool, None for none."""
        ...

    def step(self, t: int) -> np.ndarray | None:
        """Plays the actions of slot `t`; returns which games were lost, [N] bool, None for none."""
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


class InlineVenue:
    """All games in this process, one after the other. A game that hangs cannot be noticed here."""

    def __init__(self, env: HostEnv, games: int, patience: Patience, say: Say) -> None:
        self.env, self.patience, self.say = env, patience, say
        self.board = Blackboard(env.spec, games)
        self.failures = 0
        self._share = GameShare(env, self.board, 0, games)

    def reset(self) -> np.ndarray | None:
        """See `Venue`."""
        return self._try(self._share.reset)

    def step(self, t: int) -> np.ndarray | None:
        """See `Venue`."""
        return self._try(lambda: self._share.step(t))

    def save_replays(self) -> None:
        """See `Venue`."""
        self._share.save_replays()

    def close(self) -> None:
        """See `Venue`."""
        self._share.close()

    def _try(self, play: Callable[[], None]) -> np.ndarray | None:
        try:
            play()
        except Exception as error:
            lost = self.board.playing.copy()
            self.board.playing[:] = False
            self._share.close()
            _note_failure(self, "the game failed", describe(error), int(lost.sum()))
            return lost
        return None


class WorkerVenue:
    """Games spread over processes. They are started at once and awaited when they are first needed."""

    def __init__(
        self, env: HostEnv, name: str, env_args: Tree, games: int, workers: int, patience: Patience, say: Say
    ) -> None:
        """Starts the workers.

        Args:
            env: the game.
            name: its name in the registry; workers build it from this and `env_args`.
            env_args: its options, as JSON can hold them.
            games: number of games N.
            workers: number of processes, at most N.
            patience: how long to wait, and how often to try again.
            say: receives one line for every failure.
        """
        if os.name != "posix":
            raise UserError("runner: parallel needs Linux or macOS. Allowed here: episode.")
        self.patience, self.say, self.failures = patience, say, 0
        self._memory_file = _memory_file(board_bytes(env.spec, games))
        self.board = Blackboard(env.spec, games, mmap(self._memory_file.fileno(), 0))
        self._call = RollCall()
        self._commands = 0
        fds = (self._memory_file.fileno(), *self._call.finish)
        self._nursery = Nursery(order_for(env, name, env_args, games), fds)
        self.workers: list[Worker] = []
        try:
            for first, count in split_games(games, workers):
                self.workers.append(Worker(len(self.workers), self._nursery, first, count))
        except BaseException:
            self.close()
            raise

    def reset(self) -> np.ndarray | None:
        """See `Venue`."""
        return self._everybody(RESET, 0, self.patience.seconds * _RESET_FACTOR)

    def step(self, t: int) -> np.ndarray | None:
        """See `Venue`."""
        return self._everybody(STEP, t, self.patience.seconds)

    def save_replays(self) -> None:
        """See `Venue`."""
        self.board.playing[:] = True  # So that all are asked; the next round begins with marks of its own.
        self._everybody(SAVE_REPLAY, 0, self.patience.seconds * _RESET_FACTOR)
        self.board.playing[:] = False

    def close(self) -> None:
        """See `Venue`."""
        for worker in self.workers:
            worker.dismiss()
        deadline = time.monotonic() + _CLOSE_SECONDS
        for worker in self.workers:
            worker.end(max(deadline - time.monotonic(), 0.0))
        self.workers = []
        self._nursery.close()
        self._call.close()
        self._memory_file.close()

    def _everybody(self, what: int, t: int, seconds: float) -> np.ndarray | None:
        """Tells all workers with games that are going on what to do, and waits for all of them."""
        playing = self.board.playing.tolist()
        busy = [worker for worker in self.workers if True in playing[worker.columns]]
        troubles: dict[int, str] = {}
        for worker in busy:
            if not worker.ready:
                trouble = worker.await_start(time.monotonic() + _START_SECONDS)
                if trouble is not None:
                    troubles[worker.number] = f"did not start: {trouble}"
        told = [worker for worker in busy if worker.ready]
        self._commands += 1
        self._call.expect(told)
        command = COMMAND.pack(what, t, self._commands)
        for worker in told:
            worker.tell(command)
        troubles |= self._await(told, time.monotonic() + seconds)
        if not troubles:
            return None
        lost = np.zeros(self.board.games, bool)
        for worker in busy:
            if worker.number in troubles:
                lost[worker.columns] = self.board.playing[worker.columns]
                self._replace(worker, troubles[worker.number])
        self._call.start_over()
        return lost

    def _await(self, told: list[Worker], deadline: float) -> dict[int, str]:
        """Waits until all `told` are done or have failed; returns what is wrong, by the number of the worker."""
        answered, number = self.board.answered, self._commands
        troubles: dict[int, str] = {}
        waiting = told
        while waiting:
            left = max(deadline - time.monotonic(), 0.0)
            for worker in self._call.wait(min(left, _LOOK_SECONDS if troubles else _SLEEP_SECONDS)):
                troubles[worker.number] = worker.explain(deadline)
            late = time.monotonic() >= deadline
            waiting = [one for one in waiting if one.number not in troubles and answered[one.first] != number]
            if late:
                return troubles | {one.number: "no answer in time (worker_timeout)" for one in waiting}
        return troubles

    def _replace(self, worker: Worker, trouble: str) -> None:
        worker.end(0.0)
        episodes = int(self.board.playing[worker.columns].sum())
        self.board.playing[worker.columns] = False
        _note_failure(self, f"worker {worker.number}", trouble, episodes)
        worker.start()


def _note_failure(venue: InlineVenue | WorkerVenue, who: str, why: str, episodes: int) -> None:
    """Says what was lost; raises when it has happened too often."""
    venue.failures += 1
    if venue.failures > venue.patience.failures:
        raise GamesFailedError(
            f"The games failed {venue.failures} times without a whole round in between (worker_failures="
            f"{venue.patience.failures}). The last time {who}: {why}."
        )
    venue.say(f"{who}: {why}; {episodes} unfinished episode(s) dropped, starting it anew")


def _memory_file(size: int) -> IO[bytes]:
    """A file without a name, in memory where the system can: nothing is left of it, however the processes end."""
    folder = "/dev/shm"
    file: IO[bytes] = tempfile.TemporaryFile(dir=folder if os.access(folder, os.W_OK) else None)  # noqa: SIM115
    file.truncate(size)
    return file
