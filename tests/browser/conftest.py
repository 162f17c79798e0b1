"""Pages in a real browser; without one these tests are left out, and say so."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from helpers.windows import LAPTOP, Window, browser_program, open_window, start_browser

if TYPE_CHECKING:
    from playwright.sync_api import Browser

Opener = Callable[..., Window]


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """One browser for all tests of a process; each test has windows of its own."""
    reason = "needs the extra 'browser' (Playwright and axe-core): pip install 'omg-marl[browser]'"
    pytest.importorskip("axe_playwright_python", reason=reason)
    playwright = pytest.importorskip("playwright.sync_api", reason=reason)
    if browser_program() is None:
        pytest.skip("needs a browser: apt-get install chromium")
    with playwright.sync_playwright() as started:
        program = start_browser(started)
        yield program
        program.close()


@pytest.fixture
def open_page(browser: Browser) -> Iterator[Opener]:
    """Opens a file or an address in a new window: `open_page(path, size=PHONE, scheme="dark")`.

    An address needs `served="127.0.0.1:PORT"`, the server under test. When the test ends, no page may have had an
    error or asked for anything from elsewhere.
    """
    windows: list[Window] = []

    def open_it(
        where: Path | str, size: tuple[int, int] = LAPTOP, scheme: str = "light", *, served: str = ""
    ) -> Window:
        window = open_window(browser, size, scheme, served)
        windows.append(window)
        window.page.goto(where.resolve().as_uri() if isinstance(where, Path) else where)
        return window

    yield open_it
    for window in windows:
        window.page.context.close()
    assert [problem for window in windows for problem in window.problems] == []
