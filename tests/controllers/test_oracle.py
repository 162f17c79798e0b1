"""The oracle of subgoals: what it foresees is what really comes, and it acts on that."""

from __future__ import annotations

import dataclasses

import jax
import numpy as np
import pytest

from helpers.tiny import GAME, tiny_config
from omg.config import resolve
from omg.controllers import build_mac
from omg.controllers.basic import Foresight
from omg.controllers.draw import TeamDraw, TeamSlots
from omg.controllers.oracle import foresee, try_goals
from omg.controllers.reading import state_value
from omg.controllers.team import TeamPolicy, build_squad
from omg.envs import make_env
from omg.errors import UserError
from omg.runners.vector import play_episodes

HORIZON, GAMES = 3, 6
SMALL = {"rnn_hidden_dim": 16, "am_hidden_dim": 8, "subgoal_dim": 4, "omg_horizon": HORIZON}


@pytest.fixture(scope="module")
def team():
    """An agent with untrained networks that looks ahead, and one other; foraging knows no chance."""
    env = make_env("foraging", **GAME)
    settings = {**SMALL, "env_args": GAME, "omg_q_input": "oracle", "subgoal_mode": "next"}
    configs = (
        resolve("1iql1iql_omg", "foraging", settings).config,
        resolve("iql", "foraging", {**SMALL, "env_args": GAME}, shared=SMALL).config,
    )
    main, other = jax.jit(lambda: [build_mac(each, env.spec, jax.random.key(i)) for i, each in enumerate(configs)])()
    main, (squad, _) = main.tested(), build_squad([other])
    return env, TeamPolicy(main, squad, TeamDraw((TeamSlots(1, (0,)), TeamSlots(1, ()))))


def with_mode(policy: TeamPolicy, mode: str) -> TeamPolicy:
    foresight = Foresight(HORIZON, mode, "mean")
    return dataclasses.replace(policy, main=dataclasses.replace(policy.main, foresight=foresight))


def true_future(env, policy: TeamPolicy, key) -> tuple:
    """Steps the games by hand; the learning seat's views after one to HORIZON steps, [HORIZON, B, m, O]."""
    blind = dataclasses.replace(policy, main=dataclasses.replace(policy.main, foresight=None))
    world, seen = jax.jit(env.reset, static_argnums=1)(key, GAMES)
    memory = jax.jit(lambda: blind.initial(GAMES, key))()
    act, step = jax.jit(lambda *given: blind.act(*given)), jax.jit(env.step)
    look = jax.jit(lambda *given: blind.main_view(*given).obs)
    start, views, alive, view = (world, seen), [], np.ones(GAMES, bool), None
    for _ in range(HORIZON):
        actions, memory, _ = act(seen, memory, key, 0.0)
        world, seen, outcome = step(key, world, actions)
        now = np.asarray(look(seen, memory))
        view = now if view is None else np.where(alive[:, None, None], now, view)
        alive &= ~(np.asarray(outcome.terminated) | np.asarray(outcome.truncated))
        views.append(view)
    return start, np.stack(views)


@pytest.mark.parametrize(("mode", "offset"), [("next", 1), ("k3", 3)])
def test_foreseen_subgoals_encode_the_true_future(team, mode: str, offset: int):
    env, policy = team
    policy, key = with_mode(policy, mode), jax.random.key(7)
    (world, seen), views = true_future(env, policy, key)
    memory = jax.jit(lambda: policy.initial(GAMES, key))()
    told = jax.jit(lambda world, seen, memory: foresee(env, policy, world, seen, memory, key))(world, seen, memory)
    expected, _ = jax.jit(lambda views: policy.main.opponent_model.prior.encode(views))(views[offset - 1])
    np.testing.assert_allclose(told.main.given, expected, atol=1e-5)
    assert np.abs(np.diff(np.asarray(told.main.given), axis=0)).max() > 1e-3
    # Only the subgoals are new: the imagined future leaves no trace in what the players remember.
    untouched = told._replace(main=told.main._replace(given=memory.main.given))
    for one, before in zip(jax.tree.leaves(untouched), jax.tree.leaves(memory), strict=True):
        np.testing.assert_array_equal(one, before)


@pytest.mark.parametrize("mode", ["optimistic", "conservative"])
def test_the_oracle_selects_as_the_learner_does(team, mode: str):
    env, policy = team
    policy, key = with_mode(policy, mode), jax.random.key(8)
    (world, seen), views = true_future(env, policy, key)
    memory = jax.jit(lambda: policy.initial(GAMES, key))()
    told = jax.jit(lambda world, seen, memory: foresee(env, policy, world, seen, memory, key))(world, seen, memory)
    goals = np.asarray(jax.jit(lambda: policy.main.opponent_model.prior.encode(views)[0])())

    @jax.jit
    def judge(goal: jax.Array) -> jax.Array:
        view = policy.main_view(seen, memory)
        q = try_goals(policy.main, view, memory.main, goal[:, None])[:, 0, 0]
        return jax.vmap(lambda q, legal: state_value(q, legal, "mean"))(q, view.avail[:, 0])

    judged = np.stack([np.asarray(judge(goal)) for goal in goals])
    for game, values in enumerate(judged.T):
        best = int(np.argmax(values) if mode == "optimistic" else np.argmin(values))
        np.testing.assert_allclose(told.main.given[game, 0], goals[best, game, 0], atol=1e-5)


def test_given_subgoals_are_acted_on(team):
    env, policy = team

    @jax.jit
    def found(key: jax.Array) -> tuple:
        _, seen = env.reset(key, GAMES)
        memory = policy.initial(GAMES, key)
        view = policy.main_view(seen, memory)
        given = jax.random.normal(jax.random.key(2), memory.main.given.shape) * 30
        actions, _, _ = policy.main.act_seats(view, memory.main._replace(given=given), jax.random.key(3), 0.0)
        return actions, try_goals(policy.main, view, memory.main, given[:, None])[:, 0], view.avail

    actions, q, legal = jax.device_get(found(jax.random.key(1)))
    np.testing.assert_array_equal(actions, np.where(legal, q, -np.inf).argmax(-1))


def test_whole_episodes_are_played_with_foresight(team):
    env, policy = team
    rollout = jax.jit(lambda key: play_episodes(env, policy, key, GAMES, 0.0))(jax.random.key(4))
    assert rollout.batch is not None
    assert rollout.batch.records["infer_mu"].shape == (GAMES, GAME["episode_limit"] + 1, 1, SMALL["subgoal_dim"])
    assert np.asarray(rollout.stats.lengths).min() >= 1


def test_the_oracle_needs_a_team(tmp_path):
    with pytest.raises(UserError, match="omg_q_input: oracle needs a team"):
        tiny_config(tmp_path, am_model="omg_am", learner="omg_learner", omg_q_input="oracle")
