"""Foraging: the rules against the `lbforaging` package, starts against their exact distribution, refusals."""

from __future__ import annotations

import importlib
from functools import cache
from itertools import product
from typing import Any

import jax
import numpy as np
import pytest

from helpers.positions import foraging_position as one_game
from omg.envs.foraging import Foraging, ForagingArgs
from omg.envs.foraging.env import EAST, LOAD, NORTH, SOUTH, STAY, WEST
from omg.envs.foraging.start import ForagingState
from omg.envs.foraging.start import new_games as plain_new_games
from omg.errors import UserError

new_games = jax.jit(plain_new_games, static_argnums=(0, 2))


def make(**args: Any) -> Foraging:
    return Foraging(ForagingArgs(**args))


@cache
def stepping(args: ForagingArgs) -> Any:
    return jax.jit(Foraging(args).step)


def play(env: Foraging, state: ForagingState, *actions: int) -> tuple[ForagingState, Any, Any]:
    return jax.device_get(stepping(env.args)(jax.random.key(0), state, np.asarray([actions], np.int32)))


def places(state: ForagingState) -> list[tuple[int, int]]:
    return [(int(row), int(col)) for row, col in zip(state.player_row[:, 0], state.player_col[:, 0], strict=True)]


def lbforaging_twin(env: Foraging, state: ForagingState, game: int) -> Any:
    """An `lbforaging` env put into the position of one game of our batch."""
    foraging = importlib.import_module("lbforaging.foraging.environment")
    args = env.args
    twin = foraging.ForagingEnv(
        players=args.players,
        min_player_level=args.min_player_level,
        max_player_level=args.max_player_level,
        min_food_level=args.min_food_level,
        max_food_level=args.max_food_level,
        field_size=(args.rows, args.cols),
        max_num_food=args.max_food,
        sight=args.sight or max(args.rows, args.cols),
        max_episode_steps=args.episode_limit,
        force_coop=args.force_coop,
        normalize_reward=args.normalize_reward,
        observe_agent_levels=args.observe_agent_levels,
        penalty=args.penalty,
    )
    # Its own space has rows and columns confused, which refuses observations of fields that are not square, and with
    # maps it cannot be made at all.
    space, window = twin.observation_space[0], 2 * twin.sight + 1
    twin._grid_observation = args.grid_observation
    wide = type(space)(-1.0, 100.0, (3, window, window) if args.grid_observation else space.shape, np.float32)
    twin.observation_space = (wide,) * args.players
    twin.field[:] = 0
    for row, col, level in zip(*(np.asarray(array[:, game]) for array in state[3:6]), strict=True):
        twin.field[row, col] = level
    for seat, player in enumerate(twin.players):
        position = int(state.player_row[seat, game]), int(state.player_col[seat, game])
        player.setup(position, int(state.player_level[seat, game]), twin.field_size)
    twin._food_spawned = twin.field.sum()
    twin.current_step = 0
    twin._game_over = False
    twin._gen_valid_moves()
    return twin


TWIN_GAMES = [
    {},
    {"rows": 5, "cols": 5, "players": 4, "max_food": 2, "penalty": 0.1, "normalize_reward": False},
    {"rows": 6, "cols": 9, "players": 3, "sight": 2, "observe_agent_levels": False, "penalty": 0.25},
    {"rows": 9, "cols": 7, "players": 5, "sight": 3, "force_coop": True, "max_player_level": 2},
    {"players": 3, "min_player_level": (1, 2, 3), "max_player_level": 3, "max_food_level": (2, 3, 5)},
    {"rows": 5, "cols": 5, "players": 4, "max_food": 2, "grid_observation": True},
    {"rows": 6, "cols": 9, "players": 3, "sight": 2, "observe_agent_levels": False, "grid_observation": True},
]


def as_ours(args: ForagingArgs, observation: np.ndarray) -> np.ndarray:
    """`lbforaging`'s observation as our vector: its maps have one more ring, always empty, where all is seen."""
    if args.grid_observation and args.sight is None:
        observation = observation[:, 1:-1, 1:-1]
    return observation.reshape(-1)


@pytest.mark.parametrize("args", TWIN_GAMES, ids=str)
def test_every_step_agrees_with_lbforaging(args: dict[str, Any]) -> None:
    env, games = make(**args), 6
    state, seen = jax.jit(env.reset, static_argnums=1)(jax.random.key(3), games)
    step = jax.jit(env.step)
    twins = [lbforaging_twin(env, state, game) for game in range(games)]
    random = np.random.default_rng(5)
    over = [False] * games
    collected = np.zeros(games)
    for _ in range(env.spec.episode_limit):
        actions = random.integers(0, 6, (games, env.spec.n_agents))
        # Loading whenever it is possible, half of the time, so that food is really taken, and also in vain.
        loads = np.asarray(seen.avail[:, :, LOAD]) & (random.random(actions.shape) < 0.5)
        actions = np.where(loads, LOAD, actions)
        state, seen, outcome = jax.device_get(step(jax.random.key(0), state, actions))
        for game, twin in enumerate(twins):
            if over[game]:
                continue
            observations, rewards, over[game], _, _ = twin.step(actions[game])
            collected[game] = twin._food_spawned - twin.field.sum()
            np.testing.assert_array_equal(seen.obs[game], [as_ours(env.args, each) for each in observations])
            np.testing.assert_allclose(outcome.reward[game], rewards, rtol=1e-6)
            legal = [
                [action in twin._valid_actions[player] for action in type(twin).action_set] for player in twin.players
            ]
            np.testing.assert_array_equal(seen.avail[game, :, 1:], legal)
            positions = [player.position for player in twin.players]
            np.testing.assert_array_equal(
                np.stack([state.player_row[:, game], state.player_col[:, game]], axis=1), positions
            )
            assert bool(outcome.terminated[game] | outcome.truncated[game]) == over[game]
            assert bool(outcome.terminated[game]) == (twin.field.sum() == 0)
            assert float(outcome.metrics["score"][game]) == collected[game]
            assert int(outcome.metrics["foods_left"][game]) == np.count_nonzero(twin.field)
    assert all(over)
    assert collected.max() > 0, "no food was ever taken: the comparison shows too little"


def test_food_is_shared_by_level() -> None:
    env = make(players=3)
    start = one_game([(2, 3, 1), (4, 3, 3), (7, 7, 2)], [(3, 3, 4), (6, 2, 2)])
    state, _, outcome = play(env, start, LOAD, LOAD, STAY)
    np.testing.assert_allclose(outcome.reward[0], [1 * 4 / (4 * 6), 3 * 4 / (4 * 6), 0.0], rtol=1e-6)
    assert float(outcome.metrics["score"][0]) == 4.0
    assert float(outcome.metrics["foods_left"][0]) == 1.0
    # The food that is left has moved to the front, the other is marked as gone.
    assert np.stack(state[3:6])[..., 0].T.tolist() == [[6, 2, 2], [-1, -1, 0]]
    _, _, outcome = play(env, state, STAY, STAY, STAY)
    assert float(outcome.metrics["score"][0]) == 4.0, "metrics hold from the start of the game, not of the step"


def test_food_too_heavy_stays_and_costs_the_penalty() -> None:
    env = make(players=2, penalty=0.5)
    start = one_game([(2, 3, 1), (4, 4, 3)], [(3, 3, 2)])
    state, _, outcome = play(env, start, LOAD, LOAD)
    np.testing.assert_allclose(outcome.reward[0], [-0.5, 0.0])  # the second does not touch the food: an illegal load
    assert int(state.food_level[0, 0]) == 2
    assert not bool(outcome.terminated[0])


@pytest.mark.parametrize(
    ("players", "actions", "expected"),
    [
        pytest.param([(0, 0, 1), (0, 2, 1)], (EAST, WEST), [(0, 0), (0, 2)], id="same cell: nobody moves"),
        pytest.param([(0, 0, 1), (0, 1, 1)], (EAST, WEST), [(0, 1), (0, 0)], id="swapping is allowed"),
        pytest.param([(0, 0, 1), (0, 1, 1)], (EAST, STAY), [(0, 0), (0, 1)], id="into one who stays"),
        pytest.param([(0, 0, 1), (7, 7, 1)], (NORTH, SOUTH), [(0, 0), (7, 7)], id="off the field"),
        pytest.param([(3, 2, 1), (5, 5, 1)], (EAST, NORTH), [(3, 2), (4, 5)], id="into food"),
    ],
)
def test_moves(players: list[tuple[int, int, int]], actions: tuple[int, int], expected: list[tuple[int, int]]) -> None:
    state, _, _ = play(make(), one_game(players, [(3, 3, 1)]), *actions)
    assert places(state) == expected


def test_ends_by_the_last_food_or_by_the_limit_but_never_both() -> None:
    env = make(max_food=1, episode_limit=2)
    state, _, first = play(env, one_game([(2, 3, 1), (0, 0, 1)], [(3, 3, 1)]), STAY, STAY)
    assert not bool(first.terminated[0] | first.truncated[0])
    _, _, cut = play(env, state, STAY, STAY)
    assert (bool(cut.terminated[0]), bool(cut.truncated[0])) == (False, True)
    _, seen, won = play(env, state, LOAD, STAY)
    assert (bool(won.terminated[0]), bool(won.truncated[0])) == (True, False)
    assert seen.state[0].tolist() == [-1, -1, 0, 2, 3, 1, 0, 0, 1]


@pytest.mark.parametrize(
    "args",
    [
        {},
        {"rows": 5, "cols": 5, "max_food": 2},
        {"max_food": 8},
        {"rows": 3, "cols": 12, "players": 6, "max_food": 4},
        {"rows": 5, "cols": 6, "players": 28, "max_food": 2},
        {"rows": 10, "cols": 10, "players": 4, "max_food": 5, "force_coop": True},
    ],
    ids=str,
)
def test_starts_are_always_complete_and_by_the_rules(args: dict[str, Any]) -> None:
    env = make(**args)
    state = new_games(env.args, jax.random.key(1), 500)
    player_cell = np.asarray(state.player_row * env.args.cols + state.player_col)
    row, col, level = (np.asarray(array) for array in state[3:6])
    food_cell = row * env.args.cols + col
    assert row.min() >= 1
    assert row.max() <= env.args.rows - 2
    assert col.min() >= 1
    assert col.max() <= env.args.cols - 2
    assert (np.diff(food_cell, axis=0) > 0).all()
    for first, second in product(range(env.args.max_food), repeat=2):
        distance = abs(row[first] - row[second]) + abs(col[first] - col[second])
        assert first == second or distance.min() > 2
    occupied = np.sort(np.concatenate([player_cell, food_cell]), axis=0)
    assert (np.diff(occupied, axis=0) > 0).all()
    assert occupied.min() >= 0
    assert occupied.max() < env.args.rows * env.args.cols
    highest = np.sort(np.asarray(state.player_level), axis=0)[:3].sum(axis=0)
    assert (level >= (highest if env.args.force_coop else 1)).all()
    assert (level <= highest).all()
    assert (level.sum(axis=0) == np.asarray(state.spawned)).all()
    assert set(np.unique(state.player_level)) == {1, 2, 3}


def test_starts_have_the_distribution_of_drawing_again_until_it_fits() -> None:
    size, games = 6, 60_000
    state = new_games(ForagingArgs(rows=size, cols=size, players=1, max_food=2), jax.random.key(2), games)
    inside = list(product(range(1, size - 1), repeat=2))
    expected: dict[tuple[tuple[int, int], ...], float] = {}
    for player in product(range(size), repeat=2):
        free = [cell for cell in inside if cell != player]
        for first in free:
            rest = [cell for cell in free if abs(cell[0] - first[0]) + abs(cell[1] - first[1]) > 2]
            for second in rest:
                pair = tuple(sorted([first, second]))
                expected[pair] = expected.get(pair, 0.0) + 1 / (size * size * len(free) * len(rest))
    food = np.stack([state.food_row, state.food_col], axis=-1)
    pairs, counts = np.unique(food.transpose(1, 0, 2).reshape(games, 4), axis=0, return_counts=True)
    measured = {((a, b), (c, d)): count / games for (a, b, c, d), count in zip(pairs.tolist(), counts, strict=True)}
    assert measured.keys() == expected.keys()
    for pair, probability in expected.items():
        assert abs(measured[pair] - probability) < 5 * np.sqrt(probability / games), pair
    share = np.bincount(np.asarray(state.player_row[0] * size + state.player_col[0]), minlength=36) / games
    assert np.abs(share - 1 / 36).max() < 5 * np.sqrt(1 / 36 / games)


def test_levels_per_item_are_dealt_at_random() -> None:
    args = ForagingArgs(min_player_level=(1, 3), max_player_level=(1, 3), min_food_level=2, max_food_level=(2, 4, 5))
    state = new_games(args, jax.random.key(4), 3000)
    assert np.asarray(state.player_level).sum(axis=0).tolist() == [4] * 3000
    assert abs(float((state.player_level[0] == 3).mean()) - 0.5) < 0.05
    # One food is 2, one uniform in 2..4, one in 2..5: 2 + 3 + 3.5 on average, each seat's share alike.
    np.testing.assert_allclose(np.asarray(state.food_level).mean(axis=1), 8.5 / 3, atol=0.1)


def test_impossible_arguments_are_refused_with_their_key() -> None:
    for args, message in [
        ({"rows": 5, "cols": 5, "max_food": 3}, r"max_food: got 3, but a field of 5x5 .* at most 2"),
        ({"rows": 4, "cols": 4, "max_food": 1, "players": 16}, r"players: got 16, .* at most 15"),
        ({"min_player_level": 4}, r"min_player_level: got 4, more than max_player_level 3"),
        ({"max_player_level": [1, 2, 3]}, r"max_player_level: got 3 levels \[1, 2, 3\], but players is 2"),
        ({"min_food_level": 3}, r"min_food_level: got 3, .* which can be 2"),
        ({"relative_positions": True, "grid_observation": True}, r"relative_positions: got True together with grid"),
    ]:
        with pytest.raises(UserError, match=message):
            ForagingArgs(**args)


def test_relative_positions_count_from_the_own_cell() -> None:
    start = one_game([(2, 3, 1), (4, 5, 2)], [(3, 3, 4), (6, 2, 2)])
    listed, relative = (make(max_food=2, relative_positions=relative)._observe(start) for relative in (False, True))
    np.testing.assert_array_equal(listed.obs[0, 1], [3, 3, 4, 6, 2, 2, 4, 5, 2, 2, 3, 1])
    np.testing.assert_array_equal(relative.obs[0, 1], [-1, -2, 4, 2, -3, 2, 4, 5, 2, -2, -2, 1])
    np.testing.assert_array_equal(relative.obs[0, 0], [1, 0, 4, 4, -1, 2, 2, 3, 1, 2, 2, 2])
    np.testing.assert_array_equal(relative.state, listed.state)
    empty = make(max_food=2, relative_positions=True)._observe(
        one_game([(2, 3, 1), (4, 5, 2)], [(3, 3, 4), (-1, -1, 0)])
    )
    np.testing.assert_array_equal(empty.obs[0, 0, 3:6], [0, 0, 0])


def test_names_and_sizes() -> None:
    spec = make().spec
    assert (spec.scenario, spec.n_agents, spec.n_actions, spec.obs_dim, spec.state_dim) == ("8x8-2p-3f", 2, 6, 15, 15)
    assert (spec.episode_limit, spec.reward_per_agent, spec.metrics) == (50, True, ("score", "foods_left"))
    assert make(sight=2, force_coop=True).spec.scenario == "2s-8x8-2p-3f-coop"
    assert make(sight=8).spec.scenario == "8x8-2p-3f"
    assert make(players=3, observe_agent_levels=False).spec.obs_dim == 15
