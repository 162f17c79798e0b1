"""A browser that reads pages as a person would: nothing but the page, at a size and in a colour scheme."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

PHONE, LAPTOP = (390, 844), (1280, 800)
LOOKS = [(size, scheme) for size in (PHONE, LAPTOP) for scheme in ("light", "dark")]
"""Every page is looked at like this: `@pytest.mark.parametrize(("size", "scheme"), LOOKS)`."""

PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
SWITCHES = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--no-proxy-server"),
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",  # Whatever is asked for, nothing leaves the machine.
)
PAGES_OWN = ("file", "data", "blob", "about")
PATIENCE_MS = 10_000
"""How long an action on a page may wait for what it acts on."""


def browser_program() -> str | None:
    """The browser of this machine."""
    return next((path for path in map(shutil.which, PROGRAMS) if path), None)


def start_browser(playwright: Any) -> Browser:
    """Starts the browser with an empty folder of its own, which Playwright removes with it."""
    return playwright.chromium.launch(executable_path=browser_program(), args=list(SWITCHES))


@dataclass
class Window:
    """A page and what went wrong in it; a test that provokes something removes it from `problems`."""

    page: Page
    problems: list[str] = field(default_factory=list)
    served: str = ""
    """The server that is tested, such as 127.0.0.1:8000; all others are out of bounds."""

    def allowed(self, address: str) -> bool:
        """Whether a page may ask for this."""
        parts = urlsplit(address)
        return parts.scheme in PAGES_OWN or (parts.scheme == "http" and parts.netloc == self.served != "")

    def watch(self, context: BrowserContext) -> None:
        """Notes errors of scripts, what the console calls an error, and requests to elsewhere, which are refused."""

        def request(route: Any) -> None:
            self.problems.append(f"asks for {route.request.url[:200]}")
            route.abort()

        context.route(lambda address: not self.allowed(address), request)
        self.page.on("pageerror", lambda error: self.problems.append(f"error: {error}"))
        self.page.on(
            "console", lambda said: self.problems.append(f"console: {said.text}") if said.type == "error" else None
        )
        self.page.on("websocket", lambda socket: self.problems.append(f"socket {socket.url[:200]}"))


def open_window(browser: Browser, size: tuple[int, int], scheme: str, served: str = "") -> Window:
    """An empty window with nothing kept from others, of width and height in pixels, with "light" or "dark" wanted."""
    context = browser.new_context(
        viewport={"width": size[0], "height": size[1]}, color_scheme=scheme, accept_downloads=True
    )
    context.set_default_timeout(PATIENCE_MS)
    window = Window(context.new_page(), served=served)
    window.watch(context)
    return window


def barriers(page: Page) -> list[str]:
    """What axe-core calls a serious or critical violation: the rule, what it says, and where."""
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page).response["violations"]
    return [
        f"{one['id']}: {one['help']} ({', '.join(str(node['target'][0]) for node in one['nodes'][:5])})"
        for one in found
        if one["impact"] in ("serious", "critical")
    ]


def too_wide(page: Page) -> int:
    """By how many pixels a page is wider than its window; tables and code scroll in boxes of their own."""
    return page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")


def take_picture(page: Page, name: str, folder: Path) -> Path:
    """The whole page as PNG in a folder, or in that of `OMG_SCREENSHOTS`, for a person who wants to look."""
    target = Path(os.environ.get("OMG_SCREENSHOTS") or folder) / f"{name}.png"
    target.parent.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=target, full_page=True)
    return target
