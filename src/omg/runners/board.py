"""The board: the episodes of one round as arrays that a run and its worker processes share.

Workers write what their games show into the next time slot, the run writes the actions; nothing is sent but "go", and
one "done" for all of them. The time axis leads, so that all games' views of one slot lie together and are handed to the
compiled program as they are.

Letters in shapes: T steps at most, N games, A seats, O observation features, S state features, U actions.
"""

from __future__ import annotations

from mmap import mmap

import numpy as np

from omg.envs.base import EnvSpec

_ALIGNMENT = 64


def _layout(spec: EnvSpec, games: int) -> dict[str, tuple[tuple[int, ...], type]]:
    slots, seats = (spec.episode_limit + 1, games), (spec.episode_limit + 1, games, spec.n_agents)
    return {
        "obs": ((*seats, spec.obs_dim), np.float32),
        "state": ((*slots, spec.state_dim), np.float32),
        "avail": ((*seats, spec.n_actions), np.bool_),
        "actions": (seats, np.int32),
        "reward": (seats if spec.reward_per_agent else slots, np.float32),
        "terminated": (slots, np.bool_),
        "filled": (slots, np.bool_),
        "metrics": ((games, len(spec.metrics)), np.float32),
        "playing": ((games,), np.bool_),
        "seeds": ((games,), np.int64),
        "answered": ((games,), np.int64),
    }


class Blackboard:
    """The arrays of one round."""

    obs: np.ndarray
    """[T+1, N, A, O] float32."""
    state: np.ndarray
    """[T+1, N, S] float32."""
    avail: np.ndarray
    """[T+1, N, A, U] bool."""
    actions: np.ndarray
    """[T+1, N, A] int32."""
    reward: np.ndarray
    """[T+1, N] or [T+1, N, A] float32."""
    terminated: np.ndarray
    """[T+1, N] bool."""
    filled: np.ndarray
    """[T+1, N] bool, slots in which an action was played."""
    metrics: np.ndarray
    """[N, metrics] float32, the newest values."""
    playing: np.ndarray
    """[N] bool, games that are going on."""
    seeds: np.ndarray
    """[N] int64, of the episodes that the next reset starts."""
    answered: np.ndarray
    """[N] int64, the number of the newest command that was carried out, at the first game of each worker."""

    def __init__(self, spec: EnvSpec, games: int, memory: mmap | None = None) -> None:
        """Lays the arrays over `memory`, a buffer of `board_bytes` bytes; without one, over memory of its own."""
        self.games = games
        buffer = bytearray(board_bytes(spec, games)) if memory is None else memory
        offset = 0
        for name, (shape, dtype) in _layout(spec, games).items():
            array: np.ndarray = np.ndarray(shape, dtype, buffer, offset)
            setattr(self, name, array)
            offset += _rounded(array.nbytes)

    def clear(self, games: np.ndarray | None = None) -> None:
        """Empties the columns of some games ([N] bool), or of all.

        What lies behind the end of an episode is zero, whatever was played before: stored episodes then depend on
        nothing but their seeds.
        """
        for array in (self.obs, self.state, self.avail, self.actions, self.reward, self.terminated, self.filled):
            if games is None:
                array.fill(0)
            else:
                array[:, games] = 0
        self.metrics[slice(None) if games is None else games] = 0


def board_bytes(spec: EnvSpec, games: int) -> int:
    """Size of a board in bytes."""
    layout = _layout(spec, games).values()
    return sum(_rounded(int(np.prod(shape)) * np.dtype(dtype).itemsize) for shape, dtype in layout)


def _rounded(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT
