"""Foraging in rounds: the same players on new fields."""

from __future__ import annotations

from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from omg.components.selectors import random_legal
from omg.envs.foraging import Foraging, ForagingArgs
from omg.envs.foraging.env import LOAD, STAY

SMALL: dict[str, Any] = {"rows": 5, "cols": 5, "max_food": 2, "episode_limit": 6}
GAMES, ROUNDS, LIMIT = 60, 3, 6


@cache
def make(rounds: int = ROUNDS, **args: Any) -> Foraging:
    return Foraging(ForagingArgs(**SMALL, rounds=rounds, **args))


@cache
def played() -> tuple[list[Any], list[Any]]:
    """Games in which everybody loads where it can and else walks about: states, and what came of each step."""
    env = make()
    step = jax.jit(env.step)
    state, seen = env.reset(jax.random.key(0), GAMES)
    states, outcomes = [jax.device_get((state, seen))], []
    for time in range(ROUNDS * LIMIT):
        key = jax.random.key(time)
        actions = jnp.where(seen.avail[..., LOAD], LOAD, random_legal(seen.avail, key))
        state, seen, outcome = step(jax.random.fold_in(key, 1), state, actions)
        states.append(jax.device_get((state, seen)))
        outcomes.append(jax.device_get(outcome))
    return states, outcomes


def test_one_round_is_the_game_as_it_was() -> None:
    """Nothing of rounds is in its state and its program, and keys of steps make no difference."""
    env = make(1)
    state, seen = env.reset(jax.random.key(3), 4)
    assert state.rounds is None
    assert (env.spec.scenario, env.spec.obs_dim, env.spec.state_dim, env.spec.episode_limit) == ("5x5-2p-2f", 12, 12, 6)
    actions = jnp.argmax(seen.avail[..., ::-1], axis=-1)
    results = [jax.tree.leaves(jax.jit(env.step)(jax.random.key(key), state, actions)) for key in (0, 1)]
    for first, second in zip(*results, strict=True):
        np.testing.assert_array_equal(first, second)


def test_sizes() -> None:
    spec = make().spec
    assert (spec.scenario, spec.obs_dim, spec.state_dim, spec.episode_limit) == ("5x5-2p-2f-3r", 15, 15, 18)
    assert make(grid_observation=True).spec.obs_dim == 3 * 81 + 3


def test_a_round_ends_without_food_or_at_its_limit_and_the_next_is_new() -> None:
    states, outcomes = played()
    endings, early = 0, 0
    for time, outcome in enumerate(outcomes):
        (before, _), (after, _) = states[time], states[time + 1]
        over = np.asarray(after.rounds.number) > np.asarray(before.rounds.number)
        empty = outcome.metrics["foods_left"] == 0
        last = np.asarray(before.rounds.number) == ROUNDS - 1
        np.testing.assert_array_equal(over, (empty | (before.rounds.steps == LIMIT - 1)) & ~last)
        np.testing.assert_array_equal(after.rounds.steps[over], 0)
        np.testing.assert_array_equal((after.food_level > 0).sum(axis=0)[over], 2)
        np.testing.assert_array_equal(after.player_level, before.player_level)
        endings += over.sum()
        early += (over & (before.rounds.steps < LIMIT - 1)).sum()
    assert endings == GAMES * (ROUNDS - 1)
    assert 0 < early < endings
    # The fields differ from round to round, and from game to game.
    (first, _), (second, _) = states[0], states[LIMIT]
    assert (first.food_row != second.food_row).any()


def test_a_game_ends_in_its_last_round_only_and_in_one_way() -> None:
    states, outcomes = played()
    ended = np.zeros(GAMES, bool)
    for time, outcome in enumerate(outcomes):
        before, _ = states[time]
        over = (outcome.terminated | outcome.truncated) & ~ended
        assert (before.rounds.number[over] == ROUNDS - 1).all()
        assert not (outcome.terminated & outcome.truncated).any()
        np.testing.assert_array_equal(outcome.terminated[over], outcome.metrics["foods_left"][over] == 0)
        at_the_limit = before.rounds.steps == LIMIT - 1
        np.testing.assert_array_equal(outcome.truncated[over], (at_the_limit & ~outcome.terminated)[over])
        ended |= over
    assert ended.all()


def test_score_counts_all_rounds_and_all_food_is_worth_one() -> None:
    states, outcomes = played()
    going = np.ones(GAMES, bool)
    taken, paid, score = np.zeros(GAMES), np.zeros(GAMES), np.zeros(GAMES)
    for time, outcome in enumerate(outcomes):
        before, _ = states[time]
        # Paid is what was taken in this step, as a share of the round's food, and a third of it each round.
        share = outcome.reward.sum(axis=1) * ROUNDS
        taken += np.where(going, share * before.spawned, 0)
        paid += np.where(going, outcome.reward.sum(axis=1), 0)
        score = np.where(going, outcome.metrics["score"], score)
        going &= ~(outcome.terminated | outcome.truncated)
    np.testing.assert_allclose(taken, score, atol=1e-3)
    assert score.max() > 0
    assert paid.max() <= 1 + 1e-6


def test_the_round_is_seen_as_one_hot_and_only_in_games_of_several() -> None:
    for state, seen in played()[0]:
        number = np.eye(ROUNDS)[state.rounds.number]
        np.testing.assert_array_equal(seen.obs[..., -ROUNDS:], np.repeat(number[:, None], 2, axis=1))
        np.testing.assert_array_equal(seen.state[:, -ROUNDS:], number)
    whole, one = make(), make(1)
    state, seen = whole.reset(jax.random.key(5), 8)
    np.testing.assert_array_equal(seen.obs[..., :-ROUNDS], one.reset(jax.random.key(5), 8)[1].obs)


@pytest.mark.parametrize("rounds", [1, 4])
def test_nobody_is_paid_for_standing_still(rounds: int) -> None:
    env = make(rounds)

    def step(state: Any, key: jax.Array) -> Any:
        state, _, outcome = env.step(key, state, jnp.full((5, 2), STAY))
        return state, (outcome.reward, outcome.truncated)

    keys = jax.random.split(jax.random.key(1), env.spec.episode_limit)
    reward, cut = jax.jit(lambda: jax.lax.scan(step, env.reset(keys[0], 5)[0], keys)[1])()
    assert not np.asarray(reward).any()
    assert np.asarray(cut).sum(axis=0).tolist() == [1] * 5
    assert np.asarray(cut)[-1].all()
