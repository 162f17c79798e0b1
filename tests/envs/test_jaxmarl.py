"""JaxMARL's real games as games to train in."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import jaxmarl
import numpy as np
import pytest
from jax import Array

from omg.controllers.scripted.base import ScriptedPlayer
from omg.envs import make_env
from omg.errors import UserError
from omg.runners.vector import play_episodes


class Shooter(ScriptedPlayer):
    """Takes its last legal action: in SMAX it shoots at the last enemy in reach, or else waits."""

    def choose(self, obs: Array, avail: Array, seats: Array, key: Array) -> Array:
        return avail.shape[-1] - 1 - jnp.argmax(avail[..., ::-1], axis=-1)


@pytest.mark.parametrize("key", ["MPE_simple_spread_v3", "MPE_simple_tag_v3"])
def test_a_game_of_mpe_is_the_game_itself(key: str) -> None:
    env: Any = make_env("jaxmarl", key=key)
    game = jaxmarl.make(key)
    spec = env.spec
    assert (spec.n_agents, spec.n_actions, spec.episode_limit) == (len(game.agents), 5, 25)
    widths = [game.observation_space(name).shape[0] for name in game.agents]
    assert (spec.obs_dim, spec.state_dim) == (max(widths), max(widths) * len(widths))

    key_reset, key_step = jax.random.split(jax.random.key(3))
    actions = jnp.arange(2 * spec.n_agents).reshape(2, spec.n_agents) % 5
    state, seen = env.reset(key_reset, 2)
    state, seen, outcome = jax.jit(env.step)(key_step, state, actions)
    # The second of the two games, played by itself.
    _, own = game.reset(jax.random.split(key_reset, 2)[1])
    moves = {name: actions[1, seat] for seat, name in enumerate(game.agents)}
    views, _, rewards, _, _ = game.step_env(jax.random.split(key_step, 2)[1], own, moves)
    for seat, name in enumerate(game.agents):
        np.testing.assert_allclose(seen.obs[1, seat, : widths[seat]], views[name], rtol=1e-5, atol=1e-6)
        assert not seen.obs[1, seat, widths[seat] :].any()
        np.testing.assert_allclose(outcome.reward[1, seat], rewards[name], rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(seen.state, seen.obs.reshape(2, -1))
    assert seen.avail.all()
    assert not outcome.terminated.any()


def test_smax_is_played_to_its_end() -> None:
    env: Any = make_env("jaxmarl", key="HeuristicEnemySMAX", kwargs={"scenario": "3m"}, common_reward=True)
    spec = env.spec
    assert (spec.scenario, spec.n_agents, spec.n_actions) == ("HeuristicEnemySMAX_3m", 3, 8)
    assert spec.success_metric == "battle_won"
    rollout = jax.jit(lambda key: play_episodes(env, Shooter(), key, 24, 0.0))(jax.random.key(0))
    batch, stats = jax.device_get((rollout.batch, rollout.stats))
    assert batch is not None
    played = np.array(batch.filled, bool)
    played[:, -1] = False
    chosen = np.take_along_axis(batch.avail, batch.actions[..., None], axis=-1)[..., 0]
    assert chosen[played].all(), "only legal actions"
    assert not batch.avail[played].all(), "and some are not"
    assert stats.lengths.min() > 1
    assert stats.lengths.max() < spec.episode_limit
    # Some battles are won; a victory pays every ally a bonus of 1 in its last step.
    last = batch.reward[np.arange(24), stats.lengths - 1]
    won = stats.metrics["battle_won"]
    assert 0 < won.sum() < 24
    np.testing.assert_array_equal(won == 1, last >= 3)
    assert batch.state.shape[-1] == spec.state_dim == 72


def test_hanabi_has_masks() -> None:
    env: Any = make_env("jaxmarl", key="hanabi", time_limit=80)
    _, seen = jax.jit(env.reset, static_argnums=1)(jax.random.key(0), 3)
    legal = np.asarray(seen.avail)
    # The player whose turn it is may play any of five cards and give hints; the other one can only wait.
    assert np.sort(legal.sum(axis=-1), axis=1)[:, 0].tolist() == [1, 1, 1]
    assert (legal.sum(axis=-1).max(axis=1) >= 7).all()
    assert legal[legal.sum(axis=-1) == 1][:, -1].all()


@pytest.mark.parametrize(
    ("options", "shape"),
    [
        ({"key": "overcooked", "kwargs": {"layout": "coord_ring"}}, (2, 6, 5 * 5 * 26, 400)),
        ({"key": "storm_2p"}, (2, 5, 5 * 5 * 10 + 6, 152)),
        ({"key": "storm_np"}, (2, 8, 5 * 5 * 14, 152)),
        ({"key": "coin_game"}, (2, 5, 36, 100)),
    ],
    ids=lambda value: value["key"] if isinstance(value, dict) else "",
)
def test_other_games_have_the_shapes_they_say(options: dict[str, Any], shape: tuple[int, ...]) -> None:
    env: Any = make_env("jaxmarl", **options)
    spec = env.spec
    assert (spec.n_agents, spec.n_actions, spec.obs_dim, spec.episode_limit) == shape
    state, seen = jax.eval_shape(lambda key: env.reset(key, 4), jax.random.key(0))
    actions = jax.ShapeDtypeStruct((4, spec.n_agents), jnp.int32)
    after, seen_after, outcome = jax.eval_shape(env.step, jax.random.key(0), state, actions)
    assert jax.tree.map(lambda leaf: leaf.shape, (after, seen_after)) == jax.tree.map(
        lambda leaf: leaf.shape, (state, seen)
    )
    assert seen.obs.shape == (4, spec.n_agents, spec.obs_dim)
    assert seen.state.shape == (4, spec.state_dim)
    assert outcome.reward.shape == (4, spec.n_agents)


def test_storm_keys_nothing_by_agent() -> None:
    env: Any = make_env("jaxmarl", key="storm")
    game = jaxmarl.make("storm")
    assert (env.spec.n_agents, env.spec.obs_dim, env.spec.episode_limit) == (2, 5 * 5 * 16 + 5, 152)
    key = jax.random.key(1)
    _, seen = env.reset(key, 1)
    own, _ = game.reset(jax.random.split(key, 1)[0])
    for seat in range(2):
        expected = np.concatenate([np.ravel(own["observations"][seat]), own["inventory"][:, seat]])
        np.testing.assert_array_equal(seen.obs[0, seat], expected)
    assert (seen.obs[0, 0] != seen.obs[0, 1]).any()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"key": "HeuristicEnemySMAX", "kwargs": {"scenario": "3n"}},
            r"Unknown scenario \(env_args.kwargs.scenario\) '3n'. Did you mean '3m'\?",
        ),
        (
            {"key": "overcooked", "kwargs": {"layout": "ring"}},
            r"Unknown layout \(env_args.kwargs.layout\) 'ring'. Did you mean 'coord_ring'\?",
        ),
        ({"key": "chess"}, "JaxMARL says: chess is not in registered jaxmarl environments"),
        ({"key": "jaxnav"}, "in 'jaxnav' agent_0 has the action space .* Allowed: Discrete"),
        ({"key": "hanabi"}, "env_args.time_limit: missing, and 'hanabi' has no limit of its own"),
        ({"key": "hanabi", "kwargs": {"sight": 2}}, "JaxMARL says: .*sight"),
    ],
)
def test_what_cannot_be_played_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        make_env("jaxmarl", **options)
