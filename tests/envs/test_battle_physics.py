"""The fights themselves: hand-worked cases, and properties that hold for every fight."""

from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.compiling import optimised
from helpers.positions import battle_position as place
from omg.components.selectors import random_legal
from omg.envs.battle import Battle, BattleArgs
from omg.envs.battle.units import (
    BANELING,
    COLOSSUS,
    MARAUDER,
    MARINE,
    STALKER,
    ZEALOT,
    ZERGLING,
    damage_per_volley,
)

STOP, NORTH, EAST, WEST, ATTACK = 1, 2, 4, 5, 6


@cache
def env_of(name, **args):
    return Battle(BattleArgs(map_name=name, **args))


@cache
def compiled(env):
    """The step of a game; compiled once as a whole, not operation by operation in every test."""
    return jax.jit(env.step)


def step(env, world, actions, seed=0):
    return compiled(env)(jax.random.PRNGKey(seed), world, jnp.asarray([actions], jnp.int32))


def apart(count, x, y=-14.0):
    """Units out of everybody's way, two cells from each other."""
    return {i: {"x": x, "y": y + 2.0 * i} for i in range(count)}


@pytest.mark.parametrize(
    ("attacker", "target", "expected"),
    [
        (MARINE, MARINE, 6.0),
        (MARINE, MARAUDER, 5.0),  # armour 1
        (MARAUDER, STALKER, 19.0),  # 10 + 10 against armoured, armour 1
        (ZEALOT, MARAUDER, 14.0),  # two hits of 8, armour 1 each
        (COLOSSUS, ZERGLING, 30.0),  # two hits of 10 + 5 against light
        (BANELING, ZEALOT, 34.0),  # 16 + 19 against light, armour 1
    ],
)
def test_damage_of_one_volley(attacker, target, expected):
    assert damage_per_volley(attacker, target, armoured=True) == expected


def test_a_marine_shoots_six_points_and_then_reloads():
    env = env_of("3m")
    ally = {0: {"x": 0.0, "y": 0.0}, 1: {"x": -15.0, "y": -15.0}, 2: {"x": -15.0, "y": 15.0}}
    enemy = {0: {"x": 4.0, "y": 0.0, "cooldown": 99.0}, 1: {"x": 15.0, "y": 15.0}, 2: {"x": 15.0, "y": -15.0}}
    world, _, out = step(env, place(env, ally, enemy), [ATTACK, STOP, STOP])
    assert float(world.enemy.hp[0, 0]) == 39.0
    # 0.61 s are 13.66 ticks; the shot fell in the first of eight ticks; the cooldown varies by -1 to +2 ticks.
    assert float(world.ally.cooldown[0, 0]) + 1e-4 >= 13.664 - 1 - 8
    assert float(world.ally.cooldown[0, 0]) - 1e-4 <= 13.664 + 2 - 8
    scale = 20 / (3 * 10 + 200 + 3 * 45)
    assert float(out.reward[0]) == pytest.approx(6 * scale, rel=1e-5)


def test_a_move_covers_speed_times_time_and_stop_stands():
    env = env_of("3m")
    world = place(env, apart(3, -12.0), apart(3, 12.0))
    after, _, _ = step(env, world, [EAST, NORTH, STOP])
    stride = 3.15 * 8 / 22.4
    assert float(after.ally.x[0, 0] - world.ally.x[0, 0]) == pytest.approx(stride, abs=1e-4)
    assert float(after.ally.y[1, 0] - world.ally.y[1, 0]) == pytest.approx(stride, abs=1e-4)
    assert float(after.ally.x[2, 0]) == float(world.ally.x[2, 0])


def test_a_win_pays_the_rest_of_twenty_and_ends_the_battle():
    env = env_of("3m")
    ally = {0: {"x": 0.0, "y": 0.0}}
    enemy = {0: {"x": 4.0, "y": 0.0, "hp": 5.0, "cooldown": 99.0}, 1: {"hp": 0.0}, 2: {"hp": 0.0}}
    _, _, out = step(env, place(env, ally, enemy), [ATTACK, STOP, STOP])
    scale = 20 / (3 * 10 + 200 + 3 * 45)
    assert float(out.reward[0]) == pytest.approx((5 + 10 + 200) * scale, rel=1e-5)
    assert bool(out.terminated[0])
    assert not bool(out.truncated[0])
    assert float(out.metrics["battle_won"][0]) == 1.0


def test_a_defeat_pays_nothing_by_default_and_minus_one_when_sparse():
    for args, expected in (({}, 0.0), ({"reward_sparse": True}, -1.0)):
        env = env_of("3m", **args)
        ally = {0: {"x": 0.0, "y": 0.0, "hp": 3.0}, 1: {"hp": 0.0}, 2: {"hp": 0.0}}
        _, _, out = step(env, place(env, ally, {0: {"x": 4.0, "y": 0.0}}), [STOP] * 3)
        assert (float(out.reward[0]), bool(out.terminated[0])) == (expected, True)
        assert float(out.metrics["battle_won"][0]) == 0.0


def test_own_losses_cost_half_when_rewards_may_be_negative():
    env = env_of("3m", reward_only_positive=False)
    ally = {0: {"x": 0.0, "y": 0.0}, 1: {"x": -15.0, "y": -15.0}, 2: {"x": -15.0, "y": 15.0}}
    _, _, out = step(env, place(env, ally, {0: {"x": 4.0, "y": 0.0}, 1: {"hp": 0.0}, 2: {"hp": 0.0}}), [STOP] * 3)
    assert float(out.reward[0]) == pytest.approx(-0.5 * 6 * 20 / 365, rel=1e-4)


def test_time_out_is_truncation():
    env = env_of("3m", episode_limit=1)
    _, _, out = step(env, place(env), [STOP] * 3)
    assert (bool(out.terminated[0]), bool(out.truncated[0])) == (False, True)


def test_shields_take_damage_first_and_recover_after_ten_seconds():
    env = env_of("2s3z")
    ally, enemy = apart(5, -12.0), apart(5, 12.0)
    ally[0] = {"x": 0.0, "y": 0.0}
    enemy[0] = {"x": 5.0, "y": 0.0, "cooldown": 99.0}
    world, _, _ = step(env, place(env, ally, enemy), [ATTACK, STOP, STOP, STOP, STOP])
    assert (float(world.enemy.shield[0, 0]), float(world.enemy.hp[0, 0])) == (62.0, 80.0)  # 13 + 5 against armoured
    hurt = place(env, {0: {"shield": 10.0, "calm": 300.0}, 1: {"shield": 10.0, "calm": 0.0}})
    world, _, _ = step(env, hurt, [STOP] * 5)
    assert float(world.ally.shield[0, 0]) == pytest.approx(10 + 8 * 2 / 22.4, abs=1e-3)
    assert float(world.ally.shield[1, 0]) == 10.0


def test_a_medivac_heals_and_marauders_cannot_shoot_it():
    env = env_of("MMM")
    ally, enemy = apart(10, -14.0), apart(10, 14.0)
    ally[9] = {"x": 0.0, "y": 0.0}
    ally[2] = {"x": 2.0, "y": 0.0, "hp": 10.0}
    actions = [STOP] * 9 + [ATTACK + 2]
    world, _, _ = step(env, place(env, ally, enemy), actions)
    assert float(world.ally.hp[2, 0]) == pytest.approx(10 + 8 * 12.6 / 22.4, abs=1e-3)
    assert float(world.ally.energy[9, 0]) == pytest.approx(50 - 8 * 4.2 / 22.4 + 8 * 0.7875 / 22.4, abs=1e-3)
    ally[0] = {"x": 5.0, "y": 0.0}  # a marauder beside the enemy's medivac
    enemy[9] = {"x": 6.0, "y": 0.0}
    world, _, _ = step(env, place(env, ally, enemy), [ATTACK + 9] + [STOP] * 9)
    assert float(world.enemy.hp[9, 0]) == 150.0


def test_a_side_with_only_its_medivac_left_has_lost():
    env = env_of("MMM")
    dead = {i: {"hp": 0.0} for i in range(9)}
    _, _, out = step(env, place(env, apart(10, -14.0), {**apart(10, 14.0), **dead}), [STOP] * 10)
    assert bool(out.terminated[0])
    assert float(out.metrics["battle_won"][0]) == 1.0


def test_a_baneling_explodes_and_takes_its_neighbours_along():
    env = env_of("so_many_baneling")
    enemy = {j: {"hp": 0.0} for j in range(32)} | {0: {"x": 0.6, "y": 0.0}}
    ally = apart(7, -14.0) | {0: {"x": 0.0, "y": 0.0}, 1: {"x": -1.5, "y": 0.0}, 2: {"x": -4.0, "y": 0.0}}
    world, _, out = step(env, place(env, ally, enemy), [STOP] * 7)
    assert float(world.enemy.hp[0, 0]) == 0.0
    assert bool(out.terminated[0])
    lost = 150 - np.asarray(world.ally.hp + world.ally.shield)[:3, 0]
    assert lost.tolist() == [35.0, 35.0, 0.0]


def test_a_colossus_burns_a_line_across_its_fire():
    env = env_of("2c_vs_64zg")
    enemy = {j: {"hp": 0.0} for j in range(64)}
    enemy |= {0: {"x": 5.0, "y": 0.0}, 1: {"x": 5.0, "y": 1.0}, 2: {"x": 5.0, "y": 3.0}, 3: {"x": 7.0, "y": 0.0}}
    for j in range(4):
        enemy[j]["cooldown"] = 99.0
    ally = {0: {"x": 0.0, "y": 0.0}, 1: {"x": -14.0, "y": -14.0}}
    one_tick = env_of("2c_vs_64zg", step_mul=1)
    world, _, _ = step(one_tick, place(env, ally, enemy), [ATTACK, STOP])
    hp = np.asarray(world.enemy.hp)[:4, 0]
    assert (hp < 35).tolist() == [True, True, False, False]


def test_units_do_not_overlap_for_long():
    env = env_of("8m")
    crowd = {i: {"x": 0.1 * i, "y": 0.05 * i} for i in range(8)}
    world = place(env, crowd, apart(8, 14.0))
    for index in range(6):
        world, _, _ = step(env, world, [STOP] * 8, index)
    x, y = np.asarray(world.ally.x)[:, 0], np.asarray(world.ally.y)[:, 0]
    distance = np.hypot(x[:, None] - x, y[:, None] - y) + 99 * np.eye(8)
    assert distance.min() > 0.85 * 2 * 0.375


@pytest.fixture(scope="module")
def fights():
    """A compiled random fight per map: key -> states of all steps, batch of 16."""

    def fight(env, key):
        start_key, key = jax.random.split(key)
        world, seen = env.reset(start_key, 16)

        def body(carry, key):
            world, seen = carry
            act_key, env_key = jax.random.split(key)
            actions = random_legal(seen.avail, act_key)
            after, later, out = env.step(env_key, world, actions)
            return (after, later), (world, seen, actions, after, out)

        return jax.lax.scan(body, (world, seen), jax.random.split(key, 30))[1]

    names = ("3m", "2s3z", "MMM", "bane_vs_bane")
    return {name: jax.jit(partial(fight, env_of(name, start="random"))) for name in names}


@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 2**31 - 1), name=st.sampled_from(["3m", "2s3z", "MMM", "bane_vs_bane"]))
def test_every_fight_obeys_the_rules(fights, seed, name):
    before, seen, actions, after, out = jax.device_get(fights[name](jax.random.PRNGKey(seed)))
    for side, limit in ((after.ally, "ally"), (after.enemy, "enemy")):
        assert (side.hp >= 0).all(), limit
        assert (side.shield >= 0).all()
        assert np.isfinite(side.x).all()
        assert (np.abs(side.x) <= 16).all()
        assert (np.abs(side.y) <= 16).all()
    dead = before.ally.hp <= 0
    assert (after.ally.hp[dead] == 0).all(), "the dead stay dead"
    assert (after.ally.x[dead] == before.ally.x[dead]).all(), "the dead do not move"
    assert (after.ally.cooldown[dead] <= np.maximum(before.ally.cooldown[dead], 0)).all(), "the dead do not shoot"
    assert seen.avail.any(axis=-1).all(), "something is always legal"
    legal = np.take_along_axis(seen.avail, actions[..., None].astype(np.int64), axis=-1)
    assert legal.all()
    assert not (out.terminated & out.truncated).any()
    assert (out.reward >= 0).all()


@settings(max_examples=5, deadline=None)
@given(seed=st.integers(0, 2**31 - 1))
def test_same_key_same_fight(fights, seed):
    first = jax.device_get(fights["2s3z"](jax.random.PRNGKey(seed)))
    second = jax.device_get(fights["2s3z"](jax.random.PRNGKey(seed)))
    jax.tree.map(np.testing.assert_array_equal, first, second)
    other = jax.device_get(fights["2s3z"](jax.random.PRNGKey(seed + 1)))
    assert (first[3].ally.x != other[3].ally.x).any()


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**31 - 1))
def test_mirrored_positions_give_mirrored_fights(seed):
    """North and south exchanged in position and orders: the same fight, exactly mirrored."""
    env = env_of("3m")
    advance = compiled(env)
    rng = np.random.default_rng(seed)
    spots = rng.uniform(-6, 6, (2, 6)).astype(np.float32)
    ally = {i: {"x": spots[0, i], "y": spots[1, i]} for i in range(3)}
    enemy = {i: {"x": spots[0, 3 + i], "y": spots[1, 3 + i]} for i in range(3)}
    flipped = [{i: {"x": at["x"], "y": -at["y"]} for i, at in side.items()} for side in (ally, enemy)]
    world, mirror = place(env, ally, enemy), place(env, *flipped)
    rally = world.rally.at[1].set(3.0).at[3].set(-2.0)
    world = world._replace(rally=rally)
    mirror = mirror._replace(rally=rally.at[1].set(-3.0).at[3].set(2.0))
    swap = np.array([0, 1, 3, 2, 4, 5, 6, 7, 8])
    for index in range(8):
        actions = rng.integers(1, 9, (1, 3))
        world, _, out = advance(jax.random.PRNGKey(index), world, jnp.asarray(actions, jnp.int32))
        mirror, _, also = advance(jax.random.PRNGKey(index), mirror, jnp.asarray(swap[actions], jnp.int32))
        np.testing.assert_array_equal(world.ally.hp, mirror.ally.hp)
        np.testing.assert_array_equal(world.enemy.hp, mirror.enemy.hp)
        np.testing.assert_array_equal(world.ally.y, -mirror.ally.y)
        np.testing.assert_array_equal(world.enemy.x, mirror.enemy.x)
        assert float(out.reward[0]) == float(also.reward[0])


def test_both_sides_can_be_commanded_and_sides_exchanged():
    """The same orders from either side give the same fight with the roles exchanged."""
    env = env_of("3m")
    rng = np.random.default_rng(3)
    plans = [rng.integers(1, 9, (1, 3)) for _ in range(24)]
    world, other = place(env), place(env)
    still = np.ones((1, 3), np.int32)
    advance = jax.jit(env.step_both)
    for index, plan in enumerate(plans):
        key = jax.random.PRNGKey(index)
        world, mine, _, _ = advance(key, world, jnp.asarray(plan, jnp.int32), jnp.asarray(still))
        other, _, theirs, _ = advance(key, other, jnp.asarray(still), jnp.asarray(plan, jnp.int32))
        np.testing.assert_allclose(world.ally.x, -other.enemy.x, atol=1e-5)
        np.testing.assert_allclose(world.ally.y, other.enemy.y, atol=1e-5)
        np.testing.assert_allclose(mine.obs[..., :4], theirs.obs[..., :4])


def test_a_random_team_loses_and_the_script_is_an_even_match():
    env = env_of("8m")
    scripted = env_of("8m", heuristic_ai=True)

    def won(env, key):
        key, start = jax.random.split(key)
        world, seen = env.reset(start, 256)

        def body(carry, key):
            world, seen, over, won = carry
            act, fight = jax.random.split(key)
            world, seen, out = env.step(fight, world, random_legal(seen.avail, act))
            won = jnp.where(over, won, out.metrics["battle_won"])
            return (world, seen, over | out.terminated, won), None

        start_carry = (world, seen, jnp.zeros(256, bool), jnp.zeros(256))
        return jax.lax.scan(body, start_carry, jax.random.split(key, 120))[0][3].mean()

    with optimised():
        assert float(jax.jit(partial(won, env))(jax.random.PRNGKey(0))) < 0.02
        assert 0.3 < float(jax.jit(partial(won, scripted))(jax.random.PRNGKey(0))) < 0.7


@pytest.mark.parametrize("name", ["8m", "2s3z", "MMM", "bane_vs_bane"])
def test_the_forms_for_cpu_and_gpu_agree(name, monkeypatch):
    """Pair reductions are written twice; here the GPU's form runs on the CPU, from crowded random positions."""
    env = env_of(name, start="random", step_mul=4)

    def once(key):
        start, act, fight = jax.random.split(key, 3)
        world, _ = env.reset(start, 64)
        shrink = [side._replace(x=side.x * 0.15, y=side.y * 0.15) for side in (world.ally, world.enemy)]
        world = world._replace(ally=shrink[0], enemy=shrink[1])
        return env.step(fight, world, random_legal(env.observe(world).avail, act))

    on_cpu = jax.jit(once)(jax.random.PRNGKey(5))
    monkeypatch.setattr(jax.lax, "platform_dependent", lambda *args, default, **_: default(*args))
    on_gpu = jax.jit(lambda key: once(key))(jax.random.PRNGKey(5))
    assert float(on_cpu[2].reward.sum()) > 0, "somebody must have been hit"
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-5), on_cpu, on_gpu)
