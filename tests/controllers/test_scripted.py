"""Scripted players: always legal, hand-worked decisions, and better than chance where they should be."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest

from helpers.positions import battle_position as place
from helpers.positions import foraging_position as one_game
from omg.components.selectors import random_legal
from omg.controllers.base import PlayerView
from omg.controllers.scripted import SCRIPTED, build_scripted, scripted_names
from omg.controllers.scripted.base import ScriptedPlayer
from omg.envs import ENVS, Env, Observation, make_env
from omg.envs.battle import Battle, BattleArgs
from omg.envs.foraging import Foraging, ForagingArgs
from omg.envs.foraging.env import EAST, LOAD, NORTH, SOUTH, STAY, WEST
from omg.envs.foraging.start import ForagingRounds
from omg.errors import UserError
from omg.runners.vector import play_episodes

NO_OP, STOP, GO_NORTH, GO_SOUTH, GO_EAST, GO_WEST, ATTACK = range(7)


def whole_view(seen: Observation) -> PlayerView:
    """All seats of every game."""
    shape = seen.avail.shape[:2]
    seats = jnp.broadcast_to(jnp.arange(shape[1], dtype=jnp.int32), shape)
    return PlayerView(seen.obs, seen.state, seen.avail, seats, jnp.full(shape, -1, jnp.int32))


def choices(name: str, env: Env, seen: Observation, key: int = 0) -> list[int]:
    """What the script does in every seat of the first game."""
    actions = act(build_scripted(name, env), whole_view(seen), jax.random.PRNGKey(key))
    assert actions.dtype == jnp.int32
    return actions[0].tolist()


@eqx.filter_jit
def act(player: Any, view: PlayerView, key: jax.Array) -> jax.Array:
    """Compiled once for every script and layout: players are equal if they were built for the same one."""
    return player.act_seats(view, None, key, 0.0)[0]


def observed(env: Battle, ally: dict[int, Any], enemy: dict[int, Any]) -> Observation:
    return jax.jit(env.observe)(place(env, ally, enemy))


# ------------------------------------------------------------------------------------------------ legal play

GAMES: list[tuple[str, dict[str, Any]]] = [
    ("sc2", {"map_name": "MMM", "obs_last_action": True, "obs_pathing_grid": True}),
    ("sc2", {"map_name": "2s3z", "start": "random", "obs_timestep_number": True}),
    ("foraging", {}),
    ("foraging", {"rows": 5, "cols": 6, "players": 4, "max_food": 2, "sight": 1}),
    ("foraging", {"rows": 6, "cols": 5, "grid_observation": True, "rounds": 3, "episode_limit": 15}),
    ("foraging", {"rows": 5, "cols": 5, "max_food": 2, "players": 3, "sight": 2, "relative_positions": True}),
    ("toy_grid", {"size": 5}),
    ("rendezvous", {"size": 5, "rounds": 3}),
]


@pytest.mark.parametrize(("name", "args"), GAMES, ids=lambda value: value if isinstance(value, str) else None)
def test_only_legal_actions_in_random_play_and_seats_are_played_one_by_one(name: str, args: dict[str, Any]):
    env = make_env(name, **args)
    players = {script: build_scripted(script, env) for script in scripted_names(name)}

    @jax.jit
    def play(key: jax.Array) -> dict[str, tuple[jax.Array, jax.Array | None]]:
        def step(carry: Any, key: jax.Array) -> Any:
            world, seen = carry
            view = whole_view(seen)
            turned = [part[:, ::-1] for part in (view.obs, view.avail, view.seats)]
            checks = {}
            for script, player in players.items():
                actions, memory, stored = player.act_seats(view, player.initial_seats(6, env.spec.n_agents), key, 0.0)
                assert (actions.shape, memory, stored) == (seen.avail.shape[:2], None, {})
                legal = jnp.take_along_axis(seen.avail, actions[..., None], axis=-1).all()
                same = jnp.all(player.choose(*turned, key)[:, ::-1] == actions) if name == "sc2" else None
                checks[script] = legal, same
            played = random_legal(seen.avail, jax.random.fold_in(key, 1))
            world, seen, _ = env.step(jax.random.fold_in(key, 2), world, played)
            return (world, seen), checks

        return jax.lax.scan(step, env.reset(key, 6), jax.random.split(key, 40))[1]

    checks = play(jax.random.PRNGKey(3))
    assert len(checks) >= 4
    assert {script: bool(legal.all()) for script, (legal, _) in checks.items()} == dict.fromkeys(players, True)
    if name == "sc2":
        without_chance = {script: bool(same.all()) for script, (_, same) in checks.items()}
        assert without_chance == {script: script not in ("random", "kiter") for script in players}


# ------------------------------------------------------------------------------------------------ battles


def marines() -> tuple[Battle, Observation]:
    """Seat 0 has two enemies in reach, seat 1 sees one to the south-east, seat 2 sees none."""
    env = Battle(BattleArgs(map_name="3m"))
    ally = {0: {"x": 0.0, "y": 0.0}, 1: {"x": -2.0, "y": 10.0}, 2: {"x": -14.0, "y": -14.0}}
    enemy = {0: {"x": 4.0, "y": 0.0, "hp": 20.0}, 1: {"x": 3.0, "y": 1.0}, 2: {"x": 2.0, "y": 4.0}}
    return env, observed(env, ally, enemy)


def test_targets_and_ways_of_marines():
    env, seen = marines()
    # Enemy 1 is the nearest, enemy 0 the weakest; from seat 1, enemy 2 is 4 cells east and 6 south.
    assert choices("attack_nearest", env, seen) == [ATTACK + 1, GO_SOUTH, GO_EAST]
    assert choices("attack_weakest", env, seen) == [ATTACK + 0, GO_SOUTH, GO_EAST]
    assert choices("stand", env, seen) == [ATTACK + 1, STOP, STOP]


def test_styles_of_marines():
    env, seen = marines()
    # Enemies 0 to 2 are 4, 3.2 and 4.5 cells from seat 0. Seat 1 sees enemy 2 far to the south-east, seat 2 nobody.
    assert choices("focus_fire", env, seen) == [ATTACK + 0, GO_SOUTH, GO_EAST]
    assert choices("coward", env, seen) == [ATTACK + 1, GO_NORTH, STOP]
    kiting = [choices("kiter", env, seen, key=key) for key in range(12)]
    assert {seats[0] for seats in kiting} == {ATTACK + 1, GO_WEST}
    assert {tuple(seats[1:]) for seats in kiting} == {(GO_SOUTH, GO_EAST)}
    view = whole_view(seen)
    chances = build_scripted("kiter", env).probabilities(view.obs, view.avail, view.seats)[0]
    assert (float(chances[0, ATTACK + 1]), float(chances[0, GO_WEST])) == (0.5, 0.5)
    assert (float(chances[1, GO_SOUTH]), float(chances[2, GO_EAST])) == (1.0, 1.0)


def test_cowards_shoot_only_while_they_are_healthy():
    env = Battle(BattleArgs(map_name="3m"))
    enemy = {0: {"x": 4.5, "y": 0.0}, 1: {"x": 0.0, "y": 5.0}, 2: {"x": 15.0, "y": 15.0}}
    places = {0: {"x": 0.0, "y": 0.0}, 1: {"x": 0.0, "y": -4.0}, 2: {"x": -15.5, "y": -15.5}}
    assert choices("coward", env, observed(env, places, enemy)) == [ATTACK + 0, GO_WEST, STOP]
    hurt = places | {0: {"x": 0.0, "y": 0.0, "hp": 22.0}}
    assert choices("coward", env, observed(env, hurt, enemy))[0] == GO_WEST


def test_steps_are_along_the_longer_axis_and_never_off_the_field():
    env = Battle(BattleArgs(map_name="3m"))
    ally = {0: {"x": 8.0, "y": -15.5}, 1: {"x": 15.5, "y": 15.5}, 2: {"x": 0.0, "y": 0.0, "hp": 0.0}}
    enemy = {i: {"x": 0.0, "y": -13.0 - i} for i in range(3)}
    seen = observed(env, ally, enemy)
    # Seat 0 goes west to the enemies; seat 1 sees nobody and is at the eastern edge; seat 2 is dead.
    assert choices("attack_nearest", env, seen) == [GO_WEST, STOP, NO_OP]


def test_healers_heal_the_most_hurt_and_marauders_leave_aircraft_alone():
    env = Battle(BattleArgs(map_name="MMM"))
    away = {i: {"x": -15.0, "y": -15.0 + 2.0 * i} for i in range(10)}
    far = {i: {"x": 15.0, "y": -15.0 + 2.0 * i} for i in range(10)}
    ally = away | {0: {"x": 0.0, "y": 0.0, "hp": 60.0}, 1: {"x": 1.0, "y": 2.0}, 9: {"x": 0.0, "y": 3.0}}
    # The enemy's medivac is the nearest to the marauder in seat 0, then a marine.
    enemy = far | {9: {"x": 1.0, "y": -1.0}, 4: {"x": 4.0, "y": 0.0}}
    for script in ("attack_nearest", "attack_weakest"):
        actions = choices(script, env, observed(env, ally, enemy))
        assert (actions[0], actions[9]) == (ATTACK + 4, ATTACK + 0), script
    # Nobody in reach: the medivac flies to the nearest ally in sight, seat 1.
    ally[9] = {"x": 8.5, "y": 2.0}
    assert choices("attack_nearest", env, observed(env, ally, enemy))[9] == GO_WEST


class OneScriptPerThird(ScriptedPlayer):
    """Three scripts in three equal parts of the games: the game is compiled once for all of them."""

    players: tuple[ScriptedPlayer, ...]

    def choose(self, obs: jax.Array, avail: jax.Array, seats: jax.Array, key: jax.Array) -> jax.Array:
        parts = zip(self.players, *(jnp.split(values, 3) for values in (obs, avail, seats)), strict=True)
        return jnp.concatenate([player.choose(*part, key) for player, *part in parts])


def test_scripts_beat_random_play_on_8m():
    env = make_env("sc2", map_name="8m")
    names = ("random", "attack_nearest", "attack_weakest")
    policy = OneScriptPerThird(tuple(build_scripted(name, env) for name in names))
    stats = jax.jit(lambda: play_episodes(env, policy, jax.random.PRNGKey(5), 48, 0.0, record=False).stats)()
    returns = stats.returns.reshape(3, 16).mean(axis=1)
    kills, won = (stats.metrics[name].reshape(3, 16).mean(axis=1) for name in ("dead_enemies", "battle_won"))
    assert kills[0] < 0.5
    assert kills[1] > 4
    assert returns[1] > returns[0] + 8
    # Shooting at one enemy together is what wins against units that each shoot at the nearest.
    assert won[0] == 0
    assert won[2] > 0.15


# ------------------------------------------------------------------------------------------------ foraging


def forage(players: list[tuple[int, int, int]], foods: list[tuple[int, int, int]], **args: Any) -> Any:
    """A game of 8x8 cells in the given position: the game, its state and what the players see."""
    env = Foraging(ForagingArgs(players=len(players), max_food=len(foods), **args))
    state = one_game(players, foods)
    return env, state, jax.jit(env._observe)(state)


FOODS = [(1, 4, 2), (4, 1, 1), (6, 6, 4)]
"""(row, column, level)."""


@pytest.mark.parametrize(
    ("player", "nearest", "highest", "own"),
    [
        # At (1, 1) both other foods are 3 away: the first listed is taken; alone it can lift level 1 only.
        ((1, 1, 1), EAST, SOUTH, SOUTH),
        # Level 2: the highest it can lift is beside it.
        ((1, 3, 2), LOAD, LOAD, LOAD),
        # Level 5 can lift all; the highest is 5 down and 3 right, the longer axis goes first.
        ((1, 3, 5), LOAD, SOUTH, LOAD),
        # Beside the level-1 food, but level 2 looks for the better one, 3 up and 2 right.
        ((4, 2, 2), LOAD, NORTH, LOAD),
        ((6, 2, 1), NORTH, NORTH, NORTH),
        ((6, 5, 1), LOAD, WEST, WEST),
    ],
)
def test_one_forager(player: tuple[int, int, int], nearest: int, highest: int, own: int):
    env, _, seen = forage([player], FOODS)
    found = [choices(script, env, seen)[0] for script in ("nearest_food", "highest_food", "own_level")]
    assert found == [nearest, highest, own]


def test_sides_come_before_distance_and_distance_decides_between_equals():
    env, _, seen = forage([(4, 4, 1)], [(1, 4, 1), (4, 1, 1), (4, 6, 1), (6, 3, 1)])
    sides = {"left_food": WEST, "right_food": EAST, "top_food": NORTH, "bottom_food": SOUTH}
    assert {script: choices(script, env, seen)[0] for script in sides} == sides
    # Both lie as far to the left as one another: the lower one is nearer.
    env, _, seen = forage([(5, 4, 1)], [(1, 1, 1), (6, 1, 1)])
    assert choices("left_food", env, seen) == [WEST]
    env, _, seen = forage([(5, 1, 1)], [(1, 1, 1), (6, 1, 1)])
    assert choices("left_food", env, seen) == [LOAD]


def test_some_change_sides_from_round_to_round():
    args = {"rounds": 3, "episode_limit": 5}
    env, state, _ = forage([(4, 4, 1)], [(1, 4, 1), (4, 1, 1), (4, 6, 1)], **args)
    turns = {
        "left_right_food": [WEST, EAST, WEST],
        "right_left_food": [EAST, WEST, EAST],
        "top_bottom_food": [NORTH, EAST, NORTH],
        "bottom_top_food": [EAST, NORTH, EAST],
        "left_food": [WEST] * 3,
    }
    for number in range(3):
        rounds = ForagingRounds(*jnp.asarray([[number], [0], [0]]))
        seen = jax.jit(env._observe)(state._replace(rounds=rounds))
        assert {script: choices(script, env, seen)[0] for script in turns} == {
            script: ways[number] for script, ways in turns.items()
        }


def test_food_in_the_way_is_passed_by_one_step_aside():
    env, state, seen = forage([(3, 1, 3)], [(3, 2, 1), (3, 5, 3)])
    walked, step = [], jax.jit(env.step)
    for _ in range(6):
        action = choices("highest_food", env, seen)
        walked += action
        state, seen, _ = step(jax.random.PRNGKey(0), state, jnp.asarray([action]))
    assert walked == [NORTH, EAST, EAST, EAST, SOUTH, LOAD]
    assert state.food_level[:, 0].tolist() == [1, 0]


def test_a_player_in_the_way_is_passed_and_two_lift_together():
    """Seat 1 stands between seat 0 and the food, which only both can lift."""
    env, state, seen = forage([(3, 1, 1), (3, 2, 1)], [(3, 3, 2)])
    assert choices("nearest_food", env, seen)[1] == LOAD
    step = jax.jit(env.step)
    for played in range(30):
        actions = choices("nearest_food", env, seen, key=played)
        state, seen, outcome = step(jax.random.PRNGKey(0), state, jnp.asarray([actions]))
        if bool(outcome.terminated[0]):
            break
    assert played < 20
    assert outcome.reward[0].tolist() == [0.5, 0.5]


def test_who_cannot_lift_alone_keeps_to_the_others():
    # Nothing of level 1: seat 0 goes to seat 1 (4 right), seat 1 stands beside the food of its level.
    env, _, seen = forage([(5, 1, 1), (5, 5, 2)], [(4, 5, 2)])
    assert choices("own_level", env, seen) == [EAST, LOAD]
    # Beside the other it waits, and where both touch food it helps.
    env, _, seen = forage([(6, 1, 1), (6, 2, 1)], [(2, 5, 2)])
    assert choices("own_level", env, seen) == [STAY, STAY]
    env, _, seen = forage([(4, 4, 1), (3, 5, 1)], [(4, 5, 2)])
    assert choices("own_level", env, seen) == [LOAD, LOAD]


def test_foragers_search_when_they_see_nothing():
    env, _, seen = forage([(6, 1, 1)], [(1, 6, 1)], sight=1)
    steps = {choices("nearest_food", env, seen, key=key)[0] for key in range(24)}
    assert steps == {STAY, NORTH, SOUTH, WEST, EAST}


# ------------------------------------------------------------------------------------------------ registry


def test_every_game_has_a_random_player_and_every_script_a_game():
    assert all("random" in scripted_names(env) for env in ENVS)
    assert all(set(entry.traits.envs) <= set(ENVS) and entry.summary for entry in SCRIPTED.values())
    assert scripted_names("sc2")[:4] == ["random", "attack_nearest", "attack_weakest", "stand"]


@pytest.mark.parametrize(
    ("name", "env", "args", "message"),
    [
        ("attack_neares", "sc2", {}, "Unknown script 'attack_neares'. Did you mean 'attack_nearest'? Allowed: "),
        (
            "stand",
            "foraging",
            {},
            "Script 'stand' plays sc2, but the game is foraging. Allowed: random, nearest_food, ",
        ),
        ("attack_weakest", "sc2", {"obs_all_health": False}, "'attack_weakest': got env_args.obs_all_health=False"),
        ("coward", "sc2", {"obs_own_health": False}, "'coward': got env_args.obs_own_health=False"),
        ("own_level", "foraging", {"observe_agent_levels": False}, "got env_args.observe_agent_levels=False"),
    ],
)
def test_what_cannot_be_built_is_refused(name: str, env: str, args: dict[str, Any], message: str):
    with pytest.raises(UserError) as refused:
        build_scripted(name, make_env(env, **args))
    assert message in str(refused.value)


@pytest.mark.parametrize("args", [{"grid_observation": True}, {"relative_positions": True}], ids=str)
@pytest.mark.parametrize("script", ["nearest_food", "highest_food", "own_level", "left_food"])
def test_foragers_act_alike_however_they_see_the_field(script: str, args: dict[str, Any]):
    listed, other = make_env("foraging", rows=6, cols=7), make_env("foraging", rows=6, cols=7, **args)

    @jax.jit
    def play(world: Any, seen: Observation) -> tuple[list[jax.Array], Any]:
        actions = [
            build_scripted(script, env).choose(view.obs, view.avail, whole_view(view).seats, jax.random.key(1))
            for env, view in ((listed, seen), (other, other._observe(world)))
        ]
        return actions, listed.step(jax.random.key(0), world, actions[0])[:2]

    now = jax.jit(listed.reset, static_argnums=1)(jax.random.key(4), 64)
    for _ in range(2):
        actions, now = play(*now)
        # Of equally good foods the first of the list is taken, or the first of the map.
        assert (actions[0] == actions[1]).mean() > 0.9
