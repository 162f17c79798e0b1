"""Servers on this machine for what is shared: one that keeps files, one that speaks as Hugging Face's hub does."""

from __future__ import annotations

import base64
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

SHA = "0123456789abcdef0123456789abcdef01234567"


@dataclass
class Kept:
    """What a server has, and what it was asked."""

    files: dict[str, bytes] = field(default_factory=dict)
    redirects: dict[str, str] = field(default_factory=dict)
    """Path -> address that it leads to."""
    cut: set[str] = field(default_factory=set)
    """Paths of which only half is sent."""
    asked: list[tuple[str, str, str | None]] = field(default_factory=list)
    """Method, path and bearer's token of every request."""
    made: list[dict[str, Any]] = field(default_factory=list)
    """Repositories that were made."""
    url: str = ""


class _Handler(BaseHTTPRequestHandler):
    kept: Kept

    def log_message(self, *_: Any) -> None:
        """Says nothing."""

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") == "chunked":
            parts = []
            while size := int(self.rfile.readline(), 16):
                parts.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(parts)
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def _answer(self, code: int, data: bytes = b"", **headers: str) -> None:
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def _json(self, value: object, code: int = 200) -> None:
        self._answer(code, json.dumps(value).encode(), Content_Type="application/json")

    def _note(self) -> str:
        path = unquote(urlsplit(self.path).path)
        self.kept.asked.append((self.command, path, self.headers.get("Authorization")))
        return path

    def do_GET(self) -> None:
        path = self._note()
        if path in self.kept.redirects:
            self._answer(302, Location=self.kept.redirects[path])
        elif path not in self.kept.files:
            self._answer(404)
        elif path in self.kept.cut:
            data = self.kept.files[path]
            self.send_response(200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data[: len(data) // 2])
        else:
            self._answer(200, self.kept.files[path])

    def do_PUT(self) -> None:
        self.kept.files[self._note()] = self._body()
        self._answer(201)


class _Hub(_Handler):
    """The calls that the hub's own library makes, for one repository of models; uploads come in the commit itself."""

    def _tree(self) -> list[dict[str, Any]]:
        return [{"type": "file", "path": name, "size": len(data), "oid": SHA} for name, data in self.kept.files.items()]

    def do_GET(self) -> None:
        path = self._note()
        if re.fullmatch(r"/api/models/[^/]+/[^/]+(/revision/[^/]+)?", path):
            if not self.kept.made:
                self._answer(404, X_Error_Code="RepoNotFound", X_Error_Message="Repository not found")
                return
            names = [{"rfilename": name} for name in self.kept.files]
            self._json({"id": path.removeprefix("/api/models/"), "sha": SHA, "siblings": names, "tags": []})
        elif "/tree/" in path:
            self._json(self._tree())
        elif (name := path.partition(f"/resolve/{SHA}/")[2]) in self.kept.files:
            self._answer(200, self.kept.files[name], ETag=f'"{SHA}"', X_Repo_Commit=SHA)
        else:
            self._answer(404, X_Error_Code="EntryNotFound")

    do_HEAD = do_GET  # noqa: N815  Called so by the standard library.

    def do_POST(self) -> None:
        path, body = self._note(), self._body()
        if path == "/api/repos/create":
            self.kept.made.append(json.loads(body))
            made = self.kept.made[-1]
            self._json({"url": f"{self.kept.url}/{made['organization']}/{made['name']}"})
        elif path == "/api/validate-yaml":
            self._json({"errors": [], "warnings": []})
        elif "/preupload/" in path:
            asked = json.loads(body)["files"]
            self._json(
                {"files": [{"path": one["path"], "uploadMode": "regular", "shouldIgnore": False} for one in asked]}
            )
        elif "/paths-info/" in path:
            asked = json.loads(body)["paths"] if body[:1] == b"{" else parse_qs(body.decode())["paths"]
            self._json([one for one in self._tree() if one["path"] in asked])
        elif "/commit/" in path:
            for line in map(json.loads, body.decode().splitlines()):
                if line["key"] == "file":
                    self.kept.files[line["value"]["path"]] = base64.b64decode(line["value"]["content"])
            self._json({"commitUrl": f"{self.kept.url}/me/thing/commit/{SHA}", "commitOid": SHA, "success": True})
        else:
            self._answer(404)


@contextmanager
def _serving(kind: type[_Handler]) -> Iterator[Kept]:
    kept = Kept()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (kind,), {"kept": kept}))
    kept.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield kept
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def file_server() -> Any:
    """A server that gives and takes files."""
    return _serving(_Handler)


def hub_server() -> Any:
    """A server that speaks as the hub does."""
    return _serving(_Hub)
