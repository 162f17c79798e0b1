"""The toy grid: its rules and its scripted players."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers.positions import toy_grid as make
from helpers.positions import toy_step as compiled_step
from omg.controllers.scripted import build_scripted
from omg.envs import make_env
from omg.envs.toy_grid import PLAYERS, ToyGrid, go_bottom, go_planned, go_top
from omg.envs.toy_grid.env import EAST, NORTH, SOUTH, STAY, WEST, ToyGridState
from omg.errors import UserError


def one_game(env: ToyGrid, *places: tuple[int, int], plan: tuple[int, int] = (0, 1)) -> ToyGridState:
    """A batch of one with the players on these cells and both reward cells open."""
    state, _ = env.reset(jax.random.key(0), 1)
    row, col = (jnp.asarray(axis, jnp.int32)[:, None] for axis in zip(*places, strict=True))
    return state._replace(row=row, col=col, plan=jnp.asarray(plan, jnp.int32)[:, None])


def step(env: ToyGrid, state: ToyGridState, *actions: int) -> tuple[ToyGridState, Any, Any]:
    return jax.device_get(compiled_step(env)(jax.random.key(0), state, jnp.asarray([actions])))


# --------------------------------------------------------------------------------------------------- the rules


def test_players_start_on_the_edges_of_the_middle_row() -> None:
    env = make()
    state, seen = jax.device_get(env.reset(jax.random.key(0), 64))
    assert np.unique(np.stack([state.row, state.col]), axis=2).squeeze().tolist() == [[5, 5], [0, 10]]
    np.testing.assert_allclose(seen.state, np.tile([0.5, 0.0, 0.5, 1.0, 1.0, 1.0], (64, 1)))
    # The plan is the last feature; both cells are drawn for both seats, and each seat sees its own plan only.
    np.testing.assert_array_equal(seen.obs[:, :, 6], state.plan.T)
    assert {tuple(pair) for pair in state.plan.T.tolist()} == {(0, 0), (0, 1), (1, 0), (1, 1)}


def test_seats_see_themselves_first() -> None:
    _, seen, _ = step(make(), one_game(make(), (2, 3), (7, 10)), STAY, STAY)
    np.testing.assert_allclose(seen.obs[0], [[0.2, 0.3, 0.7, 1.0, 1, 1, 0], [0.7, 1.0, 0.2, 0.3, 1, 1, 1]], rtol=1e-6)
    np.testing.assert_allclose(seen.state[0], [0.2, 0.3, 0.7, 1.0, 1, 1], rtol=1e-6)


def test_first_to_arrive_is_paid_once_and_nobody_after_it() -> None:
    env = make()
    state, seen, outcome = step(env, one_game(env, (1, 5), (1, 6)), NORTH, NORTH)
    assert outcome.reward.tolist() == [[1.0, 0.0]]
    assert seen.state[0, 4:].tolist() == [0.0, 1.0]
    assert not bool(outcome.terminated[0] | outcome.truncated[0])
    # Neither staying, nor coming second, nor coming back is paid.
    for actions in ((STAY, WEST), (SOUTH, STAY), (NORTH, EAST)):
        state, _, outcome = step(env, state, *actions)
        assert outcome.reward.tolist() == [[0.0, 0.0]]
        assert float(outcome.metrics["cells_paid"][0]) == 1.0


def test_arriving_together_pays_nobody_and_closes_the_cell() -> None:
    env = make()
    state, _, outcome = step(env, one_game(env, (1, 5), (0, 6)), NORTH, WEST)
    assert outcome.reward.tolist() == [[0.0, 0.0]]
    assert state.pays[:, 0].tolist() == [False, True]
    assert float(outcome.metrics["cells_tied"][0]) == 1.0
    _, _, outcome = step(env, state, STAY, SOUTH)
    assert outcome.reward.tolist() == [[0.0, 0.0]]


def test_game_ends_when_both_cells_are_taken() -> None:
    env = make(reward=2.5)
    _, seen, outcome = step(env, one_game(env, (0, 4), (10, 6)), EAST, WEST)
    assert outcome.reward.tolist() == [[2.5, 2.5]]
    assert (bool(outcome.terminated[0]), bool(outcome.truncated[0])) == (True, False)
    assert (float(outcome.metrics["cells_paid"][0]), float(outcome.metrics["cells_tied"][0])) == (2.0, 0.0)
    assert seen.state[0, 4:].tolist() == [0.0, 0.0]


def test_limit_cuts_and_does_not_end() -> None:
    env = make(episode_limit=2)
    state, _, first = step(env, one_game(env, (0, 3), (10, 6)), EAST, STAY)
    assert not bool(first.terminated[0] | first.truncated[0])
    _, _, cut = step(env, state, EAST, STAY)
    assert (bool(cut.terminated[0]), bool(cut.truncated[0])) == (False, True)
    _, _, won = step(env, state, EAST, WEST)
    assert (bool(won.terminated[0]), bool(won.truncated[0])) == (True, False)


def test_masks_are_exact_and_leaving_the_board_is_staying() -> None:
    env = make(size=5)
    moves = {NORTH: (-1, 0), SOUTH: (1, 0), WEST: (0, -1), EAST: (0, 1), STAY: (0, 0)}
    cells = [(row, col) for row in range(5) for col in range(5)]
    state, _ = env.reset(jax.random.key(0), len(cells) * 5)
    places = np.repeat(np.transpose(cells), 5, axis=1)
    state = state._replace(row=jnp.asarray(np.stack([places[0]] * 2)), col=jnp.asarray(np.stack([places[1]] * 2)))
    _, seen, _ = jax.device_get(compiled_step(env)(jax.random.key(0), state, np.zeros((len(cells) * 5, 2), int)))
    actions = np.tile(np.arange(5), len(cells))
    after, _, _ = jax.device_get(compiled_step(env)(jax.random.key(0), state, np.stack([actions, actions], axis=1)))
    for index, (row, col) in enumerate(places.T.tolist()):
        down, right = moves[int(actions[index])]
        inside = 0 <= row + down < 5 and 0 <= col + right < 5
        assert seen.avail[index, :, actions[index]].tolist() == [inside, inside]
        expected = (row + down, col + right) if inside else (row, col)
        assert [(int(after.row[seat, index]), int(after.col[seat, index])) for seat in (0, 1)] == [expected] * 2


def test_options_and_their_refusals() -> None:
    spec = make(size=7, episode_limit=9).spec
    assert (spec.scenario, spec.episode_limit, spec.n_agents, spec.n_actions) == ("7x7", 9, 2, 5)
    assert (spec.obs_dim, spec.state_dim, spec.reward_per_agent) == (7, 6, True)
    with pytest.raises(UserError, match=r"env_args.size: got 8, an even number. Allowed: odd numbers, such as 9"):
        make_env("toy_grid", size=8)
    with pytest.raises(UserError, match=r"env_args.size: got 1."):
        make_env("toy_grid", size=1)


# ------------------------------------------------------------------------------------------- scripted players


@pytest.mark.parametrize("size", [3, 11, 21])
@pytest.mark.parametrize("name", PLAYERS)
def test_players_walk_a_shortest_path_and_stay(name: str, size: int) -> None:
    env, games = make(size=size), 40
    state, seen = env.reset(jax.random.key(1), games)
    goal = {"go_top": np.zeros(games, int), "go_bottom": np.ones(games, int)}.get(name, np.asarray(state.plan[1]))
    player = jax.jit(PLAYERS[name])
    for time in range(size + 1):
        action = np.asarray(player(seen.obs[:, 1], jax.random.key(time)))
        assert np.take_along_axis(np.asarray(seen.avail[:, 1]), action[:, None], axis=1).all()
        actions = np.stack([np.zeros_like(action), action], axis=1)
        state, seen, _ = compiled_step(env)(jax.random.key(0), state, actions)
        left = np.abs(np.asarray(state.row[1]) - goal * (size - 1)) + np.abs(np.asarray(state.col[1]) - size // 2)
        assert left.tolist() == [max(size - 2 - time, 0)] * games


def test_either_axis_is_equally_likely_where_both_lead_closer() -> None:
    obs = jnp.broadcast_to(jnp.asarray([0.5, 1.0, 0.5, 0.0, 1.0, 1.0, 1.0]), (4000, 7))
    for player, vertical in ((go_top, NORTH), (go_bottom, SOUTH), (go_planned, SOUTH)):
        shares = np.bincount(jax.jit(player)(obs, jax.random.key(3)), minlength=5) / 4000
        assert shares[vertical] == pytest.approx(0.5, abs=0.03)
        assert shares[vertical] + shares[WEST] == 1.0


@pytest.mark.parametrize("name", PLAYERS)
def test_pools_have_the_same_players(name: str) -> None:
    """A script of pools takes the steps of its namesake, and says how likely they are."""
    env = make(size=5)
    _, seen = env.reset(jax.random.key(2), 300)
    seats = jnp.broadcast_to(jnp.arange(2), (300, 2))
    chances = np.asarray(build_scripted(name, env).probabilities(seen.obs, seen.avail, seats))[:, 1]
    drawn = [np.asarray(PLAYERS[name](seen.obs[:, 1], jax.random.key(time))) for time in range(20)]
    for game in range(0, 300, 60):
        taken = {int(actions[game]) for actions in drawn}
        assert dict.fromkeys(taken, 0.5) == {a: float(p) for a, p in enumerate(chances[game]) if p}


@pytest.mark.parametrize(
    ("name", "walk"),
    [
        ("show_top", [NORTH, NORTH, WEST, WEST, STAY]),
        ("show_bottom", [SOUTH, SOUTH, WEST, WEST, STAY]),
        ("hide_top", [WEST, WEST, NORTH, NORTH, STAY]),
        ("hide_bottom", [WEST, WEST, SOUTH, SOUTH, STAY]),
    ],
)
def test_some_show_their_goal_at_once_and_others_late(name: str, walk: list[int]) -> None:
    env = make(size=5)
    state, seen = env.reset(jax.random.key(0), 1)
    player = build_scripted(name, env)
    for action in walk:
        assert player.act(seen, None, jax.random.key(0), 0.0)[0][0, 1] == action
        state, seen, _ = compiled_step(env)(jax.random.key(0), state, jnp.asarray([[STAY, action]]))
