"""Signals that end work: Ctrl-C, SIGTERM and SIGHUP. All of them are handled here and nowhere else.

The first one lets work that holds something (`Stop.holding`) come to a good end, and breaks off everything else. The
same one again breaks off that, too. A batch system may send SIGTERM and SIGHUP together or to all processes of a job,
and a terminal that closes may send SIGHUP twice: another signal, or SIGTERM and SIGHUP once more within a second, is
not "again". What was ignored when the process started (`nohup`) stays ignored.

Python calls a handler only when its main thread is back from compiled code, which may take minutes. So a thread hears
of signals as well, by `signal.set_wakeup_fd`. It acknowledges them at once, and ends a process of ours whose main
thread does not come back, where there is nothing to hold on to.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from types import FrameType
from typing import Generic, TypeAlias, TypeVar

Result = TypeVar("Result")
Handler: TypeAlias = Callable[[int, FrameType | None], object] | int | signal.Handlers | None
"""Of a signal, as `signal.signal` has it."""
SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
_AGAIN_SECONDS = 1.0
"""SIGTERM and SIGHUP count again after this time."""
_PATIENCE_SECONDS = 1.0
"""How long the main thread may take to come back from compiled code before the process is ended without it."""
_SHOW_CURSOR = "\x1b[?25h"


class Stopped(KeyboardInterrupt):
    """A signal has ended the work."""

    def __init__(self, number: int = signal.SIGINT) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = int(number)


def exit_code(number: int | None) -> int:
    """Exit code of a process that a signal has ended, as shells have it: 130, 143, 129. None stands for Ctrl-C."""
    return 128 + (signal.SIGINT if number is None else number)


def signal_of(error: BaseException | None) -> int:
    """The number of the signal behind an error; that of Ctrl-C where none is known."""
    while error is not None and not isinstance(error, Stopped):
        error = error.__cause__ or error.__context__
    return int(signal.SIGINT) if error is None else error.number


def told_end(number: int) -> str:
    """The line that says that a signal has ended a command."""
    return "interrupted" if number == signal.SIGINT else f"ended by {signal.Signals(number).name}"


class Stop:
    """A request to stop, for work that looks at it from time to time. Use it as a context manager.

    Outside `ends_by_signal` (a user's own program) SIGTERM and SIGHUP are handed on when the block is over, to whatever
    handled them before: usually they then end the process, which has saved its work by now.
    """

    def __init__(self) -> None:
        self.number: int | None = None
        """The signal that came while work was held."""
        self.holds = False
        self.tell: Callable[[str], None] = lambda line: None
        """Prints a line; called in another thread."""
        self.last_words: Callable[[], None] = lambda: None
        """Called in another thread before the process is ended from there."""
        self._told = threading.Event()
        self._watch: _Watch | None = None
        self._outer: Stop | None = None

    def __enter__(self) -> Stop:
        self._own = _Watch(owns_process=False) if _Watch.current is None and _in_main_thread() else None
        if self._own is not None:
            self._own.open()
        if _in_main_thread() and _Watch.current is not None:
            self._watch = _Watch.current
            self._outer, self._watch.stop = self._watch.stop, self
        return self

    def __exit__(self, *_: object) -> None:
        if self._watch is not None:
            self._watch.stop = self._outer
        if self._own is not None:
            self._own.close()
            if self.number is not None and self.number != signal.SIGINT:
                signal.raise_signal(self.number)

    @contextlib.contextmanager
    def holding(self) -> Iterator[None]:
        """In this block the first signal is only noted, in `number`."""
        self.holds = True
        try:
            yield
        finally:
            if self.number is not None:
                self._told.wait(_PATIENCE_SECONDS)
            self.holds = False

    def acknowledge(self, number: int) -> None:
        """Says that a signal was heard."""
        again = "Ctrl-C again" if number == signal.SIGINT else "again"
        name = "" if number == signal.SIGINT else f"{signal.Signals(number).name}: "
        with contextlib.suppress(OSError, ValueError):
            self.tell(f"{name}stopping after this chunk and saving ({again} to quit at once)")
        self._told.set()


@contextlib.contextmanager
def ends_by_signal() -> Iterator[None]:
    """For a process of ours, from its first to its last moment: signals raise `Stopped` in its main thread."""
    if _Watch.current is not None or not _in_main_thread():
        yield
        return
    watch = _Watch(owns_process=True)
    watch.open()
    try:
        yield
    finally:
        watch.close()


class Coming(Generic[Result]):
    """What a call in a thread of its own comes to."""

    def __init__(self, work: Callable[[], Result]) -> None:
        self._future: Future[Result] = Future()
        threading.Thread(target=_fulfil, args=(work, self._future), daemon=True).start()

    @property
    def there(self) -> bool:
        """Whether the call is over, however it ended."""
        return self._future.done()

    def result(self) -> Result:
        """Waits for it. A signal does not wait until it is there."""
        try:
            return self._future.result()
        except KeyboardInterrupt as error:
            self.leave_behind(signal_of(error))
            raise

    def arrives(self, stop: Stop) -> bool:
        """Waits for it; False: a signal came first, which `stop` has noted."""
        while not self.there and stop.number is None:
            wait([self._future], timeout=0.05)
        if self.there:
            return True
        self.leave_behind(stop.number)
        return False

    def end(self, stop: Stop) -> None:
        """Nobody wants it any more. After a signal it is left behind; otherwise, as after an error, it is awaited."""
        error = sys.exc_info()[1]
        if stop.number is not None or isinstance(error, KeyboardInterrupt):
            self.leave_behind(stop.number or signal_of(error))
        else:
            wait([self._future])

    def leave_behind(self, number: int | None) -> None:
        """The process will not wait for it in the end, but leave with the exit code of a signal.

        Compiled code that is still at it would keep the interpreter from ending, or crash in the middle of that.
        """
        atexit.register(_leave_behind, self._future, number)


def _fulfil(work: Callable[[], Result], future: Future[Result]) -> None:
    try:
        future.set_result(work())
    except BaseException as error:
        future.set_exception(error)


def _leave_behind(future: Future[Result], number: int | None) -> None:
    if not future.done():
        _leave(exit_code(number))


def leave_if_ended(code: int) -> int:
    """Ends the process if a signal has ended its work and the caller was called by a program's own top level.

    An exception in the middle of a trace leaves JAX in a state in which the interpreter crashes when it takes itself
    down; the exit code would then be that of the crash.

    Args:
        code: exit code that the caller is about to return.

    Returns:
        The same code, where the process goes on.
    """
    if code in {exit_code(number) for number in SIGNALS} and sys._getframe(2).f_globals["__name__"] == "__main__":
        _leave(code)
    return code


def _leave(code: int) -> None:
    for stream in filter(None, (sys.stdout, sys.stderr)):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


def leave_signals_to_parent() -> None:
    """For a process that ends with the one that started it, which decides what signals mean."""
    for number in SIGNALS:
        # Not SIG_IGN, which programs that this process starts would inherit.
        signal.signal(number, lambda number, frame: None)


class _Arrivals:
    """Tells signals that end work, and signals that end it at once, from those that come along with others."""

    def __init__(self) -> None:
        self._came: dict[int, float] = {}

    def add(self, number: int) -> str:
        """`first`, `again`, or `along`."""
        now = time.monotonic()
        before = self._came.get(number)
        if before is not None:
            return "again" if number == signal.SIGINT or now - before >= _AGAIN_SECONDS else "along"
        self._came[number] = now
        return "first" if len(self._came) == 1 else "along"


class _Watch:
    """The handlers and the thread, from `open` to `close`."""

    current: _Watch | None = None

    def __init__(self, *, owns_process: bool) -> None:
        self.owns_process = owns_process
        self.stop: Stop | None = None
        self._arrivals = _Arrivals()
        self._handled = {"first": threading.Event(), "again": threading.Event()}
        self._previous: dict[int, Handler] = {}

    def open(self) -> None:
        self._ears, self._mouth = socket.socketpair()
        self._mouth.setblocking(False)
        for number in SIGNALS:
            before = signal.getsignal(number)
            # A shell starts what goes to the background with SIGINT ignored; who sends it by hand means it.
            if number == signal.SIGINT or before not in (signal.SIG_IGN, None):
                self._previous[number] = signal.signal(number, self._on_signal)
        self._previous_fd = signal.set_wakeup_fd(self._mouth.fileno(), warn_on_full_buffer=False)
        self._thread = threading.Thread(target=self._listen, name="signals", daemon=True)
        self._thread.start()
        _Watch.current = self

    def close(self) -> None:
        _Watch.current = None
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._previous_fd)
        self._mouth.close()
        self._thread.join(_PATIENCE_SECONDS)
        self._ears.close()

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        kind = self._arrivals.add(number)
        if kind == "along":
            return
        self._handled[kind].set()
        if kind == "first" and self.stop is not None and self.stop.holds:
            self.stop.number = number
            return
        raise Stopped(number)

    def _listen(self) -> None:
        arrivals = _Arrivals()
        while heard := self._ears.recv(64):
            for number in heard:
                kind = arrivals.add(number) if number in self._previous else "along"
                if kind == "along":
                    continue
                if kind == "first" and self.stop is not None and self.stop.holds:
                    self.stop.acknowledge(number)
                elif self.owns_process and not self._handled[kind].wait(_PATIENCE_SECONDS):
                    self._end_process(number)

    def _end_process(self, number: int) -> None:
        """What the main thread would do, were it not in compiled code."""
        try:
            if self.stop is not None:
                self.stop.last_words()
            if sys.stdout.isatty():  # Whoever shows progress hides the cursor meanwhile.
                print(_SHOW_CURSOR, end="", flush=True)
            print(told_end(number), file=sys.stderr, flush=True)
        except Exception:
            # A terminal that is gone or a full disk must not keep the process.
            pass
        finally:
            os._exit(exit_code(number))


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
