"""Subgoals that stand for the others' places, and how far off they are; all against plain loops."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers.played import LENGTHS, ONE_SEAT, PARTNERS, SPEC, A, B, T, config, drawn_state, episodes, fast_jit
from omg.config import adjust, resolve
from omg.controllers.others import subgoal_steps
from omg.controllers.places import place_reader
from omg.envs.places import NumberPlace, Positions
from omg.errors import UserError
from omg.learners import build_learner
from omg.pools.priors import PriorCard, load_prior, pool_prior, save_prior

KEY = jax.random.key(3)
PLACED = dataclasses.replace(
    SPEC, seat_blocks=((0, 1), (3, 1)), seat_places=NumberPlace(x=0, y=1, x_scale=2.0, offset=0.5, alive=1)
)
"""A game whose state has two numbers for each of its three seats; who has no positive second one is gone."""


def read(**changes: Any) -> tuple[Any, Any]:
    told = config(am_model="omg_am", learner="omg_learner", subgoal_of="places", **changes)
    return subgoal_steps(told, PLACED), place_reader(told, PLACED)


def placed(batch: Any, b: int, t: int, seat: int) -> tuple[float, float, bool]:
    x, y = batch.state[b, t, seat], batch.state[b, t, 3 + seat]
    return 2 * x + 0.5, y + 0.5, y > 0


def test_a_subgoal_stands_for_where_the_others_are_or_were_seen_last() -> None:
    batch, seats = episodes(), np.array([[2], [0], [1], [0]])
    told, _ = read()
    found = np.asarray(told.along(batch, jnp.asarray(seats)))
    assert found.shape == (B, T + 1, 1, told.dim) == (B, T + 1, 1, 6)
    gone = 0
    for b in range(B):
        for place, other in enumerate([(seats[b, 0] + step) % A for step in (1, 2)]):
            x, y, _ = placed(batch, b, 0, other)
            for t in range(T + 1):
                new_x, new_y, there = placed(batch, b, t, other)
                x, y = (new_x, new_y) if there else (x, y)
                gone += not there
                np.testing.assert_allclose(found[b, t, 0, 3 * place : 3 * place + 3], [x, y, there], atol=1e-5)
    assert gone


def test_the_end_of_a_round_shows_what_was_seen_before_it() -> None:
    batch = episodes()
    told = dataclasses.replace(read()[0], round_steps=2)
    plain, found = (np.asarray(each.along(batch, None)) for each in (read()[0], told))
    for slot in range(T + 1):
        before = slot - 1 if slot in (2, 4) else slot
        np.testing.assert_array_equal(found[:, slot, :, :2], plain[:, before, :, :2][..., :2])


def test_errors_are_those_of_whoever_is_there_now_and_then() -> None:
    horizon = 2
    batch, seats = episodes(), np.array([[2], [0], [1], [0]])
    _, reader = read(omg_horizon=horizon)
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, B, T, 1, A - 1)).astype(np.float32)
    guess = Positions(jnp.asarray(x), jnp.asarray(y), jnp.ones(x.shape, bool))
    length = np.array(LENGTHS)
    found = reader.errors(guess, jnp.asarray(batch.state), jnp.asarray(seats), jnp.asarray(length))
    counted = 0
    for b in range(B):
        for t in range(T):
            for place, other in enumerate([(seats[b, 0] + step) % A for step in (1, 2)]):
                then = min(t + horizon, length[b])
                (now_x, now_y, here), (then_x, then_y, there) = (placed(batch, b, slot, other) for slot in (t, then))
                index = (b, t, 0, place)
                alive = placed(batch, b, t, seats[b, 0])[2]
                assert bool(found.counted[index]) == (t < length[b] and here and there and alive)
                if found.counted[index]:
                    counted += 1
                    wanted = np.hypot(x[index] - then_x, y[index] - then_y)
                    np.testing.assert_allclose(found.guess[index], wanted, rtol=1e-4)
                    stay = np.hypot(now_x - then_x, now_y - then_y)
                    np.testing.assert_allclose(found.stay[index], stay, rtol=1e-4, atol=1e-5)
    assert counted


def test_tests_say_how_far_off_subgoals_are_and_learning_makes_it_less() -> None:
    settings = config(am_model="omg_am", learner="omg_learner", subgoal_of="places", omg_inference="mlp", am_lr=0.03)
    learner = build_learner(settings, PLACED, ONE_SEAT, PARTNERS, learns_prior=True)
    state, batch = fast_jit(learner.init)(KEY), episodes(team=ONE_SEAT)
    update = fast_jit(learner.update)
    examine = fast_jit(learner.examine)
    first = examine(state, batch, KEY)
    for step in range(150):
        state, _ = update(state, learner.keep(batch), step, 0, jax.random.key(step))
    last = examine(state, batch, KEY)
    assert float(last["stay_place_error"]) == float(first["stay_place_error"]) > 0
    assert float(last["subgoal_place_error"]) < 0.8 * float(first["subgoal_place_error"])


def test_only_games_that_say_where_players_are_have_such_subgoals() -> None:
    told = config(am_model="omg_am", learner="omg_learner", subgoal_of="places")
    with pytest.raises(UserError, match=r"subgoal_of: got places, but test test does not say where"):
        subgoal_steps(told, SPEC)
    with pytest.raises(UserError, match=r"subgoal_of: got places, but learner=hop_plus_learner"):
        adjust(resolve("hop_plus", "stag_hunt", {"subgoal_of": "places"}).config, has_gpu=False)


def test_a_pool_keeps_a_prior_of_places_by_itself(tmp_path: Path) -> None:
    settings = config(am_model="omg_am", learner="omg_learner", subgoal_of="places")
    learner = build_learner(settings, PLACED, ONE_SEAT, PARTNERS, learns_prior=True)
    prior = drawn_state(learner).mac.opponent_model.prior
    seen = SPEC.obs_dim
    card = PriorCard("test", "test", False, 6, prior.subgoal_dim, 1, ["a"], seen_features=seen, of_places=True)
    assert card.subgoal_of == "places"
    save_prior(tmp_path / "prior_places", prior, card)
    assert pool_prior(tmp_path, "places") == str(tmp_path / "prior_places")
    assert load_prior(tmp_path, "places")[1] == card
    assert pool_prior(tmp_path, "others") is None
