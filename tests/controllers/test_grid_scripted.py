"""Scripted players on a board: shortest ways around obstacles, legal play, and what the scripts earn."""

from __future__ import annotations

from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers.positions import distances
from helpers.positions import hunt as make
from helpers.positions import hunt_position as position
from omg.components.selectors import random_legal
from omg.controllers.scripted import SCRIPTED, build_scripted, scripted_names
from omg.controllers.scripted.grid import ways
from omg.envs import make_env
from omg.envs.grid import DOWN, LEFT, STAY, UP
from omg.envs.stag_hunt.env import HUNT_HARE, HUNT_STAG
from omg.errors import UserError

GAMES = {"stag_hunt": {"map_name": "4h2s"}, "snowdrift": {"blocks": 4}}


@cache
def chooser(script: str, env: Any) -> Any:
    player = build_scripted(script, env)
    return jax.jit(lambda state: player.act(env.observe(state), None, jax.random.key(0), 0.0)[0])


def choices(script: str, env: Any, state: Any) -> list[int]:
    actions = np.asarray(chooser(script, env)(state))
    assert actions.dtype == jnp.int32
    return actions[0].tolist()


def test_hand_worked_ways() -> None:
    env = make(size=5, hares=2, stags=1)
    # A wall of three cells between the first player and the stag; the second stands on it; the third is cut off from
    # nothing but far from the hares; the fourth stands on a hare.
    wall = [(2, 1), (2, 2), (2, 3)]
    state = position(env, [(3, 2), (1, 2), (4, 4), (0, 0)], [(1, 2)], [(0, 0), (4, 0)], blocks=wall)
    # Both ways round the wall are equally long: the first of the order, left, is taken.
    assert choices("nearest_stag", env, state) == [LEFT, HUNT_STAG, UP, DOWN]
    assert choices("nearest_hare", env, state) == [DOWN, UP, LEFT, HUNT_HARE]
    # Without a stag the stag hunters wait, and the hare hunters do not care.
    no_stag = state._replace(prey_left=np.array([[False, True, True]]))
    assert choices("nearest_stag", env, no_stag) == [STAY] * 4
    assert choices("nearest_hare", env, no_stag) == [DOWN, UP, LEFT, HUNT_HARE]
    # Whoever has left does nothing.
    gone = state._replace(hunting=jnp.asarray([[True, False, True, False]]))
    assert choices("nearest_stag", env, gone) == [LEFT, STAY, UP, STAY]
    assert choices("nearest_hare", env, gone) == [DOWN, STAY, LEFT, STAY]


@pytest.mark.parametrize(("name", "piece"), [("stag_hunt", "hare"), ("snowdrift", "drift")])
def test_steps_are_exactly_those_of_the_shortest_ways(name: str, piece: str) -> None:
    env, games = make_env(name, **GAMES[name]), 60
    state = jax.jit(env.start, static_argnums=1)(jax.random.key(5), games)
    obs = jax.jit(env.views)(state)
    found = np.asarray(jax.jit(lambda obs: ways(env.map_view, obs, (piece,))[0])(obs))
    maps = np.asarray(env.map_view.maps(obs)) > 0
    for game in range(games):
        for seat in range(4):
            seen = maps[game, seat]
            steps = np.pad(
                distances(~seen[env.map_view.channel("block")], seen[env.map_view.channel(piece)]),
                1,
                constant_values=np.inf,
            )
            row, col = np.argwhere(seen[0])[0] + 1
            around = [steps[row - 1, col], steps[row + 1, col], steps[row, col - 1], steps[row, col + 1]]
            assert found[game, seat].tolist() == [step < steps[row, col] for step in around]


@pytest.mark.parametrize("name", GAMES)
def test_only_legal_actions(name: str) -> None:
    env = make_env(name, **GAMES[name])
    players = {script: build_scripted(script, env) for script in scripted_names(name)}

    @jax.jit
    def play(key: jax.Array) -> dict[str, jax.Array]:
        def step(carry: Any, key: jax.Array) -> Any:
            world, seen = carry
            checks = {}
            for script, player in players.items():
                actions, _, _ = player.act(seen, None, key, 0.0)
                checks[script] = jnp.take_along_axis(seen.avail, actions[..., None], axis=-1).all()
            # Prey and drifts must go, so that scripts also meet what is left without them.
            played = jnp.where(
                seen.avail[..., -1], seen.avail.shape[-1] - 1, random_legal(seen.avail, jax.random.fold_in(key, 1))
            )
            world, seen, _ = env.step(key, world, played)
            return (world, seen), checks

        return jax.lax.scan(step, env.reset(key, 16), jax.random.split(key, 35))[1]

    assert {script: bool(legal.all()) for script, legal in play(jax.random.key(1)).items()} == dict.fromkeys(
        players, True
    )


def earned(name: str, lineups: list[tuple[str, ...]], games: int = 150) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Returns [line-ups, games, seats] and metrics at the end [line-ups, games], with one script per seat.

    All line-ups play in one program: every script decides for all seats, and the line-up says who is heard.
    """
    env = make_env(name)
    scripts = sorted({script for lineup in lineups for script in lineup})
    players = [build_scripted(script, env) for script in scripts]
    heard = jnp.repeat(jnp.asarray([[scripts.index(script) for script in lineup] for lineup in lineups]), games, axis=0)

    @jax.jit
    def play(key: jax.Array) -> Any:
        def step(carry: Any, key: jax.Array) -> Any:
            world, seen, total, _ = carry
            chosen = jnp.stack([player.act(seen, None, key, 0.0)[0] for player in players])
            actions = jnp.take_along_axis(chosen, heard[None], axis=0)[0]
            world, seen, outcome = env.step(key, world, actions)
            return (world, seen, total + outcome.reward, outcome.metrics), None

        world, seen = env.reset(key, len(heard))
        start = world, seen, jnp.zeros(heard.shape), env.metrics(world)
        end, _ = jax.lax.scan(step, start, jax.random.split(key, env.spec.episode_limit))
        return end[2:]

    total, metrics = jax.device_get(play(jax.random.key(2)))
    shape = len(lineups), games
    return total.reshape(*shape, -1), {metric: values.reshape(shape) for metric, values in metrics.items()}


def test_cooperators_clean_everything_and_defectors_ride_for_free() -> None:
    lineups = [("nearest_drift",) * 4, ("nearest_drift", *["never_shovels"] * 3), ("never_shovels",) * 4]
    (together, alone, nobody), metrics = earned("snowdrift", lineups)
    np.testing.assert_allclose(together.mean(axis=1), 30.0, rtol=1e-5)
    complete = metrics["drifts_removed"][1] == 6
    assert complete.mean() > 0.95
    np.testing.assert_array_equal(alone[complete], np.tile([12.0, 36.0, 36.0, 36.0], (complete.sum(), 1)))
    assert not nobody.any()
    assert not metrics["drifts_removed"][2].any()


def test_stag_hunters_need_each_other_and_hare_hunters_nobody() -> None:
    lineups = [("nearest_stag",) * 4, ("nearest_stag", *["nearest_hare"] * 3)]
    (together, mixed), metrics = earned("stag_hunt", lineups)
    assert (metrics["stags_hunted"][0] == 1).all()
    np.testing.assert_allclose(together.sum(axis=1), 10.0, rtol=1e-5)
    assert not mixed[:, 0].any(), "alone with the stag"
    np.testing.assert_allclose(mixed[:, 1:].sum(axis=1), metrics["hares_hunted"][1], rtol=1e-5)
    assert metrics["hares_hunted"][1].mean() > 2.5


def test_scripts_are_for_their_games() -> None:
    for game, own in (("stag_hunt", "nearest_stag"), ("snowdrift", "nearest_drift")):
        names = scripted_names(game)
        assert names[0] == "random"
        assert own in names
        assert all(SCRIPTED[name].traits.envs == (game,) and SCRIPTED[name].summary for name in names[1:])
    with pytest.raises(UserError, match=r"'nearest_drift' plays snowdrift, but the game is stag_hunt. Allowed: random"):
        build_scripted("nearest_drift", make_env("stag_hunt"))
