"""Small games outside JAX, some of which fail on purpose; workers import them by name."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces

SEATS, ACTIONS = 2, 3


class Walk:
    """Two seats on a line; an episode takes 3 to 8 steps, all of which its seed decides. Action 2 of seat 1 is illegal.

    With `fault` one of its episodes fails in its third step, but only as long as the file `marker` is not there, which
    the failing game makes. `pause` is a file; while it is there, every step fails.
    """

    def __init__(self, fault: str | None = None, marker: str = "", pause: str = "") -> None:
        self.observation_space = spaces.Tuple([spaces.Box(-9, 9, (3,)), spaces.Box(-9, 9, (2,))])
        self.action_space = spaces.Tuple([spaces.Discrete(ACTIONS)] * SEATS)
        self.fault, self.marker, self.pause = fault, Path(marker), Path(pause)

    def reset(self, *, seed: int) -> tuple[list[np.ndarray], dict[str, Any]]:
        self.random = np.random.default_rng(seed)
        self.length, self.place, self.steps = int(self.random.integers(3, 9)), float(seed % 7), 0
        return self._seen(), {}

    def step(self, actions: list[int]) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        self.steps += 1
        self.place += float(self.random.normal()) + actions[0] - actions[1]
        seen, rewards = self._seen(), [self.place, float(actions[1])]
        if self.pause.name and self.pause.exists():
            raise RuntimeError("paused")
        if self.fault and self.steps == 3 and _first(self.marker):
            seen, rewards = FAULTS[self.fault](seen, rewards)
        return seen, rewards, self.steps >= self.length, False, {"place": self.place}

    def get_avail_actions(self) -> list[list[int]]:
        return [[1, 1, 1], [1, 1, 0]]

    def close(self) -> None:
        pass

    def _seen(self) -> list[np.ndarray]:
        clipped = np.float32(np.clip(self.place, -9, 9))
        return [np.array([clipped, self.steps, 1], np.float32), np.array([-clipped, self.steps], np.float32)]


def _first(marker: Path) -> bool:
    """Whether this is the first to come here."""
    try:
        marker.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def _kill(seen: Any, rewards: Any) -> Any:
    os.kill(os.getpid(), signal.SIGKILL)


def _hang(seen: Any, rewards: Any) -> Any:
    time.sleep(60)


def _raise(seen: Any, rewards: Any) -> Any:
    raise RuntimeError("the game\nbroke")


FAULTS: dict[str, Callable[[Any, Any], Any]] = {
    "kill": _kill,
    "hang": _hang,
    "raise": _raise,
    "nan": lambda seen, rewards: ([seen[0] * np.nan, seen[1]], rewards),
    "nan_reward": lambda seen, rewards: (seen, [float("nan"), 0.0]),
    "shape": lambda seen, rewards: ([seen[0][:1], seen[1]], rewards),
    "seats": lambda seen, rewards: (seen, [*rewards, 0.0]),
}


class Threaded(Walk):
    """A walk that keeps a thread, so that its process cannot be copied."""

    def __init__(self) -> None:
        super().__init__()
        self.over = threading.Event()
        threading.Thread(target=self.over.wait, daemon=True).start()


class Crashing(Walk):
    """A walk that ends its process when it is opened for the second time, which the file `marker` tells."""

    def __init__(self, marker: str) -> None:
        super().__init__()
        if not _first(Path(marker)):
            print("no display", file=sys.stderr, flush=True)
            os._exit(3)


class Unseeded(Walk):
    """A walk whose start depends on NumPy's own generator, not on its seed."""

    def reset(self, *, seed: int) -> tuple[list[np.ndarray], dict[str, Any]]:
        super().reset(seed=seed)
        self.place = float(np.random.random())  # noqa: NPY002
        return self._seen(), {}


def worker_processes(parent: int | None = None) -> list[int]:
    """Process ids of workers and of what they are copies of; of this process unless told otherwise. Zombies count."""
    found = []
    parents = {parent or os.getpid()}
    for folder in sorted(Path("/proc").glob("[0-9]*"), key=lambda folder: int(folder.name)):
        try:
            status, line = (folder / "status").read_text(), (folder / "cmdline").read_bytes()
        except OSError:
            continue
        fields = dict(row.split(":\t", 1) for row in status.splitlines() if ":\t" in row)
        zombie = fields["State"].startswith("Z")
        if int(fields["PPid"]) in parents and (zombie or b"omg.runners" in line):
            found.append(int(folder.name))
            parents.add(int(folder.name))
    return found
