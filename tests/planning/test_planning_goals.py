"""Goals and hindsight against slow loops, and games rebuilt from what everybody sees."""

from __future__ import annotations

from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array

from omg.components.selectors import random_legal
from omg.envs import make_env
from omg.envs.grid import GridGame
from omg.errors import UserError
from omg.planning.goals import hindsight, next_reached

GAMES: dict[str, dict[str, Any]] = {
    "stag_hunt": {"size": 4, "players": 3, "hares": 2, "stags": 2, "blocks": 1, "episode_limit": 25},
    "snowdrift": {"size": 4, "players": 3, "drifts": 4, "blocks": 1, "episode_limit": 25},
}
BATCH = 24


def legal_action(legal: Array, key: Array) -> Array:
    """Mostly hunting or shovelling where that is possible, so that games do not drag on."""
    eager, any_key, key = jax.random.split(key, 3)
    last = legal.shape[-1] - 1 - jnp.argmax(legal[..., ::-1], axis=-1)
    return jnp.where(jax.random.bernoulli(eager, 0.7, last.shape) & (last > 4), last, random_legal(legal, any_key))


@cache
def played(name: str) -> tuple[Any, Any, np.ndarray, np.ndarray, Any]:
    """Random games: states [T, B, ...], rebuilt ones, actions [T, B, A], whether played [T, B], and the game."""
    env = make_env(name, **GAMES[name])

    def step(carry: Any, key: Array) -> Any:
        state, before = carry
        rebuilt = env.from_world(env.world(state).astype(jnp.float16), before)
        actions = legal_action(env.legal(state), key)
        on = ~env.over(state)
        after, _, _ = env.advance(state, actions)
        return (after, rebuilt), (state, rebuilt, env.from_world(env.world(state)), actions, on)

    @jax.jit
    def run(key: Array) -> Any:
        state = env.start(key, BATCH)
        # What is remembered at the start of a game is from another one, and must not matter.
        stale = env.start(jax.random.fold_in(key, 1), BATCH)
        return jax.lax.scan(step, (state, stale), jax.random.split(key, 25))[1]

    states, rebuilt, alone, actions, on = run(jax.random.key(2))
    return states, (rebuilt, alone), np.asarray(actions), np.asarray(on), env


@pytest.mark.parametrize("name", GAMES)
def test_a_game_can_be_rebuilt_from_what_everybody_sees(name: str) -> None:
    states, (rebuilt, alone), actions, _, env = played(name)
    flat = [jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), part) for part in (states, rebuilt, alone)]

    @jax.jit
    def seen(state: Any) -> Any:
        after, reward, over = env.advance(state, jnp.asarray(actions).reshape(-1, 3))
        return env.world(state), env.legal(state), env.world(after), reward, over

    truth = seen(flat[0])
    for other in flat[1:]:
        for one, same in zip(truth, seen(other), strict=True):
            np.testing.assert_array_equal(one, same)
        assert [leaf.dtype for leaf in other] == [leaf.dtype for leaf in flat[0]]


@pytest.mark.parametrize("name", GAMES)
def test_pieces_keep_their_numbers_along_a_game(name: str) -> None:
    states, (rebuilt, _), _, _, _ = played(name)
    pieces, left = ("prey", "prey_left") if name == "stag_hunt" else ("drift", "drift_left")
    cells, there = np.asarray(getattr(rebuilt, pieces)), np.asarray(getattr(rebuilt, left))
    true_cells, true_there = np.asarray(getattr(states, pieces)), np.asarray(getattr(states, left))
    assert (cells == cells[0]).all()
    assert 0 < there[-1].sum() < there[0].sum()
    for game in range(BATCH):
        # The same pieces by another number, and the same number for the whole game.
        number = {cell: index for index, cell in enumerate(true_cells[0, game])}
        order = [number[cell] for cell in cells[0, game]]
        assert sorted(order) == list(range(len(order)))
        np.testing.assert_array_equal(there[:, game], true_there[:, game][:, order])
    for field in ("player", "blocks", "last_action", "time"):
        np.testing.assert_array_equal(getattr(rebuilt, field), getattr(states, field), err_msg=field)


def test_goals_of_stag_hunt_exist_while_their_prey_does() -> None:
    states, _, actions, _, env = played("stag_hunt")
    goals = env.goals()
    state = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), states)
    left = np.asarray(state.prey_left)
    np.testing.assert_array_equal(goals.exists(state), np.stack([left[:, :2].any(1), left[:, 2:].any(1)], axis=1))
    assert (goals.count, goals.width, goals.alpha, goals.idle) == (2, 2, 0.995, None)
    did = jnp.asarray(actions.reshape(-1, 3))
    caught = np.asarray(env.caught(state, did))
    np.testing.assert_array_equal(goals.reached(state, did), caught - 1)
    np.testing.assert_array_equal(goals.reached_codes(state, did), caught - 1)
    assert set(caught.reshape(-1).tolist()) == {0, 1, 2}


def test_goals_of_snowdrift_are_its_drifts_or_none() -> None:
    states, _, actions, _, env = played("snowdrift")
    goals = env.goals()
    state = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), states)
    assert (goals.count, goals.width, goals.alpha, goals.idle, goals.achievements) == (5, 17, 0.98, 16, 5)
    np.testing.assert_array_equal(goals.exists(state)[:, :4], state.drift_left)
    assert goals.exists(state)[:, 4].all()
    np.testing.assert_array_equal(goals.codes(state)[:, :4], state.drift)
    assert (goals.codes(state)[:, 4] == 16).all()
    did = jnp.asarray(actions.reshape(-1, 3))
    removed = np.asarray(env.removed(state, did))
    codes = np.asarray(goals.reached_codes(state, did))
    for row in np.flatnonzero((removed >= 0).any(axis=1)):
        for seat in range(3):
            cell = -1 if removed[row, seat] < 0 else int(state.drift[row, removed[row, seat]])
            assert codes[row, seat] == cell


def test_other_games_have_no_goals() -> None:
    game: Any = make_env("stag_hunt")
    with pytest.raises(UserError, match="env: got stag_hunt, a game that names no goals"):
        GridGame.goals(game)


@pytest.mark.parametrize("name", GAMES)
def test_hindsight_labels_each_step_with_what_was_reached_next(name: str) -> None:
    states, (_, alone), actions, on, env = played(name)
    goals = env.goals()
    by_episode = jax.tree.map(lambda leaf: jnp.swapaxes(leaf, 0, 1), (states, alone))
    did, lasted = np.swapaxes(actions, 0, 1), on.T
    # Behind the end stands what looks like reaching goals: the last position before it, again and again.
    flat = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), by_episode[0])
    codes = np.asarray(goals.reached_codes(flat, jnp.asarray(did.reshape(-1, 3)))).reshape(BATCH, 25, 3)
    cut = lasted & (np.arange(25) < 12)
    label = jax.jit(lambda state, mask: hindsight(goals, state, jnp.asarray(did), mask))
    found, from_views = label(by_episode[0], jnp.asarray(cut)), label(by_episode[1], jnp.asarray(cut))
    unknown = idle = 0
    for episode in range(BATCH):
        length = int(cut[episode].sum())
        for seat in range(3):
            happened = [(t, int(codes[episode, t, seat])) for t in range(length) if codes[episode, t, seat] >= 0]
            expected_achievement = (
                len(happened) if name == "snowdrift" else max([code for _, code in happened], default=-1)
            )
            assert int(found.achievement[episode, seat]) == expected_achievement
            for step in range(25):
                coming = [code for t, code in happened if t >= step]
                known = step < length and bool(coming)
                code = coming[0] if known else 0
                if name == "snowdrift" and not happened and step < length:
                    known, code, idle = True, 16, idle + 1
                unknown += not known and step < length
                assert bool(found.known[episode, step, seat]) == known
                assert int(found.code[episode, step, seat]) == code
    assert unknown > 0
    assert name == "stag_hunt" or idle > 0
    # Labels are codes, so it does not matter how pieces are numbered.
    for part in ("code", "known", "achievement"):
        np.testing.assert_array_equal(getattr(found, part), getattr(from_views, part))


def test_who_has_left_is_not_a_teacher() -> None:
    states, _, actions, on, env = played("stag_hunt")
    by_episode = jax.tree.map(lambda leaf: jnp.swapaxes(leaf, 0, 1), states)
    found = hindsight(env.goals(), by_episode, jnp.asarray(np.swapaxes(actions, 0, 1)), jnp.asarray(on.T))
    gone = ~np.asarray(by_episode.hunting) & on.T[..., None]
    assert gone.sum() > 20
    assert not np.asarray(found.known)[gone].any()


def test_nothing_is_reached_past_the_end_of_an_episode() -> None:
    reached = jnp.asarray([[[-1], [2], [-1], [3]], [[-1], [2], [-1], [3]]])
    mask = jnp.asarray([[True, True, True, False], [True, True, True, True]])
    code, known = next_reached(reached, mask)
    assert known[..., 0].tolist() == [[True, True, False, False], [True] * 4]
    assert code[..., 0].tolist() == [[2, 2, 0, 0], [2, 2, 3, 3]]
