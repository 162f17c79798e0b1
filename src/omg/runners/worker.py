"""The worker process: plays its share of a board's games, one message for a step of all of them.

A copy of the process that `nursery` starts, or a program of its own. It has these ways to its run: a pipe with
commands, a socket for what went wrong, the board's memory, two pipes by which the last of all workers to be done wakes
the run (see `Finish`), and its standard input, at whose end (the run is gone, however it ended) it kills itself and
everything its games have started.
"""

from __future__ import annotations

import gc
import itertools
import json
import math
import mmap
import os
import signal
import socket
import struct
import sys
import threading
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from omg.envs.adapters.host import GameFaultError, HostEnv, HostGame, SavesReplays, Seen
from omg.envs.base import EnvSpec
from omg.errors import UserError
from omg.names import inert
from omg.registry.plugins import REGISTERED
from omg.runners.board import Blackboard
from omg.stopping import leave_signals_to_parent
from omg.types import Tree

RESET, STEP, SAVE_REPLAY, CLOSE = range(4)
COMMAND = struct.Struct("<Biq")
"""What to do, the time slot, and the number of the command."""
LENGTH = struct.Struct("<I")
PROCESS = struct.Struct("<i")
"""The first that is heard of a worker: its process id, or 0 where its game cannot be built."""
DONE, FAULT = b"\x01", b"\x00"
_SHOWN = ("an observation", "a state", "a mask")


class Finish(NamedTuple):
    """How N workers tell the run, once, that all of them are done.

    Before it tells them what to do, the run puts N - 1 tokens into a pipe. Every worker that is done takes one; the
    worker that finds none left is the last, and wakes the run. So the run, which would take a core from the workers,
    sleeps through the whole step. Waking is all that this does: who is done stands in `Blackboard.answered`.
    """

    tokens: int
    """Read end of the pipe of tokens; never waits."""
    wake: int
    """Write end of the pipe that wakes the run."""

    def arrive(self) -> None:
        """Called by each worker when it is done."""
        try:
            os.read(self.tokens, 1)
        except BlockingIOError:
            os.write(self.wake, DONE)


class Ends(NamedTuple):
    """A worker's ways to its run."""

    connection: socket.socket
    """On which it says what is wrong."""
    commands: int
    """Read end of a pipe."""
    memory: int
    """The file that holds the board."""
    tokens: int
    """See `Finish`."""
    wake: int
    """See `Finish`."""


class GameShare:
    """The games `first` … `first + count - 1` of a board, played in this process."""

    def __init__(self, env: HostEnv, board: Blackboard, first: int, count: int) -> None:
        self.env, self.board = env, board
        self.numbers = range(first, first + count)
        self.columns = slice(first, first + count)
        self.games: dict[int, HostGame] = {}
        self._arrays = (board.obs, board.state, board.avail)
        self._shapes = [array.shape[2:] for array in self._arrays]
        self._mine = [array[:, self.columns] for array in (*self._arrays, board.reward)]
        self._reward_shape = board.reward.shape[2:]

    def reset(self) -> None:
        """Starts an episode in every game that is marked as playing.

        Raises:
            GameFaultError: a game shows what it may not show; any other error comes from the game itself.
        """
        board = self.board
        for number in self.numbers:
            if board.playing[number]:
                if number not in self.games:
                    self.games[number] = self.env.open()
                self._show(0, number, self.games[number].reset(int(board.seeds[number])))
        self._check(0)

    def step(self, t: int) -> None:
        """Plays the actions of slot `t` in every game that is going on; raises what `reset` raises."""
        board, spec = self.board, self.env.spec
        over: list[int] = []
        for number in self.numbers:
            if not board.playing[number]:
                continue
            step = self.games[number].step(board.actions[t, number])
            self._show(t + 1, number, step.seen)
            if np.shape(step.reward) != self._reward_shape:
                raise GameFaultError(f"a reward of shape {np.shape(step.reward)}, not {self._reward_shape}")
            board.reward[t, number] = step.reward
            board.terminated[t, number] = step.terminated
            board.metrics[number] = step.metrics
            if step.terminated or step.truncated or t + 1 >= spec.episode_limit:
                over.append(number)
        if not _finite(self._mine[3][t]):
            raise GameFaultError("a reward that is not a number")
        self._check(t + 1)
        # Only now: should a game fail, this step brought nothing to any of them.
        if over:
            board.playing[over] = False

    def save_replays(self) -> None:
        """Writes replays, where the games have them."""
        for game in self.games.values():
            if isinstance(game, SavesReplays):
                game.save_replay()

    def close(self) -> None:
        """Closes all games, whatever they say to that."""
        for game in self.games.values():
            try:
                game.close()
            except Exception as error:
                print(f"while closing: {inert(describe(error))}", file=sys.stderr)
        self.games = {}

    def _show(self, slot: int, number: int, seen: Seen) -> None:
        for name, array, shape, value in zip(_SHOWN, self._arrays, self._shapes, seen, strict=True):
            # Without this, NumPy would stretch a smaller array over the place of a larger one.
            if value.shape != shape:
                raise GameFaultError(f"{name} of shape {value.shape}, not {shape}")
            array[slot, number] = value

    def _check(self, slot: int) -> None:
        obs, state, avail = (array[slot] for array in self._mine[:3])
        if not (_finite(obs) and _finite(state)):
            raise GameFaultError("an observation or state that is not a number")
        able = np.logical_or.reduce(avail, axis=-1)
        # Games that are over show nothing, and need not.
        if not able.all() and not (able.all(axis=-1) | ~self.board.playing[self.columns]).all():
            raise GameFaultError("a seat without a legal action")


def _finite(values: np.ndarray) -> bool:
    """Whether all are numbers: their sum tells at once, unless it is itself too large for one."""
    return math.isfinite(np.add.reduce(values, axis=None)) or bool(np.isfinite(values).all())


def describe(error: BaseException) -> str:
    """An error in one line."""
    text = " ".join(str(error).split())
    return text if isinstance(error, GameFaultError) else f"{type(error).__name__}: {text}"[:300]


def main(connection_fd: int, commands: int, memory: int, tokens: int, wake: int, first: int, count: int) -> None:
    """A worker that is a program of its own: builds the game of the order in `sys.argv`, then `serve`.

    Args:
        connection_fd: of `Ends.connection`.
        commands: see `Ends`.
        memory: see `Ends`.
        tokens: see `Ends`.
        wake: see `Ends`.
        first: its first game.
        count: number of its games.
    """
    leave_signals_to_parent()
    ends = Ends(socket.socket(fileno=connection_fd), commands, memory, tokens, wake)
    live(ends.connection)
    order: Tree = json.loads(sys.argv[1])
    try:
        env = build_game(order)
    except Exception as error:
        report(ends.connection, error)
        return
    gc.freeze()
    serve(env, order["games"], ends, first, count)


def live(connection: socket.socket) -> None:
    """The first thing that a worker does: it says which process it is, and sees to it that it ends with its run."""
    connection.sendall(PROCESS.pack(os.getpid()))
    threading.Thread(target=_die_with_the_run, daemon=True).start()


def serve(env: HostEnv, games: int, ends: Ends, first: int, count: int) -> None:
    """Plays until told to close, or until the run is gone.

    Args:
        env: the game.
        games: number of games of the whole board.
        ends: its ways to the run.
        first: its first game.
        count: number of its games.
    """
    board = Blackboard(env.spec, games, mmap.mmap(ends.memory, 0))
    share, finish = GameShare(env, board, first, count), Finish(ends.tokens, ends.wake)
    ends.connection.sendall(DONE)
    # Commands are so small, and all of one size, that they arrive whole.
    while message := os.read(ends.commands, COMMAND.size):
        what, t, number = COMMAND.unpack(message)
        if what == CLOSE:
            break
        try:
            if what == STEP:
                share.step(t)
            elif what == RESET:
                share.reset()
            else:
                share.save_replays()
        except Exception as error:
            # The run ends this process in answer, so the games need no further care.
            report(ends.connection, error)
        else:
            board.answered[first] = number
            finish.arrive()
    share.close()


def build_game(order: Tree) -> HostEnv:
    """The game of an order.

    Raises:
        GameFaultError: it has other sizes here than in the run; any other error comes from the game itself.
    """
    sys.path[:] = order["path"]
    from omg.envs import make_env

    env = make_env(order["env"], **order["env_args"])
    assert isinstance(env, HostEnv)
    sizes = order["spec"]
    different = {name: (given, sizes[name]) for name, given in _sizes(env.spec).items() if given != sizes[name]}
    if different:
        raise GameFaultError(f"the game has other sizes in the worker than in the run: {different}")
    return env


def order_for(env: HostEnv, name: str, env_args: Tree, games: int) -> str:
    """What workers must know to build their games, as JSON.

    Raises:
        UserError: the game is known to this process alone.
    """
    from omg.envs import ENVS

    if ENVS.package(name) == REGISTERED:
        raise UserError(
            f"env: '{name}' was added by {REGISTERED} in this program, so worker processes do not know it. Make a "
            f"package of it, whose entry points they find."
        )
    order = {"path": sys.path, "env": name, "env_args": env_args, "spec": _sizes(env.spec), "games": games}
    return json.dumps(order)


def _sizes(spec: EnvSpec) -> Tree:
    """What the layout of a board depends on."""
    names = ("n_agents", "n_actions", "obs_dim", "state_dim", "episode_limit", "reward_per_agent")
    return {**{name: getattr(spec, name) for name in names}, "metrics": list(spec.metrics)}


def report(connection: socket.socket, error: BaseException) -> None:
    """Tells the run what is wrong."""
    text = describe(error).encode()
    connection.sendall(FAULT + LENGTH.pack(len(text)) + text)


def _die_with_the_run() -> None:
    """Waits in a thread of its own, so that it is noticed even while a game hangs."""
    while os.read(0, 1):
        pass
    os.killpg(0, signal.SIGKILL)


def split_games(games: int, workers: int) -> Sequence[tuple[int, int]]:
    """First game and number of games of each worker; the shares differ by one at most."""
    edges = [games * worker // workers for worker in range(workers + 1)]
    return [(first, after - first) for first, after in itertools.pairwise(edges)]
