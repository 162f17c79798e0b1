"""Partners on a board who do one thing or another: what they look at, and what they then do."""

from __future__ import annotations

from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers.positions import hunt as make_hunt
from helpers.positions import hunt_position
from omg.controllers.scripted import build_scripted
from omg.envs import make_env
from omg.envs.grid import DOWN, LEFT, RIGHT, STAY, UP
from omg.envs.snowdrift import Snowdrift, SnowdriftArgs
from omg.envs.snowdrift.env import SHOVEL, SnowdriftState
from omg.envs.stag_hunt import StagHunt
from omg.envs.stag_hunt.env import HUNT_HARE, HUNT_STAG

HUNT: dict[str, Any] = {"size": 4, "players": 2, "hares": 2, "stags": 1, "blocks": 0, "episode_limit": 12}
SNOW: dict[str, Any] = {"size": 4, "players": 2, "drifts": 3, "episode_limit": 12}


@cache
def hunters() -> StagHunt:
    return make_hunt(**HUNT)


@cache
def shovellers() -> Snowdrift:
    return Snowdrift(SnowdriftArgs(**SNOW))


def snow_position(players: list[tuple[int, int]], drifts: list[tuple[int, int]], left: list[bool]) -> SnowdriftState:
    state = jax.jit(shovellers().start, static_argnums=1)(jax.random.key(0), 1)
    cells = [jnp.asarray([[4 * row + col for row, col in places]], jnp.uint8) for places in (players, drifts)]
    return state._replace(player=cells[0], drift=cells[1], drift_left=jnp.asarray([left]))


@cache
def chances(script: str, env: Any) -> Any:
    player = build_scripted(script, env)

    def ask(state: Any) -> tuple[jax.Array, jax.Array]:
        seen = env.observe(state)
        seats = jnp.arange(2)[None]
        return player.probabilities(seen.obs, seen.avail, seats), player.choose(
            seen.obs, seen.avail, seats, jax.random.key(1)
        )

    return jax.jit(ask)


def does(script: str, env: Any, state: Any, time: int = 0) -> list[int | None]:
    """What each seat does at a time of the game; None where it is left to chance."""
    likely, chosen = jax.device_get(chances(script, env)(state._replace(time=jnp.full(1, time, jnp.int16))))
    np.testing.assert_allclose(likely.sum(axis=-1), 1.0, rtol=1e-6)
    assert (np.take_along_axis(likely, chosen[..., None], axis=-1) > 0).all()
    return [int(row.argmax()) if row.max() == 1 else None for row in likely[0]]


# Seat 0 in the north-west corner, a stag on its right, hares in the south; seat 1 far away in the south-east corner.
FAR = [(0, 0), (3, 3)], [(0, 1)], [(2, 0), (3, 1)]


@pytest.mark.parametrize(
    ("script", "at_first", "after_a_third"),
    [
        ("nearest_prey", [RIGHT, LEFT], [RIGHT, LEFT]),
        ("stag_in_company", [DOWN, LEFT], [DOWN, LEFT]),
        ("joins_other", [DOWN, UP], [DOWN, UP]),
        ("hare_after_waiting", [STAY, STAY], [DOWN, LEFT]),
        ("stag_after_waiting", [STAY, STAY], [RIGHT, UP]),
        ("stag_then_hare", [RIGHT, UP], [DOWN, LEFT]),
    ],
)
def test_hunters_apart(script: str, at_first: list[int], after_a_third: list[int]) -> None:
    state = hunt_position(hunters(), *FAR)
    assert does(script, hunters(), state, time=3) == at_first
    assert does(script, hunters(), state, time=4) == after_a_third


def test_hunters_together() -> None:
    # Two steps apart is near; on the stag together they hunt, whoever joins the other waits where nothing is.
    near = hunt_position(hunters(), [(0, 0), (1, 1)], *FAR[1:])
    assert does("stag_in_company", hunters(), near) == [RIGHT, UP]
    apart = hunt_position(hunters(), [(0, 0), (1, 2)], *FAR[1:])
    assert does("stag_in_company", hunters(), apart) == [DOWN, DOWN]
    both = hunt_position(hunters(), [(0, 1), (0, 1)], *FAR[1:])
    assert does("joins_other", hunters(), both) == [HUNT_STAG] * 2
    assert does("nearest_prey", hunters(), both) == [HUNT_STAG] * 2
    alone = hunt_position(hunters(), [(0, 1), (3, 1)], *FAR[1:])
    assert does("joins_other", hunters(), alone) == [DOWN, UP], "no stag alone"
    assert does("nearest_prey", hunters(), alone) == [HUNT_STAG, HUNT_HARE]
    idle = hunt_position(hunters(), [(3, 3), (3, 3)], *FAR[1:])
    assert does("joins_other", hunters(), idle) == [STAY, STAY]


DRIFTS = [(0, 0), (3, 0), (3, 3)]


@pytest.mark.parametrize(
    ("script", "seats"),
    [
        # Seat 0 stands on the drift in the north-west, seat 1 a step above the one in the south-east.
        ("nearest_drift", [SHOVEL, DOWN]),
        ("north_drift", [SHOVEL, UP]),
        ("south_drift", [DOWN, DOWN]),
        ("west_drift", [SHOVEL, DOWN]),
        ("east_drift", [DOWN, DOWN]),
    ],
)
def test_halves_of_the_board(script: str, seats: list[int]) -> None:
    state = snow_position([(0, 0), (2, 3)], DRIFTS, [True, True, True])
    assert does(script, shovellers(), state) == seats
    # In a half without drifts there is nothing to do.
    none = snow_position([(0, 0), (2, 3)], DRIFTS, [False, False, True])
    idle = {"north_drift", "west_drift"}
    assert (does(script, shovellers(), none) == [STAY, STAY]) == (script in idle)


def test_those_who_wait_or_change_do_it_after_a_third_of_the_game() -> None:
    state = snow_position([(0, 0), (2, 3)], DRIFTS, [True, True, True])
    works = [SHOVEL, DOWN]
    expected = {
        "drift_after_waiting": ([STAY, STAY], works),
        "drift_then_never": (works, [None, None]),
        "never_then_drift": ([None, None], works),
    }
    for script, (before, after) in expected.items():
        assert does(script, shovellers(), state, time=3) == before, script
        assert does(script, shovellers(), state, time=4) == after, script


def test_work_in_return_and_in_company() -> None:
    untouched = snow_position([(0, 0), (2, 3)], DRIFTS, [True, True, True])
    begun = snow_position([(0, 0), (2, 3)], DRIFTS, [True, False, True])
    assert does("drift_in_return", shovellers(), untouched) == [STAY, STAY]
    assert does("drift_in_return", shovellers(), begun) == [SHOVEL, DOWN]
    assert does("drift_in_company", shovellers(), untouched) == [None, None]
    near = snow_position([(0, 0), (1, 1)], DRIFTS, [True, True, True])
    assert does("drift_in_company", shovellers(), near) == [SHOVEL, UP]


@pytest.mark.parametrize(("name", "args"), [("stag_hunt", HUNT), ("snowdrift", SNOW)])
def test_the_small_games_can_be_built(name: str, args: dict[str, Any]) -> None:
    spec = make_env(name, **args).spec
    assert (spec.n_agents, spec.episode_limit, spec.scenario[:6]) == (2, 12, "4x4-2p")
