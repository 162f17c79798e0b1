"""What a command without a progress bar of its own is doing: a moving line in a terminal, else a line now and then."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.text import Text

from omg.names import inert

EVERY_SECONDS = 5.0
"""Without a terminal, lines are at least this far apart."""


@contextmanager
def show_progress(first: str, console: Console | None = None) -> Iterator[Callable[[str], None]]:
    """Hands out a function that shows what is being done; on stderr, so that results can be piped.

    Args:
        first: what is done first.
        console: where to show it; stderr unless given.
    """
    console = console or Console(stderr=True, soft_wrap=True)
    if console.is_terminal:
        with console.status(first) as status:
            yield lambda message: status.update(Text(inert(message)))
        return
    last = -math.inf

    def say(message: str) -> None:
        nonlocal last
        if time.monotonic() - last >= EVERY_SECONDS:
            last = time.monotonic()
            console.print(inert(message), markup=False, highlight=False, soft_wrap=True)

    yield say
