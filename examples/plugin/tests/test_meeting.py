"""The game by hand, and its players."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from omg_plugin_example.meeting import Meeting, MeetingArgs, MeetingState
from omg_plugin_example.players import WAVERS, stubborn, yielding

ENV = Meeting(MeetingArgs(places=3, rounds=2, bonus=0.5))


def started() -> MeetingState:
    """Three games; the seats like the places (0, 1), (2, 2) and (1, 0)."""
    favourite = jnp.array([[0, 1], [2, 2], [1, 0]])
    return ENV.reset(jax.random.key(0), 3)[0]._replace(favourite=favourite)


def test_who_meets_is_paid_and_more_at_the_own_favourite() -> None:
    state, seen, outcome = ENV.step(jax.random.key(0), started(), jnp.array([[0, 0], [2, 2], [1, 2]]))
    np.testing.assert_allclose(outcome.reward, [[1.5, 1.0], [1.5, 1.5], [0.0, 0.0]])
    assert not outcome.terminated.any()
    # Own favourite, own place, the other's place, share of rounds.
    np.testing.assert_allclose(seen.obs[2, 0], [0, 1, 0, 0, 1, 0, 0, 0, 1, 0.5])
    np.testing.assert_allclose(seen.state[0], [1, 0, 0, 0, 1, 0, 1, 0, 0, 1, 0, 0, 0.5])
    _, _, outcome = ENV.step(jax.random.key(0), state, jnp.array([[1, 0], [2, 2], [1, 1]]))
    np.testing.assert_allclose(outcome.metrics["met"], [0.5, 1.0, 0.5])
    assert outcome.terminated.all()
    assert not outcome.truncated.any()


def test_a_start_says_nothing_about_the_other() -> None:
    state, seen = ENV.reset(jax.random.key(3), 50)
    assert set(np.asarray(state.favourite).ravel()) == {0, 1, 2}
    np.testing.assert_allclose(seen.obs[..., :3], jax.nn.one_hot(state.favourite, 3))
    assert not seen.obs[..., 3:].any()
    assert seen.avail.all()


def test_players_insist_or_follow_and_waver_at_times() -> None:
    games = 4000
    state, first = ENV.reset(jax.random.key(1), games)
    places = jnp.tile(jnp.array([[2, 0]]), (games, 1))
    _, then, _ = ENV.step(jax.random.key(0), state, places)
    seats = jnp.tile(jnp.arange(2), (games, 1))
    stays = (1 - WAVERS) + WAVERS / 3
    for player, seen, wanted in (
        (stubborn(ENV), then, state.favourite),
        (yielding(ENV), then, places[:, ::-1]),
        (yielding(ENV), first, state.favourite),
    ):
        went = player.choose(seen.obs, seen.avail, seats, jax.random.key(2))
        assert went.shape == (games, 2)
        assert abs(float((went == wanted).mean()) - stays) < 0.02
