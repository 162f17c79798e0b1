"""A word every few seconds while a run is busy with something that tells nothing by itself.

Programs of planners take minutes to compile, and a round of their games, or a test, takes as long on a small machine.
Whoever waits wants to know what is going on and for how long.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

SECONDS = 5.0
"""Longest silence."""


class Heartbeat:
    """Says how long the present work has gone on, whenever nothing else was said for `SECONDS`.

    Its thread is started with the first work and ends with `close`.
    """

    def __init__(self, say: Callable[[str, float], None], seconds: float = SECONDS) -> None:
        """`say` receives the title of the work and the seconds that it has taken; it is called from another thread."""
        self._say, self._seconds = say, seconds
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._work: tuple[str, float] | None = None
        self._spoken = 0.0
        self._thread: threading.Thread | None = None

    def begin(self, title: str) -> None:
        """Work begins; what was going on before has ended."""
        now = time.perf_counter()
        with self._lock:
            self._work, self._spoken = (title, now), now
        if self._thread is None and not self._ended.is_set():
            self._thread = threading.Thread(target=self._watch, daemon=True, name="heartbeat")
            self._thread.start()

    def spoken(self) -> None:
        """Something else was said just now."""
        with self._lock:
            self._spoken = time.perf_counter()

    def rest(self) -> None:
        """The work is done, and no other has begun."""
        with self._lock:
            self._work = None

    def close(self) -> None:
        """Says nothing more."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(self._seconds / 10):
            now = time.perf_counter()
            with self._lock:
                due = self._work if now - self._spoken >= self._seconds else None
                if due is not None:
                    self._spoken = now
            if due is not None:
                self._say(due[0], now - due[1])
