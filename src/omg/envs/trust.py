"""Whose word opens a game: what the user says is done, what a file says is done only where it can do no harm.

A game of another package is code that runs when the game is opened. Options that the user types, or passes in Python,
are the user's own word. Options that come out of a file (the card of an agent, a run's configuration, the index of a
pool, a plan) may be a stranger's: they open the built-in games and those of well-known packages, and any other only if
the user has named the same game in this process, or trusts all files of this call.

`OMG_TRUST` carries that word into the processes that a command starts. Users can set it, too: keys with commas between.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

from omg.errors import UserError

VARIABLE = "OMG_TRUST"
_ALL = "*"
_MOST_BYTES = 500_000_000
"""Of a learner's arrays that are loaded unasked; the networks here have a few million bytes."""

_named: ContextVar[frozenset[str]] = ContextVar("games named by the user", default=frozenset())


def trust_all() -> None:
    """From here on, in this context, files may open whatever game they name: the option `--trust`."""
    _named.set(_named.get() | {_ALL})


@contextmanager
def trusting(trust: bool) -> Iterator[None]:
    """Inside the block, if `trust`, files may open whatever game they name: the argument `trust=True`."""
    before = _named.set(_named.get() | ({_ALL} if trust else set()))
    try:
        yield
    finally:
        _named.reset(before)


def vouch(env_args: object) -> None:
    """The user has named the game of these options; files may name it, too."""
    if isinstance(env_args, Mapping) and isinstance(key := env_args.get("key"), str):
        _named.set(_named.get() | {key})


def is_trusted(key: object = None) -> bool:
    """Whether the user has named the game `key`, or trusts all files."""
    named = _named.get() | set(filter(None, os.environ.get(VARIABLE, "").split(",")))
    return _ALL in named or key in named


def inherited() -> dict[str, str]:
    """Environment variables that hand the user's word on to a process of our own."""
    named = _named.get() | set(filter(None, os.environ.get(VARIABLE, "").split(",")))
    return {VARIABLE: ",".join(sorted(named))} if named else {}


def check_bytes(source: object, size: int) -> None:
    """Refuses arrays out of a file that would fill the memory, unless the user trusts the file.

    Raises:
        UserError: there are more bytes than any network here has.
    """
    if size > _MOST_BYTES and not is_trusted():
        raise UserError(
            f"{source} holds networks of {size / 1e9:.2f} GB; more than {_MOST_BYTES / 1e9:g} GB are loaded only if "
            f"you say so: add --trust (in Python: trust=True)."
        )


def check_word(source: object, doubt: str | None, key: object = None) -> None:
    """Refuses what a file asks for and only the user may ask for.

    Args:
        source: the file.
        doubt: what it asks for, in words; None if nobody need worry.
        key: of the game that it names.

    Raises:
        UserError: the user has neither named that game nor said that the file is to be trusted.
    """
    if doubt is not None and not is_trusted(key):
        raise UserError(
            f"{source} asks for {doubt}. That can run code or touch files of its author's choice, so it is not done "
            f"on a file's word alone: if you trust the author, add --trust (in Python: trust=True)."
        )
