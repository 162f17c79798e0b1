"""The one error a user can cause: it becomes a single message and exit code 2."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class UserError(Exception):
    """Input that cannot be used.

    The message must name the key or file, what was given and what is allowed; the command line prints it without a
    traceback and exits with code 2.
    """


def unknown_name(kind: str, given: str, allowed: Iterable[str]) -> UserError:
    """A `UserError` for a name that is not in a registry, with the nearest match suggested."""
    names = sorted(allowed)
    close = difflib.get_close_matches(given, names, n=1, cutoff=0.5)
    hint = f" Did you mean '{close[0]}'?" if close else ""
    return UserError(f"Unknown {kind} '{given}'.{hint} Allowed: {', '.join(names)}.")
