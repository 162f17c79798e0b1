"""The page of `omg runs --serve` in a browser: read, sorted, filtered, kept up to date, by keyboard, and inert."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from helpers.shelves import TESTS, made_pipeline, made_run, write_tests
from helpers.tiny import tiny_pool
from helpers.windows import LAPTOP, LOOKS, PHONE, barriers, take_picture, too_wide
from omg.disk import write_text
from omg.overview.listing import Shelf
from omg.overview.server import OverviewServer, serve
from omg.tracking import RunFolder

MARKUP = "<script>document.title='taken'</script><img src=x onerror=document.title='taken'>"
HOSTILE = f"""<!DOCTYPE html><html lang="en"><title>hostile</title><body><h1>A report</h1>{MARKUP}<script>
const tried = [];
for (const address of ['/rows.json', 'http://127.0.0.1:1/x', 'http://example.org/'])
  fetch(address).then(() => tried.push('read ' + address)).catch(() => 0);
try {{ tried.push('cookie ' + document.cookie); }} catch {{ }}
try {{ tried.push('kept ' + localStorage.length); }} catch {{ }}
setTimeout(() => document.body.append('tried: ' + tried.join()), 300);
</script></body></html>"""


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One of each kind, in every state, with names that are markup."""
    home = tmp_path_factory.mktemp("shelf") / "results"
    made_run(home / "a", "failed", reason=f"ValueError: {MARKUP}")
    made_run(home / "b", "interrupted", t_env=400)
    made_run(home / "c", "running", t_env=250).set_doing("testing")
    write_tests(made_run(home / "d"), [(1, 0, 0.0), (1, 500, 1.25), (2, 500, 1.25)])
    made_pipeline(home / "exp", page=HOSTILE)
    write_text(home / "exp" / "pipeline.yaml", f"name: {MARKUP}\ngame:\n  env_config: foraging\n")
    made_run(home / "exp" / "runs" / "iql", "stopped")
    tiny_pool(home / "pool", scripted="random")
    write_text(home / "all.html", HOSTILE)
    return home


@pytest.fixture(scope="module")
def server(shelf: Path) -> Iterator[OverviewServer]:
    (running,) = (shelf / "c").iterdir()
    with serve(Shelf([shelf]), 0) as one, RunFolder(running).lock():
        threading.Thread(target=one.serve_forever, args=(0.02,), daemon=True).start()
        yield one
        one.shutdown()


@pytest.fixture
def open_runs(open_page, server: OverviewServer):
    def opened(size: tuple[int, int] = LAPTOP, scheme: str = "light"):
        window = open_page(server.address, size, scheme, served=f"127.0.0.1:{server.server_port}")
        window.page.wait_for_selector("tbody tr")
        return window.page

    return opened


def shown(page) -> list[str]:
    """The folders of the rows, in their order, without what they have in common."""
    return [text.partition("results/")[2].partition("/")[0] for text in page.locator(".folder").all_inner_texts()]


@pytest.mark.parametrize(("size", "scheme"), LOOKS)
def test_the_page_can_be_read(open_runs, tmp_path: Path, size: tuple[int, int], scheme: str) -> None:
    page = open_runs(size, scheme)
    assert page.inner_text("#summary") == "1 running, 2 finished, 1 stopped, 2 interrupted, 1 failed"
    assert shown(page)[0] == "c", "what is running comes first"
    assert page.title() == "Runs", "no name became markup"
    assert page.locator("tbody img, tbody script").count() == 0
    assert page.get_by_text(f"ValueError: {MARKUP}").count() == 1
    running = page.locator("tbody tr").first
    assert running.locator(".badge").inner_text() == "running"
    assert running.locator(".note").inner_text() == "testing"
    assert "25 %, 8 s left" in running.inner_text()
    (best,) = (text for text in page.locator("tbody tr").all_inner_texts() if "1.250" in text)
    assert best.split().count("1.250") == best.split().count("return") == 2, "best and last, and what they are"
    curve = running.get_by_role("img", name="3 tests, from 0.375 to 0.625")
    assert len(curve.locator("polyline").get_attribute("points").split()) == 3
    assert too_wide(page) == 0
    assert barriers(page) == []
    take_picture(page, f"runs_{size[0]}_{scheme}", tmp_path)


def test_headings_sort(open_runs) -> None:
    page = open_runs()
    heading = page.get_by_role("columnheader", name="Best")
    page.get_by_role("button", name="Best").click()
    assert heading.get_attribute("aria-sort") == "descending"
    assert shown(page)[0] == "d"
    assert set(shown(page)[-2:]) == {"exp", "pool"}, "what has no result is at the end"
    page.get_by_role("button", name="Best").press("Enter")
    assert heading.get_attribute("aria-sort") == "ascending"
    assert shown(page).index("d") > shown(page).index("a")
    page.get_by_role("button", name="What").click()
    assert heading.get_attribute("aria-sort") is None


def test_a_phone_sorts_by_a_list(open_runs) -> None:
    page = open_runs(PHONE)
    assert not page.get_by_role("button", name="Best").is_visible()
    page.get_by_label("Order").select_option("best")
    assert shown(page)[0] == "d"
    page.get_by_label("Order").select_option("running, newest")
    assert barriers(page) == []


def test_rows_are_found_by_keyboard(open_runs) -> None:
    page = open_runs()
    page.keyboard.press("/")
    page.keyboard.type("FAILED valueerror")
    assert shown(page) == ["a"]
    assert page.inner_text("#summary").endswith("(6 not shown)")
    page.keyboard.type("zzz")
    assert page.is_visible("#nothing")
    page.get_by_label("Find").fill("")
    page.get_by_label("Status").select_option("stopped")
    assert shown(page) == ["exp"]
    page.get_by_label("Status").select_option("")
    page.get_by_label("Kind").select_option("pool")
    assert shown(page) == ["pool"]
    assert "3 training" in page.inner_text("tbody")


def test_many_pages_of_a_run_are_folded_away(open_page, tmp_path: Path) -> None:
    run = made_run(tmp_path).path
    (run / "replays").mkdir()
    for index in range(30):
        write_text(run / "replays" / f"game_{index:02}.html", HOSTILE)
    write_text(run / "report.html", HOSTILE)
    with serve(Shelf([tmp_path]), 0) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        page = open_page(server.address, PHONE, served=f"127.0.0.1:{server.server_port}").page
        page.wait_for_selector("tbody tr")
        links = page.locator("tbody a")
        assert [text for text in links.all_inner_texts() if text][:4] == [
            "report",
            "replays/game_00",
            "replays/game_01",
            "log",
        ]
        assert not links.last.is_visible()
        page.get_by_text("28 more").press("Enter")
        page.wait_for_timeout(2500)
        assert links.last.is_visible(), "also after the next look"
        assert (too_wide(page), barriers(page)) == (0, [])
        server.shutdown()


def test_the_page_keeps_up_and_keeps_the_keyboards_place(open_runs, shelf: Path) -> None:
    page = open_runs()
    (folder,) = (shelf / "b").iterdir()
    link = page.locator("tbody tr", has_text=str(folder)).get_by_role("link")
    link.focus()
    write_tests(RunFolder(folder), [*TESTS, (1, 800, 3.5)])
    page.get_by_text("2.000").first.wait_for()
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == f"log of {folder}"
    page.get_by_role("button", name="Pause").click()
    write_tests(RunFolder(folder), TESTS)
    page.wait_for_timeout(2500)
    assert page.get_by_text("2.000").count() > 0, "it was told to wait"
    page.get_by_role("button", name="Continue").click()
    page.get_by_text("2.000").first.wait_for(state="hidden")


@pytest.mark.parametrize("name", ["report", "all.html"])
def test_a_report_of_a_stranger_reads_nothing(open_page, open_runs, server: OverviewServer, name: str) -> None:
    served = f"127.0.0.1:{server.server_port}"
    window = open_page(server.address, served=served)
    page = window.page
    page.locator("a", has_text=name).first.click()
    page.get_by_role("heading", name="A report").wait_for()
    page.get_by_text("tried:").wait_for()
    assert page.inner_text("body").endswith("tried:")
    assert {problem.partition(":")[0] for problem in window.problems} <= {"console"}, "nothing was even asked for"
    assert any("Content Security Policy" in problem for problem in window.problems)
    window.problems.clear()
    page.go_back()
    page.wait_for_selector("tbody tr")


def test_a_server_that_has_ended_is_said(open_page, shelf: Path) -> None:
    with serve(Shelf([shelf]), 0) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        window = open_page(server.address, served=f"127.0.0.1:{server.server_port}")
        window.page.wait_for_selector("tbody tr")
        server.shutdown()
    window.page.get_by_role("alert").wait_for()
    assert "has ended" in window.page.inner_text("#trouble")
    assert window.page.locator("tbody tr").count() == 7, "what was seen last stays"
    window.problems.clear()
