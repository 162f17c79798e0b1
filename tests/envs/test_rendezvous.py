"""Rendezvous: its rules, its scripted players, and what there is to gain from knowing the other, by brute force."""

from __future__ import annotations

from functools import cache
from itertools import product
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from omg.controllers.scripted import SCRIPTED, build_scripted, scripted_names
from omg.controllers.scripted.rules import CORNERS, RULES
from omg.envs import make_env
from omg.envs.rendezvous import Rendezvous, RendezvousArgs
from omg.envs.rendezvous.env import COL_STEP, EAST, NORTH, ROW_STEP, SOUTH, STAY, WEST
from omg.errors import UserError

FIXED = [f"corner_{corner}" for corner in CORNERS]


@cache
def make(**args: Any) -> Rendezvous:
    return Rendezvous(RendezvousArgs(**args))


@cache
def compiled(env: Rendezvous) -> Any:
    return jax.jit(env.step)


def play(env: Rendezvous, *steps: tuple[int, int]) -> list[Any]:
    """One game: what was seen and what came of it after each step, [(observation, outcome)]."""
    state, _ = env.reset(jax.random.key(0), 1)
    found = []
    for actions in steps:
        state, seen, outcome = compiled(env)(jax.random.key(0), state, jnp.asarray([actions]))
        found.append(jax.device_get((seen, outcome)))
    return found


def places(seen: Any, size: int = 3) -> list[tuple[int, int]]:
    """(row, column) of both seats by the state."""
    cells = seen.state[0, : 2 * size**2].reshape(2, -1).argmax(axis=1)
    return [(int(cell) // size, int(cell) % size) for cell in cells]


# --------------------------------------------------------------------------------------------------- the rules


def test_sizes_follow_the_options() -> None:
    spec = make().spec
    assert (spec.scenario, spec.episode_limit, spec.obs_dim, spec.state_dim) == ("3x3-2m-5r", 10, 25, 25)
    assert (spec.reward_per_agent, spec.success_metric) == (False, "met")
    spec = make(size=5, moves=6, rounds=2).spec
    assert (spec.scenario, spec.episode_limit, spec.obs_dim) == ("5x5-6m-2r", 12, 58)


def test_a_round_pays_on_the_same_corner_only_and_starts_again_in_the_middle() -> None:
    meet = [(NORTH, WEST), (WEST, NORTH)]
    first, second = play(make(), *meet)
    assert places(first[0]) == [(0, 1), (1, 0)]
    assert (first[1].reward.tolist(), second[1].reward.tolist()) == ([0.0], [np.float32(0.2)])
    assert places(second[0]) == [(1, 1), (1, 1)]
    assert second[1].metrics["met"].tolist() == [np.float32(0.2)]
    # Other corners, the same side of the board, and the middle pay nothing.
    for steps in ([(NORTH, SOUTH), (WEST, WEST)], [(NORTH, NORTH), (STAY, STAY)], [(STAY, STAY), (STAY, STAY)]):
        assert sum(float(outcome.reward[0]) for _, outcome in play(make(), *steps)) == 0.0
    # A corner that they leave before the round ends pays nothing either.
    passing = play(make(moves=3), *meet, (EAST, EAST))
    assert [float(outcome.reward[0]) for _, outcome in passing] == [0.0, 0.0, 0.0]


def test_the_game_ends_after_its_rounds_and_pays_one_in_all() -> None:
    found = play(make(), *[(NORTH, WEST), (WEST, NORTH)] * 5, (NORTH, NORTH), (WEST, WEST))
    assert [bool(outcome.terminated[0]) for _, outcome in found] == [False] * 9 + [True] * 3
    assert not any(bool(outcome.truncated[0]) for _, outcome in found)
    rewards = [float(outcome.reward[0]) for _, outcome in found]
    np.testing.assert_allclose(rewards, [0.0, 0.2] * 5 + [0.0, 0.0], rtol=1e-6)
    assert found[-1][1].metrics["met"].tolist() == [1.0]


def test_a_seat_sees_itself_first_and_nothing_of_earlier_rounds() -> None:
    met, missed = [(NORTH, WEST), (WEST, NORTH)], [(NORTH, SOUTH), (WEST, EAST)]
    for before in (met, missed):
        (seen, _) = play(make(), *before, (EAST, SOUTH))[-1]
        own, other, step, number = np.split(seen.obs[0], [9, 18, 20], axis=1)
        assert (own.argmax(axis=1).tolist(), other.argmax(axis=1).tolist()) == ([5, 7], [7, 5])
        assert (step.tolist(), number.tolist()) == ([[0, 1]] * 2, [[0, 1, 0, 0, 0]] * 2)
        np.testing.assert_array_equal(seen.state[0], seen.obs[0, 0])
        assert set(np.unique(seen.obs)) == {0.0, 1.0}


def test_masks_are_exact_and_leaving_the_board_is_staying() -> None:
    env = make(moves=9)
    cells = list(product(range(3), range(3)))
    for row, col in cells:
        way = [NORTH if row < 1 else SOUTH] * abs(row - 1) + [WEST if col < 1 else EAST] * abs(col - 1)
        way = way or [STAY]
        (seen, _) = play(env, *((move, move) for move in way))[-1]
        for action in range(5):
            goal = row + int(ROW_STEP[action]), col + int(COL_STEP[action])
            assert seen.avail[0, :, action].tolist() == [goal in cells] * 2
            (after, _) = play(env, *((move, move) for move in (*way, action)))[-1]
            assert places(after) == [goal if goal in cells else (row, col)] * 2


def test_options_and_their_refusals() -> None:
    with pytest.raises(UserError, match=r"env_args.size: got 4, an even number. Allowed: odd numbers, such as 5"):
        make_env("rendezvous", size=4)
    with pytest.raises(UserError, match=r"env_args.moves: got 3, but a corner is 4 steps .* Allowed: 4 or more"):
        make_env("rendezvous", size=5, moves=3)


# ------------------------------------------------------------------------------------------- scripted players


def rounds_met(env: Rendezvous, pairs: list[tuple[str, str]], games: int) -> np.ndarray:
    """The metric `met` [pairs, games] of scripts with each other; each decides for all seats, and one is heard."""
    names = sorted({name for pair in pairs for name in pair})
    players = [build_scripted(name, env) for name in names]
    heard = jnp.repeat(jnp.asarray([[names.index(name) for name in pair] for pair in pairs]), games, axis=0)

    @jax.jit
    def whole(key: jax.Array) -> jax.Array:
        def step(carry: Any, keys: jax.Array) -> Any:
            state, seen, _ = carry
            chosen = [player.act(seen, None, keys[number], 0.0)[0] for number, player in enumerate(players)]
            actions = jnp.take_along_axis(jnp.stack(chosen), heard[None], axis=0)[0]
            state, seen, outcome = env.step(key, state, actions)
            return (state, seen, outcome.metrics["met"]), None

        keys = jax.random.split(key, (env.spec.episode_limit, len(players)))
        return jax.lax.scan(step, (*env.reset(key, len(heard)), jnp.zeros(len(heard))), keys)[0][2]

    return np.asarray(whole(jax.random.key(1))).reshape(len(pairs), games)


def test_whoever_goes_to_the_same_corner_always_meets_and_others_never() -> None:
    met = rounds_met(make(), list(product(FIXED, FIXED)), 20).reshape(4, 4, 20)
    np.testing.assert_allclose(met, np.broadcast_to(np.eye(4)[..., None], met.shape), atol=1e-6)
    np.testing.assert_allclose(met.mean(axis=(1, 2)), 0.25, atol=1e-6)


def test_every_script_goes_where_its_name_says() -> None:
    """Against each fixed corner, a script meets in as many rounds as its rule goes there."""
    expected = {
        "alternate_nw_se": [3, 0, 2, 0],
        "alternate_sw_nw": [2, 0, 0, 3],
        "cycle_cw_ne": [1, 2, 1, 1],
        "cycle_ccw_nw": [2, 1, 1, 1],
        "switch_ne_sw": [0, 2, 0, 3],
        "switch_se_sw": [0, 0, 2, 3],
        "corner_sw": [0, 0, 0, 5],
    }
    met = rounds_met(make(), list(product(expected, FIXED)), 4).reshape(len(expected), 4, 4)
    np.testing.assert_allclose(5 * met, np.broadcast_to(np.array(list(expected.values()))[..., None], met.shape), 1e-5)


def test_rules_go_through_the_corners_in_order_and_every_kind_is_balanced() -> None:
    def names(name: str) -> list[str]:
        return [CORNERS[RULES[name][0].corner(number, 5)] for number in range(5)]

    assert names("cycle_cw_nw") == ["nw", "ne", "se", "sw", "nw"]
    assert names("cycle_ccw_se") == ["se", "ne", "nw", "sw", "se"]
    assert names("alternate_ne_se") == ["ne", "se", "ne", "se", "ne"]
    assert names("switch_nw_ne") == ["nw", "nw", "ne", "ne", "ne"]
    assert len({tuple(names(name)) for name in RULES}) == len(RULES) == 28
    for kind in ("corner", "alternate", "cycle_cw", "cycle_ccw", "switch"):
        gone = [names(name) for name in RULES if name.startswith(kind)]
        for number in zip(*gone, strict=True):
            assert {number.count(corner) for corner in CORNERS} == {len(gone) // 4}, kind


def test_scripts_walk_any_shortest_way_and_say_how_likely() -> None:
    env = make(size=5)
    _, seen = env.reset(jax.random.key(0), 2000)
    player = build_scripted("corner_ne", env)
    seats = jnp.broadcast_to(jnp.arange(2), (2000, 2))
    chances = np.asarray(player.probabilities(seen.obs, seen.avail, seats))
    assert chances[0].tolist() == [[0.0, 0.5, 0.0, 0.0, 0.5]] * 2
    drawn = np.asarray(player.choose(seen.obs, seen.avail, seats, jax.random.key(3)))
    assert np.mean(drawn == NORTH) == pytest.approx(0.5, abs=0.03)
    assert set(np.unique(drawn)) == {NORTH, EAST}
    assert rounds_met(make(size=5, moves=7), [("cycle_cw_nw", "cycle_cw_nw")], 8).tolist() == [[1.0] * 8]


def test_all_scripts_are_listed_for_this_game() -> None:
    assert scripted_names("rendezvous") == ["random", *RULES]
    assert all(SCRIPTED[name].summary for name in RULES)
    with pytest.raises(UserError, match="'corner_nw' plays rendezvous, but the game is foraging"):
        build_scripted("corner_nw", make_env("foraging"))


# --------------------------------------------------------------------------- what there is to gain, by brute force


@cache
def table(name: str) -> np.ndarray:
    """[9 cells, 5 actions], how likely the script acts in round 0."""
    obs = np.zeros((9, 1, 25), np.float32)
    obs[np.arange(9), 0, np.arange(9)] = obs[:, 0, 20] = 1.0
    player = build_scripted(name, make())
    return np.asarray(player.probabilities(obs, np.ones((9, 1, 5), bool), np.zeros((9, 1), int)))[:, 0]


def moved(cell: int, action: int) -> int:
    row, col = np.clip([cell // 3 + ROW_STEP[action], cell % 3 + COL_STEP[action]], 0, 2)
    return int(3 * row + col)


def best_of_a_round(belief: np.ndarray) -> float:
    """The highest chance to meet in one round, whoever the partner is by `belief` [4 corners], seen after one step."""
    corners = [0, 2, 8, 6]
    values = []
    for first in range(5):
        own, value = moved(4, first), 0.0
        for step in range(5):
            # What is known after the first step: it was likely by each partner with these weights.
            weight = np.array([belief[who] * table(name)[4, step] for who, name in enumerate(FIXED)])
            other = moved(4, step)
            value += max(
                sum(
                    weight[who] * table(name)[other, last]
                    for who, name in enumerate(FIXED)
                    for last in range(5)
                    if moved(own, second) == moved(other, last) and moved(other, last) in corners
                )
                for second in range(5)
            )
        values.append(value)
    return float(max(values))


def test_memory_is_worth_half_of_the_game() -> None:
    """Four partners with a favourite corner: 0.375 without memory, 0.875 with it, 0.25 with one answer for all."""
    unknown = best_of_a_round(np.full(4, 0.25))
    assert unknown == pytest.approx(0.375)
    # The two steps of a round give the partner away, however it walks: from then on it is met in every round.
    for first, last in product(range(5), range(5)):
        likely = np.array([table(name)[4, first] * table(name)[moved(4, first), last] for name in FIXED])
        assert (likely > 0).sum() <= 1
    known = [best_of_a_round(belief) for belief in np.eye(4)]
    np.testing.assert_allclose(known, 1.0)
    assert (unknown + 4 * known[0]) / 5 == pytest.approx(0.875)
