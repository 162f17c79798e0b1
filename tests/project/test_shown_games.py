"""The games to look at in `docs/replays`: one of every built-in game, and what the documentation says of each is so."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from omg.envs import ENVS
from omg.recordings import ENDING, Recording
from omg.report.watch.film import finding, means, when
from omg.report.watch.page import watch_page

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs" / "replays"
NAMES = sorted(path.stem for path in FOLDER.glob(f"*{ENDING}"))
MOST_BYTES = 500_000


def read(name: str) -> Recording:
    return Recording.read(FOLDER / f"{name}{ENDING}")


def test_one_of_every_built_in_game() -> None:
    games = [read(name).header["game"] for name in NAMES]
    assert sorted(games) == sorted(name for name, entry in ENVS.items() if not entry.traits.foreign)
    assert {path.stem for path in FOLDER.glob("*.html")} == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_game_and_what_is_said_of_it(name: str) -> None:
    game, page = read(name), (FOLDER / f"{name}.html").read_text(encoding="utf-8")
    (note,) = re.findall(r'<p class="small note">(.*?)</p>', page)
    told = note.replace("&quot;", '"')
    # The page is that of the recording, made by the program as it is, and says how the game was chosen.
    assert page == watch_page([game], told)
    assert len(page) < MOST_BYTES
    assert "median gain" in told
    (belief,) = (one for one in game.beliefs if one["kind"] == "places")
    off, stay, _ = means(belief)
    assert off < stay
    assert finding(game, belief).replace('"', "&quot;").replace("'", "&#x27;") in page
    (row,) = (line for line in (ROOT / "docs" / "replays.md").read_text().splitlines() if f"{name}{ENDING}" in line)
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells[2:5] == [when(belief), f"**{off:.2f}**", f"{stay:.2f}"]
    assert ("trained with" in cells[1]) == ("trained with" in told)


def test_planners_say_what_their_search_found() -> None:
    for name in ("stag_hunt", "snowdrift"):
        game = read(name)
        (search,) = (one for one in game.beliefs if one["kind"] == "search")
        assert game.header["seats"][search["seat"]]["values"] == "q"
