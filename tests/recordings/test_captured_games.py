"""Recordings hold what the game itself did: every built-in game is played once more, step by step."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from omg.controllers.others import steps_of_others
from omg.envs import ENVS, Env, make_env
from omg.envs.scenes import scenery_of
from omg.errors import UserError
from omg.modules.told import ExpectedViews, Whose
from omg.recordings import Recording
from omg.recordings.places import Ahead, GameCourses, places
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


def course_of(game: Recording, steps: int | None = None, **changed: np.ndarray) -> GameCourses:
    """Of two games of which the second is the one that is given, or its first steps; the first is one step long."""
    columns = [np.stack([changed.get(name, game[name])] * 2) for name in ("x", "y", "there", "actions")]
    return GameCourses(*columns, np.array([1, game.steps if steps is None else steps]))


def places_of(
    expected: np.ndarray, whose: Whose, seat: int, env: Env, course: GameCourses, ahead: Ahead, *, round_table: bool
) -> tuple[Any, dict[str, np.ndarray]] | None:
    """What one seat expects in the second of two games."""
    scenery = scenery_of(env)
    assert scenery is not None
    views = ExpectedViews(jnp.asarray(expected[None]), whose, round_table=round_table)
    found = places(views, np.array([1]), seat, scenery, env.spec, course, ahead)
    return None if found is None else (found[0], {name: part[0] for name, part in found[1].items()})


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
    expected = perfect(game, whose, seat, later)
    found = places_of(expected, whose, seat, env, course_of(game), Ahead(HORIZON), round_table=False)
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
    found = places_of(views, Whose.STEPS, 0, env, course_of(game), Ahead(None, steps), round_table=True)
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
    there = game["there"].copy()
    there[4:, 0] = False
    course = course_of(game, there=there)
    found = places_of(game["state"], Whose.STATE, 0, env, course, Ahead(1), round_table=True)
    assert found is not None
    assert np.isfinite(found[1]["x"][:4]).all()
    assert np.isnan(found[1]["x"][4:]).all()
    assert np.isnan(found[1]["distance"][4:]).all()
    # It is looked at, not changed.
    assert course.there[1, game.steps, 1] == game["there"][-1, 1]


def test_behind_the_end_of_a_game_stands_anything() -> None:
    game = recorded("sc2")[0]
    env = make_env("sc2", **GAMES["sc2"])
    last = game.steps - 3
    changed = {name: game[name].copy() for name in ("x", "y", "there", "actions")}
    for name, part in changed.items():
        part[last + (name != "actions") :] = 1
    for ahead in (Ahead(HORIZON), Ahead(None, 4)):
        found = [
            places_of(game["state"], Whose.STATE, 0, env, course_of(game, last, **other), ahead, round_table=True)
            for other in ({}, changed)
        ]
        assert found[0] is not None
        assert found[1] is not None
        for name, part in found[0][1].items():
            np.testing.assert_array_equal(part[: last + 1], found[1][1][name][: last + 1])
        assert np.isfinite(found[0][1]["distance"][:last]).any()
