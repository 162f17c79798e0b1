"""The browser itself: what a page must not do is seen, whatever page is tested with it."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from helpers.windows import LOOKS, PHONE, barriers, open_window, take_picture, too_wide
from omg.report.markup import document

PAGE = '<!DOCTYPE html><html lang="en"><head><title>t</title></head><body><main><h1>A page</h1>{}</main></body></html>'


def written(folder: Path, body: str) -> Path:
    """A page in a file."""
    target = folder / "page.html"
    target.write_text(PAGE.format(body), encoding="utf-8")
    return target


@pytest.mark.parametrize(("size", "scheme"), LOOKS)
def test_a_page_is_seen_in_a_size_and_a_scheme(open_page, tmp_path: Path, size: tuple[int, int], scheme: str) -> None:
    script = "document.title = [innerWidth, innerHeight, matchMedia('(prefers-color-scheme: dark)').matches].join()"
    target = tmp_path / "page.html"
    target.write_text(document("t", "<main><h1>A page</h1></main>", script), encoding="utf-8")
    page = open_page(target, size, scheme).page
    assert page.title() == f"{size[0]},{size[1]},{str(scheme == 'dark').lower()}"
    assert too_wide(page) == 0
    assert barriers(page) == []
    assert take_picture(page, "page", tmp_path).read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("<script>throw Error('broken')</script>", "error: broken"),
        ("<script>console.error('odd')</script>", "console: odd"),
        ("<img alt='a' src='http://example.org/a.png'>", "asks for http://example.org/a.png"),
        ("<script>new WebSocket('ws://example.org/a')</script>", "socket ws://example.org/a"),
        ("<script>fetch('http://127.0.0.1:9/a').catch(() => 0)</script>", "asks for http://127.0.0.1:9/a"),
    ],
)
def test_what_a_page_must_not_do_is_noted(open_page, tmp_path: Path, body: str, problem: str) -> None:
    window = open_page(written(tmp_path, body))
    for _ in range(50):
        if problem in window.problems:
            break
        window.page.wait_for_timeout(100)
    assert problem in window.problems
    # The browser may say more of it until it is closed.
    window.page.context.close()
    window.problems.clear()


def test_barriers_and_too_wide_pages_are_found(open_page, tmp_path: Path) -> None:
    body = "<p style='color: #ddd; background: #fff'>faint</p><input><div style='width: 500px'>wide</div>"
    page = open_page(written(tmp_path, body), PHONE).page
    assert [line.partition(":")[0] for line in barriers(page)] == ["color-contrast", "label"]
    assert too_wide(page) > 100


def test_only_the_server_under_test_answers(browser, tmp_path: Path) -> None:
    class Hello(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(PAGE.format("").encode())

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    with HTTPServer(("127.0.0.1", 0), Hello) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        here = f"127.0.0.1:{server.server_port}"
        window = open_window(browser, PHONE, "light", here)
        window.page.goto(f"http://{here}/")
        assert window.page.inner_text("h1") == "A page"
        window.page.context.close()
        assert [problem for problem in window.problems if "favicon" not in problem] == []
        server.shutdown()
