"""The report in a browser: it is read, sorted, filtered, walked through with the keyboard, and does what it says."""

from __future__ import annotations

import shutil
import time
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from helpers.made_runs import make_run, risen
from helpers.reported import full_report
from helpers.room_pages import measured_room, suite_page
from helpers.windows import LAPTOP, LOOKS, PHONE, Window, barriers, take_picture, too_wide
from omg.experiments.reports import read_report
from omg.recordings import ENDING
from omg.recordings.runs import REPLAYS
from omg.report.inputs import ShownGame
from omg.report.markup import document
from omg.report.page import report_input, write_page
from omg.report.room import write_room_page
from omg.report.suite import write_suite_page

SHOWN_GAMES = Path(__file__).resolve().parents[2] / "docs" / "replays"
HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"


@pytest.fixture(scope="module")
def page_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    levels = {"7_homologue": {"floor": 0.2, "best fixed": 0.6, "ceiling": 0.9}}
    report = replace(full_report(), levels=levels)
    return write_page(tmp_path_factory.mktemp("report") / "report.html", report)


@pytest.fixture(scope="module")
def other_pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pages of a room, of a suite, and of thirty runs of three algorithms with 206 tests each, as on 8m."""
    folder = tmp_path_factory.mktemp("pages")
    rows, responses = measured_room()
    write_room_page(folder / "room.html", "Room: a game", rows, responses, [])
    write_suite_page(folder / "suite.html", suite_page())
    for seed in range(1, 31):
        algorithm = ("iql", "vdn", "qmix")[seed % 3]
        run = make_run(folder / "runs", algorithm, risen(0.4, seed), points=206, seed=seed)
        for game in ("foraging", "toy_grid", "rendezvous") if seed <= 3 else ():
            (run / REPLAYS).mkdir(exist_ok=True)
            shutil.copy(SHOWN_GAMES / f"{game}{ENDING}", run / REPLAYS)
    write_page(folder / "thirty_runs.html", read_report([folder / "runs"]))
    return folder


def ready(window: Window):
    window.page.wait_for_selector("html[data-ready=yes]")
    return window.page


@pytest.mark.parametrize(("size", "scheme"), LOOKS)
def test_the_report_is_legible_in_every_look(open_page, page_file: Path, tmp_path: Path, size, scheme) -> None:
    page = ready(open_page(page_file, size, scheme))
    assert barriers(page) == []
    assert too_wide(page) == 0
    assert page.locator("figure.chart svg[role=img]").count() >= 8
    take_picture(page, f"report-{size[0]}-{scheme}", tmp_path)


@pytest.mark.parametrize(("size", "scheme"), [(PHONE, "dark"), (LAPTOP, "light")])
@pytest.mark.parametrize("kind", ["room", "suite", "thirty_runs"])
def test_the_other_pages_are_legible(open_page, other_pages: Path, tmp_path, kind, size, scheme) -> None:
    page = ready(open_page(other_pages / f"{kind}.html", size, scheme))
    assert page.locator("figure.chart svg[role=img]").count() >= 2
    assert barriers(page) == []
    assert too_wide(page) == 0
    take_picture(page, f"{kind}-{size[0]}-{scheme}", tmp_path)


def test_a_recorded_game_is_played_on_the_page_of_its_run(open_page, other_pages: Path) -> None:
    """The player itself, under the policy of the page around it."""
    page = ready(open_page(other_pages / "thirty_runs.html", PHONE))
    page.get_by_text("The best of 3 recorded games").click()
    inner = page.frame_locator("iframe >> nth=0")
    inner.locator("#on").click()
    assert inner.locator("#when").inner_text().startswith("step 1 of ")
    assert inner.locator("#stage-0 .piece").count() > 0
    assert inner.locator("#stage-0 .ghost").count() == 1


def test_the_answer_is_in_sight_without_scrolling(open_page, page_file: Path) -> None:
    page = ready(open_page(page_file, PHONE))
    assert page.locator(".answer").first.bounding_box()["y"] < PHONE[1] / 2
    assert "OMG (optimistic) is better than IQL in 1 of 2 groups" in page.inner_text(".answer")


def test_columns_sort_by_their_numbers_both_ways(open_page, page_file: Path) -> None:
    page = ready(open_page(page_file))
    table = page.locator("section", has_text="Partner by partner").last.locator("table")
    head = table.locator("th").nth(4)
    head.locator("button").click()
    assert head.get_attribute("aria-sort") == "ascending"
    rising = [float(text.removesuffix(" %")) for text in table.locator("tbody td:nth-child(5)").all_inner_texts()]
    assert rising == sorted(rising)
    assert len(set(rising)) > 5
    head.locator("button").press("Enter")
    assert head.get_attribute("aria-sort") == "descending"
    falling = [float(text.removesuffix(" %")) for text in table.locator("tbody td:nth-child(5)").all_inner_texts()]
    assert falling == rising[::-1]


def test_rows_are_chosen_by_a_word_and_by_a_list(open_page, page_file: Path) -> None:
    page = ready(open_page(page_file))
    section = page.locator("section", has_text="Partner by partner").last
    rows, count = section.locator("tbody tr"), section.locator("output")
    assert (rows.count(), count.inner_text()) == (20, "20 rows")
    section.locator("input[type=search]").fill("VDN_3")
    assert (rows.count(), count.inner_text()) == (4, "4 of 20 rows")
    section.get_by_label("agent").select_option("IQL")
    assert {text.split("\t")[0] for text in rows.all_inner_texts()} == {"IQL"}
    assert rows.count() == 2
    section.locator("input[type=search]").fill("")
    section.get_by_label("group").select_option("7 homologue")
    assert rows.count() == 5


def test_curves_say_their_values_under_the_pointer_and_the_keys(open_page, page_file: Path) -> None:
    page = ready(open_page(page_file))
    chart = page.locator("section", has=page.locator("#learning-curves")).locator("figure.chart")
    svg, tip = chart.locator(".panel svg"), chart.locator(".tip")
    assert tip.is_hidden()
    svg.scroll_into_view_if_needed()
    box = svg.bounding_box()
    page.mouse.move(box["x"] + box["width"] - 20, box["y"] + 100)
    assert tip.is_visible()
    # Three seeds at 0, 10 and 20 %: the mean of both agents is 10 %.
    shown = tip.inner_text().splitlines()
    assert shown[0] == "1,000 steps"
    assert [line.split(" [")[0] for line in shown[1:]] == ["IQL: 10.0 %", "OMG (optimistic): 10.0 %"]
    svg.focus()
    page.keyboard.press("Home")
    assert tip.inner_text().splitlines()[0] == "0 steps"
    assert chart.locator("[aria-live]").inner_text().startswith("0 steps: IQL: 10.0 %")
    page.keyboard.press("ArrowRight")
    assert tip.inner_text().splitlines()[0] == "1,000 steps"
    page.keyboard.press("Escape")
    assert tip.is_hidden()


def test_a_line_is_put_away_and_shown_again(open_page, page_file: Path) -> None:
    page = ready(open_page(page_file))
    chart = page.locator("section", has=page.locator("#learning-curves")).locator("figure.chart")
    button = chart.locator(".legend button", has_text="IQL").first
    assert chart.locator("path.line").count() == 2
    button.press("Space")
    assert (button.get_attribute("aria-pressed"), chart.locator("path.line").count()) == ("false", 1)
    button.click()
    assert chart.locator("path.line").count() == 2


def test_the_room_is_drawn_in_and_differences_show_how_likely(open_page, page_file: Path) -> None:
    page = ready(open_page(page_file))
    scores = page.locator("section", has=page.locator("#how-each-agent-does")).locator("figure.chart").first
    first = scores.locator(".panel").first
    assert {"floor", "best fixed", "ceiling"} <= set(first.locator("text").all_text_contents())
    assert first.locator("line.mark").count() == 3
    compared = page.locator("section", has=page.locator("#who-is-better")).locator("figure.chart")
    compared.locator("select").select_option(label="probability of improvement")
    assert "neither" in compared.locator("text").all_text_contents()
    compared.locator(".panel svg").first.focus()
    page.keyboard.press("Home")
    assert compared.locator(".tip").first.inner_text().startswith("against IQL\nP 1.00 [")


def test_the_map_names_its_cells(open_page, page_file: Path) -> None:
    page = ready(open_page(page_file))
    chart = page.locator("section", has=page.locator("#cross-play")).locator("figure.chart")
    chart.locator(".panel svg").focus()
    page.keyboard.press("Home")
    assert chart.locator(".tip").inner_text() == "IQL with VDN\n25.0 %"


@pytest.mark.parametrize("count", [4, 12])
def test_names_above_a_map_do_not_touch(open_page, tmp_path: Path, count: int) -> None:
    mates = [f"corner_{chr(97 + place)}_long" for place in range(count)]
    played = [{"agent": agent, "team": mate, "mean": 0.5} for agent in ("iql", "vdn") for mate in mates]
    report = replace(full_report(), cross_play=played)
    page = ready(open_page(write_page(tmp_path / "report.html", report)))
    chart = page.locator("section", has=page.locator("#cross-play")).locator("figure.chart")
    names = [chart.get_by_text(mate, exact=True) for mate in mates]
    slanted = [name.get_attribute("transform") is not None for name in names]
    assert slanted == [count == 12] * count
    boxes = [name.bounding_box() for name in names]
    if count == 4:
        assert all(one["x"] + one["width"] < other["x"] for one, other in pairwise(boxes))


def test_thirty_runs_open_at_once_and_are_small(open_page, other_pages: Path) -> None:
    target = other_pages / "thirty_runs.html"
    assert target.stat().st_size < 10_000_000
    took = []
    for _ in range(3):
        began = time.perf_counter()
        ready(open_page(target))
        took.append(time.perf_counter() - began)
    assert min(took) < 3


def test_a_game_is_played_inside_the_page(open_page, tmp_path: Path) -> None:
    body = '<main><h1>A game</h1><p style="height: 900px">x</p></main>'
    player = document("a", body, "document.querySelector('h1').textContent += ' is played'")
    report = replace(full_report(), games=[ShownGame("The best game", player)])
    page = ready(open_page(write_page(tmp_path / "report.html", report)))
    frame = page.locator("iframe")
    assert frame.is_hidden()
    page.get_by_text("The best game").click()
    inner = page.frame_locator("iframe")
    assert inner.locator("h1").inner_text() == "A game is played"
    for _ in range(50):  # The policy of the page forbids what Playwright would wait with.
        if frame.bounding_box()["height"] > 900:
            break
        page.wait_for_timeout(100)
    assert frame.bounding_box()["height"] > 900
    assert barriers(page) == []


def test_hostile_names_do_nothing(open_page, tmp_path: Path) -> None:
    rows = [{**row, "team": row["team"] + HOSTILE} for row in full_report().scores]
    report = report_input(HOSTILE, rows, "battle_won", "iql_omg", ["iql"], names={"iql": HOSTILE}, notes=[HOSTILE])
    target = write_page(tmp_path / "report.html", report)
    window = open_page(target)
    asked: list[str] = []
    window.page.on("dialog", lambda dialog: asked.append(dialog.message))
    page = ready(window)
    assert page.inner_text("h1") == HOSTILE
    page.locator("figure.chart .panel svg").first.focus()
    page.keyboard.press("Home")
    assert page.locator(".tip:visible").inner_text().startswith(HOSTILE)
    assert page.locator("img").count() == 0
    assert asked == []


def test_what_is_put_into_a_page_later_is_refused(open_page, page_file: Path, tmp_path: Path) -> None:
    """The policy of the page holds against a script and a picture that somebody adds to the file."""
    changed = page_file.read_text("utf-8").replace(
        "</main>", "<script>document.title = 'taken'</script><img alt='a' src='http://example.org/a.png'></main>"
    )
    target = tmp_path / "changed.html"
    target.write_text(changed, encoding="utf-8")
    window = open_page(target)
    page = ready(window)
    assert page.title() == "8m <unseen>"
    refused = [problem for problem in window.problems if "Content Security Policy" in problem]
    assert len(refused) == len(window.problems) == 2
    window.problems.clear()
