"""Where shared things lie: folders, archives, addresses of the web, repositories of Hugging Face's hub."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import unquote, urlsplit

from omg.errors import UserError, unknown_name
from omg.names import inert
from omg.sharing.archive import ENDING

_SCHEMES = ("file", "hf", "http", "https")
_OWN_MACHINE = ("localhost", "127.0.0.1", "::1")
_REPOSITORY = re.compile(
    r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,94}[A-Za-z0-9])?/[A-Za-z0-9_](?:[A-Za-z0-9._-]{0,94}[A-Za-z0-9_])?"
)
_REVISION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,199}")


@dataclass(frozen=True)
class Place:
    """An address that was understood."""

    kind: Literal["folder", "archive", "web", "hub"]
    shown: str
    """As it may be printed: no control characters."""
    path: Path = Path()
    """Of folders and archives."""
    url: str = ""
    repository: str = ""
    revision: str | None = None
    plain: bool = False
    """Whether anybody on the way may have changed what comes: http."""

    @property
    def name(self) -> str:
        """The last part of it, without an archive's ending."""
        last = {"web": unquote(urlsplit(self.url).path), "hub": self.repository}.get(self.kind, str(self.path))
        return last.rstrip("/").rpartition("/")[2].removesuffix(ENDING)


def read_place(word: str, given: str) -> Place:
    """Understands `hf://OWNER/NAME[@REVISION]`, `https://….zip`, `file://PATH` and plain paths.

    Args:
        word: what the address is called in messages: SOURCE, TARGET.
        given: the address.

    Raises:
        UserError: it is none of these, holds a password, or would be fetched in a way that anybody can change.
    """
    shown = inert(given)
    scheme, separator, rest = given.partition("://")
    if not separator:
        return _local(Path(given), shown)
    if scheme not in _SCHEMES:
        raise unknown_name(f"{word} scheme", scheme, _SCHEMES)
    if scheme == "hf":
        repository, _, revision = rest.partition("@")
        if not _REPOSITORY.fullmatch(repository) or ".." in rest or (revision and not _REVISION.fullmatch(revision)):
            raise UserError(f"{word}: got '{shown}'; expected hf://OWNER/NAME or hf://OWNER/NAME@REVISION.")
        return Place("hub", shown, repository=repository, revision=revision or None)
    try:
        parts = urlsplit(given)
        host, user = parts.hostname or "", parts.username
        parts.port  # noqa: B018  Raises for what is no number.
    except ValueError as error:
        raise UserError(f"{word}: got '{shown}', which is no address ({error}).") from None
    if scheme == "file":
        if host not in ("", "localhost"):
            raise UserError(f"{word}: got '{shown}'; a file:// address has three slashes: file:///folder/name.zip.")
        return _local(Path(unquote(parts.path)), shown)
    if user is not None:
        raise UserError(
            f"{word}: has a user or password in it. Leave them out; OMG_WEB_TOKEN is sent as a bearer's token."
        )
    if not host or not parts.path.endswith(ENDING):
        raise UserError(f"{word}: got '{shown}'; expected the address of an archive, https://server/name{ENDING}.")
    return Place("web", shown, url=given, plain=scheme == "http" and not on_own_machine(given))


def on_own_machine(url: str) -> bool:
    """Whether an address leads to this machine, so that nobody else hears what is said."""
    return (urlsplit(url).hostname or "") in _OWN_MACHINE


def _local(path: Path, shown: str) -> Place:
    path = Path(os.path.expanduser(path))
    return Place("archive" if path.suffix == ENDING else "folder", shown, path=path)
