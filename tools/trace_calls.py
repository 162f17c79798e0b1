"""How far one has to walk through the code to follow a piece of work: functions, files, switches between files.

    python tools/trace_calls.py                    # QMIX's and OMG's update, HOP+'s decision and update
    python tools/trace_calls.py omg_update --list  # with every function, in the order of its first call

A tiny run is started in this process. While its program is traced by JAX, every Python call into `src/omg` is seen. One
piece of work is the first call of a function with everything called from it:

- *functions*: different ones that were called (nested functions count, lambdas and comprehensions are part of theirs);
- *files*: that those functions stand in;
- *switches*: how often the next call is in another file than the call before it.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from types import CodeType, FrameType

import omg

PACKAGE = Path(omg.__file__).parent
TINY = {
    "use_tensorboard": False,
    "save_model": False,
    "test_nepisode": 1,
    "seed": 1,
}
HOP = {"t_max": 1, "batch_size_run": 1, "hop_simulations": 2, "hop_samples": 1, "hop_hidden_dim": 8}
Q = {"t_max": 1, "batch_size_run": 2, "batch_size": 2, "buffer_size": 2}


@dataclass(frozen=True)
class Work:
    """A piece of work and the run that does it."""

    config: str
    game: str
    settings: dict[str, object]
    folder: str
    function: str


WORKS = {
    "qmix_update": Work("qmix", "sc2", {**Q, "map_name": "3m"}, "learners", "update"),
    "omg_update": Work("iql_omg", "sc2", {**Q, "map_name": "3m"}, "learners", "update"),
    "hop_plus_decision": Work("hop_plus", "stag_hunt", HOP, "controllers", "act"),
    "hop_plus_update": Work("hop_plus", "stag_hunt", HOP, "learners", "update"),
}


@dataclass
class Walk:
    """What was called, in order."""

    calls: list[tuple[str, str]] = field(default_factory=list)
    """File and qualified name of every call."""

    def counts(self) -> tuple[int, int, int]:
        """Functions, files, switches."""
        files = [file for file, _ in self.calls]
        switches = sum(before != after for before, after in pairwise(files))
        return len(set(self.calls)), len(set(files)), switches


class Seen(BaseException):
    """The work was watched to its end; what follows, compiling above all, is of no interest."""


class Watcher:
    """Listens to the interpreter from the first call of one function until it returns."""

    def __init__(self, folder: str, function: str):
        self.folder, self.function = PACKAGE / folder, function
        self.walk = Walk()
        self.first: FrameType | None = None
        self.thread = 0
        """Of that call: other programs are traced meanwhile."""

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        """See `sys.setprofile`."""
        if event not in ("call", "return"):
            return
        if event == "return":
            if frame is self.first:
                raise Seen
            return
        code = frame.f_code
        path = Path(code.co_filename)
        if not path.is_relative_to(PACKAGE):
            return
        if self.first is None and code.co_name == self.function and path.is_relative_to(self.folder):
            self.first, self.thread = frame, threading.get_ident()
        if self.first is not None and self.thread == threading.get_ident() and not _is_anonymous(code):
            self.walk.calls.append((str(path.relative_to(PACKAGE)), code.co_qualname))


def _is_anonymous(code: CodeType) -> bool:
    return code.co_name.startswith("<")


def watch(work: Work) -> Walk:
    """Starts the run of a piece of work and watches the first time that it is done."""
    watcher = Watcher(work.folder, work.function)
    with tempfile.TemporaryDirectory() as folder:
        settings = {**TINY, **work.settings, "local_results_path": folder}
        sys.setprofile(watcher)
        threading.setprofile(watcher)  # Programs are traced in threads of their own.
        try:
            omg.train(work.config, work.game, **settings)
        except Seen:
            pass
        finally:
            sys.setprofile(None)
            threading.setprofile(None)
    return watcher.walk


def main() -> None:
    """Prints one line for each piece of work."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("work", nargs="*", choices=[[], *WORKS], help="which; all unless given")
    parser.add_argument("--list", action="store_true", help="show every function in the order of its first call")
    arguments = parser.parse_args()
    print(f"{'':20} functions  files  switches")
    for name in arguments.work or WORKS:
        walk = watch(WORKS[name])
        functions, files, switches = walk.counts()
        print(f"{name:20} {functions:9}  {files:5}  {switches:8}")
        if arguments.list:
            for file, function in dict.fromkeys(walk.calls):
                print(f"    {file}: {function}")


if __name__ == "__main__":
    main()
