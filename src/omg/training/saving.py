"""Who writes the checkpoints of a run: a thread beside training, where memory has room for a copy of the state.

Training stops only for the copy. One write at a time is under way; what it comes to is known before the next one, at
the next chunk (`Saver.look`), and before a run ends, however it ends.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from functools import partial
from pathlib import Path

import jax
import numpy as np

from omg.errors import UserError
from omg.modules.convolutions import on_cpu
from omg.stopping import Coming
from omg.training.checkpoint import Part, Snapshot, list_checkpoints, save_checkpoint, snapshot, write_checkpoint
from omg.training.state import RunState
from omg.types import Tree


class GivenUpError(Exception):
    """Nobody wants the checkpoint any more that is being written."""


class Saver:
    """Saves one run."""

    def __init__(self, folder: Path, *, with_buffer: bool, keep: int, beside: bool) -> None:
        """Nothing is written yet.

        Args:
            folder: the run's checkpoint folder.
            with_buffer: whether checkpoints contain the replay buffer.
            keep: number of newest checkpoints that stay.
            beside: whether checkpoints are written while training goes on.
        """
        self.folder, self.with_buffer, self.keep, self.beside = folder, with_buffer, keep, beside
        self._writing: Coming[Path] | None = None
        self._given_up = threading.Event()
        self._copy = _Copy()

    def save(self, state: RunState, host: Tree, *, last: bool = False) -> None:
        """Saves a state; with `beside` it may be donated at once, though it is on disk only later.

        Args:
            state: of the run.
            host: the host's counters.
            last: nothing is trained meanwhile, so that it is written before this returns.

        Raises:
            UserError: the disk does not take this checkpoint, or the one before it.
        """
        self.wait()
        if last or not self.beside:
            save_checkpoint(self.folder, state, host, with_buffer=self.with_buffer, keep=self.keep)
            return
        taken = self._copy.take(state, with_buffer=self.with_buffer)
        self._writing = Coming(
            partial(write_checkpoint, self.folder, taken, host, keep=self.keep, between=self._check_wanted)
        )

    def look(self) -> None:
        """Raises what has gone wrong with a write, if it is over. Takes no time.

        Raises:
            UserError: the disk did not take it.
        """
        if self._writing is not None and self._writing.there:
            self.wait()

    def wait(self) -> None:
        """Returns when no write is under way.

        Raises:
            UserError: the disk did not take it.
        """
        if self._writing is not None:
            self._writing.result()
            self._writing = None

    def newest(self) -> Path | None:
        """The newest checkpoint, that which is being written included; None if there is none."""
        with contextlib.suppress(UserError):
            self.wait()
        saved = list_checkpoints(self.folder)
        return saved[-1] if saved else None

    def end(self) -> None:
        """No write is under way any more: a signal gives it up, after an error it is finished."""
        if self._writing is None:
            return
        if isinstance(sys.exc_info()[1], KeyboardInterrupt):
            self._given_up.set()
        # What ends the run is told, not what that may have made impossible in turn.
        with contextlib.suppress(UserError, GivenUpError):
            self.wait()

    def _check_wanted(self) -> None:
        if self._given_up.is_set():
            raise GivenUpError


class _Copy:
    """A state in host memory of its own. On a CPU its place is kept for the next one: new memory takes long to fill."""

    def __init__(self) -> None:
        self._places: dict[str, np.ndarray] = {}

    def take(self, state: RunState, *, with_buffer: bool) -> Snapshot:
        """What is to be saved of a state; overwrites the one before."""
        if on_cpu():
            return snapshot(state, with_buffer=with_buffer, take=self._copied)
        for leaf in jax.tree.leaves(state if with_buffer else state._replace(storage=None)):
            leaf.copy_to_host_async()
        return snapshot(state, with_buffer=with_buffer)

    def _copied(self, name: str, leaf: jax.Array, part: Part) -> np.ndarray:
        place = self._places.get(name)
        if place is None or (place.shape, place.dtype) != (leaf.shape, leaf.dtype):
            place = self._places[name] = np.empty(leaf.shape, leaf.dtype)
        for shard in leaf.addressable_shards:
            # A view of the memory that programs work in, dropped at once: what somebody looks at is not donated.
            if shard.replica_id == 0:
                np.copyto(place[(*shard.index, ...)][part], np.asarray(shard.data)[part])
        return place[part]
