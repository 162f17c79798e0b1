"""`render()`: other people's tools can film the built-in games."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import omg
from omg.envs import ENVS
from omg.errors import UserError

OWN = [name for name, entry in ENVS.items() if not entry.traits.foreign]
SMALL: dict[str, dict[str, Any]] = {"sc2": {"map_name": "3m"}}


def played(env: Any, seed: int) -> dict[str, int]:
    rng = np.random.default_rng(seed)
    masks = {agent: env._observations()[agent]["action_mask"] for agent in env.agents}
    return {agent: int(rng.choice(np.flatnonzero(mask))) for agent, mask in masks.items()}


@pytest.mark.parametrize("name", OWN)
def test_a_game_is_an_image_that_changes(name: str) -> None:
    env = omg.make(name, api="pettingzoo", render_mode="rgb_array", **SMALL.get(name, {}))
    assert env.metadata["render_modes"][0] == "rgb_array"
    with pytest.raises(RuntimeError, match="call reset"):
        env.render()
    env.reset(seed=1)
    first = env.render()
    assert (first.dtype, first.ndim, first.shape[2]) == (np.uint8, 3, 3)
    assert len(np.unique(first.reshape(-1, 3), axis=0)) > 5
    np.testing.assert_array_equal(first, env.render())
    frames = []
    for step in range(4):
        env.step(played(env, step))
        frames.append(env.render())
    assert all(frame.shape == first.shape for frame in frames)
    assert any((frame != first).any() for frame in frames)


def test_a_board_is_also_a_text() -> None:
    env = omg.make("foraging", api="pettingzoo", render_mode="ansi", rows=5, cols=6, players=2, max_food=1)
    assert env.metadata["render_modes"] == ["rgb_array", "ansi"]
    env.reset(seed=3)
    text = env.render()
    rows = [line.split() for line in text.splitlines()]
    assert [len(row) for row in rows] == [6] * 5
    obs = env._observations()["agent_0"]["observation"]
    (food_row, food_col, food_level), (own_row, own_col) = obs[:3].astype(int), obs[3:5].astype(int)
    assert rows[food_row][food_col] == f"f{food_level}"
    assert rows[own_row][own_col] == "1"
    assert sorted(cell for row in rows for cell in row if cell != ".") == sorted(["1", "2", f"f{food_level}"])


def test_what_cannot_be_drawn_is_refused() -> None:
    with pytest.raises(UserError, match=r"render_mode: got 'ansi' for sc2\. Allowed: rgb_array\."):
        omg.make("sc2", api="pettingzoo", map_name="3m", render_mode="ansi")
    with pytest.raises(UserError, match=r"render_mode: got 'human' for foraging\. Allowed: rgb_array, ansi\."):
        omg.make("foraging", api="pettingzoo", render_mode="human")
    env = omg.make("foraging", api="pettingzoo")
    env.reset()
    assert env.render() is None


def test_pettingzoos_own_tests_pass_with_pictures() -> None:
    from pettingzoo.test import parallel_api_test
    from pettingzoo.test.render_test import render_test
    from pettingzoo.utils.conversions import parallel_to_aec

    def make(render_mode: str | None = None) -> Any:
        return omg.make("foraging", api="pettingzoo", rows=6, cols=6, episode_limit=8, render_mode=render_mode)

    parallel_api_test(make("rgb_array"), num_cycles=12)
    # It asks for a window first, to read the modes; there are none.
    render_test(lambda render_mode: parallel_to_aec(make(None if render_mode == "human" else render_mode)))


def test_pymarls_render_is_an_image() -> None:
    env = omg.make("toy_grid", api="pymarl")
    env.reset()
    assert env.render().shape[2] == 3
