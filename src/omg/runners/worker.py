"""The worker process: plays its share of a board's games, one message for a step of all of them.

Started as `python -c "from omg.runners.worker import main; main(...)"`. It has three ways to its run: a socket for
commands and answers, the board's memory, and its standard input, at whose end (the run is gone, however it ended) it
kills itself and everything its games have started.
"""

from __future__ import annotations

import itertools
import json
import mmap
import os
import signal
import socket
import struct
import sys
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from omg.envs.adapters.host import GameFaultError, HostEnv, HostGame, Seen
from omg.runners.board import Board

RESET, STEP, SAVE_REPLAY, CLOSE = range(4)
COMMAND = struct.Struct("<Bi")
"""What to do, and the time slot."""
LENGTH = struct.Struct("<I")
DONE, FAULT = b"\x01", b"\x00"
_SHOWN = ("an observation", "a state", "a mask")


class GameShare:
    """The games `first` … `first + count - 1` of a board, played in this process."""

    def __init__(self, env: HostEnv, board: Board, first: int, count: int) -> None:
        self.env, self.board = env, board
        self.numbers = range(first, first + count)
        self.columns = slice(first, first + count)
        self.games: dict[int, HostGame] = {}
        self._arrays = (board.obs, board.state, board.avail)
        self._shapes = [array.shape[2:] for array in self._arrays]
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
        if not _finite(board.reward[t, self.columns]):
            raise GameFaultError("a reward that is not a number")
        self._check(t + 1)
        # Only now: should a game fail, this step brought nothing to any of them.
        board.playing[over] = False

    def save_replays(self) -> None:
        """Writes replays, where the games have them."""
        for game in self.games.values():
            if hasattr(game, "save_replay"):
                game.save_replay()

    def close(self) -> None:
        """Closes all games, whatever they say to that."""
        for game in self.games.values():
            try:
                game.close()
            except Exception as error:
                print(f"while closing: {describe(error)}", file=sys.stderr)
        self.games = {}

    def _show(self, slot: int, number: int, seen: Seen) -> None:
        for name, array, shape, value in zip(_SHOWN, self._arrays, self._shapes, seen, strict=True):
            # Without this, NumPy would stretch a smaller array over the place of a larger one.
            if value.shape != shape:
                raise GameFaultError(f"{name} of shape {value.shape}, not {shape}")
            array[slot, number] = value

    def _check(self, slot: int) -> None:
        board, mine = self.board, self.columns
        if not (_finite(board.obs[slot, mine]) and _finite(board.state[slot, mine])):
            raise GameFaultError("an observation or state that is not a number")
        if not (board.avail[slot, mine].any(axis=-1).all(axis=-1) | ~board.playing[mine]).all():
            raise GameFaultError("a seat without a legal action")


def _finite(values: np.ndarray) -> bool:
    """Whether all are numbers: their sum tells at once, unless it is itself too large for one."""
    return bool(np.isfinite(values.sum())) or bool(np.isfinite(values).all())


def describe(error: BaseException) -> str:
    """An error in one line."""
    text = " ".join(str(error).split())
    return text if isinstance(error, GameFaultError) else f"{type(error).__name__}: {text}"[:300]


def main(command_fd: int, memory_fd: int) -> None:
    """Serves until told to close, or until the run is gone.

    Args:
        command_fd: this side of the socket.
        memory_fd: file that holds the board.
    """
    # Ctrl-C in a terminal reaches all processes; the run decides what it means for its workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_die_with_the_run, daemon=True).start()
    connection = socket.socket(fileno=command_fd)
    try:
        share = _begin(json.loads(_receive(connection, LENGTH.unpack(_receive(connection, LENGTH.size))[0])), memory_fd)
        connection.sendall(DONE)
    except Exception as error:
        _report(connection, error)
        return
    while True:
        what, t = COMMAND.unpack(_receive(connection, COMMAND.size))
        if what == CLOSE:
            share.close()
            return
        try:
            if what == STEP:
                share.step(t)
            elif what == RESET:
                share.reset()
            else:
                share.save_replays()
            connection.sendall(DONE)
        except Exception as error:
            # The run ends this process in answer, so the games need no further care.
            _report(connection, error)


def _begin(order: dict[str, Any], memory_fd: int) -> GameShare:
    sys.path[:] = order["path"]
    from omg.envs import make_env

    env: Any = make_env(order["env"], **order["env_args"])
    sizes = order["spec"]
    different = {name: (given, sizes[name]) for name, given in _sizes(env.spec).items() if given != sizes[name]}
    if different:
        raise GameFaultError(f"the game has other sizes in the worker than in the run: {different}")
    board = Board(env.spec, order["games"], mmap.mmap(memory_fd, 0))
    return GameShare(env, board, order["first"], order["count"])


def order_for(env: HostEnv, name: str, env_args: dict[str, Any], games: int, first: int, count: int) -> bytes:
    """The first message to a worker: what to play, and which games of the board."""
    order = {
        "path": sys.path,
        "env": name,
        "env_args": env_args,
        "spec": _sizes(env.spec),
        "games": games,
        "first": first,
        "count": count,
    }
    text = json.dumps(order).encode()
    return LENGTH.pack(len(text)) + text


def _sizes(spec: Any) -> dict[str, Any]:
    """What the layout of a board depends on."""
    names = ("n_agents", "n_actions", "obs_dim", "state_dim", "episode_limit", "reward_per_agent")
    return {**{name: getattr(spec, name) for name in names}, "metrics": list(spec.metrics)}


def _receive(connection: socket.socket, size: int) -> bytes:
    """Exactly `size` bytes; ends the process when the other side is gone."""
    parts: list[bytes] = []
    while size:
        part = connection.recv(size)
        if not part:
            os._exit(0)
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def _report(connection: socket.socket, error: BaseException) -> None:
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
