"""SMAC's contract: sizes of all maps, and observations of hand-placed positions worked out by hand."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers.positions import battle_position as place
from omg.envs import make_env
from omg.envs.battle import MAPS, Battle, BattleArgs
from omg.errors import UserError

# name: allies, enemies, actions, obs, state, episode limit
SIZES = {
    "3m": (3, 3, 9, 30, 48, 60),
    "8m": (8, 8, 14, 80, 168, 120),
    "25m": (25, 25, 31, 250, 950, 150),
    "5m_vs_6m": (5, 6, 12, 55, 98, 70),
    "8m_vs_9m": (8, 9, 15, 85, 179, 120),
    "10m_vs_11m": (10, 11, 17, 105, 243, 150),
    "27m_vs_30m": (27, 30, 36, 285, 1170, 180),
    "MMM": (10, 10, 16, 160, 290, 150),
    "MMM2": (10, 12, 18, 176, 322, 180),
    "2s3z": (5, 5, 11, 80, 120, 120),
    "3s5z": (8, 8, 14, 128, 216, 150),
    "3s5z_vs_3s6z": (8, 9, 15, 136, 230, 170),
    "3s_vs_3z": (3, 3, 9, 36, 54, 150),
    "3s_vs_4z": (3, 4, 10, 42, 61, 200),
    "3s_vs_5z": (3, 5, 11, 48, 68, 250),
    "1c3s5z": (9, 9, 15, 162, 270, 180),
    "2m_vs_1z": (2, 1, 7, 16, 26, 150),
    "corridor": (6, 24, 30, 156, 282, 400),
    "6h_vs_8z": (6, 8, 14, 78, 140, 150),
    "2s_vs_1sc": (2, 1, 7, 17, 27, 300),
    "so_many_baneling": (7, 32, 38, 202, 397, 100),
    "bane_vs_bane": (24, 24, 30, 336, 984, 200),
    "2c_vs_64zg": (2, 64, 70, 332, 342, 400),
}


@cache
def observe(env):
    """What the allies see: world -> observation, compiled."""
    return jax.jit(env.observe)


def test_there_are_exactly_smacs_maps():
    assert set(MAPS) == set(SIZES)


@pytest.mark.parametrize("name", SIZES)
def test_sizes(name):
    env = make_env("sc2", map_name=name)
    spec = env.spec
    got = (spec.n_agents, env.rules.enemy.n, spec.n_actions, spec.obs_dim, spec.state_dim, spec.episode_limit)
    assert got == SIZES[name]


@pytest.mark.parametrize("name", ["8m", "MMM2", "2s3z", "2c_vs_64zg"])
def test_arrays_have_the_sizes_of_the_spec(name):
    env = make_env("sc2", map_name=name)
    shapes = jax.eval_shape(lambda: env.reset(jax.random.PRNGKey(0), 2)[1])
    assert shapes.obs.shape == (2, env.spec.n_agents, env.spec.obs_dim)
    assert shapes.state.shape == (2, env.spec.state_dim)
    assert shapes.avail.shape == (2, env.spec.n_agents, env.spec.n_actions)


@pytest.fixture(scope="module")
def eight():
    return Battle(BattleArgs(map_name="8m"))


def test_observation_of_a_hand_placed_8m_position(eight):
    """Unit 0 stands at (1, 2). What it must see follows from SMAC's rules, worked out by hand."""
    far = {"x": 15.0, "y": -15.0}
    ally = {i: dict(far) for i in range(1, 8)}
    enemy = {j: {"x": 15.0, "y": 15.0} for j in range(8)}
    ally[0] = {"x": 1.0, "y": 2.0, "hp": 30.0}
    enemy[0] = {"x": 4.0, "y": 6.0, "hp": 9.0}  # 3 east, 4 north: distance 5, in range
    enemy[1] = {"x": 1.0, "y": -6.0}  # 8 south: seen, out of range
    enemy[2] = {"x": 10.0, "y": 2.0}  # exactly 9 east: SMAC sees strictly closer than 9 only
    enemy[3] = {"x": 2.0, "y": 2.0, "hp": 0.0}  # dead
    enemy[4] = {"x": 7.0, "y": 2.0}  # exactly 6 east: in range (SMAC: distance <= 6)
    ally[1] = {"x": 1.0, "y": 2.0 - 4.5, "hp": 45.0}  # 4.5 south
    ally[2] = {"x": 1.5, "y": 2.0, "hp": 0.0}  # dead
    ally[7] = {"x": -8.0, "y": 2.0}  # exactly 9 west: unseen
    seen = observe(eight)(place(eight, ally, enemy))
    obs = np.asarray(seen.obs[0, 0])
    expected = np.zeros(80, np.float32)
    expected[0:4] = 1  # all four moves
    expected[4:9] = [1, 5 / 9, 3 / 9, 4 / 9, 9 / 45]
    expected[9:14] = [0, 8 / 9, 0, -8 / 9, 1]
    expected[4 + 4 * 5 : 4 + 5 * 5] = [1, 6 / 9, 6 / 9, 0, 1]
    expected[44:49] = [1, 0.5, 0, -0.5, 1]  # ally 1 is the first other ally
    expected[79] = 30 / 45
    np.testing.assert_allclose(obs, expected, atol=1e-6)
    legal = np.asarray(seen.avail[0, 0])
    assert legal.tolist() == [0, 1, 1, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 0]


def test_the_dead_see_nothing_and_may_only_do_nothing(eight):
    seen = observe(eight)(place(eight, ally={3: {"hp": 0.0}}))
    assert not np.asarray(seen.obs[0, 3]).any()
    assert np.asarray(seen.avail[0, 3]).tolist() == [1] + [0] * 13


def test_moves_end_at_the_edge_of_the_field(eight):
    seen = observe(eight)(place(eight, ally={0: {"x": 15.5, "y": -15.5}}))
    north, south, east, west = np.asarray(seen.avail[0, 0, 2:6])
    assert (north, south, east, west) == (1, 0, 0, 1)
    assert np.asarray(seen.obs[0, 0, :4]).tolist() == [1, 0, 0, 1]


def test_state_of_a_hand_placed_8m_position(eight):
    world = place(
        eight,
        ally={0: {"x": 8.0, "y": -4.0, "hp": 15.0, "cooldown": 7.5}, 1: {"hp": 0.0}},
        enemy={2: {"x": -16.0, "y": 16.0, "hp": 22.5}},
        ally_last=jnp.full((8, 1), -1, jnp.int32).at[0, 0].set(6).at[1, 0].set(0),
    )
    state = np.asarray(observe(eight)(world).state[0])
    np.testing.assert_allclose(state[:4], [15 / 45, 7.5 / 15, 0.25, -0.125], atol=1e-6)
    assert not state[4:8].any(), "a dead ally is all zeros"
    np.testing.assert_allclose(state[32 + 6 : 32 + 9], [0.5, -0.5, 0.5], atol=1e-6)
    actions = state[56:].reshape(8, 14)
    assert actions[0].tolist() == [0] * 6 + [1] + [0] * 7
    assert actions[1].tolist() == [1] + [0] * 13
    assert not actions[2:].any(), "no last action before the first step"


def test_shields_types_and_healing_targets_on_mmm_and_2s3z():
    env = Battle(BattleArgs(map_name="2s3z"))
    seen = observe(env)(place(env, ally={0: {"x": 0.0, "y": 0.0, "shield": 40.0}}, enemy={4: {"x": 3.0, "y": 0.0}}))
    own = np.asarray(seen.obs[0, 0, -4:])
    np.testing.assert_allclose(own, [1, 0.5, 1, 0], atol=1e-6)  # health, shield, stalker bit, zealot bit
    zealot = np.asarray(seen.obs[0, 0, 4 + 4 * 8 : 4 + 5 * 8])
    np.testing.assert_allclose(zealot, [1, 3 / 9, 3 / 9, 0, 1, 1, 0, 1], atol=1e-6)

    env = Battle(BattleArgs(map_name="MMM"))
    medivac = 9
    near = {i: {"x": 0.0, "y": 0.5 * i} for i in range(10)}
    seen = observe(env)(place(env, ally=near, enemy={j: {"x": 5.0, "y": 0.0} for j in range(10)}))
    heal = np.asarray(seen.avail[0, medivac, 6:])
    assert heal.tolist() == [1] * 9 + [0], "every marine and marauder, not itself"
    assert np.asarray(seen.avail[0, 0, 6:]).all()


def test_options_change_the_layout_as_in_smac():
    plain = Battle(BattleArgs(map_name="8m")).spec
    assert Battle(BattleArgs(map_name="8m", obs_last_action=True)).spec.obs_dim == plain.obs_dim + 7 * 14
    assert Battle(BattleArgs(map_name="8m", obs_timestep_number=True)).spec.obs_dim == plain.obs_dim + 1
    assert Battle(BattleArgs(map_name="8m", obs_pathing_grid=True)).spec.obs_dim == plain.obs_dim + 8
    assert Battle(BattleArgs(map_name="8m", obs_own_health=False)).spec.obs_dim == plain.obs_dim - 1
    assert Battle(BattleArgs(map_name="8m", obs_all_health=False)).spec.obs_dim == plain.obs_dim - 15
    assert Battle(BattleArgs(map_name="8m", state_last_action=False)).spec.state_dim == 56
    assert Battle(BattleArgs(map_name="8m", state_timestep_number=True)).spec.state_dim == plain.state_dim + 1
    assert Battle(BattleArgs(map_name="8m", obs_instead_of_state=True)).spec.state_dim == 8 * 80


@pytest.mark.parametrize(
    ("option", "value"), [("obs_terrain_height", True), ("difficulty", "A"), ("continuing_episode", True)]
)
def test_an_option_the_simulator_cannot_honour_is_refused(option, value):
    with pytest.raises(UserError, match=rf"env_args.{option}: got .*simulator cannot honour"):
        make_env("sc2", map_name="3m", **{option: value})


def test_the_real_game_is_refused_with_a_reason():
    with pytest.raises(UserError, match=r"env_args\.backend: got 'starcraft'"):
        make_env("sc2", backend="starcraft")


def test_the_enemy_sees_the_mirrored_battle(eight):
    """At the start of an equal fight both sides see exactly the same."""
    world = place(eight)
    mine, theirs = observe(eight)(world), eight.observe_enemies(world)
    np.testing.assert_allclose(mine.obs, theirs.obs, atol=1e-6)
    np.testing.assert_allclose(mine.state, theirs.state, atol=1e-6)
    np.testing.assert_array_equal(mine.avail, theirs.avail)
