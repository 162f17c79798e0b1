"""Writes the pages of `docs/replays` anew from the recordings beside them, and the film at the head of the README.

    python tools/write_replays.py

What a page says of how its game was chosen is kept; the rest is that of the program as it is.
`benchmarks/belief_replays.py` makes the recordings.
"""

from __future__ import annotations

import html
import re
from pathlib import Path

from omg.recordings import ENDING, Recording
from omg.report.watch.page import watch_page
from omg.report.watch.pictures import export_game

DOCS = Path(__file__).resolve().parents[1] / "docs"
FILM = ("8m", DOCS / "assets" / "belief.gif", 480)
"""The game at the head of the README, its file, and how wide it is."""


def main() -> None:
    """Pages first, then the film."""
    for file in sorted((DOCS / "replays").glob(f"*{ENDING}")):
        page, game = file.with_suffix(".html"), Recording.read(file)
        (note,) = re.findall(r'<p class="small note">(.*?)</p>', page.read_text(encoding="utf-8"))
        page.write_text(watch_page([game], html.unescape(note)), encoding="utf-8")
        print(page)
    name, film, width = FILM
    print(export_game(Recording.read(DOCS / "replays" / f"{name}{ENDING}"), film, width=width))


if __name__ == "__main__":
    main()
