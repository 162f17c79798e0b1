"""Replays: every built-in game has scenery, and a page shows what happened."""

from __future__ import annotations

import base64
import json
import re
import zlib
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers.counting import CountingEnv
from helpers.tiny import tiny_config
from omg import api
from omg.components import selectors
from omg.envs import ENVS, make_env
from omg.envs.scenes import Scene, Scenery, scenery_of
from omg.errors import UserError
from omg.recordings import Recording
from omg.recordings.playing import play, script_alone
from omg.report.replays import check_replays, write_replays
from omg.report.watch.page import watch_page

SMALL: dict[str, dict[str, Any]] = {"sc2": {"map_name": "2s3z"}, "foraging": {"rows": 5, "cols": 6}}


@pytest.mark.parametrize("name", [name for name, entry in ENVS.items() if not entry.traits.foreign])
def test_scenes_show_the_game(name: str):
    """Played at random, two games: the pieces stay in the scenery, move, and those of the players are the seats."""
    env = make_env(name, **SMALL.get(name, {}))
    scenery = scenery_of(env)
    assert scenery is not None
    state, seen = env.reset(jax.random.PRNGKey(0), 2)
    scenes = []
    step, show = jax.jit(env.step), jax.jit(scenery.show)
    for number in range(6):
        scenes.append(jax.device_get(show(state)))
        key = jax.random.PRNGKey(number)
        state, seen, _ = step(key, state, selectors.random_legal(jnp.asarray(seen.avail), key))
    scene = Scene(*(np.stack(values) for values in zip(*scenes, strict=True)))
    assert scene.x.shape == (6, 2, len(scenery.pieces))
    for place, low, size in ((scene.x, scenery.left, scenery.width), (scene.y, scenery.top, scenery.height)):
        assert (place[scene.there] >= low - 0.5).all()
        assert (place[scene.there] <= low + size + 0.5).all()
    assert ((scene.health >= 0) & (scene.health <= 1)).all()
    moving = np.abs(np.diff(scene.x, axis=0)) + np.abs(np.diff(scene.y, axis=0)) > 0
    assert moving.any(axis=(0, 1)).sum() >= env.spec.n_agents / 2
    if name != "sc2":
        assert (
            sum(piece.name.startswith(("player", "predator", "prey")) for piece in scenery.pieces) == env.spec.n_agents
        )


def test_a_game_is_written_with_its_page(tmp_path: Path):
    env = make_env("sc2", map_name="2m_vs_1z")
    game = play(script_alone("random", env, {"map_name": "2m_vs_1z"}), 1, 3, views=False)[0]
    (page,) = write_replays(tmp_path / "replays", [game])
    assert page.name == "seed_3_game_01.html"
    text = page.read_text(encoding="utf-8")
    read = Recording.read(page.with_suffix(".omgrec"))
    assert text == watch_page([read])
    packed = re.findall(r'<script id="film" type="text/plain">(.*?)</script>', text)[0]
    told = json.loads(zlib.decompress(base64.b64decode(packed)))
    assert (told["games"][0]["steps"], told["sight"]) == (game.steps, 9.0)
    np.testing.assert_allclose(told["games"][0]["x"], game["x"], atol=5.1e-5)


def test_a_battle_shows_who_falls():
    env = make_env("sc2", map_name="2m_vs_1z")
    scenery = scenery_of(env)
    assert scenery is not None
    state, _ = env.reset(jax.random.PRNGKey(0), 1)
    whole = scenery.show(state)
    hurt = state._replace(ally=state.ally._replace(hp=state.ally.hp.at[1].set(0.0).at[0].set(9.0)))
    shown = scenery.show(hurt)
    np.testing.assert_array_equal(np.asarray(whole.there), [[True, True, True]])
    np.testing.assert_array_equal(np.asarray(shown.there), [[True, False, True]])
    np.testing.assert_allclose(np.asarray(shown.health)[0], [0.2, 0.0, 1.0], atol=1e-6)
    assert [piece.name for piece in scenery.pieces] == ["marine", "marine", "zealot"]
    # North is up on the page, where y grows downwards.
    north = scenery.show(state._replace(ally=state.ally._replace(y=state.ally.y + 1)))
    np.testing.assert_allclose(np.asarray(whole.y - north.y)[0], [1, 1, 0], atol=1e-6)


def test_a_game_of_ones_own_brings_its_picture():
    class Own(CountingEnv):
        def scenery(self) -> Scenery:
            return Scenery(0, 0, 3, 2, True, (), lambda state: state)

    game = make_env("toy_grid")
    assert scenery_of(CountingEnv(game)) is None
    shown = scenery_of(Own(game))
    assert shown is not None
    assert (shown.width, shown.height) == (3, 2)


def test_games_without_a_picture_are_refused(tmp_path: Any, monkeypatch: pytest.MonkeyPatch):
    config = tiny_config(tmp_path, save_replay=True)
    program = api.build_program(config)
    check_replays(config, program)
    monkeypatch.setattr("omg.report.replays.scenery_of", lambda env: None)
    with pytest.raises(UserError, match="save_replay: got True, but there is no picture of foraging"):
        check_replays(config, program)
