"""What nobody foresaw: a traceback goes into a file, and the user is told where it is."""

from __future__ import annotations

import os
import platform
import sys
import tempfile
import traceback
from collections.abc import Sequence
from datetime import datetime
from importlib import metadata
from pathlib import Path

FAULT = 70
"""Exit code of a fault of the program (EX_SOFTWARE)."""
WANTS_TRACEBACK = "OMG_TRACEBACK"
"""Environment variable that hands tracebacks through, for whoever works on the program."""


def report_fault(error: BaseException, words: Sequence[str]) -> str:
    """Writes down everything about an error and returns one line that says so.

    Args:
        error: what was not foreseen.
        words: the command line.
    """
    kind = " ".join(f"{type(error).__name__}: {error}".split())[:200].rstrip(": ")
    text = _description(error, words)
    for folder in _places():
        path = folder / f"omg-error-{datetime.now():%Y-%m-%d_%H-%M-%S}-{os.getpid()}.txt"
        try:
            from omg.components.files import write_text

            folder.mkdir(parents=True, exist_ok=True)
            write_text(path, text)
        except Exception:  # A full disk or a broken installation must not hide the error itself.
            continue
        return f"{kind}. This is a fault of omg, please report it and attach {path}, which says all about it."
    return f"{kind}. This is a fault of omg; no place was found to write it down, {WANTS_TRACEBACK}=1 shows all of it."


def _places() -> list[Path]:
    """Folders to try: the program's own, then those that every system has."""
    own = os.environ.get("OMG_CACHE", str(Path.home() / ".cache" / "omg"))
    return [*([Path(own) / "errors"] if own else []), Path(tempfile.gettempdir()), Path.cwd()]


def _description(error: BaseException, words: Sequence[str]) -> str:
    packages = []
    for name in ("omg-marl", "jax", "jaxlib", "numpy", "pydantic", "typer"):
        try:
            packages.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            packages.append(f"{name} not installed")
    lines = [
        f"command: omg {list(words)!r}",
        f"python {sys.version.split()[0]} on {platform.platform()}",
        ", ".join(packages),
        "",
        "".join(traceback.format_exception(error)),
    ]
    return "\n".join(lines).encode("utf-8", "backslashreplace").decode("utf-8")
