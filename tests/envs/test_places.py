"""Places that games read off their state are those of their pictures; guesses are read as places, too."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from pydantic import TypeAdapter

from omg.config import resolve
from omg.controllers.others import steps_of_others
from omg.controllers.places import place_reader
from omg.envs import ENVS, EnvSpec, make_env
from omg.envs.places import CellPlace, NumberPlace
from omg.envs.scenes import scenery_of

BUILT_IN = [name for name, entry in ENVS.items() if not entry.traits.foreign]
GAMES, STEPS = 4, 6


def played(env: Any, steps: int) -> list[tuple[Any, Any]]:
    """State and observation before every step of random legal play, and behind the last one."""
    key = jax.random.key(5)
    state, observation = env.reset(key, GAMES)
    found = [(state, observation)]
    step = jax.jit(env.step)
    for time in range(steps):
        chosen = jax.random.categorical(jax.random.key(time), jnp.where(observation.avail, 0.0, -jnp.inf))
        state, observation, _ = step(jax.random.fold_in(key, time), state, chosen)
        found.append((state, observation))
    return found


@pytest.mark.parametrize("name", BUILT_IN)
def test_places_in_the_state_are_those_of_the_picture(name: str) -> None:
    env = make_env(name)
    spec, scenery = env.spec, scenery_of(env)
    assert spec.seat_places is not None
    assert scenery is not None
    read, seats = steps_of_others(spec), spec.n_agents
    look, moved = jax.jit(scenery.show), []
    for state, observation in played(env, STEPS):
        places = spec.seat_places.read(read.blocks_of(observation.state))
        assert places.x.shape == (GAMES, seats)
        scene = look(state)
        moved.append(np.stack([places.x, places.y]))
        for game, seat in np.argwhere(np.asarray(places.there)):
            # Pictures may show players side by side in a cell.
            away = np.hypot(scene.x[game] - places.x[game, seat], scene.y[game] - places.y[game, seat])
            assert away[np.asarray(scene.there[game])].min() < 0.4
    assert np.ptp(np.stack(moved), axis=0).max() > 0.05


def test_guessed_cells_are_the_middle_of_what_is_thought_likely() -> None:
    place, picture = CellPlace(2, 3), np.zeros((3, 7), np.float32)
    picture[0, 5] = 1  # The last cell; the number behind the picture is none of its business.
    picture[1, [0, 2, 3]] = 0.5, 0.5, -0.7
    picture[:, 6] = 9
    found = place.read(jnp.asarray(picture))
    np.testing.assert_allclose(found.x, [2.5, 1.5, 1.5], atol=1e-6)
    np.testing.assert_allclose(found.y, [1.5, 0.5, 1.0], atol=1e-6)
    np.testing.assert_array_equal(found.there, [True, True, False])


def test_numbers_are_scaled_and_the_dead_are_not_there() -> None:
    place = NumberPlace(x=2, y=0, x_scale=4.0, y_scale=-2.0, offset=1.0, alive=1)
    found = place.read(jnp.asarray([[1.0, 0.5, 2.0], [0.0, 0.0, 0.0]]))
    np.testing.assert_allclose(found.x, [9.0, 1.0])
    np.testing.assert_allclose(found.y, [-1.0, 1.0])
    np.testing.assert_array_equal(found.there, [True, False])


def test_the_places_of_others_follow_round_the_table() -> None:
    env = make_env("stag_hunt")
    state = played(env, 2)[-1][1].state
    read = place_reader(resolve("iql_omg", "stag_hunt", {"subgoal_of": "others"}).config, env.spec)
    assert read is not None
    np.testing.assert_array_equal(read.later(np.arange(4), np.array([20])), np.arange(4) + 4)
    seats = jnp.asarray([[2], [0], [3], [1]])
    found = read.standing(state, seats)
    everyone = env.spec.seat_places.read(read.steps.blocks_of(state))
    for game, (seat,) in enumerate(np.asarray(seats)):
        order = [(seat + step) % 4 for step in (1, 2, 3)]
        np.testing.assert_allclose(found.x[game, 0], everyone.x[game, order])
        np.testing.assert_allclose(found.y[game, 0], everyone.y[game, order])


def test_only_subgoals_that_tell_of_all_places_are_read() -> None:
    spec = make_env("foraging").spec
    assert place_reader(resolve("iql_omg", "foraging").config, spec) is None
    seen = place_reader(resolve("iql_omg", "foraging", {"obs_is_state": True}).config, spec)
    assert seen is not None
    np.testing.assert_array_equal(seen.later(np.arange(4), np.array([7])), [5, 6, 7, 7])


def test_folders_from_before_games_said_so_are_of_the_same_game() -> None:
    spec = make_env("rendezvous").spec
    assert dataclasses.replace(spec, seat_places=None, seat_blocks=(), round_steps=None) == spec
    assert dataclasses.replace(spec, state_dim=3) != spec


@pytest.mark.parametrize("name", BUILT_IN)
def test_how_places_are_read_is_stored_with_the_game(name: str) -> None:
    spec = make_env(name).spec
    told = json.loads(json.dumps(dataclasses.asdict(spec)))
    assert TypeAdapter(EnvSpec).validate_python(told).seat_places == spec.seat_places
