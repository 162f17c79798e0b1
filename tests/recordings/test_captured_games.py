"""Recordings hold what the game itself did: every built-in game is played once more, step by step."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from omg.controllers.others import steps_of_others
from omg.envs import ENVS, make_env
from omg.envs.scenes import scenery_of
from omg.errors import UserError
from omg.modules.told import ExpectedViews, Whose
from omg.recordings import Recording
from omg.recordings.places import Ahead, GameCourse, places
from omg.recordings.playing import play, script_alone

GAMES: dict[str, dict[str, Any]] = {
    "sc2": {"map_name": "2s3z", "episode_limit": 12},
    "foraging": {"rows": 5, "cols": 6, "players": 3, "episode_limit": 9},
    "stag_hunt": {"size": 5, "episode_limit": 9},
    "snowdrift": {"size": 5, "drifts": 3, "episode_limit": 9},
    "toy_grid": {},
    "predator_prey": {"episode_limit": 8},
    "rendezvous": {"rounds": 2},
}
EPISODES = 3
PLAYED: dict[str, list[Recording]] = {}


def recorded(name: str) -> list[Recording]:
    """Games of random players with views; every game is played once for all tests."""
    if name not in PLAYED:
        env = make_env(name, **GAMES[name])
        PLAYED[name] = play(script_alone("random", env, GAMES[name]), EPISODES, 5, views=True)
    return PLAYED[name]


def test_every_built_in_game_is_there() -> None:
    assert set(GAMES) == {name for name, entry in ENVS.items() if not entry.traits.foreign}


@pytest.mark.parametrize("name", GAMES)
def test_columns_are_what_the_game_did(name: str) -> None:
    games = [Recording.from_bytes(game.to_bytes()) for game in recorded(name)]
    env = make_env(name, **GAMES[name])
    scenery = scenery_of(env)
    assert scenery is not None
    step, show = jax.jit(env.step), jax.jit(scenery.show)
    # The same keys as `play` and `play_episodes` use.
    key, reset_key, _ = jax.random.split(jax.random.fold_in(jax.random.PRNGKey(5), 0), 3)
    world, seen = env.reset(reset_key, EPISODES)
    returns, over = np.zeros(EPISODES), np.zeros(EPISODES, bool)
    for t in range(max(game.steps for game in games) + 1):
        key, _, env_key = jax.random.split(key, 3)
        scene = jax.device_get(show(world))
        actions = np.zeros((EPISODES, env.spec.n_agents), np.int32)
        for number, game in enumerate(games):
            if t > game.steps:
                continue
            for column, part in (("x", scene.x), ("y", scene.y), ("health", scene.health), ("written", scene.number)):
                np.testing.assert_allclose(game[column][t], part[number], atol=1e-5)
            for column, part in (("shield", scene.shield), ("cooldown", scene.cooldown)):
                np.testing.assert_allclose(game[column][t], np.maximum(part[number], 0), atol=1e-4)
            np.testing.assert_array_equal(game["there"][t], scene.there[number])
            np.testing.assert_array_equal(game["avail"][t], seen.avail[number])
            np.testing.assert_allclose(game["obs"][t], seen.obs[number], atol=1e-4)
            np.testing.assert_allclose(game["state"][t], seen.state[number], atol=1e-4)
            actions[number] = game["actions"][t] if t < game.steps else 0
        world, seen, outcome = step(env_key, world, jnp.asarray(actions))
        for number, game in enumerate(games):
            if t < game.steps:
                assert not over[number]
                np.testing.assert_allclose(game["rewards"][t], np.ravel(outcome.reward[number]), atol=1e-5)
                returns[number] += float(np.sum(outcome.reward[number]))
                over[number] = outcome.terminated[number] | outcome.truncated[number]
                if over[number]:
                    assert t == game.steps - 1
                    assert game.header["ended"] == ("terminated" if outcome.terminated[number] else "truncated")
                    for metric in env.spec.metrics:
                        value = float(outcome.metrics[metric][number])
                        np.testing.assert_allclose(game.header["facts"][metric], value, atol=1e-5)
    assert over.all()
    for number, game in enumerate(games):
        facts = game.header["facts"]
        np.testing.assert_allclose(facts["return"], returns[number], atol=1e-4)
        assert (facts["steps"], game.header["number"]) == (game.steps, number + 1)
        assert game.header["env_args"] == GAMES[name]
        assert [seat["piece"] for seat in game.header["seats"]] == list(scenery.seats)
        assert [action["name"] for action in game.header["actions"]] == [move.name for move in scenery.moves]
        assert [seat["label"] for seat in game.header["seats"]] == ["random"] * env.spec.n_agents
        assert len(game.to_bytes()) < 100_000


def test_the_same_seed_plays_the_same_games_and_another_does_not() -> None:
    env = make_env("foraging", **GAMES["foraging"])
    table = script_alone("random", env, GAMES["foraging"])
    again, other = play(table, 2, 5, views=False), play(table, 2, 6, views=False)
    first, second = play(table, 2, 5, views=False)
    assert [game.to_bytes() for game in again] == [first.to_bytes(), second.to_bytes()]
    assert other[0].to_bytes() != first.to_bytes()
    assert "obs" not in first


def test_more_games_than_are_played_at_once_go_on_counting() -> None:
    env = make_env("toy_grid")
    games = play(script_alone("random", env, {}), 35, 0, views=False)
    assert [game.header["number"] for game in games] == list(range(1, 36))
    assert not np.array_equal(games[0]["actions"], games[32]["actions"])


def test_games_on_the_host_are_refused() -> None:
    env = make_env("pettingzoo", key="mpe2.simple_spread_v3")
    table = script_alone("random", make_env("toy_grid"), {})
    with pytest.raises(UserError, match="played on the host"):
        play(table._replace(env=env), 1, 0, views=False)


HORIZON = 2


def course_of(game: Recording) -> GameCourse:
    return GameCourse(game["x"], game["y"], game["there"].copy(), game["actions"])


def perfect(game: Recording, whose: Whose, seat: int, later: np.ndarray) -> np.ndarray:
    """The views [T+1, ...] that a player would expect that knew what comes."""
    spec = make_env(game.header["game"], **game.header["env_args"]).spec
    if whose is Whose.OWN:
        return game["obs"][later, seat]
    if whose is Whose.STATE:
        return game["state"][later]
    if whose is Whose.CO_PLAYERS:
        return game["obs"][later][:, [other for other in range(spec.n_agents) if other != seat]]
    parts = np.asarray(steps_of_others(spec).blocks_of(jnp.asarray(game["state"])))
    before = np.maximum(later - 1, 0)
    did = np.eye(spec.n_actions)[game["actions"][before]]
    whom = [(seat + 1 + place) % spec.n_agents for place in range(spec.n_agents - 1)]
    return np.concatenate([parts[before], did], axis=-1)[:, whom].reshape(len(later), -1)


ALL = [(name, whose) for name in GAMES for whose in Whose]
SILENT = {(name, Whose.CO_PLAYERS) for name in ("sc2", "foraging")}
"""Observations that do not tell where their own seat is."""


@pytest.mark.parametrize(("name", "whose"), ALL, ids=[f"{name}-{whose.value}" for name, whose in ALL])
def test_who_knows_what_comes_is_off_by_nothing(name: str, whose: Whose) -> None:
    game = recorded(name)[0]
    env = make_env(name, **GAMES[name])
    scenery = scenery_of(env)
    assert scenery is not None
    later = np.minimum(np.arange(game.steps + 1) + HORIZON, game.steps)
    seat = 1
    expected = ExpectedViews(jnp.asarray(perfect(game, whose, seat, later)), whose, round_table=False)
    found = places(expected, seat, scenery, env.spec, course_of(game), Ahead(HORIZON))
    if (name, whose) in SILENT:
        assert found is None
        return
    assert found is not None
    header, columns = found
    others = [other for other in range(env.spec.n_agents) if other != seat]
    assert header == {
        "kind": "places",
        "pieces": [scenery.seats[other] for other in others],
        "horizon": HORIZON,
        "round_steps": None,
    }
    known = np.isfinite(columns["distance"])
    assert known[:-1].any()
    assert not known[-1]
    np.testing.assert_array_equal(columns["later_x"], _there(game, "x", header["pieces"])[later])
    if whose is Whose.STEPS and name in ("sc2", "foraging", "stag_hunt", "snowdrift", "predator_prey", "rendezvous"):
        # A step says where somebody wanted to go; others may be in the way, bodies have weight, and
        # behind a round everybody is back where it began.
        assert np.nanmean(columns["distance"]) < np.nanmean(columns["stay_distance"]) + 1.0
    else:
        assert np.nanmax(columns["distance"]) < (0.4 if name == "rendezvous" else 1e-3)
    # They stay: the distance from where they are to where they will be.
    pieces = header["pieces"]
    moved = np.hypot(*(_there(game, axis, pieces) - columns[f"later_{axis}"] for axis in "xy"))
    both = np.isfinite(columns["x"]) & np.isfinite(moved) & np.isfinite(columns["later_x"])
    t = int(np.flatnonzero(known)[0])
    np.testing.assert_allclose(columns["stay_distance"][t], moved[t][both[t]].mean(), rtol=1e-5)


def _there(game: Recording, axis: str, pieces: list[int]) -> np.ndarray:
    return np.where(game["there"], game[axis], np.nan)[:, pieces]


def test_ends_of_rounds_are_where_the_last_step_led() -> None:
    """Behind a round everybody is back in the middle; the place that counts is the one before that."""
    game = recorded("rendezvous")[0]
    env = make_env("rendezvous", **GAMES["rendezvous"])
    scenery = scenery_of(env)
    assert scenery is not None
    steps = env.spec.round_steps
    assert steps is not None
    ends = np.minimum((np.arange(game.steps + 1) // steps + 1) * steps, game.steps)
    views = perfect(game, Whose.STEPS, 0, ends)
    found = places(
        ExpectedViews(jnp.asarray(views), Whose.STEPS), 0, scenery, env.spec, course_of(game), Ahead(None, steps)
    )
    assert found is not None
    columns = found[1]
    piece, last = scenery.seats[1], steps - 1
    move = scenery.moves[int(game["actions"][last, 1])]
    np.testing.assert_allclose(columns["later_x"][0, 0], game["x"][last, piece] + move.dx, atol=1e-5)
    np.testing.assert_allclose(columns["later_y"][0, 0], game["y"][last, piece] + move.dy, atol=1e-5)
    assert np.nanmax(columns["distance"]) < 0.4


def test_the_dead_believe_nothing() -> None:
    game = recorded("sc2")[0]
    env = make_env("sc2", **GAMES["sc2"])
    scenery = scenery_of(env)
    assert scenery is not None
    course = course_of(game)
    course.there[4:, 0] = False
    expected = ExpectedViews(jnp.asarray(game["state"]), Whose.STATE)
    found = places(expected, 0, scenery, env.spec, course, Ahead(1))
    assert found is not None
    assert np.isfinite(found[1]["x"][:4]).all()
    assert np.isnan(found[1]["x"][4:]).all()
    assert np.isnan(found[1]["distance"][4:]).all()
    # It is looked at, not changed.
    assert course.there[-1, 1] == game["there"][-1, 1]
