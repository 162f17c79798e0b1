"""`omg runs --serve`: the table, the reports, the replays and the logs of some folders in a browser of this machine.

Whoever asks must be on this machine (the server listens on the loopback only), must have been told the token (in the
address, then in a cookie), and must mean this server (its `Host` is the loopback, so no other site's name leads here).
It answers GET and HEAD, and hands out nothing but its own page and what the last look has found: an address is looked
up in a table and never made into a path. A report may be a stranger's: it is shown in a sandbox, as an origin of its
own, from which it can ask neither this server nor any other for anything.
"""

from __future__ import annotations

import errno
import hashlib
import hmac
import json
import secrets
import threading
import time
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from omg.errors import UserError
from omg.names import inert, inside
from omg.overview.finding import Found
from omg.overview.listing import Listing, Shelf, plain_row
from omg.overview.reading import read_part
from omg.types import Json

LOOPBACK = "127.0.0.1"
_HOSTS = (LOOPBACK, "localhost")
_OWN = {
    "/": ("page.html", "text/html"),
    "/page.css": ("page.css", "text/css"),
    "/page.js": ("page.js", "text/javascript"),
}
_MOST_PAGE = 64_000_000
_LOG_END = 200_000
"""Bytes of a log that are shown."""
_FRESH_SECONDS = 0.5
"""Two questions within this time get the same look."""
_OWN_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
_PAGE_POLICY = (
    "sandbox allow-scripts allow-downloads; default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
    "img-src data: blob:; media-src data: blob:; font-src data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
_TEXT_POLICY = "sandbox; default-src 'none'; frame-ancestors 'none'"
_HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


def serve(shelf: Shelf, port: int) -> OverviewServer:
    """A server that listens; `serve_forever` answers until it is interrupted.

    Raises:
        UserError: the port is taken, or may not be used.
    """
    shelf.look()  # Folders that are none are refused before there is an address.
    try:
        return OverviewServer(shelf, port)
    except OSError as error:
        reason = "another program has it" if error.errno == errno.EADDRINUSE else str(error.strerror or error)
        raise UserError(f"--port: cannot use {port} ({reason}). Give another one, or 0 for any that is free.") from None


class OverviewServer(ThreadingHTTPServer):
    """The server with its token and what it hands out."""

    daemon_threads = True
    # Otherwise a second server could listen on the port of the first.
    allow_reuse_port = False

    def __init__(self, shelf: Shelf, port: int) -> None:
        super().__init__((LOOPBACK, port), _Handler)
        self.token = secrets.token_urlsafe(24)
        self.cookie = f"omg_runs_{self.server_port}"
        self._shelf = shelf
        self._looking = threading.Lock()
        self._looked = -1e9
        self._rows = b""
        self._handed: dict[str, tuple[Path, str]] = {}

    @property
    def address(self) -> str:
        """What a browser is to open."""
        return f"http://{LOOPBACK}:{self.server_port}/?token={self.token}"

    def rows(self) -> bytes:
        """The table as JSON."""
        with self._looking:
            if time.monotonic() - self._looked > _FRESH_SECONDS:
                listing = self._shelf.look()
                self._rows = json.dumps(self._described(listing)).encode()
                self._looked = time.monotonic()
            return self._rows

    def handed(self, address: str) -> tuple[Path, str] | None:
        """The file that an address of the table stands for, and what it is: `page` or `log`."""
        if address not in self._handed:
            self.rows()
        return self._handed.get(address)

    def inside(self, path: Path) -> bool:
        """Whether a file still lies in one of the folders when all links are followed."""
        for folder in self._shelf.folders:
            try:
                inside(folder, path)
            except UserError:
                continue
            return True
        return False

    def _described(self, listing: Listing) -> Json:
        handed: dict[str, tuple[Path, str]] = {}
        rows = []
        for one in listing.listed:
            links = [_link(handed, page, "page", _page_name(one.found, page)) for page in one.found.pages]
            if one.found.kind == "run":
                links.append(_link(handed, one.found.path / "console.log", "log", "log"))
            rows.append({**plain_row(one.row), "id": _short(one.found.path), "links": links, "curve": one.curve})
        loose = [_link(handed, page, "page", inert(str(page))) for page in listing.pages]
        self._handed = handed
        return {"rows": rows, "pages": loose, "complete": listing.complete}


def _link(handed: dict[str, tuple[Path, str]], path: Path, kind: str, name: str) -> dict[str, str]:
    address = f"/{kind}/{_short(path)}"
    handed[address] = path, kind
    return {"name": name, "address": address}


def _short(path: Path) -> str:
    return hashlib.sha256(str(path).encode("utf-8", "surrogateescape")).hexdigest()[:24]


def _page_name(found: Found, page: Path) -> str:
    """A page as its link is called: `report`, `replays/greedy_1`."""
    return inert(str(page.relative_to(found.path).with_suffix("")))


class _Handler(BaseHTTPRequestHandler):
    """Answers one question."""

    server: OverviewServer
    server_version, sys_version = "omg", ""
    timeout = 20
    """Seconds in which a question must be asked."""

    def do_GET(self) -> None:
        """Answers with what there is."""
        self._answer()

    def do_HEAD(self) -> None:
        """The same without its body."""
        self._answer()

    def _answer(self) -> None:
        hosts = self.headers.get_all("Host") or []
        if len(hosts) != 1 or (hosts[0].rpartition(":")[0] or hosts[0]) not in _HOSTS:
            self._send(HTTPStatus.FORBIDDEN, b"This server answers as 127.0.0.1 and localhost only.\n")
            return
        try:
            where = urlsplit(self.path)
            token = parse_qs(where.query, max_num_fields=4).get("token")
        except ValueError:
            self._send(HTTPStatus.BAD_REQUEST, b"What is that address?\n")
            return
        if where.path == "/" and token is not None:
            self._let_in(token[0])
        elif not self._is_known():
            self._send(HTTPStatus.FORBIDDEN, b"Open the whole address that `omg runs --serve` has printed.\n")
        elif where.path in _OWN:
            name, kind = _OWN[where.path]
            self._send(HTTPStatus.OK, files("omg.overview").joinpath("assets", name).read_bytes(), kind, _OWN_POLICY)
        elif where.path == "/rows.json":
            self._rows()
        else:
            self._file(where.path)

    def _let_in(self, token: str) -> None:
        """Keeps the token in a cookie, so that it does not stay in addresses."""
        if not _same(token, self.server.token):
            self._send(
                HTTPStatus.FORBIDDEN, b"That is not the token of this server; it has a new one at every start.\n"
            )
            return
        # Not Strict: the address may be clicked on another page, such as that of a notebook.
        cookie = f"{self.server.cookie}={self.server.token}; HttpOnly; SameSite=Lax; Path=/"
        self._send(HTTPStatus.SEE_OTHER, b"", more={"Location": "/", "Set-Cookie": cookie})

    def _is_known(self) -> bool:
        try:
            found = SimpleCookie(self.headers.get("Cookie", "")).get(self.server.cookie)
        except CookieError:
            return False
        return found is not None and _same(found.value, self.server.token)

    def _rows(self) -> None:
        try:
            self._send(HTTPStatus.OK, self.server.rows(), "application/json")
        except UserError as error:  # A folder is gone.
            self._send(HTTPStatus.GONE, f"{inert(str(error))}\n".encode())

    def _file(self, address: str) -> None:
        try:
            handed = self.server.handed(address)
        except UserError:
            handed = None
        if handed is None or not self.server.inside(handed[0]):
            self._send(HTTPStatus.NOT_FOUND, b"There is no such page, or it is gone.\n")
            return
        path, kind = handed
        if kind == "log":
            text = read_part(path, -_LOG_END, _LOG_END).decode("utf-8", "replace")
            self._send(HTTPStatus.OK, inert(text, lines=True).encode())
            return
        page = read_part(path, 0, _MOST_PAGE + 1)
        if not page or len(page) > _MOST_PAGE:
            self._send(HTTPStatus.NOT_FOUND, f"This page is empty or has more than {_MOST_PAGE:,} bytes.\n".encode())
            return
        self._send(HTTPStatus.OK, page, "text/html", _PAGE_POLICY)

    def _send(
        self,
        status: HTTPStatus,
        body: bytes,
        kind: str = "text/plain",
        policy: str = _TEXT_POLICY,
        more: dict[str, str] | None = None,
    ) -> None:
        self.send_response(status)
        said = {"Content-Type": f"{kind}; charset=utf-8", "Content-Length": str(len(body)), **(more or {})}
        if status is HTTPStatus.METHOD_NOT_ALLOWED:
            said["Allow"] = "GET, HEAD"
        for name, value in {**said, "Content-Security-Policy": policy, **_HEADERS}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What this server does not do, or cannot even read, is answered like all else: without repeating it."""
        self.close_connection = True
        # A method without a `do_...`: there are two.
        unknown = code == HTTPStatus.NOT_IMPLEMENTED
        self._send(HTTPStatus.METHOD_NOT_ALLOWED if unknown else HTTPStatus(code), b"This server only shows.\n")

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing: who looks at what is nobody's business."""


def _same(given: str, token: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "surrogateescape"), token.encode())
