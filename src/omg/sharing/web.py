"""Archives over http and https, with Python's own client: within bounds, and never from a safe address to another."""

from __future__ import annotations

import http.client
import os
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from omg.errors import UserError
from omg.names import inert
from omg.sharing.places import Place, on_own_machine

TOKEN = "OMG_WEB_TOKEN"
_SECONDS = 30
_BLOCK = 1 << 20


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows a server to another address, but not from https to http, and without the token to another server."""

    max_redirections = 5

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        made = super().redirect_request(req, fp, code, msg, headers, newurl)
        if made is None:
            return None
        if made.type != "https" and not (req.type == "http" and on_own_machine(made.full_url)):
            raise urllib.error.URLError(f"leads to {inert(newurl[:200])}, which is no https address")
        if made.host != req.host:
            made.remove_header("Authorization")
        return made


def download(place: Place, target: Path, most_bytes: int) -> None:
    """Fetches an archive into a file.

    Raises:
        UserError: the server does not answer, refuses, or sends more than is allowed.
    """
    with _answer(place, urllib.request.Request(place.url)) as answer:
        size = answer.headers.get("Content-Length", "")
        if size.isdigit() and int(size) > most_bytes:
            raise UserError(f"{place.shown}: has {int(size):,} bytes; allowed: {most_bytes:,} (--most-gb).")
        received = 0
        with target.open("wb") as file:
            while block := answer.read(_BLOCK):
                received += len(block)
                if received > most_bytes:
                    raise UserError(f"{place.shown}: sends more than {most_bytes:,} bytes (--most-gb).")
                file.write(block)
        if size.isdigit() and received != int(size):
            raise UserError(f"{place.shown}: ended after {received:,} of {int(size):,} bytes; try again.")


def upload(place: Place, archive: Path) -> None:
    """Puts an archive to an address.

    Raises:
        UserError: the server does not answer or does not take it.
    """
    with archive.open("rb") as file:
        headers = {"Content-Length": str(archive.stat().st_size), "Content-Type": "application/zip"}
        request = urllib.request.Request(place.url, data=file, headers=headers, method="PUT")
        with _answer(place, request) as answer:
            answer.read(_BLOCK)


@contextmanager
def _answer(place: Place, request: urllib.request.Request) -> Iterator[http.client.HTTPResponse]:
    request.add_header("User-Agent", "omg")
    # Never in the clear to anybody else.
    if (token := os.environ.get(TOKEN)) and not place.plain:
        request.add_header("Authorization", f"Bearer {token}")
    try:
        with urllib.request.build_opener(_Redirects).open(request, timeout=_SECONDS) as answer:
            yield answer
    except urllib.error.HTTPError as error:
        raise UserError(f"{place.shown}: the server answers {error.code} ({inert(str(error.reason))[:200]}).") from None
    except urllib.error.URLError as error:
        raise UserError(f"{place.shown}: cannot be reached ({inert(str(error.reason))[:300]}).") from None
    except (TimeoutError, ConnectionError, ssl.SSLError, http.client.HTTPException) as error:
        raise UserError(f"{place.shown}: the connection broke ({type(error).__name__}: {error!s:.200}).") from None
