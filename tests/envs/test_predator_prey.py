"""Predator-prey: every step against MPE's `simple_tag`, who is paid for what, starts."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from mpe2.simple_tag.simple_tag import raw_env

from omg.envs import make_env
from omg.envs.predator_prey.env import EAST, NORTH, PREDATOR_SIZE, PREY_SIZE, STAY, PredatorPrey, PredatorPreyState
from omg.errors import UserError

GAMES = 6


def twin(env: PredatorPrey, state: PredatorPreyState, game: int) -> Any:
    """MPE's game in the position of one game of our batch."""
    args = env.args
    other = raw_env(num_good=args.prey, num_adversaries=args.predators, num_obstacles=args.obstacles)
    other.reset(seed=0)
    for index, body in enumerate(other.world.entities):
        body.state.p_pos = np.array([state.x[index, game], state.y[index, game]], np.float64)
    return other


@pytest.mark.parametrize(
    "args", [{}, {"predators": 2, "prey": 2, "obstacles": 1}, {"predators": 4, "obstacles": 0}], ids=str
)
def test_every_step_agrees_with_simple_tag(args: dict[str, Any]):
    env = make_env("predator_prey", **args)
    assert isinstance(env, PredatorPrey)
    state, seen = jax.device_get(jax.jit(env.reset, static_argnums=1)(jax.random.key(1), GAMES))
    # Closer together than they start, so that everything pushes everything.
    state = state._replace(x=np.array(state.x) * 0.4, y=np.array(state.y) * 0.4)
    step = jax.jit(env.step)
    twins = [twin(env, state, game) for game in range(GAMES)]
    random, paid = np.random.default_rng(2), 0.0
    for _ in range(env.spec.episode_limit):
        # Everybody keeps a direction for a while on average, so that some leave the field.
        actions = random.integers(0, 5, (GAMES, env.spec.n_agents))
        actions[:3] = np.where(random.random(actions[:3].shape) < 0.7, EAST, actions[:3])
        state, seen, outcome = jax.device_get(step(jax.random.key(0), state, actions))
        for game, other in enumerate(twins):
            other.current_actions = [int(action) for action in actions[game]]
            other._execute_world_step()
            for seat, name in enumerate(other.possible_agents):
                expected = other.observe(name)
                np.testing.assert_allclose(seen.obs[game, seat, : len(expected)], expected, atol=2e-4)
                assert not seen.obs[game, seat, len(expected) :].any()
                assert outcome.reward[game, seat] == pytest.approx(other.rewards[name], abs=2e-2)
            # Rounding must not add up over an episode.
            for index, body in enumerate(other.world.agents):
                body.state.p_pos = np.array([state.x[index, game], state.y[index, game]], np.float64)
                body.state.p_vel = np.array([state.x_speed[index, game], state.y_speed[index, game]], np.float64)
        paid = max(paid, float(outcome.reward.max()))
    assert paid >= 10.0, "nobody was ever caught: the comparison shows too little"
    assert np.abs(state.x).max() > 1.0
    assert outcome.terminated.all()
    assert not outcome.truncated.any()


def test_a_game_that_would_go_on_is_cut_at_the_limit() -> None:
    env = make_env("predator_prey", episode_limit=1, end_at_limit=False)
    state, _ = env.reset(jax.random.key(0), 2)
    _, _, outcome = env.step(jax.random.key(1), state, jnp.zeros((2, 4), jnp.int32))
    assert outcome.truncated.all()
    assert not outcome.terminated.any()


def placed(places: list[tuple[float, float]]) -> PredatorPreyState:
    """One game with players and obstacles at these places, at rest."""
    x, y = (jnp.asarray(values, jnp.float32)[:, None] for values in zip(*places, strict=True))
    rest, nothing = jnp.zeros((4, 1)), jnp.zeros(1, jnp.int32)
    return PredatorPreyState(x, y, rest, rest, nothing, nothing)


def test_a_touch_pays_every_predator_and_costs_the_prey():
    env = make_env("predator_prey", catch_reward=2.0)
    near = PREDATOR_SIZE + PREY_SIZE - 0.001
    start = placed([(0.0, 0.0), (2 * near, 0.0), (-0.8, 0.0), (near, 0.0), (0.0, 0.8), (0.0, -0.8)])
    state, _, outcome = jax.device_get(jax.jit(env.step)(jax.random.key(0), start, np.full((1, 4), STAY)))
    np.testing.assert_allclose(outcome.reward[0], [4.0, 4.0, 4.0, -4.0])
    assert float(outcome.metrics["touches"][0]) == 2
    assert float(outcome.metrics["predator_return"][0]) == 4.0
    # They push each other apart: the one in the middle is held, the others leave.
    assert float(state.x_speed[0, 0]) < -0.01
    assert float(state.x_speed[1, 0]) > 0.01
    assert abs(float(state.x_speed[3, 0])) < 1e-3


def test_the_prey_is_faster_and_pays_for_leaving():
    env = make_env("predator_prey")
    state = placed([(-0.8, -0.8), (-0.8, -0.5), (-0.8, -0.2), (0.0, 0.0), (0.8, -0.8), (0.8, 0.8)])
    rewards, step = [], jax.jit(env.step)
    for _ in range(20):
        state, _, outcome = jax.device_get(step(jax.random.key(0), state, np.array([[NORTH, NORTH, NORTH, NORTH]])))
        rewards.append(float(outcome.reward[0, 3]))
    speeds = np.asarray(state.y_speed[:, 0])
    np.testing.assert_allclose(speeds, [1.0, 1.0, 1.0, 1.3], rtol=1e-3)
    assert rewards[0] == 0.0
    assert rewards[-1] == pytest.approx(-min(np.exp(2 * float(state.y[3, 0]) - 2), 10.0), rel=1e-4)


def test_starts_and_names():
    env = make_env("predator_prey")
    spec = env.spec
    assert (spec.scenario, spec.n_agents, spec.n_actions, spec.obs_dim, spec.state_dim) == ("3v1-2o", 4, 5, 16, 20)
    state, seen = jax.device_get(jax.jit(env.reset, static_argnums=1)(jax.random.key(0), 4000))
    assert np.abs(state.x[:4]).max() == pytest.approx(1.0, abs=0.01)
    assert np.abs(state.x[4:]).max() == pytest.approx(0.9, abs=0.01)
    assert abs(float(state.y.mean())) < 0.02
    np.testing.assert_array_equal(seen.state[7, :2], [state.x[0, 7], state.y[0, 7]])
    with pytest.raises(UserError, match=r"env_args\.prey: got 0"):
        make_env("predator_prey", prey=0)
