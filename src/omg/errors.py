"""The one error a user can cause: it becomes a single message and exit code 2."""

from __future__ import annotations

import difflib
import errno
import shutil
from collections.abc import Iterable, Mapping

_DISK_FAULTS = frozenset(
    getattr(errno, name)
    for name in (
        *("ENOSPC", "EDQUOT", "EFBIG", "EROFS", "EACCES", "EPERM", "EISDIR", "ENOTDIR"),
        *("ENOTEMPTY", "EEXIST", "ENOENT", "EIO", "ENAMETOOLONG", "ELOOP", "ESTALE"),
    )
    if hasattr(errno, name)
)


class UserError(Exception):
    """Input that cannot be used.

    The message must name the key or file, what was given and what is allowed; the command line prints it without a
    traceback and exits with code 2.
    """


def unknown_name(kind: str, given: str, allowed: Iterable[str], packages: Mapping[str, str] | None = None) -> UserError:
    """A `UserError` for a name that is not in a registry, with the nearest match suggested.

    Args:
        kind: of the name.
        given: the name.
        allowed: names that there are.
        packages: the packages that some of them come from, said behind them.
    """
    names = sorted(allowed)
    shown = [f"{name} ({packages[name]})" if packages and name in packages else name for name in names]
    # Nobody means a short name by a long one, and the comparison takes long.
    close = difflib.get_close_matches(given, names, n=1, cutoff=0.5) if len(given) < 100 else []
    hint = f" Did you mean '{close[0]}'?" if close else ""
    return UserError(f"Unknown {kind} '{abridged(given)[1:-1]}'.{hint} Allowed: {', '.join(shown)}.")


def abridged(value: object, most: int = 200) -> str:
    """The `repr` of anything, for a message: long ones lose their middle, and one that cannot be made is named."""
    try:
        text = repr(value)
    except (RecursionError, ValueError):  # Nested too deeply, or a number with too many digits to write.
        text = f"a {type(value).__name__} too large to show"
    return text if len(text) <= most else f"{text[: most - 20]}...{text[-17:]}"


def is_plain_text(text: str) -> bool:
    """Whether text can be written down anywhere: no null character, no half of a surrogate pair."""
    return "\0" not in text and not any("\ud800" <= letter <= "\udfff" for letter in text)


def out_of_memory(error: BaseException) -> str | None:
    """One sentence if an error says that memory ran out, here or on a device; None of other errors."""
    text = str(error)
    if isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in text or "Out of memory" in text:
        detail = " ".join(text.split())[:160]
        return (
            f"The memory is not enough{f' ({detail})' if detail else ''}. Large are, in this order, the replay buffer "
            f"(buffer_size x seeds), the games of a round and of a test (batch_size_run, test_nepisode), the batch "
            f"(batch_size) and the networks (rnn_hidden_dim); make one of them smaller."
        )
    return None


def disk_fault(error: OSError, where: object = None) -> UserError | None:
    """A `UserError` for a disk that is full or read-only, or a folder where a file should be; None for other errors.

    Args:
        error: what was raised.
        where: file or folder in question; the error may know it better.
    """
    if isinstance(error, shutil.Error) and isinstance(error.args[0], list):  # Of several files: the first one will do.
        _, target, reason = error.args[0][0]
        return UserError(f"{target}: {reason}.")
    if error.errno not in _DISK_FAULTS:
        return None
    named = next((name for name in (error.filename2, error.filename, where) if name is not None), "the disk")
    return UserError(f"{named}: {error.strerror}.")
