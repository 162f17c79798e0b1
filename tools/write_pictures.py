"""Takes the pictures of pages that the documentation shows: games of `docs/replays`, and with `--report` a report.

    python tools/write_pictures.py --report results/demo/report.html

Needs a browser and the extra `browser`.
"""

from __future__ import annotations

import argparse
import io
import sys
from pathlib import Path
from typing import NamedTuple

from PIL import Image
from playwright.sync_api import sync_playwright

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from helpers.windows import LAPTOP, PHONE, open_window, start_browser  # noqa: E402

COLOURS = 128


class Picture(NamedTuple):
    """A file in `docs/assets`, how its page is looked at, and at which step of a game."""

    name: str
    game: str | None
    size: tuple[int, int]
    scheme: str
    step: int = 0


PICTURES = (
    Picture("watch-8m-light", "8m", LAPTOP, "light", 4),
    Picture("watch-toy-dark", "toy_grid", LAPTOP, "dark", 3),
    Picture("watch-phone-light", "stag_hunt", PHONE, "light", 3),
    Picture("report_laptop", None, LAPTOP, "light"),
    Picture("report_phone", None, PHONE, "dark"),
)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--report", type=Path, help="The page of a report; without it reports are left as they are.")
    report: Path | None = parser.parse_args().report
    with sync_playwright() as started:
        browser = start_browser(started)
        for one in PICTURES:
            page_file = report if one.game is None else ROOT / "docs" / "replays" / f"{one.game}.html"
            if page_file is None:
                continue
            window = open_window(browser, one.size, one.scheme)
            page = window.page
            page.goto(page_file.resolve().as_uri())
            page.wait_for_selector("[data-ready=yes]", state="attached")
            for _ in range(one.step):
                page.keyboard.press("ArrowRight")
            taken = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
            target = ROOT / "docs" / "assets" / f"{one.name}.png"
            taken.quantize(COLOURS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(target, optimize=True)
            page.context.close()
            print(target)
        browser.close()


if __name__ == "__main__":
    main()
