"""The player's page and the films: exactly what was recorded, inert whatever it is called."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
import subprocess
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageSequence

from helpers.filmed import HORIZON, filmed
from omg.cli import main
from omg.errors import UserError
from omg.recordings import Recording
from omg.report.watch import page as pages
from omg.report.watch import pictures
from omg.report.watch.film import chances, difference, film, finding, guesses, guessing, names_of, pace
from omg.report.watch.page import script, watch_page
from omg.report.watch.pictures import Shots, check_export, export_game

HOSTILE = "</script><img src=x onerror=alert(1)>\x1b[31m"


@pytest.fixture(scope="module")
def battle() -> Recording:
    return filmed("sc2", map_name="2s3z", steps=20)


@pytest.fixture(scope="module")
def other() -> Recording:
    return filmed("sc2", map_name="2s3z", steps=20, seed=1, algorithm="another")


def changed(game: Recording, columns: dict[str, np.ndarray] | None = None, **header: Any) -> Recording:
    return Recording(game.header | header, {**game, **(columns or {})})


def read(page: str) -> dict[str, Any]:
    """The data of a page, as its script unpacks it."""
    text = re.findall(r'<script id="film" type="text/plain">([A-Za-z0-9+/=]*)</script>', page)
    assert len(text) == 1
    told: dict[str, Any] = json.loads(zlib.decompress(base64.b64decode(text[0])))
    return told


def numbers(rows: list, moments: int) -> np.ndarray:
    """A series of the page: where it has one row only, that stands for all moments."""
    values = np.array(rows, np.float64)
    return np.broadcast_to(values, (moments, *values.shape[1:]))


def test_a_page_holds_what_was_recorded(battle: Recording) -> None:
    told = read(watch_page([battle]))
    game, moments = told["games"][0], battle.steps + 1
    for name in ("x", "y", "health", "shield"):
        np.testing.assert_allclose(numbers(game[name], moments), battle[name], atol=5.1e-5)
    np.testing.assert_array_equal(numbers(game["there"], moments), battle["there"])
    longest = battle["cooldown"].max(axis=0)
    assert longest.max() > 0
    np.testing.assert_allclose(
        numbers(game["cooldown"], moments), battle["cooldown"] / np.where(longest > 0, longest, 1), atol=5.1e-5
    )
    assert game["actions"] == battle["actions"].tolist()
    np.testing.assert_allclose(game["rewards"], battle["rewards"], atol=5.1e-5)
    assert [["".join("01"[int(flag)] for flag in seat) for seat in row] for row in battle["avail"]] == game["avail"]
    for seat in range(5):
        np.testing.assert_allclose(numbers(game["obs"][str(seat)], moments), battle["obs"][:, seat], atol=5.1e-5)
        mind = game["minds"][str(seat)]
        assert mind["kind"] == "q"
        np.testing.assert_allclose(numbers(mind["values"], moments), battle["values"][:, seat], atol=5.1e-5)
    places, guesses, _, search = battle.beliefs
    heading = game["minds"]["0"]["heading"]
    assert heading["pieces"] == places["pieces"]
    for name in ("x", "y", "later_x", "later_y"):
        np.testing.assert_allclose(numbers(heading[name], moments), places["columns"][name], atol=5.1e-5)
    np.testing.assert_allclose(np.array(heading["error"], float), places["columns"]["distance"], atol=5.1e-5)
    np.testing.assert_allclose(np.array(heading["stay"], float), places["columns"]["stay_distance"], atol=5.1e-5)
    predicted = game["minds"]["0"]["predicted"]
    np.testing.assert_allclose(numbers(predicted["chances"], moments), guesses["columns"]["chances"], atol=5.1e-5)
    np.testing.assert_allclose(numbers(game["minds"]["0"]["visits"], moments), search["columns"]["visits"], atol=5.1e-5)
    assert told["seats"] == list(range(5))
    assert told["seat_names"][:3] == ["stalker 1", "stalker 2", "zealot 3"]
    # Whom a seat sees can be told apart, though both sides have the same names and numbers.
    assert [piece["name"] for piece in told["pieces"]][4:7] == ["zealot 5", "enemy stalker 1", "enemy stalker 2"]
    assert told["moves"] == {"2": [0, -1], "3": [0, 1], "4": [1, 0], "5": [-1, 0]}


def test_shots_go_from_who_attacks_to_whom(battle: Recording) -> None:
    shots = read(watch_page([battle]))["games"][0]["shots"]
    expected = [[[seat, 5 + act - 6] for seat, act in enumerate(row) if act >= 6] for row in battle["actions"].tolist()]
    assert any(expected)
    assert shots == expected


def test_the_picture_shows_where_something_happens(battle: Recording) -> None:
    left, top, width, height = read(watch_page([battle]))["view"]
    stage = battle.header["stage"]
    assert width * height < 0.75 * stage["width"] * stage["height"]
    x, y = battle["x"][battle["there"]], battle["y"][battle["there"]]
    assert left < x.min()
    assert x.max() < left + width
    assert top < y.min()
    assert y.max() < top + height
    board = filmed("foraging", steps=3)
    assert film([board])["view"] == [0, 0, 8, 8]


def test_a_finding_states_both_means(battle: Recording) -> None:
    places = battle.beliefs[0]
    off, stay = places["columns"]["distance"], places["columns"]["stay_distance"]
    known = ~np.isnan(off)
    assert finding(battle, places) == (
        f"Where the agent thinks the others are {HORIZON} steps later is off by {off[known].mean():.2f} map units on "
        f'average ({known.sum()} steps); "they stay where they are" is off by {stay[known].mean():.2f}: the belief is '
        "closer."
    )
    assert finding(battle, places).replace('"', "&quot;").replace("'", "&#x27;") in watch_page([battle])
    worse = {**places, "columns": {**places["columns"], "distance": stay + 1}}
    assert "the belief is no closer." in finding(battle, worse)
    nothing = {**places, "columns": {**places["columns"], "distance": np.full_like(off, np.nan)}}
    assert finding(battle, nothing) == (
        "There is nothing to compare: at no step are both what it believes and where they were 3 steps later known."
    )


def test_predicted_actions_stand_beside_the_same_as_before() -> None:
    game = filmed("foraging", steps=4)
    belief = next(one for one in game.beliefs if one["kind"] == "actions")
    did, seat = np.array([[1, 2], [1, 2], [4, 2], [4, 4]], np.int16), belief["seats"][0]
    assert seat == 1
    game = changed(game, {"actions": did})
    chances_ = np.full((5, 1, 6), 0.1, np.float32)
    for step, likeliest in enumerate((2, 2, 3, 4, 0)):
        chances_[step, 0, likeliest] = 0.5
    belief["columns"]["chances"] = chances_
    # The first step has none before it: right in two of three, the same as before in two of three.
    assert guesses(game, belief) == (pytest.approx(2 / 3), pytest.approx(2 / 3), 3)
    chances_[2, 0] = np.nan
    assert guesses(game, belief) == (1.0, 0.5, 2)
    assert guessing(game, belief) == (
        "What the agent thinks likeliest is what the others do in 100 % of 2 cases; "
        '"they do the same as in the step before" holds in 50 %: it is right more often than that.'
    )
    gone = game["there"].copy()
    gone[:, game.header["seats"][seat]["piece"]] = False
    assert guessing(changed(game, {"there": gone}), belief).startswith("There is nothing to compare with")


def test_logits_become_chances_of_what_is_legal() -> None:
    scores = np.log(np.float32([[1, 3, 6], [2, 2, 5]]))
    legal = np.array([[True, True, False], [True, True, True]])
    np.testing.assert_allclose(chances("logits", scores, legal), [[0.25, 0.75, 0], [2 / 9, 2 / 9, 5 / 9]], atol=1e-6)
    np.testing.assert_array_equal(chances("probabilities", scores, legal), scores)
    silent = chances("logits", np.full((1, 2), np.nan), np.ones((1, 2), bool))
    assert np.isnan(silent).all()
    partly = chances("logits", np.float32([[np.nan, 0, 0]]), np.ones((1, 3), bool))
    np.testing.assert_allclose(partly, [[0, 0.5, 0.5]])


def test_the_first_difference_of_two_games(battle: Recording, other: Recording) -> None:
    assert difference([battle]) is None
    assert difference([battle, battle]) is None
    unlike = battle["actions"].copy()
    unlike[7, 2] = (unlike[7, 2] + 1) % 11
    names = [action["name"] for action in battle.header["actions"]]
    assert difference([battle, changed(battle, {"actions": unlike})]) == {
        "step": 7,
        "what": f"The first difference is in step 7: zealot 3 chooses {names[battle['actions'][7, 2]]} on the one side "
        f"and {names[unlike[7, 2]]} on the other.",
    }
    hurt = battle["health"].copy()
    hurt[9:, 3] *= 0.5
    assert difference([battle, changed(battle, {"health": hurt})]) == {
        "step": 9,
        "what": "After the same actions, the games differ from step 9 on.",
    }
    page = watch_page([battle, other])
    assert read(page)["difference"] == difference([battle, other])
    assert 'id="stage-1"' in page
    assert names_of([battle, other]) == ["random", "another"]
    assert names_of([battle, battle]) == ["random, first", "random, second"]
    later = [changed(battle, t_env=steps) for steps in (1000, 20000)]
    assert names_of(later) == ["random after 1,000 steps", "random after 20,000 steps"]


def test_unlike_games_and_games_without_a_picture_are_refused(battle: Recording) -> None:
    with pytest.raises(UserError, match=r"only if they are alike; game differs: sc2 and foraging\."):
        watch_page([battle, filmed("foraging", steps=3)])
    unseen = filmed("foraging", steps=3, believes=False)
    header = unseen.header | {"stage": None, "pieces": []}
    header["seats"] = [seat | {"piece": None} for seat in header["seats"]]
    columns = dict(unseen)
    for name in ("x", "y", "there", "health", "shield", "cooldown", "written"):
        columns[name] = columns[name][:, :0]
    with pytest.raises(UserError, match="There is no picture of foraging"):
        watch_page([Recording(header, columns)])


def test_hostile_names_are_text(battle: Recording) -> None:
    header = battle.header
    seats = [seat | {"label": HOSTILE} for seat in header["seats"]]
    pieces = [piece | {"name": HOSTILE} for piece in header["pieces"]]
    actions = [action | {"name": HOSTILE} for action in header["actions"]]
    facts = {HOSTILE: 1.0}
    hostile = changed(
        battle, algorithm=HOSTILE, scenario=HOSTILE, seats=seats, pieces=pieces, actions=actions, facts=facts
    )
    page = watch_page([hostile, hostile], HOSTILE)
    assert "<img" not in page
    assert "\x1b" not in page
    assert page.count("</script>") == 2
    assert read(page)["actions"][0] == HOSTILE


def test_the_policy_names_the_only_script_and_style(battle: Recording) -> None:
    page = watch_page([battle])
    policy = re.findall(r'Content-Security-Policy" content="([^"]*)"', page)[0]
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    for kind, text in (("script", script()), ("style", re.findall(r"<style>(.*?)</style>", page, re.DOTALL)[0])):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy
    assert page.count("<script>") == page.count("<style>") == 1
    assert not re.findall(r"https?://(?!www\.w3\.org/2000/svg)", page)


def test_pages_are_small_and_too_long_games_lose_their_numbers(
    battle: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert len(watch_page([filmed("sc2", map_name="8m", steps=60)])) < 500_000
    whole = len(json.dumps(film([battle]), separators=(",", ":")))
    monkeypatch.setattr(pages, "_MOST", whole - 1)
    assert read(watch_page([battle]))["games"][0]["obs"] == {}
    monkeypatch.setattr(pages, "_MOST", 1000)
    with pytest.raises(UserError, match="This game is too long for a page"):
        watch_page([battle])


@pytest.mark.parametrize(("steps", "a_second"), [(3, 2.0), (16, 2.0), (24, 3.0), (50, 6.25), (400, 8.0)])
def test_games_are_shown_at_a_pace_that_eyes_follow(steps: int, a_second: float) -> None:
    assert pace(steps) == a_second


@pytest.mark.skipif(shutil.which("node") is None, reason="needs Node")
def test_the_scripts_own_arithmetic() -> None:
    """Numbers as people read them, ticks of an axis, and what a seat sees."""
    film_of_two = {"seats": [0, 1], "sight": 2, "sight_square": False}
    game = {"x": [[0, 1.5]], "y": [[0, 1.5]]}
    asked = f"""
    const film = {json.dumps(film_of_two)}, game = {json.dumps(game)};
    console.log(JSON.stringify([
      [0, 0.001234, 1.005, -2.5, 12.34, 123.4, null].map(written), ticks(0.9), ticks(23, 4),
      sees(film, game, 0, 1, 0), sees({{ ...film, sight_square: true }}, game, 0, 1, 0), percent(0.256)]));
    """
    source = script().rstrip("}") + asked + "}"
    done = subprocess.run(["node", "-e", source], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == [
        ["0.00", "0.0012", "1.00", "\u22122.50", "12.3", "123", "\u2013"],
        [0, 0.5, 1],
        [0, 10, 20, 30],
        False,
        True,
        "26\u00a0%",
    ]


def test_films_and_pictures_of_steps(battle: Recording, tmp_path: Path) -> None:
    short = filmed("foraging", steps=4)
    with Image.open(export_game(short, tmp_path / "a.gif", width=200)) as film_of_it:
        assert (film_of_it.n_frames, film_of_it.size[0]) == (5, 200)
        assert [frame.info["duration"] for frame in ImageSequence.Iterator(film_of_it)] == [500, 500, 500, 500, 1500]
    with Image.open(export_game(battle, tmp_path / "b.png", step=0)) as first:
        start = np.asarray(first.convert("RGB"))
    with Image.open(export_game(battle, tmp_path / "c.png", step=15)) as later:
        end = np.asarray(later.convert("RGB"))
    assert start.shape == end.shape
    assert (start != end).any()
    text = export_game(battle, tmp_path / "d.svg", step=3).read_text()
    assert "step 3 of 20" in text
    assert export_game(battle, tmp_path / "e.svg", step=3).read_text() == text
    # A ghost is drawn where the belief has it, in the colour of beliefs.
    shots = Shots(short)
    places = short.beliefs[0]["columns"]
    (line,) = [text.get_text() for text in shots.figure(1).texts if "belief off by" in text.get_text()]
    assert f"belief off by {places['distance'][1]:.2f}" in line
    circles = [tuple(patch.center) for patch in shots.figure(1).axes[0].patches if hasattr(patch, "center")]
    assert any(np.allclose(place, (places["x"][1, 0], places["y"][1, 0])) for place in circles)


def test_pictures_show_what_others_are_thought_to_do(battle: Recording) -> None:
    shots, step = Shots(battle), 5
    (belief,) = (one for one in battle.beliefs if one["kind"] == "actions")
    likeliest = belief["columns"]["chances"][step].argmax(axis=-1)
    moves = {2: (0, -1), 3: (0, 1), 4: (1, 0), 5: (-1, 0)}
    expected = []
    for seat, action in zip(belief["seats"], likeliest, strict=True):
        if battle["there"][step, seat] and int(action) in moves:
            expected.append((seat, moves[int(action)]))
    arrows = [one for one in shots._guesses(step) if one.end != one.start]
    for seat, (dx, dy) in expected:
        x, y = battle["x"][step, seat], battle["y"][step, seat]
        size = battle.header["pieces"][seat]["size"]
        assert any(np.allclose(one.start, (x + 1.1 * size * dx, y + 1.1 * size * dy), atol=1e-4) for one in arrows)
    attacks = [battle.header["actions"][int(action)]["piece"] for action in likeliest if action >= 6]
    aimed = [piece for piece in attacks if battle["there"][step, piece]]
    assert len(arrows) == len(expected) + len(aimed) > 0


def test_a_film_needs_ffmpeg(battle: Recording, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pictures.shutil, "which", lambda name: None)
    monkeypatch.setitem(__import__("sys").modules, "imageio_ffmpeg", None)
    with pytest.raises(UserError, match=r"Install it with: pip install 'omg-marl\[video\]'"):
        export_game(battle, tmp_path / "a.mp4")
    assert list(tmp_path.iterdir()) == []


def test_a_film_is_one(tmp_path: Path) -> None:
    pytest.importorskip("imageio_ffmpeg", reason="needs the extra 'video'")
    data = export_game(filmed("foraging", steps=3), tmp_path / "a.mp4", width=160).read_bytes()
    assert data[4:8] == b"ftyp"


@pytest.mark.parametrize(
    ("name", "words", "said"),
    [
        ("a.bmp", {}, r"export: got 'a.bmp'. Allowed: a file that ends in .gif, .mp4, .png, .svg."),
        ("a.gif", {"step": 3}, "step: got 3, but a .gif shows all steps."),
        ("a.png", {"step": 21}, "step: got 21, allowed: 0 to 20"),
        ("a.png", {"seat": 5}, "seat: got 6, allowed: 1 to 5"),
    ],
)
def test_exports_that_cannot_be_are_refused(battle: Recording, name: str, words: dict[str, int], said: str) -> None:
    with pytest.raises(UserError, match=said):
        check_export(battle, name, **words)


def test_the_command_makes_a_page_and_a_film(
    battle: Recording, other: Recording, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    battle.write("a.omgrec")
    other.write("b.omgrec")
    assert main(["watch", "a.omgrec", "--beside", "b.omgrec", "--export", "c.svg", "--step", "2"]) == 0
    assert capsys.readouterr().out == "Page: a.html\nPicture: c.svg\n"
    assert read(Path("a.html").read_text()) == json.loads(json.dumps(film([battle, other])))
    assert main(["watch", "a.omgrec", "--export", "a.gif", "--export", "b.svg", "--step", "3"]) == 0
    assert capsys.readouterr().out == "Page: a.html\nFilm: a.gif\nPicture: b.svg\n"
    assert "step 3 of" in Path("b.svg").read_text()
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", lambda address: bool(opened.append(address)))
    assert main(["watch", "a.omgrec", "-o", "p/q.html", "--open", "--note", "The <first> one."]) == 0
    assert '<p class="small note">The &lt;first&gt; one.</p>' in Path("p/q.html").read_text()
    assert opened == [(tmp_path / "p" / "q.html").as_uri()]
    assert capsys.readouterr().out == "Page: p/q.html\nNo browser was found to open it with.\n"
    for words, said in (
        (["c.svg"], "no recording"),
        (["a.omgrec", "-o", "x.gif"], "--output: got 'x.gif'. Allowed: FILE.html"),
        (["a.omgrec", "--step", "2"], "--step: got 2, but nothing is exported."),
        (["a.omgrec", "--export", "a.gif", "--step", "2"], "step: got 2, but a .gif shows all steps."),
    ):
        assert main(["watch", *words]) == 2
        assert said in capsys.readouterr().err


def test_whoever_plays_can_be_watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    """Two scripts play the same game from the same start; a recording is no player."""
    monkeypatch.chdir(tmp_path)
    words = ["--env-config=foraging", "env_args.sight=2", "env_args.episode_limit=6", "--seed", "4"]
    assert main(["watch", "random", "--beside", "nearest_food", *words]) == 0
    assert "Page: random.html" in capsys.readouterr().out
    told = read(Path("random.html").read_text())
    random, hungry = told["games"]
    assert (told["sight"], told["sight_square"], random["steps"]) == (2, True, 6)
    assert random["x"][0] == hungry["x"][0]
    pairs = zip(random["actions"], hungry["actions"], strict=False)
    assert told["difference"]["step"] == next(step for step, (one, other) in enumerate(pairs) if one != other)
    filmed("foraging", steps=3).write("a.omgrec")
    assert main(["watch", "a.omgrec", "--pool", "POOL"]) == 2
    assert "--pool: got 'POOL', but 'a.omgrec' is a game that has been played." in capsys.readouterr().err
