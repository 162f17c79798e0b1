"""Beliefs within and between episodes, number by number, and a planning player's whole step."""

from __future__ import annotations

import itertools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from omg.envs import make_env
from omg.planning.beliefs import (
    BeliefSettings,
    begin,
    follow,
    goals_from_counts,
    learn_outset,
    new_outset,
    of_others,
    opening,
    revise,
    sample_goals,
)
from omg.planning.goals import goal_likelihoods
from omg.planning.minds import GoalJudge, network_sizes, new_minds
from omg.planning.search import SearchSettings, choose, decide

STAGS_ENV: Any = make_env("stag_hunt")
STAGS = STAGS_ENV.goals()
DRIFTS_ENV: Any = make_env("snowdrift", size=4, players=3, drifts=3, episode_limit=12)
DRIFTS = DRIFTS_ENV.goals()
FULL = BeliefSettings()


def slow_revise(belief: list[float], likelihood: list[float], exists: list[bool]) -> list[float]:
    weights = [b * c if there else 0.0 for b, c, there in zip(belief, likelihood, exists, strict=True)]
    if sum(weights) == 0:
        weights = [float(there) for there in exists]
    return [weight / sum(weights) for weight in weights]


def test_a_belief_follows_bayes_rule() -> None:
    rng = np.random.default_rng(0)
    belief, likelihood = rng.dirichlet(np.ones(4), (5, 6)), rng.random((5, 6, 4))
    exists = rng.random((5, 6, 4)) < 0.7
    exists[..., 3] = True
    likelihood[0] = 0.0
    belief[1, :, :3] = 0.0
    exists[1, :, 3] = np.array([True, False] * 3)
    exists[1, :, 0] = True
    found = np.asarray(jax.jit(revise)(belief, likelihood, exists))
    for row in np.ndindex(5, 6):
        expected = slow_revise(belief[row].tolist(), likelihood[row].tolist(), exists[row].tolist())
        np.testing.assert_allclose(found[row], expected, atol=1e-6)
    np.testing.assert_allclose(found.sum(axis=-1), 1.0, atol=1e-6)
    # Nothing fits: all that exist are alike again.
    np.testing.assert_allclose(found[0], exists[0] / exists[0].sum(axis=-1, keepdims=True), atol=1e-6)


@pytest.mark.parametrize(
    ("prior", "done", "left", "belief"),
    [
        # One in four never shovels; the others go for one of three drifts.
        ([0.25, 0.25, 0.25, 0.25], 0, [True, True, True], [0.25, 0.25, 0.25, 0.25]),
        # After one drift: of the three achievements that are left, two go on, to one of two drifts.
        ([0.25, 0.25, 0.25, 0.25], 1, [False, True, True], [0.0, 1 / 3, 1 / 3, 1 / 3]),
        ([0.1, 0.0, 0.6, 0.3], 2, [True, False, False], [1 / 3, 0, 0, 2 / 3]),
        # It has never removed more than this, and stops; or it has never stopped here.
        ([0.5, 0.5, 0.0, 0.0], 1, [True, True, False], [0, 0, 0, 1]),
        ([0.0, 0.0, 0.0, 1.0], 1, [True, True, False], [0.5, 0.5, 0, 0]),
        # The prior holds two drifts for impossible: all that exists is alike.
        ([0.5, 0.5, 0.0, 0.0], 2, [True, False, False], [0.5, 0, 0, 0.5]),
        # Nothing is left to remove.
        ([0.0, 0.0, 0.0, 1.0], 1, [False, False, False], [0, 0, 0, 1]),
    ],
)
def test_from_how_many_drifts_to_which(prior: list[float], done: int, left: list[bool], belief: list[float]) -> None:
    exists = jnp.asarray([[*left, True]])
    found = opening(DRIFTS, FULL, jnp.asarray([prior]), exists, jnp.asarray([done]))
    np.testing.assert_allclose(found, [belief], atol=1e-6)


def slow_counts(priors: list[list[float]], done: list[int], left: list[bool]) -> list[list[float]]:
    """The same for several co-players, by going through all that they may reach together."""
    count = len(priors)
    goes_on, total = [0.0] * count, 0.0
    for numbers in itertools.product(range(len(priors[0])), repeat=count):
        more = [number - had for number, had in zip(numbers, done, strict=True)]
        if min(more) >= 0 and sum(more) <= sum(left):
            chance = math.prod(prior[number] for prior, number in zip(priors, numbers, strict=True))
            total += chance
            goes_on = [so_far + chance * (m > 0) for so_far, m in zip(goes_on, more, strict=True)]
    shares = [each / total for each in goes_on]
    return [[share / sum(left) if there else 0.0 for there in left] + [1 - share] for share in shares]


@pytest.mark.parametrize(
    ("done", "left"), [([0, 0, 0], [True] * 3), ([1, 0, 0], [True, False, True]), ([1, 0, 1], [False, False, True])]
)
def test_co_players_share_what_is_left(done: list[int], left: list[bool]) -> None:
    rng = np.random.default_rng(3)
    priors = rng.dirichlet(np.ones(4), 3)
    exists = jnp.tile(jnp.asarray([*left, True]), (3, 1))
    found = jax.jit(lambda *given: opening(DRIFTS, FULL, *given))(jnp.asarray(priors), exists, jnp.asarray(done))
    np.testing.assert_allclose(found, slow_counts(priors.tolist(), done, left), atol=1e-6)


def test_one_drift_is_not_expected_of_everybody() -> None:
    """Three who go on as often as not: one of them does in three of four cases, and each in one of four."""
    exists = jnp.tile(jnp.asarray([False, False, True, True]), (3, 1))
    found = goals_from_counts(jnp.tile(jnp.asarray([0.5, 0.5, 0, 0]), (3, 1)), exists, jnp.zeros(3, int))
    np.testing.assert_allclose(found, [[0, 0, 0.25, 0.75]] * 3, atol=1e-6)


def test_counts_say_nothing_where_they_are_impossible() -> None:
    exists, prior = jnp.ones((2, 4), bool), jnp.asarray([[1.0, 0, 0, 0], [0.5, 0.5, 0, 0]])
    found = goals_from_counts(prior, exists, jnp.asarray([1, 0]))
    np.testing.assert_allclose(found, [[0, 0, 0, 0], [1 / 6, 1 / 6, 1 / 6, 1 / 2]], atol=1e-6)
    # All of them always go on, and there is not enough for that: each is judged by itself.
    one_left = jnp.tile(jnp.asarray([True, False, False, True]), (2, 1))
    found = goals_from_counts(jnp.asarray([[0, 1.0, 0, 0]] * 2), one_left, jnp.zeros(2, int))
    assert found.tolist() == [[1, 0, 0, 0]] * 2


def test_ablations_switch_the_halves_of_a_belief_off() -> None:
    prior, exists = jnp.asarray([[0.9, 0.1]]), jnp.asarray([[True, True]])
    zero = jnp.asarray([0])
    np.testing.assert_allclose(opening(STAGS, FULL, prior, exists, zero), [[0.9, 0.1]])
    np.testing.assert_allclose(opening(STAGS, FULL, prior, jnp.asarray([[False, True]]), zero), [[0, 1]])
    np.testing.assert_allclose(opening(STAGS, BeliefSettings(between=False), prior, exists, zero), [[0.5, 0.5]])
    unlearned = learn_outset(STAGS, BeliefSettings(between=False), prior, jnp.asarray([0, 0, 0]))
    assert unlearned.tolist() == prior.tolist()


@pytest.mark.parametrize(("goals", "alpha"), [(STAGS, 0.995), (DRIFTS, 0.98)], ids=["stag_hunt", "snowdrift"])
def test_the_prior_follows_outcomes_episode_by_episode(goals: Any, alpha: float) -> None:
    rng = np.random.default_rng(1)
    size = goals.achievements
    achievements = rng.integers(-1, size, (9, 2, 3))
    expected = np.full((2, 3, size), 1 / size)
    for seen in achievements:
        for who in np.ndindex(2, 3):
            if seen[who] >= 0:
                expected[who] = alpha * expected[who]
                expected[who][seen[who]] += 1 - alpha
    found = learn_outset(goals, FULL, new_outset(goals, 2, 3), jnp.asarray(achievements))
    np.testing.assert_allclose(found, expected, atol=1e-6)
    quick = learn_outset(goals, BeliefSettings(alpha=0.0), new_outset(goals, 1), jnp.asarray([[1]]))
    np.testing.assert_allclose(quick[0], np.eye(size)[1])


def test_co_players_are_in_the_order_of_their_seats() -> None:
    values = jnp.asarray([[10, 11, 12, 13], [20, 21, 22, 23]])
    assert of_others(values, jnp.asarray([[2, 0], [3, 1]])).tolist() == [
        [[10, 11, 13], [11, 12, 13]],
        [[20, 21, 22], [20, 22, 23]],
    ]


@pytest.mark.parametrize("settings", [FULL, BeliefSettings(within=False)], ids=["full", "without within"])
def test_beliefs_along_a_game(settings: BeliefSettings) -> None:
    # Player 0 watches; player 1 stands on drift 0, shovels it away, then stays; player 2 stays all the time.
    state = jax.device_get(jax.jit(DRIFTS_ENV.start, static_argnums=1)(jax.random.key(0), 1))
    state = state._replace(
        player=np.asarray([[15, 0, 3]], np.uint8), drift=np.asarray([[0, 5, 6]], np.uint8), blocks=state.blocks * 0
    )
    prior, seats = jnp.asarray([[0.4, 0.3, 0.2, 0.1], [0.7, 0.1, 0.1, 0.1]]), jnp.asarray([[0]])
    advance = jax.jit(DRIFTS_ENV.advance)
    step = jax.jit(lambda *given: follow(DRIFTS, settings, prior, *given, seats))
    beliefs = jax.jit(lambda state: begin(DRIFTS, settings, prior, state, seats))(state)
    first, second = slow_counts(prior.tolist(), [0, 0], [True] * 3)
    np.testing.assert_allclose(beliefs.belief[0, 0], [first, second], atol=1e-6)
    shovel = jnp.asarray([[4, 5, 4]])
    after, _, _ = advance(state, shovel)
    chance = jnp.asarray([[[[0.9, 0.1, 0.1, 0.1], [0.1, 0.2, 0.3, 0.6]]]])
    beliefs = step(beliefs, chance, state, shovel, after)
    assert beliefs.done.tolist() == [[0, 1, 0]]
    again, unwatched = slow_counts(prior.tolist(), [1, 0], [False, True, True])
    watched = slow_revise(second, [0.1, 0.2, 0.3, 0.6], [False, True, True, True])
    np.testing.assert_allclose(beliefs.belief[0, 0], [again, watched if settings.within else unwatched], atol=1e-6)
    stay = jnp.asarray([[4, 4, 4]])
    last, _, _ = advance(after, stay)
    beliefs = step(beliefs, chance, after, stay, last)
    first = slow_revise(again, [0.9, 0.1, 0.1, 0.1], [False, True, True, True]) if settings.within else again
    np.testing.assert_allclose(beliefs.belief[0, 0, 0], first, atol=1e-6)


def test_goals_are_sampled_from_the_belief() -> None:
    belief = jnp.asarray([[[[0.5, 0.5, 0.0, 0.0], [0.0, 0.0, 0.2, 0.8]]]])
    codes = jnp.asarray([[7, 2, 9, 16]])
    drawn = np.asarray(sample_goals(belief, codes, 4000, jax.random.key(0)))
    assert (drawn.shape, drawn.dtype) == ((1, 1, 4000, 2), np.int16)
    shares = [[np.mean(drawn[0, 0, :, other] == code) for code in (7, 2, 9, 16)] for other in range(2)]
    np.testing.assert_allclose(shares, belief[0, 0], atol=0.03)
    # Each co-player by itself.
    both = np.mean((drawn[0, 0, :, 0] == 7) & (drawn[0, 0, :, 1] == 16))
    assert abs(both - 0.4) < 0.03


def test_a_planning_player_needs_only_what_everybody_sees() -> None:
    """The whole step, from the global state to actions, for two focal seats with networks of their own."""
    env, goals, games, samples = DRIFTS_ENV, DRIFTS, 4, 2
    sizes = network_sizes(env, goals.width, filters=(3,), hidden_dim=8)
    minds = jax.jit(jax.vmap(lambda key: new_minds(sizes, 3, key)))(jax.random.split(jax.random.key(0), 2))
    prior = new_outset(goals, 2, 2)
    seats = np.tile(np.asarray([2, 0], np.int32), (games, 1))
    search = SearchSettings(simulations=6, exploration=15.0)

    @jax.jit
    def step(world: jax.Array, before: Any, beliefs: Any, last_actions: jax.Array, key: jax.Array) -> Any:
        state = env.from_world(world, before)
        begins = (state.time == 0)[:, None, None, None]
        chance = goal_likelihoods(env, minds.others, before, seats, goals.codes(before), last_actions)
        followed = follow(goals, FULL, prior, beliefs, chance, before, last_actions, state, seats)
        opened = begin(goals, FULL, prior, state, seats)
        belief = jnp.where(begins, opened.belief, followed.belief)
        beliefs = followed._replace(belief=belief, done=jnp.where(begins[:, 0, 0], 0, followed.done))
        goal_key, plan_key, act_key = jax.random.split(key, 3)
        sampled = sample_goals(belief, goals.codes(state), samples, goal_key)
        judge = GoalJudge(env, goals, minds)
        planned = decide(env, judge, search, state, seats, sampled, plan_key)
        return state, beliefs, planned, choose(planned, act_key)

    start = jax.jit(env.start, static_argnums=1)
    truth, before = start(jax.random.key(4), games), start(jax.random.key(5), games)
    beliefs = jax.jit(lambda truth: begin(goals, FULL, prior, truth, seats))(truth)
    actions = np.full((games, 3), -1, np.int32)
    advance, world = jax.jit(env.advance), jax.jit(env.world)
    for turn in range(3):
        before, beliefs, planned, chosen = step(
            world(truth), before, beliefs, actions, jax.random.fold_in(jax.random.key(6), turn)
        )
        assert np.take_along_axis(np.asarray(planned.legal), np.asarray(chosen)[..., None], axis=2).all()
        for chances in (beliefs.belief, planned.chances, planned.visits):
            np.testing.assert_allclose(np.asarray(chances).sum(axis=-1), 1.0, atol=1e-5)
        actions = np.full((games, 3), 4, np.int32)
        actions[:, 2], actions[:, 0] = np.asarray(chosen).T
        truth, _, _ = advance(truth, actions)
    assert before.time.tolist() == [2] * games
