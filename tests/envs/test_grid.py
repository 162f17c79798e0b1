"""What the games on a board share: sets of cells as bits, shortest ways, random starts, pictures."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import ndimage

from helpers.positions import distances
from omg.envs import make_env
from omg.envs.grid.bits import apart, neighbours, one_step_short, pack, unpack, words_of
from omg.envs.grid.board import Board
from omg.envs.grid.start import new_board
from omg.envs.grid.walking import contains

ALL_AROUND = np.ones((3, 3), int)


def connected(free: np.ndarray) -> np.ndarray:
    """Whether the free cells of each board [N, H, W] are one region: a flood from the first of them, [N] bool."""
    count = len(free)
    flat = free.reshape(count, -1)
    reached = np.zeros_like(flat)
    reached[np.arange(count), flat.argmax(axis=1)] = flat.any(axis=1)
    reached = reached.reshape(free.shape)
    while True:
        padded = np.pad(reached, ((0, 0), (1, 1), (1, 1)))
        beside = padded[:, :-2, 1:-1] | padded[:, 2:, 1:-1] | padded[:, 1:-1, :-2] | padded[:, 1:-1, 2:]
        grown = reached | (beside & free)
        if (grown == reached).all():
            return (reached == free).all(axis=(1, 2))
        reached = grown


def drawn(
    height: int, width: int, blocks: int, pieces: int, games: int, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Obstacles [N, H, W] bool and the cells of pieces [N, pieces] of many starts."""
    board = Board(height, width)

    @jax.jit
    def start(key: jax.Array) -> tuple[jax.Array, jax.Array]:
        taken, cells = new_board(board, blocks, pieces, key, games)
        return unpack(taken, board.cells), cells

    taken, placed = (np.asarray(found) for found in start(jax.random.key(seed)))
    return taken.reshape(games, height, width), placed


# ------------------------------------------------------------------------------------------------ bits


@pytest.mark.parametrize("board", [Board(3, 3), Board(8, 8), Board(6, 11), Board(16, 16)], ids=str)
def test_bits_hold_the_same_cells(board: Board) -> None:
    random = np.random.default_rng(0)
    cells = random.random((5, board.cells)) < 0.4
    words = np.asarray(jax.jit(pack)(cells))
    assert (words.shape, words.dtype) == ((5, board.words), jnp.uint32)
    unpacked = jax.jit(lambda words: unpack(words, board.cells))
    np.testing.assert_array_equal(unpacked(words), cells)
    assert words[0].tolist() == words_of(cells[0]).tolist()
    asked = random.integers(0, board.cells, (7, 5))
    found = jax.jit(contains)(words.T, asked)
    np.testing.assert_array_equal(found, cells[np.arange(5), asked])
    grid = np.pad(cells.reshape(5, board.height, board.width), ((0, 0), (1, 1), (1, 1)))
    expected = (grid[:, 2:, 1:-1], grid[:, :-2, 1:-1], grid[:, 1:-1, 2:], grid[:, 1:-1, :-2])
    sides = jax.jit(lambda words: [jnp.stack(side, axis=-1) for side in neighbours(board, apart(words))])(words)
    for side, shifted in zip(sides, expected, strict=True):
        np.testing.assert_array_equal(unpacked(side), shifted.reshape(5, -1))


@pytest.mark.parametrize("board", [Board(7, 5), Board(6, 12)], ids=str)
def test_one_step_short_knows_every_cell_that_is_nearer(board: Board) -> None:
    games, random = 40, np.random.default_rng(1)
    shape = (games, board.height, board.width)
    free = random.random(shape) < 0.7
    goals = free & (random.random(shape) < 0.05)
    start = np.zeros(shape, bool)
    for game in range(games):
        row, col = random.choice(np.argwhere(free[game] & ~goals[game]))
        start[game, row, col] = game % 10 > 0

    @jax.jit
    def found(*sets: jax.Array) -> jax.Array:
        nearer = one_step_short(board, *(apart(pack(cells)) for cells in sets))
        return unpack(jnp.stack(nearer, axis=-1), board.cells)

    nearer = np.asarray(found(*(cells.reshape(games, -1) for cells in (start, goals, free)))).reshape(shape)
    reachable = 0
    for game in range(games):
        steps = distances(free[game], goals[game])
        mine = steps[start[game]].min(initial=np.inf)
        reachable += np.isfinite(mine)
        np.testing.assert_array_equal(nearer[game], steps < mine)
    assert reachable > 15


# ------------------------------------------------------------------------------------------------ starts

SIZES = [(size, size) for size in range(4, 11)] + [(3, 3), (3, 16), (16, 16)]


@pytest.mark.parametrize(("height", "width"), SIZES)
def test_no_start_ever_fails(height: int, width: int) -> None:
    """For every size 1,000 starts with the default pieces, or as many as fit, and 100 that fill the board."""
    cells = height * width
    for blocks, pieces, games in ((5, min(9, cells), 1000), (20, cells - (7 if cells > 20 else 0), 100)):
        taken, placed = drawn(height, width, blocks, pieces, games)
        assert connected(~taken).all()
        assert (cells - taken.sum(axis=(1, 2)) >= pieces).all()
        assert (np.diff(np.sort(placed.astype(int), axis=1), axis=1) > 0).all()
        assert not np.take_along_axis(taken.reshape(games, -1), placed.astype(int), axis=1).any()
        assert placed.max() < cells
        assert taken.any() == (pieces <= cells - 3)


def test_obstacles_are_separate_and_straight_or_bent() -> None:
    taken, _ = drawn(8, 8, 5, 9, 400)
    counts = []
    for one in taken:
        labels, found = ndimage.label(one, ALL_AROUND)
        counts.append(found)
        for part in ndimage.find_objects(labels):
            height, width = one[part].shape
            # Straight: one row or column. L: a bounding box of two rows or columns, filled along one side.
            assert one[part].sum() in (3, 4)
            assert min(height, width) == 1 or (min(height, width) == 2 and one[part].sum() == height + width - 1)
            corners = one[part][[0, 0, -1, -1], [0, -1, 0, -1]]
            assert min(height, width) == 1 or corners.sum() == 3
    assert max(counts) == 5
    assert np.mean(counts) > 4.5
    assert min(counts) >= 2


def test_shapes_and_cells_are_drawn_evenly() -> None:
    games = 6000
    taken, _ = drawn(8, 8, 1, 2, games)
    size = taken.sum(axis=(1, 2))
    straight = np.minimum(taken.any(axis=1).sum(axis=1), taken.any(axis=2).sum(axis=1)) == 1
    for cells, is_straight in ((3, True), (4, True), (3, False), (4, False)):
        share = np.mean((size == cells) & (straight == is_straight))
        assert abs(share - 0.25) < 5 * np.sqrt(0.25 * 0.75 / games)
    _, placed = drawn(4, 4, 0, 2, games)
    pairs = np.bincount(placed[:, 0].astype(int) * 16 + placed[:, 1], minlength=256).reshape(16, 16)
    assert (np.diag(pairs) == 0).all()
    each = games / 240
    assert np.abs(pairs[~np.eye(16, dtype=bool)] - each).max() < 6 * np.sqrt(each)


def test_starts_depend_on_the_key_alone() -> None:
    first, again, other = (drawn(6, 6, 5, 9, 50, seed) for seed in (3, 3, 4))
    assert all((one == same).all() for one, same in zip(first, again, strict=True))
    assert any((one != changed).any() for one, changed in zip(first, other, strict=True))


# ------------------------------------------------------------------------------------------------ pictures


@pytest.mark.parametrize(
    ("name", "args", "pieces"),
    [
        ("stag_hunt", {"size": 6, "map_name": "4h2s"}, {"stag": 2, "hare": 4}),
        ("snowdrift", {"height": 5, "width": 7, "blocks": 2}, {"drift": 6}),
    ],
)
def test_pictures_show_everything_once(name: str, args: dict[str, Any], pieces: dict[str, int]) -> None:
    env = make_env(name, **args)
    state = jax.jit(env.start, static_argnums=1)(jax.random.key(2), 3)
    root = ElementTree.fromstring(env.draw(state, 1))
    titles = [element.text for element in root.iter("{http://www.w3.org/2000/svg}title")]
    assert titles.count("block") == int(env.drawn(state)[1][:, 0][1].sum()) > 0
    assert {kind: titles.count(kind) for kind in pieces} == pieces
    assert [titles.count(f"player {number}") for number in (1, 2, 3, 4, 5)] == [1, 1, 1, 1, 0]
    assert titles[0] == f"step 0 of {env.spec.episode_limit}"
    # Two on one cell stand side by side.
    state = state._replace(player=state.player.at[1, 0].set(state.player[1, 1]))
    circles = ElementTree.fromstring(env.draw(state, 1)).iter("{http://www.w3.org/2000/svg}circle")
    places = [(circle.get("cx"), circle.get("cy")) for circle in circles if circle.get("stroke") == "#ffffff"]
    assert len(places) == len(set(places)) == 4
    if name == "stag_hunt":
        state = state._replace(hunting=state.hunting.at[1, 2].set(False))
        drawing = env.draw(state, 1)
        assert "player 3" not in drawing
        assert "step 0 of 35 · left: 3" in drawing
