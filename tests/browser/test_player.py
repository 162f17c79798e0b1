"""The player in a real browser: it plays, scrubs, changes seats and toggles layers, in every size and scheme."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from helpers.filmed import filmed
from helpers.windows import LOOKS, PHONE, barriers, take_picture, too_wide
from omg.recordings import Recording
from omg.report.watch.page import watch_page

if TYPE_CHECKING:
    from playwright.sync_api import Page

GAMES = {
    "sc2": {"map_name": "2s3z"},
    "foraging": {},
    "stag_hunt": {},
    "snowdrift": {},
    "toy_grid": {},
    "rendezvous": {},
    "predator_prey": {},
}


@pytest.fixture(scope="module")
def battle() -> Recording:
    return filmed("sc2", map_name="2s3z", steps=20)


@pytest.fixture
def opened(open_page, tmp_path: Path):
    """Opens the page of recordings and waits until it is drawn."""

    def open_it(games: list[Recording], size: tuple[int, int] = (1280, 800), scheme: str = "light") -> Page:
        target = tmp_path / "game.html"
        target.write_text(watch_page(games), encoding="utf-8")
        page = open_page(target, size, scheme).page
        page.wait_for_selector("body[data-ready]")
        return page

    return open_it


def step_of(page: Page) -> int:
    return int(page.inner_text("#when").split()[1])


@pytest.mark.parametrize(("size", "scheme"), LOOKS)
@pytest.mark.parametrize("count", [1, 2])
def test_no_barriers_in_any_look(opened, tmp_path: Path, battle, count: int, size, scheme: str) -> None:
    games = [battle, filmed("sc2", map_name="2s3z", steps=15, seed=1, algorithm="another")][:count]
    page = opened(games, size, scheme)
    for _ in range(6):
        page.keyboard.press("ArrowRight")
    page.click("summary >> text=The numbers that it is given")
    assert barriers(page) == []
    assert too_wide(page) <= 0
    take_picture(page, f"player_{count}_{size[0]}_{scheme}", tmp_path)


@pytest.mark.parametrize("name", GAMES)
def test_every_game_is_drawn(opened, name: str) -> None:
    game = filmed(name, steps=6, **GAMES[name])
    page = opened([game])
    for step in (0, 3):
        page.fill("#at", str(step))
        drawn = page.locator("#stage-0 .piece").count()
        assert drawn == int(game["there"][step].sum())
    first = page.locator("#stage-0 .piece > *:not(title):not(.chosen)").first
    assert first.bounding_box()["width"] > 4


def test_play_scrub_and_step(opened, battle) -> None:
    page = opened([battle])
    assert step_of(page) == 0
    page.click("#on")
    page.click("#on")
    page.click("#back")
    assert step_of(page) == 1
    page.fill("#at", "7")
    assert page.inner_text("#when") == "step 7 of 20"
    assert page.get_attribute("#at", "aria-valuetext") == "step 7 of 20"
    page.select_option("#speed", "4")
    page.click("#play")
    assert page.inner_text("#play") == "Pause"
    page.wait_for_selector("#when:text-is('step 20 of 20')")
    page.wait_for_selector("#play:text-is('Play')")
    page.check("#loop")
    page.select_option("#speed", "1")
    page.fill("#at", "19")
    page.click("#play")
    page.wait_for_selector("#when:text-matches('^step [0-5] of 20$')")
    assert page.inner_text("#play") == "Pause"


def test_keys_do_everything(opened, battle) -> None:
    page = opened([battle])
    for key, step in (("ArrowRight", 1), ("End", 20), ("ArrowLeft", 19), ("Home", 0)):
        page.keyboard.press(key)
        assert step_of(page) == step
    page.keyboard.press("s")
    assert page.input_value("#seat") == "1"
    page.keyboard.press("+")
    assert page.input_value("#speed") == "2"
    page.keyboard.press("l")
    assert page.is_checked("#loop")
    page.keyboard.press(" ")
    assert page.inner_text("#play") == "Pause"
    page.keyboard.press(" ")
    assert page.inner_text("#play") == "Play"
    page.focus("#seat")
    page.keyboard.press("l")  # A list has its own keys.
    assert page.is_checked("#loop")


def test_the_page_says_what_is_on_it(opened, battle) -> None:
    page = opened([battle])
    said = page.locator("#kinds > span").all_inner_texts()
    assert said == ["stalker, zealot", "enemy stalker, enemy zealot", "health", "shield", "time until it can shoot"]
    assert page.locator("#keys kbd").all_inner_texts() == [
        "space",
        "\u2190",
        "\u2192",
        "Home",
        "End",
        "+",
        "\u2212",
        "l",
        "s",
        "b",
    ]
    assert page.inner_text("#plot-0 h2") == "How far off the belief is, in map units"
    board = opened([filmed("foraging", steps=4)])
    assert board.locator("#kinds > span").all_inner_texts() == ["player", "food"]
    assert board.locator("#kinds > span:first-child svg").count() == 2
    assert "in cells" in board.inner_text("#plot-0 h2")


def test_a_seat_shows_its_own_values(opened, battle) -> None:
    page = opened([battle])
    page.fill("#at", "4")
    for seat in (0, 3):
        page.select_option("#seat", str(seat))
        rows = page.locator("#actions-0 tbody tr")
        assert rows.count() == len(battle.header["actions"])
        (chosen,) = [row for row in range(rows.count()) if "taken" in (rows.nth(row).get_attribute("class") or "")]
        assert chosen == battle["actions"][4, seat]
        for action, legal in enumerate(battle["avail"][4, seat]):
            text = rows.nth(action).locator(".number").first.inner_text()
            shown = f"{battle['values'][4, seat, action]:.2f}".replace("-", "\u2212")
            assert (
                text in ("not legal",) if not legal else text == shown or abs(battle["values"][4, seat, action]) < 0.1
            )
    page.click("summary >> text=The numbers that it is given")
    cells = page.locator("#numbers-0 .numbers > div")
    cells.first.wait_for()
    assert cells.count() == battle["obs"].shape[2]
    assert page.locator("#numbers-0 .zero").count() == int((battle["obs"][4, 3] == 0).sum())


@pytest.mark.parametrize(
    ("layer", "drawn"),
    [
        ("ghosts", "#stage-0 .ghost"),
        ("really", "#stage-0 .really"),
        ("between", "#stage-0 .between"),
        ("goals", "#stage-0 .aim"),
        ("visits", "#stage-0 .visit"),
        ("predicted", "#others-0 .plain tbody tr"),
        ("predicted", "#stage-0 .guess"),
        ("ranges", "#stage-0 .reach"),
        ("shots", "#stage-0 .shot"),
    ],
)
def test_each_layer_can_be_hidden(opened, battle, layer: str, drawn: str) -> None:
    page = opened([battle])
    acts = [step for step in range(20) if (battle["actions"][step] >= 6).any() and battle["there"][step, 0]]
    page.fill("#at", str(acts[0]))
    assert page.locator(drawn).count() > 0
    page.uncheck(f"#layer-{layer}")
    assert page.locator(drawn).count() == 0
    page.check(f"#layer-{layer}")
    assert page.locator(drawn).count() > 0


def test_ghosts_stand_where_the_belief_has_them(opened, battle) -> None:
    page = opened([battle])
    page.fill("#at", "5")
    columns = battle.beliefs[0]["columns"]
    known = ~(columns["x"][5] != columns["x"][5])
    ghosts = page.locator("#stage-0 .ghost")
    assert ghosts.count() == known.sum()
    assert float(ghosts.first.get_attribute("cx")) == pytest.approx(columns["x"][5][known][0], abs=1e-3)
    said = page.inner_text("#plot-0 .now")
    assert said == (
        f'Step 5: belief off by {columns["distance"][5]:.2f} map units, "they stay" by '
        f"{columns['stay_distance'][5]:.2f}."
    )


def test_a_point_in_the_plot_is_a_moment(opened, battle) -> None:
    page = opened([battle])
    box = page.locator("#plot-0 .plot").bounding_box()
    page.locator("#plot-0 .plot").click(position={"x": box["width"] - 12, "y": box["height"] / 2})
    assert step_of(page) == 20


def test_two_games_and_where_they_part(opened, battle) -> None:
    unlike = battle["actions"].copy()
    unlike[7, 2] = (unlike[7, 2] + 1) % 11
    page = opened([battle, Recording(battle.header | {"algorithm": "another"}, {**battle, "actions": unlike})], PHONE)
    assert page.locator("svg.stage").count() == 2
    page.click("text=Go there")
    assert step_of(page) == 7
    assert "reached" in page.get_attribute("#differs", "class")
    page.keyboard.press("ArrowLeft")
    assert "reached" not in page.get_attribute("#differs", "class")
    page.keyboard.press("d")
    assert step_of(page) == 7
    mark, slider = (page.locator(name).bounding_box() for name in ("#mark", "#at"))
    assert (mark["x"] + mark["width"] / 2 - slider["x"]) / slider["width"] == pytest.approx(7 / 20, abs=0.03)


def test_a_damaged_page_says_so(open_page, tmp_path: Path, battle) -> None:
    target = tmp_path / "damaged.html"
    target.write_text(watch_page([battle]).replace('type="text/plain">eN', 'type="text/plain">AA'), encoding="utf-8")
    page = open_page(target).page
    page.wait_for_selector("#said:has-text('This page is damaged')", state="attached")


def test_pieces_that_show_a_number_have_their_names_beside(opened) -> None:
    game = filmed("foraging", steps=6)
    page = opened([game])
    levels = [str(int(level)) for level in game["written"][0, game["there"][0]]]
    shown = page.locator("#stage-0 .piece > text:not(.name)").all_text_contents()
    assert sorted(shown) == sorted(levels)
    assert page.locator("#stage-0 .piece .name").all_text_contents() == ["#1", "#2"]
    assert page.locator("#stage-0 .ghost-name").all_text_contents() == ["#2"]


def test_actions_that_a_planner_never_tried_are_said(opened, battle) -> None:
    values = battle["values"].copy()
    seat, step = 0, 3
    legal = [action for action, open_ in enumerate(battle["avail"][step, seat]) if open_]
    values[step, seat, legal[1:]] = float("nan")
    page = opened([Recording(battle.header, {**battle, "values": values})])
    page.fill("#at", str(step))
    numbers = page.locator("#actions-0 tbody tr .number:nth-child(3)").all_inner_texts()
    assert [number for number in numbers if number != "not legal"].count("not tried") == len(legal) - 1


HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"


def test_hostile_names_do_nothing(open_page, tmp_path: Path, battle) -> None:
    named = {part: [one | {"name": HOSTILE} for one in battle.header[part]] for part in ("pieces", "actions")}
    seats = [seat | {"label": HOSTILE, "algorithm": HOSTILE} for seat in battle.header["seats"]]
    words = {"algorithm": HOSTILE, "scenario": HOSTILE, "facts": {HOSTILE: 1.0}, "seats": seats}
    target = tmp_path / "game.html"
    target.write_text(watch_page([Recording(battle.header | named | words, dict(battle))], HOSTILE), encoding="utf-8")
    window = open_page(target)
    asked: list[str] = []
    window.page.on("dialog", lambda dialog: asked.append(dialog.message))
    page = window.page
    page.wait_for_selector("body[data-ready]")
    for key in ("End", "s", "ArrowLeft", "Home", "ArrowRight"):
        page.keyboard.press(key)
    assert page.inner_text(".note") == HOSTILE
    assert HOSTILE in page.inner_text("#actions-0")
    assert page.locator("img").count() == 0
    assert page.locator("script").count() == 2
    assert asked == []


def empty(game: Recording) -> Recording:
    """Nobody has a piece, thinks or does anything: the least that a recording holds."""
    kept = {name: values for name, values in game.items() if not name.startswith(("beliefs", "values", "obs"))}
    kept = {name: values[:0] if name in ("actions", "rewards") else values[:1] for name, values in kept.items()}
    seats = [seat | {"piece": None, "values": None} for seat in game.header["seats"]]
    return Recording(game.header | {"seats": seats, "beliefs": []}, kept)


def unknown(game: Recording) -> Recording:
    """All that may be unknown is."""
    may = ("values", "written")
    never = {name: values * float("nan") for name, values in game.items() if name in may or name.startswith("beliefs.")}
    return Recording(game.header, {**game, **never})


@pytest.mark.parametrize("strange", [empty, unknown])
def test_strange_recordings_are_shown(opened, battle, strange) -> None:
    page = opened([strange(battle)])
    for key in ("End", "ArrowLeft", "s", "Home", "ArrowRight", "b"):
        page.keyboard.press(key)
    assert page.locator("#stage-0 .piece").count() > 0
    assert barriers(page) == []
    assert "NaN" not in page.inner_text("main")
    assert "Infinity" not in page.inner_text("main")
