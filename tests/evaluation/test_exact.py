"""Exact values of answering an unknown partner, against a search of all histories that merges nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers.played import SPEC, config
from omg.controllers import build_mac
from omg.controllers.base import PlayerView
from omg.controllers.scripted import build_scripted
from omg.controllers.scripted.base import ScriptedPlayer
from omg.envs import Env, make_env
from omg.envs.toy_grid.players import path_probabilities
from omg.errors import UserError
from omg.evaluation import exact
from omg.evaluation.exact import ExactValues, exact_values
from omg.evaluation.game_graph import game_graphs

CORNERS = ("corner_nw", "corner_ne", "corner_se", "corner_sw")


class Walker(ScriptedPlayer):
    """Walks to one of the two cells of the toy grid."""

    goal: int = eqx.field(static=True)

    def choose(self, obs: jax.Array, avail: jax.Array, seats: jax.Array, key: jax.Array) -> jax.Array:
        return jax.random.categorical(key, jnp.log(path_probabilities(obs, self.goal)))

    def probabilities(self, obs: jax.Array, avail: jax.Array, seats: jax.Array) -> jax.Array:
        return path_probabilities(obs, self.goal)


def all_histories(env: Env, partners: Sequence[ScriptedPlayer]) -> tuple[float, float]:
    """The best answer to an unknown partner and to the last of them: a tree of all that the two players can do.

    No two histories are ever merged, and nothing is forgotten: row i of a layer leads to the rows i * U * U and on.
    The game keeps its games along the last axis.
    """
    actions = env.spec.n_actions
    both = np.stack(np.meshgrid(np.arange(actions), np.arange(actions), indexing="ij"), axis=-1).reshape(-1, 2)

    @jax.jit
    def grow(world: Any, seen: Any) -> Any:
        rows = seen.obs.shape[0]
        seats = jnp.ones((rows, 1), jnp.int32)
        view = PlayerView(seen.obs[:, 1:], seen.state, seen.avail[:, 1:], seats, jnp.full((rows, 2), -1))
        chances = jnp.stack([partner.chances(view, None)[0][:, 0] for partner in partners])
        done = jnp.tile(jnp.asarray(both), (rows, 1))
        worlds = jax.tree.map(lambda leaf: jnp.repeat(leaf, len(both), axis=-1), world)
        after = env.step(jax.random.PRNGKey(0), worlds, done)
        return chances, seen.avail[:, 0], after

    def value(world: Any, seen: Any, likelihoods: np.ndarray, steps: int) -> np.ndarray:
        """What all kinds together are worth, each weighted by its likelihood [K, rows]: [rows]."""
        chances, legal, (world, after, outcome) = jax.device_get(grow(world, seen))
        rows = len(legal)
        shape = (len(partners), rows, actions, actions)
        weighted = np.broadcast_to((likelihoods[:, :, None] * chances)[:, :, None, :], shape)
        reward = outcome.reward if outcome.reward.ndim == 1 else outcome.reward[:, 0]
        over = (outcome.terminated | outcome.truncated).reshape(rows, actions, actions)
        total = weighted.sum(axis=0) * reward.reshape(rows, actions, actions)
        if steps > 1 and not over.all():
            deeper = value(world, after, weighted.reshape(len(partners), -1), steps - 1)
            total = total + np.where(over, 0.0, deeper.reshape(rows, actions, actions))
        return np.where(legal, total.sum(axis=2), -np.inf).max(axis=1)

    world, seen = env.reset(jax.random.PRNGKey(0), 1)
    kinds = len(partners)
    prior = np.full((kinds, 1), 1.0 / kinds)
    optimum, last = (value(world, seen, who, env.spec.episode_limit)[0] for who in (prior, np.eye(kinds)[:, [-1]]))
    return float(optimum), float(last)


def corners(rounds: int, names: Sequence[str] = CORNERS) -> tuple[Env, list[ScriptedPlayer]]:
    env = make_env("rendezvous", rounds=rounds)
    return env, [build_scripted(name, env) for name in names]


def agree(found: ExactValues, expected: tuple[float, float]) -> None:
    optimum, last = expected
    assert found.optimum == pytest.approx(optimum, abs=1e-5)
    assert found.told_each[-1] == pytest.approx(last, abs=1e-5)
    assert found.told == pytest.approx(np.mean(found.told_each))
    assert found.random <= found.fixed <= found.memoryless + 1e-9
    assert found.memoryless <= found.optimum + 1e-9 <= found.told + 2e-9


@pytest.mark.parametrize("rounds", [1, 2])
def test_rendezvous_is_worth_what_all_histories_say(rounds: int):
    env, partners = corners(rounds)
    found = exact_values(env, partners)
    agree(found, all_histories(env, partners))
    # Nothing is known before the first round: 3 of 8 are met. The second is met if the first told the corner.
    assert found.optimum == pytest.approx([0.375, 0.6875][rounds - 1])
    assert (found.told, found.memoryless, found.starts) == (pytest.approx(1.0), pytest.approx(0.375), 1)


def test_rendezvous_of_five_rounds():
    found = exact_values(*corners(5))
    assert found.optimum == pytest.approx(0.875)
    assert (found.told, found.fixed, found.random) == pytest.approx((1.0, 0.375, 0.1))
    # The best answer to one corner follows to its neighbours half of the time.
    assert sorted(found.replies[0]) == pytest.approx([0.0, 0.0, 0.5, 1.0])
    with pytest.raises(UserError, match=r"more than 20 positions: \d+ within \d of 10 steps"):
        exact_values(*corners(5), limit=20)


def test_partners_who_draw_are_never_known_for_certain(monkeypatch: pytest.MonkeyPatch):
    """One who goes anywhere may always have been it: beliefs stay between the kinds to the end."""
    env, partners = corners(2, ("corner_nw", "random", "alternate_nw_se"))
    found = exact_values(env, partners)
    agree(found, all_histories(env, partners))
    monkeypatch.setattr(exact, "game_graphs", lambda *given: game_graphs(*given[:-1], 1000))
    with pytest.raises(UserError, match=r"more than 10 positions with a belief: \d+ within 1 of 4 steps"):
        exact_values(env, partners, limit=10)


@pytest.mark.parametrize(("size", "steps"), [(3, 3), (5, 4)])
def test_the_toy_grid_is_worth_what_all_histories_say(size: int, steps: int):
    env = make_env("toy_grid", size=size, episode_limit=steps)
    partners: list[ScriptedPlayer] = [Walker(0), Walker(1)]
    # Plans are drawn at the start and followed by nobody: four starts, all of the same worth.
    found = exact_values(env, partners, starts=16)
    agree(found, all_histories(env, partners))
    assert found.starts == 4


def test_starts_that_differ_are_averaged():
    env, partners = corners(1, ("corner_nw", "corner_ne"))

    class Scattered:
        """Seat 0 starts in another row each time."""

        spec, step = env.spec, staticmethod(env.step)

        def __init__(self, row: int | None = None) -> None:
            self.row = row

        def reset(self, key: jax.Array, number: int) -> Any:
            world, _ = env.reset(key, number)
            rows = jax.random.randint(key, (number,), 0, 3) if self.row is None else jnp.full(number, self.row)
            world = world._replace(row=world.row.at[0].set(rows))
            return world, env._observe(world)

    found = exact_values(Scattered(), partners, starts=7, seed=1)
    drawn = np.bincount(jax.random.randint(jax.random.PRNGKey(1), (7,), 0, 3), minlength=3)
    each = [all_histories(Scattered(row), partners)[0] for row in range(3)]
    assert found.optimum == pytest.approx(np.average(each, weights=drawn), abs=1e-5)
    assert found.starts == np.count_nonzero(drawn) == 3
    assert each == pytest.approx([0.75, 0.75, 0.0])


def test_who_remembers_is_refused():
    env, _ = corners(1)
    mac = jax.eval_shape(lambda: build_mac(config(), SPEC, jax.random.PRNGKey(0)))
    with pytest.raises(UserError, match="partner 0 is a BasicMAC, which may remember"):
        exact_values(env, [mac])


def test_rules_with_chance_are_refused():
    env, partners = corners(1)

    class Windy:
        spec, reset = env.spec, staticmethod(env.reset)

        @staticmethod
        def step(key: jax.Array, state: Any, actions: jax.Array) -> Any:
            blown = jax.random.bernoulli(key, 0.5, actions.shape)
            return env.step(key, state, jnp.where(blown, 0, actions))

    with pytest.raises(UserError, match="rules of rendezvous know chance"):
        exact_values(Windy(), partners)
