"""The format of recordings: what is written is read again, and what is damaged or hostile is refused in one line."""

import copy
import json
import re
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import omg
from omg.recordings.columns import BELIEFS, GAME, Series
from omg.recordings.packing import MAGIC, MOST_FILE

ROOT = Path(__file__).parents[2]

HEADER = {
    "omg": "0.1.0",
    "game": "foraging",
    "scenario": "8x8-2p-3f",
    "env_args": {"players": 2, "deep": {"list": [1, 2.5, None, "text"]}},
    "stage": {"left": 0.0, "top": 0.0, "width": 8.0, "height": 8.0, "cells": True},
    "pieces": [
        {"name": "player 1", "label": "1", "colour": "#0b6fb8", "size": 0.36},
        {"name": "player 2", "label": "2", "colour": "#c02f3a", "size": 0.36},
        {"name": "food", "label": "", "colour": "#2a8c4a", "size": 0.3, "square": True},
    ],
    "actions": [{"name": "stay"}, {"name": "up", "dy": -1.0}, {"name": "load", "piece": 2}],
    "seats": [
        {"label": "ours", "algorithm": "iql_omg", "learns": True, "piece": 0, "values": "q"},
        {"label": "vdn_3", "algorithm": "vdn", "learns": False, "piece": 1},
    ],
    "algorithm": "iql_omg",
    "seed": 7,
    "ended": "truncated",
    "facts": {"return": 0.5, "steps": 4.0},
    "beliefs": [
        {"kind": "places", "seat": 0, "source": "subgoal", "pieces": [1], "horizon": 3},
        {"kind": "actions", "seat": 0, "source": "naive_am", "seats": [1]},
        {"kind": "goals", "seat": 0, "source": "goals", "seats": [1], "goals": [{"name": "stag"}, {"name": "hare"}]},
        {"kind": "search", "seat": 0, "source": "search"},
    ],
}
SIZES = {"T": 4, "T+1": 5, "P": 3, "A": 2, "U": 3, "R": 1, "O": 6, "S": 5, "J": 1, "G": 2}


def filled(column: Series, rng: np.random.Generator) -> np.ndarray:
    shape = tuple(SIZES[axis] for axis in column.axes)
    if column.type == "bit":
        return rng.random(shape) < 0.5
    if column.type == "i2":
        return rng.integers(0, SIZES["U"], shape).astype(np.int16)
    values = rng.random(shape).astype(np.float32)
    if column.unknown:
        values[0] = np.nan
    return values


def everything() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    columns = {column.name: filled(column, rng) for column in GAME}
    for number, belief in enumerate(HEADER["beliefs"]):
        columns |= {f"beliefs.{number}.{column.name}": filled(column, rng) for column in BELIEFS[belief["kind"]]}
    return columns


@pytest.fixture
def game() -> omg.Recording:
    return omg.Recording(HEADER, everything())


def refused(data: bytes) -> str:
    with pytest.raises(omg.UserError) as caught:
        omg.Recording.from_bytes(data, "some\x1b[2J.omgrec")
    message = str(caught.value)
    assert "\n" not in message
    assert "\x1b" not in message
    assert len(message) < 600
    return message


def taken_apart(data: bytes) -> tuple[dict, bytes]:
    length = int.from_bytes(data[8:16], "little")
    return json.loads(data[16 : 16 + length]), data[16 + length :]


def put_together(head: object, rest: bytes) -> bytes:
    text = head if isinstance(head, bytes) else json.dumps(head).encode()
    return MAGIC + len(text).to_bytes(8, "little") + text + rest


def test_what_is_written_is_read_again(game: omg.Recording, tmp_path: Path) -> None:
    read = omg.Recording.read(game.write(tmp_path / "deep" / "game.omgrec"))
    assert read.header == game.header
    assert read.header["env_args"] == HEADER["env_args"]
    assert set(read) == set(game) == set(everything())
    for name, values in everything().items():
        np.testing.assert_array_equal(read[name], values)
        assert read[name].dtype == values.dtype
    assert read.to_bytes() == game.to_bytes()
    assert (read.steps, repr(read)) == (4, "Recording(iql_omg in foraging 8x8-2p-3f: 4 steps)")


def test_beliefs_come_with_their_columns(game: omg.Recording) -> None:
    places, actions, goals, search = game.beliefs
    assert (places["kind"], places["seat"], places["pieces"], places["horizon"]) == ("places", 0, [1], 3)
    np.testing.assert_array_equal(places["columns"]["later_x"], game["beliefs.0.later_x"])
    assert actions["columns"]["chances"].shape == (5, 1, 3)
    assert goals["columns"]["chances"].shape == (5, 1, 2)
    assert set(search["columns"]) == {"chances", "visits", "values", "value"}


def test_a_game_may_have_no_steps_no_pieces_and_no_beliefs() -> None:
    header = HEADER | {"stage": None, "pieces": [], "beliefs": [], "actions": [{"name": "stay"}]}
    header["seats"] = [{"label": "one", "algorithm": "random", "learns": False}]
    sizes = SIZES | {"T": 0, "T+1": 1, "P": 0, "A": 1, "U": 1}
    columns = {
        column.name: np.zeros([sizes[axis] for axis in column.axes], bool if column.type == "bit" else np.float32)
        for column in GAME
        if column.needed
    }
    again = omg.Recording.from_bytes(omg.Recording(header, columns).to_bytes())
    assert (again.steps, again["x"].shape, again["avail"].shape) == (0, (1, 0), (1, 1, 1))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda columns: columns.pop("x"), "column x is missing"),
        (lambda columns: columns.pop("actions"), "column actions is missing"),
        (lambda columns: columns.update(x=columns["x"][:4]), "column x has 4 along T+1, expected 5"),
        (lambda columns: columns.update(x=columns["x"][..., None]), "column x has 3 axes, expected 2"),
        (lambda columns: columns.update(x=columns["x"] * np.nan), "column x has numbers outside"),
        (lambda columns: columns.update(health=columns["health"] + 1), "column health has numbers outside 0 to 1"),
        (lambda columns: columns.update(actions=columns["actions"] + 9), "action that is not one of 3"),
        (lambda columns: columns.update(avail=columns["avail"] * 1.0), "column avail holds no truth values"),
        (lambda columns: columns.update(x=columns["x"].astype(str)), "column x holds no numbers"),
        (lambda columns: columns.update(rewards=np.zeros((4, 3), np.float32)), "column rewards has 3 along R"),
        (lambda columns: columns.update({"../../x": columns["x"]}), "there is no column '../../x'"),
        (lambda columns: columns.update({"beliefs.9.x": columns["x"]}), "there is no column 'beliefs.9.x'"),
    ],
)
def test_columns_that_do_not_fit_are_refused(change, said: str) -> None:
    columns = everything()
    change(columns)
    with pytest.raises(omg.UserError, match=re.escape(said)):
        omg.Recording(HEADER, columns)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("format",), 2),
        (("game",), 5),
        (("game",), "x" * 500),
        (("seed",), -1),
        (("seed",), 1.5),
        (("ended",), "never"),
        (("facts", "return"), float("inf")),
        (("stage", "width"), float("nan")),
        (("pieces", 0, "colour"), "red"),
        (("pieces", 0, "colour"), '#000000" onload="alert(1)'),
        (("pieces", 0, "size"), -1.0),
        (("seats", 0, "piece"), 99),
        (("actions", 2, "piece"), 3),
        (("seats", 0, "values"), "money"),
        (("beliefs", 0, "seat"), 2),
        (("beliefs", 0, "pieces"), [7]),
        (("beliefs", 0, "kind"), "wishes"),
        (("beliefs", 3, "extra"), 1),
        (("env_args",), {"a": [[[[[[[[[[]]]]]]]]]]}),
        (("env_args",), {"a": float("nan")}),
        (("more",), 1),
    ],
)
def test_headers_that_do_not_fit_are_refused(game: omg.Recording, path: tuple, value: object) -> None:
    head, rest = taken_apart(game.to_bytes())
    inner = head["header"]
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    refused(put_together(head, rest))
    with pytest.raises(omg.UserError):
        omg.Recording(head["header"], everything())


def test_heads_that_are_none_are_refused(game: omg.Recording) -> None:
    _, rest = taken_apart(game.to_bytes())
    for wrong in (b"", b"{", b"[]", b"null", b"[" * 100_000, b'{"header": {}}', b"\xff\xfe", b"1" * 5000):
        assert "no recording: its head" in refused(put_together(wrong, rest))


def test_truncated_and_lengthened_files_are_refused(game: omg.Recording) -> None:
    data = game.to_bytes()
    for length in (0, 4, 8, 12, 16, 20, len(data) // 2, len(data) - 1):
        refused(data[:length])
    assert "something follows" in refused(data + b"x")
    assert "another version" in refused(data[:7] + b"\x02" + data[8:])
    assert "claims" in refused(data[:8] + b"\xff" * 8 + data[16:])


def test_no_column_unpacks_to_more_than_its_shape(game: omg.Recording) -> None:
    head, rest = taken_apart(game.to_bytes())
    first = head["columns"][0]
    bomb = zlib.compress(bytes(50_000_000))
    changed = copy.deepcopy(head)
    changed["columns"][0]["bytes"] = len(bomb)
    assert "column x unpacks to another size than 60 bytes" in refused(
        put_together(changed, bomb + rest[first["bytes"] :])
    )
    for shape in ([1_000_000, 1_000_000], [5, 3, 1_000_000, 1_000_000], [-1, 3], [5, 2**40], [1.5, 3], ["5", 3]):
        changed = copy.deepcopy(head)
        changed["columns"][0]["shape"] = shape
        refused(put_together(changed, rest))


@pytest.mark.parametrize(
    ("key", "value"),
    [("name", "../x"), ("name", "y"), ("type", "f8"), ("type", "O"), ("bytes", -1), ("bytes", 10**9), ("more", 1)],
)
def test_entries_of_columns_that_do_not_fit_are_refused(game: omg.Recording, key: str, value: object) -> None:
    head, rest = taken_apart(game.to_bytes())
    head["columns"][0][key] = value
    refused(put_together(head, rest))


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_damaged_files_are_refused_or_read_whole(data: st.DataObject) -> None:
    whole = bytearray(omg.Recording(HEADER, everything()).to_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    try:
        found = omg.Recording.from_bytes(bytes(whole))
    except omg.UserError:
        refused(bytes(whole))
    else:
        assert found.steps == 4
        assert np.isfinite(found["x"]).all()


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    large = tmp_path / "large.omgrec"
    with large.open("wb") as file:
        file.truncate(MOST_FILE + 1)
    for path, said in ((tmp_path, "no ordinary file"), (tmp_path / "none", "cannot be read"), (large, "at most")):
        with pytest.raises(omg.UserError, match=said):
            omg.Recording.read(path)


def test_the_page_names_every_column_as_it_is() -> None:
    text = (ROOT / "docs" / "recordings.md").read_text()
    rows = [
        f"| `{column.name}` | [{', '.join(column.axes)}] | {column.type} | {'no' if column.needed else 'yes'} "
        f"| {column.what} |"
        for columns in (GAME, *BELIEFS.values())
        for column in columns
    ]
    assert [line for line in text.splitlines() if re.match(r"\| `\w+` \| \[", line)] == rows
    for kind in BELIEFS:
        assert f"### {kind}\n" in text
