"""What games say about their pieces: views tell the places that the picture shows, moves go where they say."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from omg.components import selectors
from omg.envs import ENVS, make_env
from omg.envs.scenes import marked_places, scenery_of

GAMES: list[tuple[str, dict[str, Any]]] = [
    ("sc2", {"map_name": "2s3z"}),
    ("sc2", {"map_name": "8m", "obs_last_action": True, "obs_pathing_grid": True}),
    ("foraging", {"rows": 6, "cols": 7, "players": 3}),
    ("foraging", {"rows": 6, "cols": 7, "players": 3, "relative_positions": True}),
    ("stag_hunt", {"blocks": 2}),
    ("snowdrift", {}),
    ("toy_grid", {}),
    ("predator_prey", {}),
    ("rendezvous", {}),
]


def test_every_built_in_game_is_there() -> None:
    assert {name for name, _ in GAMES} == {name for name, entry in ENVS.items() if not entry.traits.foreign}


@pytest.mark.parametrize(("name", "args"), GAMES)
def test_views_tell_the_places_that_the_picture_shows(name: str, args: dict[str, Any]) -> None:
    env = make_env(name, **args)
    scenery = scenery_of(env)
    assert scenery is not None
    assert (len(scenery.seats), len(scenery.moves)) == (env.spec.n_agents, env.spec.n_actions)
    assert len(scenery.in_obs) == env.spec.n_agents
    state, seen = env.reset(jax.random.PRNGKey(0), 4)
    step, shown, told = jax.jit(env.step), 0, 0
    for number in range(6):
        key = jax.random.PRNGKey(number)
        scene = jax.device_get(scenery.show(state))
        for seat, places in enumerate(scenery.in_obs):
            view = seen.obs[:, seat]
            x, y = (np.asarray(values) for values in places.read(view))
            pieces = list(places.pieces)
            if places.counted_from is not None:
                x, y = x + scene.x[:, [places.counted_from]], y + scene.y[:, [places.counted_from]]
            known = ~np.isnan(x)
            assert (scene.there[:, pieces] | ~known).all()
            np.testing.assert_allclose(x[known], scene.x[:, pieces][known], atol=1e-3)
            np.testing.assert_allclose(y[known], scene.y[:, pieces][known], atol=1e-3)
            told += known.sum()
            shown += scene.there[:, pieces].sum()
        state, seen, _ = step(key, state, selectors.random_legal(jnp.asarray(seen.avail), key))
    # In a battle units are out of sight at first; elsewhere everybody is seen.
    assert told >= (0.5 if name == "sc2" else 1.0) * shown


@pytest.mark.parametrize(("name", "args"), [game for game in GAMES if game[0] != "predator_prey"])
def test_moves_go_where_they_say(name: str, args: dict[str, Any]) -> None:
    env = make_env(name, **args)
    scenery = scenery_of(env)
    assert scenery is not None
    for action, move in enumerate(scenery.moves):
        state, seen = env.reset(jax.random.PRNGKey(1), 16)
        legal = np.asarray(seen.avail)[:, :, action]
        if (move.dx, move.dy) == (0, 0) or not legal[:, 0].any():
            continue
        before = scenery.show(state)
        # Only the first seat moves, so that nobody is in anybody's way; the others stay or stop.
        still = next(number for number, other in enumerate(scenery.moves) if other.name in ("stay", "stop"))
        actions = jnp.full((16, env.spec.n_agents), still).at[:, 0].set(jnp.where(legal[:, 0], action, still))
        after = scenery.show(env.step(jax.random.PRNGKey(2), state, actions)[0])
        piece = scenery.seats[0]
        moved = np.stack([np.asarray(after.x - before.x)[:, piece], np.asarray(after.y - before.y)[:, piece]], axis=1)
        free = legal[:, 0] & (np.abs(moved).sum(axis=1) > 1e-3)
        assert free.any()
        along = moved[free] @ np.array([move.dx, move.dy])
        assert (along > 0.2 * (move.dx**2 + move.dy**2)).all(), (name, move)


def test_marked_places_are_means_by_odds() -> None:
    pictures = np.full((2, 6), 0.01)
    pictures[0, 4], pictures[1] = 0.9, 0.0
    x, y = marked_places(jnp.asarray(pictures), 3)
    np.testing.assert_allclose([x[0], y[0]], [1.5, 1.5], atol=0.05)
    assert np.isnan(x[1])
