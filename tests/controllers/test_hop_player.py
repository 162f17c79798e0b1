"""Planning players: seats and networks, beliefs from step to step, mapped searches, ablations, what they refuse."""

from __future__ import annotations

import dataclasses
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array

from helpers.planners import GAME, GAMES, KEY, Step, act, build_player, first_steps
from omg.config import Config, adjust, resolve
from omg.controllers import build_mac
from omg.controllers.base import PlayerView
from omg.controllers.hop import HOPMac
from omg.envs import ENVS, make_env
from omg.errors import UserError
from omg.planning.batches import batched
from omg.planning.goals import goal_likelihoods
from omg.planning.inference import Moment
from omg.planning.trees import anywhere

SMALL: dict[str, Any] = {"hop_simulations": 6, "hop_samples": 2, "hop_hidden_dim": 8, "use_cuda": False}


def small_config(algorithm: str = "hop", **changes: Any) -> Config:
    return resolve(algorithm, "stag_hunt", {**SMALL, "env_args": GAME, **changes}).config


def player(algorithm: str = "hop", **changes: Any) -> HOPMac:
    return build_player(small_config(algorithm, **changes))


@cache
def played() -> tuple[HOPMac, list[Step]]:
    mac = player()
    return mac, first_steps(mac)


def test_every_seat_acts_legally_by_what_its_search_found() -> None:
    mac, steps = played()
    assert mac.prior.shape == (3, 2, 2)
    for _, seen, actions, record, *_ in steps:
        policy = np.asarray(record["search_policy"])
        assert policy.shape == (GAMES, 3, 7)
        np.testing.assert_allclose(policy.sum(axis=-1), 1.0, atol=1e-5)
        assert not policy[~np.asarray(seen.avail)].any()
        assert np.take_along_axis(np.asarray(seen.avail), np.asarray(actions)[..., None], axis=2).all()
    assert np.abs(policy[:, 0] - policy[:, 1]).max() > 1e-4


def test_beliefs_open_with_the_prior_and_follow_bayes() -> None:
    mac, steps = played()
    first = np.asarray(steps[0].record["belief"]).reshape(GAMES, 3, 2, 2)
    second = np.asarray(steps[1].record["belief"]).reshape(GAMES, 3, 2, 2)
    np.testing.assert_allclose(first, 0.5)
    world, _, actions, *_ = steps[0]
    seats = jnp.tile(jnp.arange(3), (GAMES, 1))
    codes = jnp.tile(jnp.arange(2), (GAMES, 1))
    likelihood = jax.jit(lambda: goal_likelihoods(mac.game, mac.minds.others, world, seats, codes, actions))()
    expected = np.asarray(first * likelihood)
    caught = np.asarray(mac.game.caught(world, actions)) > 0
    others = np.array([[1, 2], [0, 2], [0, 1]])
    left = np.asarray(steps[1].world.prey_left)
    untouched = ~caught[:, others] & left.all(axis=1)[:, None, None]
    assert untouched.sum() > 10
    expected = expected / expected.sum(axis=-1, keepdims=True)
    np.testing.assert_allclose(second[untouched], expected[untouched], atol=1e-5)
    assert np.abs(second - first)[untouched].max() > 1e-3


def test_the_best_action_is_taken_in_tests() -> None:
    assert player().explores
    assert not player().tested().explores
    assert player(test_greedy=False).tested().explores
    longer = player(hop_test_simulations=9, hop_test_samples=3)
    assert (longer.settings.search.simulations, longer.settings.inference.samples) == (6, 2)
    thinking = longer.tested().settings
    assert (thinking.search.simulations, thinking.inference.samples) == (9, 3)


def test_one_set_of_networks_plays_any_seat() -> None:
    config = resolve("2pool1hop", "stag_hunt", {**SMALL, "env_args": GAME}).config
    assert (config.mac, config.learner) == ("multi_module_mac", "hop_learner")
    mac: HOPMac = jax.jit(lambda key: build_mac(config, make_env("stag_hunt", **GAME).spec, key))(KEY)
    assert mac.prior.shape == (1, 2, 2)
    assert not mac.every_seat
    env = mac.game
    world, seen = jax.device_get(jax.jit(env.reset, static_argnums=1)(jax.random.PRNGKey(1), GAMES))
    seats = np.arange(GAMES, dtype=np.int32)[:, None] % 3
    last = np.full((GAMES, 3), -1, np.int32)
    view = PlayerView(seen.obs[:, :1], seen.state, np.take_along_axis(seen.avail, seats[..., None], 1), seats, last)
    actions, memory, record = jax.jit(lambda: mac.act_seats(view, mac.initial_seats(GAMES, 1), KEY, 0.0))()
    assert (actions.shape, record["search_policy"].shape) == ((GAMES, 1), (GAMES, 1, 7))
    assert memory.inferred.belief.shape == (GAMES, 1, 2, 2)
    legal = np.take_along_axis(np.asarray(jax.jit(env.legal)(world)), seats[..., None], 1)
    assert np.take_along_axis(legal, np.asarray(actions)[..., None], 2).all()


def test_without_goals_nothing_is_believed() -> None:
    mac = player("direct_om")
    assert mac.minds.others.goal.shape == (3, 2, 0, 8)
    assert mac.prior.shape == (3, 2, 0)
    _, seen, *_ = played()[1][0]
    _, memory, record = jax.eval_shape(lambda: mac.act(seen, mac.initial(GAMES), KEY, 0.0))
    assert set(record) == {"search_policy", "search_value"}
    assert memory.seats.inferred is None


@pytest.mark.parametrize("part", ["within", "between"])
def test_ablations_leave_a_part_of_the_belief_out(part: str) -> None:
    mac = player(**{f"hop_belief_{part}": False})
    prior = jnp.broadcast_to(jnp.asarray([0.8, 0.2]), mac.prior.shape)
    (before, _, actions, *_), (state, *_) = played()[1]
    seats = jnp.tile(jnp.arange(3, dtype=jnp.int32), (GAMES, 1))

    @jax.jit
    def beliefs() -> tuple[Array, Array]:
        nothing = Moment(before, jnp.full((GAMES, 3), -1), before, seats)
        first = mac.inference.infer(mac.minds, prior, nothing, mac.inference.initial(GAMES, 3), KEY)
        step = Moment(before, actions, state, seats)
        second = mac.inference.infer(mac.minds, prior, step, first.memory, KEY)
        return first.record["belief"], second.record["belief"]

    first, second = (np.asarray(belief).reshape(-1, 2) for belief in beliefs())
    opens = [0.8, 0.2] if part == "within" else [0.5, 0.5]
    np.testing.assert_allclose(first, np.tile(opens, (GAMES * 6, 1)), atol=1e-6)
    both = np.repeat(np.asarray(state.prey_left).all(axis=1), 6)
    moved = np.abs(second - first)[both].max()
    assert moved < 1e-6 if part == "within" else moved > 1e-3


# ------------------------------------------------------------------------------------------------ mapped searches


def test_seeds_under_vmap_think_as_they_do_alone() -> None:
    mac, steps = played()
    mac = jax.device_get(mac)
    other = dataclasses.replace(mac, minds=jax.tree.map(lambda leaf: leaf * np.float32(1.5), mac.minds))
    macs = jax.tree.map(lambda *leaves: np.stack(leaves), mac, other)
    keys = jnp.stack([jax.random.fold_in(jax.random.PRNGKey(3), 1)] * 2)
    _, seen, actions, record, memory, _ = steps[1]
    together = jax.jit(jax.vmap(act, in_axes=(0, None, None, 0)))(macs, seen, memory, keys)
    alone = act(other, seen, memory, keys[1])
    for index, (did, noted) in enumerate(((actions, record), (alone[0], alone[2]))):
        np.testing.assert_array_equal(together[0][index], did)
        for name, values in noted.items():
            np.testing.assert_allclose(together[2][name][index], values, atol=1e-5)
    assert np.abs(together[2]["search_policy"][0] - together[2]["search_policy"][1]).max() > 1e-3


@pytest.mark.parametrize("on_cpu", [True, False])
def test_mapped_loops_end_together_and_give_the_same(on_cpu: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("omg.planning.batches.on_cpu", lambda: on_cpu)
    used: list[tuple[str, ...]] = []

    def halve(axes: tuple[str, ...], numbers: Array, unit: Array) -> dict[str, Array]:
        used.append(axes)

        def step(carry: tuple[Array, Array]) -> tuple[Array, Array]:
            left, count = carry
            return jnp.where(left > unit, left // 2, left), count + (left > unit)

        start = (numbers, jnp.zeros_like(numbers))
        left, count = jax.lax.while_loop(lambda carry: anywhere(carry[0] > unit, axes), step, start)
        return {"left": left, "count": count}

    numbers = jnp.asarray([[[1, 9], [3, 100]], [[64, 2], [5, 7]], [[1, 1], [1, 1]]])
    find = jax.jit(jax.vmap(jax.vmap(batched(halve), in_axes=(0, None)), in_axes=(0, None)))
    found = find(numbers, jnp.asarray(1))
    np.testing.assert_array_equal(found["left"], np.ones_like(numbers))
    np.testing.assert_array_equal(found["count"], np.floor(np.log2(numbers)))
    assert max(used, key=len) == (() if on_cpu else ("searches_0", "searches_1"))


# -------------------------------------------------------------------------------------------------- what is refused


def test_games_with_goals_are_those_that_can_be_searched() -> None:
    searchable = {name for name, entry in ENVS.items() if entry.traits.searchable}
    assert searchable == {"stag_hunt", "snowdrift"}
    for name in searchable:
        game: Any = make_env(name)
        assert game.goals().count > 1


@pytest.mark.parametrize(
    ("env", "changes", "message"),
    [
        ("foraging", {}, "env: got foraging, .* Allowed: stag_hunt, snowdrift"),
        ("stag_hunt", {"mac": "basic_mac"}, "mac: got basic_mac, .* Allowed: hop_mac"),
        ("stag_hunt", {"learner": "q_learner"}, "mac: got hop_mac, .* Allowed: basic_mac"),
        ("stag_hunt", {"prosocial": 0.5}, "prosocial: got 0.5, .* Allowed: 0"),
        ("stag_hunt", {"am_model": "liam_am"}, "am_model: got liam_am, .* Allowed: none_am"),
        ("stag_hunt", {"init_from": "x"}, "init_from: got x, .* Allowed: None"),
    ],
)
def test_what_a_planning_player_cannot_do_is_refused_before_a_run(env: str, changes: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        adjust(resolve("hop", env, changes).config, has_gpu=False)
