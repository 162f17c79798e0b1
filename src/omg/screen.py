"""Printing that cannot fail: a terminal may be closed, a pipe's reader gone, a log's disk full, letters unknown."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import TextIO, cast


class _Forgiving:
    """A text stream whose first failure silences it."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        with self._silenced_by_failure():
            try:
                self._stream.write(text)
            except UnicodeEncodeError:
                encoding = self._stream.encoding or "ascii"
                self._stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
        return len(text)

    def flush(self) -> None:
        with self._silenced_by_failure():
            self._stream.flush()

    def __getattr__(self, name: str) -> object:
        return getattr(self._stream, name)

    @contextlib.contextmanager
    def _silenced_by_failure(self) -> Iterator[None]:
        try:
            yield
        except OSError:
            # What is still in its buffer would fail again at every flush, the last one after `main`.
            with contextlib.suppress(OSError, ValueError), open(os.devnull, "wb") as nothing:
                os.dup2(nothing.fileno(), self._stream.fileno())


@contextlib.contextmanager
def forgiving_output() -> Iterator[None]:
    """In this block what cannot be printed is left out, and the work goes on."""
    given = sys.stdout, sys.stderr
    # A process that was started without them has None, which `print` knows.
    forgiving = [stream and cast(TextIO, _Forgiving(stream)) for stream in given]
    sys.stdout, sys.stderr = forgiving
    try:
        yield
    finally:
        for stream in filter(None, forgiving):
            stream.flush()
        sys.stdout, sys.stderr = given
