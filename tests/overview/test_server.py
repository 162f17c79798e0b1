"""`omg runs --serve`: who may ask, what is handed out, and how it ends."""

from __future__ import annotations

import http.client
import json
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from helpers.refusing import refusal
from helpers.shelves import made_pipeline, made_run
from omg.errors import UserError
from omg.overview.listing import Shelf
from omg.overview.server import OverviewServer, serve

PAGE = "<!DOCTYPE html><title>r</title><script>1</script>"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A run with a replay, a pipeline with a report, a page of neither, and a file that nobody is to see."""
    (tmp_path / "secret.html").write_text("secret")
    run = made_run(tmp_path / "results", label="<b>").path
    (run / "replays").mkdir()
    (run / "replays" / "one.html").write_text(PAGE)
    (run / "replays" / "linked.html").symlink_to(tmp_path / "secret.html")
    (run / "agents").mkdir()
    made_pipeline(tmp_path / "results" / "exp", page=PAGE)
    (tmp_path / "results" / "all.html").write_text(PAGE)
    return tmp_path / "results"


@pytest.fixture
def server(home: Path) -> Iterator[OverviewServer]:
    with serve(Shelf([home]), 0) as one:
        threading.Thread(target=one.serve_forever, args=(0.02,), daemon=True).start()
        yield one
        one.shutdown()


def ask(
    server: OverviewServer, address: str, *, method: str = "GET", known: bool = True, **headers: str
) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body of an answer; `known`: with the cookie of somebody who had the token."""
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=20)
    cookie = {"Cookie": f"{server.cookie}={server.token}"} if known else {}
    connection.request(method, address, headers={**cookie, **headers})
    answer = connection.getresponse()
    found = answer.status, dict(answer.getheaders()), answer.read()
    connection.close()
    return found


def links(server: OverviewServer) -> dict[str, str]:
    """Name -> address of all that is handed out."""
    listing = json.loads(ask(server, "/rows.json")[2])
    return {link["name"]: link["address"] for row in listing["rows"] for link in row["links"]} | {
        link["name"]: link["address"] for link in listing["pages"]
    }


def test_the_token_in_the_address_becomes_a_cookie(server: OverviewServer) -> None:
    assert server.server_address[0] == "127.0.0.1"
    status, headers, _ = ask(server, server.address.partition(str(server.server_port))[2], known=False)
    assert (status, headers["Location"]) == (303, "/")
    cookie = headers["Set-Cookie"]
    assert cookie == f"omg_runs_{server.server_port}={server.token}; HttpOnly; SameSite=Lax; Path=/"
    assert len(server.token) >= 32
    status, _, body = ask(server, "/", known=False, Cookie=cookie.partition(";")[0])
    assert status == 200
    assert b"<h1>Runs</h1>" in body


@pytest.mark.parametrize(
    "address", ["/", "/rows.json", "/page.js", "/page/1", "/?token=", "/?token=x", "/rows.json?token=x"]
)
def test_who_does_not_have_the_token_sees_nothing(server: OverviewServer, address: str) -> None:
    for cookie in ({}, {"Cookie": f"{server.cookie}=x"}, {"Cookie": f"other={server.token}"}, {"Cookie": "\xff;;="}):
        status, headers, body = ask(server, address, known=False, **cookie)
        assert status == 403
        assert "Set-Cookie" not in headers
        assert b"foraging" not in body


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "[::1]:1", "", "localhost@x"]
)
def test_another_name_is_not_this_server(server: OverviewServer, host: str) -> None:
    assert ask(server, "/rows.json", Host=host)[0] == 403
    assert ask(server, f"/?token={server.token}", known=False, Host=host)[0] == 403


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "localhost:1234"])
def test_a_tunnel_may_have_another_port(server: OverviewServer, host: str) -> None:
    assert ask(server, "/rows.json", Host=host)[0] == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "BREW"])
def test_only_looking_is_possible(server: OverviewServer, home: Path, method: str) -> None:
    before = {path: path.read_bytes() for path in home.rglob("*") if path.is_file()}
    status, headers, _ = ask(server, links(server)["report"], method=method)
    assert (status, headers["Allow"]) == (405, "GET, HEAD")
    assert {path: path.read_bytes() for path in home.rglob("*") if path.is_file()} == before


def test_head_is_get_without_the_body(server: OverviewServer) -> None:
    for address in ("/", "/rows.json", links(server)["report"]):
        status, headers, body = ask(server, address, method="HEAD")
        assert (status, body) == (200, b"")
        assert int(headers["Content-Length"]) > 20


def test_what_is_handed_out(server: OverviewServer, home: Path) -> None:
    found = links(server)
    assert set(found) == {"report", "replays/one", "log", str(home / "all.html")}
    for name in ("report", "replays/one", str(home / "all.html")):
        status, headers, body = ask(server, found[name])
        assert (status, body.decode(), headers["Content-Type"]) == (200, PAGE, "text/html; charset=utf-8")
        # An origin of its own that can ask for nothing.
        policy = headers["Content-Security-Policy"]
        assert policy.startswith("sandbox allow-scripts allow-downloads; default-src 'none'; ")
        assert "connect-src" not in policy
        assert "allow-same-origin" not in policy
    status, headers, body = ask(server, found["log"])
    assert (status, headers["Content-Type"]) == (200, "text/plain; charset=utf-8")
    assert body.decode().splitlines()[-1] == "2026-01-31 12:00:04 line 4"


def test_a_log_is_plain(server: OverviewServer, home: Path) -> None:
    (log,) = home.glob("*/console.log")
    log.write_text("<script>\x1b[2J\u202e\n")
    _, headers, body = ask(server, links(server)["log"])
    assert body.decode() == "<script>\\x1b[2J\\u202e\n"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Content-Security-Policy"].startswith("sandbox; default-src 'none'")


@pytest.mark.parametrize(
    "address",
    [
        "/../secret.html",
        "/page/../../secret.html",
        "/page/%2e%2e%2f%2e%2e%2fsecret.html",
        "/page/..%5c..%5csecret.html",
        "//127.0.0.1/secret.html",
        "/page/",
        "/etc/passwd",
        "/config.yaml",
        "/page/%00",
        "http://127.0.0.1/etc/passwd",
        "/page/" + "a" * 5000,
    ],
)
def test_no_address_is_a_path(server: OverviewServer, address: str) -> None:
    status, _, body = ask(server, address)
    assert status == 404
    assert b"secret" not in body
    assert b"root:" not in body


def test_a_page_that_became_a_link_is_not_handed_out(server: OverviewServer, home: Path) -> None:
    address = links(server)["report"]
    page = home / "exp" / "report.html"
    page.unlink()
    page.symlink_to(home.parent / "secret.html")
    assert ask(server, address)[0] == 404
    page.unlink()
    assert ask(server, address)[0] == 404
    (home / "exp").rename(home.parent / "away")
    (home / "exp").symlink_to(home.parent / "away")
    (home.parent / "away" / "report.html").write_text(PAGE)
    assert ask(server, address)[0] == 404


def test_every_answer_tells_the_browser_what_it_may_do(server: OverviewServer) -> None:
    for address in ("/", "/page.css", "/page.js", "/rows.json", "/nothing", links(server)["report"]):
        _, headers, _ = ask(server, address)
        assert headers["Content-Security-Policy"]
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["X-Frame-Options"] == "DENY"
        assert headers["Referrer-Policy"] == "no-referrer"
        assert headers["Cache-Control"] == "no-store"
        assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
        assert "Python" not in headers["Server"]
        assert "Access-Control-Allow-Origin" not in headers
    own = ask(server, "/")[1]["Content-Security-Policy"]
    assert "unsafe" not in own
    assert own.startswith("default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self';")


@pytest.mark.parametrize(
    "noise", [b"\x00\xff\r\n\r\n", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"GET " + b"a" * 70_000]
)
def test_noise_is_answered_or_dropped(server: OverviewServer, noise: bytes) -> None:
    with socket.create_connection(("127.0.0.1", server.server_port), timeout=20) as line:
        line.sendall(noise)
        line.shutdown(socket.SHUT_WR)
        said = b"".join(iter(lambda: line.recv(65536), b""))
    assert b"Traceback" not in said
    assert b"aaaa" not in said
    assert ask(server, "/rows.json")[0] == 200


def test_a_folder_that_is_gone_is_said(server: OverviewServer, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("omg.overview.server._FRESH_SECONDS", -1.0)
    home.rename(home.parent / "away")
    status, _, body = ask(server, "/rows.json")
    assert status == 410
    assert b"there is no such folder" in body


def test_a_taken_port_is_refused(server: OverviewServer, home: Path) -> None:
    said = refusal(lambda: serve(Shelf([home]), server.server_port))
    assert said.startswith(f"--port: cannot use {server.server_port} (another program has it).")
    with pytest.raises(UserError, match="no such folder"):
        serve(Shelf([home / "missing"]), 0)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_it(home: Path, number: int, code: int) -> None:
    words = [sys.executable, "-c", "import sys; from omg.cli import main; sys.exit(main())"]
    process = subprocess.Popen(
        [*words, "runs", str(home), "--serve", "--port", "0"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        assert "http://127.0.0.1:" in process.stdout.readline()
        process.send_signal(number)
        _, errors = process.communicate(timeout=30)
    finally:
        process.kill()
    assert process.returncode == code
    assert errors == ("interrupted\n" if number == signal.SIGINT else "ended by SIGTERM\n")
