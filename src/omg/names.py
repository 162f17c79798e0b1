"""Names and texts that come from files and people: when they may become a path, and how they are shown.

A plan, a pool, an agent or a run may be somebody else's. What stands in them names files only through `file_name`,
leads nowhere outside their own folder (`inside`, `check_links`), and is shown only through `inert`.
"""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Collection
from pathlib import Path

from omg.errors import UserError

LONGEST = 120
"""Bytes of a name. File systems take 255, but names are put together: `.writing-diagnostics-NAME.csv`."""
LONGEST_FILE = 240
"""Bytes of what is put together, with room for `.writing-`."""
_MARKS = "._+-"
_DEVICES = ("con", "prn", "aux", "nul", *(f"{port}{digit}" for port in ("com", "lpt") for digit in range(10)))
"""Names that are no files on Windows, with any ending."""
_UNSEEN = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
"""Kinds of characters that steer a terminal, turn or break a line, or show nothing."""


def file_name(key: str, given: str, longest: int = LONGEST) -> str:
    """`given` if a file or folder may be called so, on any system, wherever it is put.

    Args:
        key: what names it, for the message: `agents`, `name`.
        given: the name.
        longest: most bytes.

    Raises:
        UserError: it is empty, too long, has other characters than letters, digits and . + - _, begins with one of
            . + - or ends with a dot, or is the name of a device.
    """
    shown = given if len(given) <= 60 else f"{given[:57]}..."
    if not given or not all(letter.isalnum() or letter in _MARKS for letter in given):
        raise UserError(f"{key}: got {shown!r}; allowed: letters, digits and . + - _.")
    if given[0] in ".+-" or given[-1] == ".":
        raise UserError(
            f"{key}: got {shown!r}; allowed: names that begin with a letter, a digit or _ and do not end with a dot."
        )
    if len(given.encode()) > longest:
        raise UserError(f"{key}: got {shown!r}, {len(given.encode())} bytes long; allowed: at most {longest}.")
    if given.partition(".")[0].lower() in _DEVICES:
        raise UserError(f"{key}: got {shown!r}, which names a device on some systems; choose another name.")
    return given


def inside(folder: Path, path: Path) -> Path:
    """`path`, which need not exist, if it lies in `folder` when all links are followed.

    Raises:
        UserError: it leads elsewhere.
    """
    try:
        target = path.resolve()
        within = target.is_relative_to(folder.resolve())
    except (OSError, RuntimeError, ValueError) as error:  # A circle of links; a path that no system takes.
        raise UserError(f"{inert(str(path))}: cannot be followed ({inert(str(error))}).") from None
    if not within:
        raise UserError(
            f"{inert(str(path))}: leads to {inert(str(target))}, outside {inert(str(folder))}, where nothing is read "
            f"or written. Put the files themselves there."
        )
    return path


def check_links(folder: Path, names: Collection[str] | None = None) -> None:
    """Refuses a folder with links in it, at any depth, that lead out of it; one that is not there has none.

    Args:
        folder: looked through.
        names: entries of the folder to look at, where others do not belong to it; None for all.

    Raises:
        UserError: names the first of them.
    """
    for where, folders, files in os.walk(folder):
        if names is not None and where == str(folder):
            folders[:], files[:] = ([name for name in found if name in names] for found in (folders, files))
        for name in (*folders, *files):
            path = Path(where, name)
            if path.is_symlink():
                inside(folder, path)


def cell(value: object) -> object:
    """A value as a cell of a CSV file: a spreadsheet must not take a text for a formula, so such a text gets a `'`."""
    if not isinstance(value, str):
        return value
    text = inert(value)
    return f"'{text}" if text.startswith(("=", "+", "-", "@")) and not is_number(text) else text


def is_number(text: str) -> bool:
    """Whether a text is one number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def inert(text: str, *, lines: bool = False) -> str:
    r"""A text as it may be shown: characters that steer a terminal or turn the line are written as `\x1b`, `\u202e`.

    Args:
        text: anything.
        lines: whether it may have several lines; otherwise ends of lines are written out as well.
    """
    if text.isprintable():
        return text
    kept = "\n" if lines else ""
    return "".join(
        letter
        if letter in kept or unicodedata.category(letter) not in _UNSEEN
        else letter.encode("unicode_escape").decode("ascii")
        for letter in text
    )
