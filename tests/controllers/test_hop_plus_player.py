"""Planning players that infer subgoals: what they see and remember, trees that infer anew, subgoals without weight."""

from __future__ import annotations

import dataclasses
from functools import cache
from typing import Any

import equinox as eqx
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
from omg.envs import make_env
from omg.errors import UserError
from omg.modules.opponent_models.base import ModelInputs
from omg.planning.inference import Moment
from omg.planning.minds import Trace
from omg.planning.search import Roots, grow_trees
from omg.planning.subgoals import SubgoalFollowing

SMALL: dict[str, Any] = {
    "hop_simulations": 6, "hop_samples": 2, "hop_hidden_dim": 8, "subgoal_dim": 4, "am_hidden_dim": 5, "use_cuda": False
}  # fmt: skip
SEATS, J, D = 3, 2, 4
OTHERS = np.array([[1, 2], [0, 2], [0, 1]])


def small_config(algorithm: str = "hop_plus_codes", **changes: Any) -> Config:
    own = {
        name: value for name, value in SMALL.items() if algorithm.endswith("hop_plus_codes") or name.startswith("hop")
    }
    return resolve(algorithm, "stag_hunt", {**own, "env_args": GAME, **changes}).config


def player(algorithm: str = "hop_plus_codes", **changes: Any) -> HOPMac:
    return build_player(small_config(algorithm, **changes))


@cache
def played() -> tuple[HOPMac, list[Step]]:
    mac = player()
    return jax.device_get(mac), first_steps(mac)


def test_every_seat_infers_a_subgoal_of_every_other() -> None:
    mac, steps = played()
    assert mac.minds.own.goal.shape == (SEATS, J * D, 8)
    assert mac.minds.others.goal.shape == (SEATS, J, D, 8)
    assert mac.prior.shape == (SEATS, J, 0)
    assert mac.subgoal_prior is not None
    assert mac.subgoal_prior.map_shape == mac.game.spec.map_shape
    for _, seen, actions, record, _, memory in steps:
        assert record["infer_mu"].shape == record["infer_log_var"].shape == (GAMES, SEATS, J * D)
        assert memory.seats.inferred.hidden.shape == (GAMES, SEATS, 5)
        assert np.take_along_axis(np.asarray(seen.avail), np.asarray(actions)[..., None], axis=2).all()
    first, second = (np.asarray(step.record["infer_mu"]) for step in steps)
    assert np.abs(first - second).max() > 1e-3
    assert np.abs(first[:, 0] - first[:, 1]).max() > 1e-3


def test_a_view_of_one_seat_is_its_row_of_the_observation() -> None:
    mac, steps = played()
    world, seen, *_ = steps[1]
    seat = jnp.asarray([2, 0, 1, 1, 2])

    @jax.jit
    def view() -> Array:
        legal = mac.game.legal(world)[jnp.arange(GAMES), seat]
        return mac.game.view_of(world, seat, mac.game.sight(world, seat), legal)

    found = view()
    np.testing.assert_array_equal(found, np.asarray(seen.obs)[np.arange(GAMES), np.asarray(seat)])


def test_what_is_inferred_step_by_step_is_what_learning_unrolls() -> None:
    mac, steps = played()
    obs = np.stack([step.seen.obs for step in steps], axis=1)
    last = np.stack([np.full((GAMES, SEATS), -1, np.int32), steps[0].actions], axis=1)
    unroll = jax.jit(lambda model, seen, seat: model.unroll(ModelInputs(seen, last, seat)))
    for seat in range(SEATS):
        model = jax.tree.map(lambda leaf, seat=seat: leaf[seat], mac.minds.subgoals)
        found = jax.device_get(unroll(model, obs[:, :, seat : seat + 1], np.full((GAMES, 1, 1), seat)))
        for step in range(2):
            np.testing.assert_allclose(found.mean[:, step, 0], steps[step].record["infer_mu"][:, seat], atol=1e-5)


# -------------------------------------------------------------------------------------------------------- in the tree


@cache
def grown() -> tuple[Any, Any]:
    """Trees of one seat from the second position, and the step of the model from a parent to each child."""
    mac, steps = played()
    inference = mac.inference
    assert isinstance(inference, SubgoalFollowing)

    @jax.jit
    def search() -> tuple[Any, Any]:
        mind = jax.tree.map(lambda leaf: leaf[1:2], mac.minds)
        judge = inference.judge(mind, trees=1)
        world, before = steps[1].world, steps[0].after.seats.inferred
        memory = jax.tree.map(lambda leaf: leaf[:, 1], before)
        seat = jnp.ones(GAMES, jnp.int32)
        trace = Trace(memory, jnp.zeros((GAMES, J * D)), jnp.arange(GAMES, dtype=jnp.uint32))
        roots = Roots(world, mac.game.legal(world), seat, trace, jnp.arange(GAMES, dtype=jnp.int32))
        trees = grow_trees(mac.game, judge, mac.settings.search, roots, KEY)
        slots = mac.settings.search.simulations
        parent = trees.origins[:, 1:, 0].astype(jnp.int32)
        of_parent = jax.tree.map(
            lambda leaf: jax.vmap(lambda own, chosen: own[chosen])(leaf, parent).reshape(-1, *leaf.shape[2:]),
            trees.nodes.memory,
        )
        children = jax.tree.map(lambda leaf: leaf[:, 1:].reshape(-1, *leaf.shape[2:]), trees.nodes.state)
        legal = mac.game.legal(children)[:, 1]
        again, _ = judge.follow(children, jnp.ones(GAMES * slots, jnp.int32), legal, of_parent)
        return trees, again

    return jax.device_get(search())


def test_every_position_of_a_tree_is_one_more_step_of_the_model() -> None:
    trees, again = grown()
    real = np.asarray(trees.origins[:, 1:, 3]) >= 0
    held = jax.tree.map(lambda leaf: np.asarray(leaf[:, 1:]).reshape(-1, *leaf.shape[2:]), trees.nodes.memory)
    assert real.all()
    np.testing.assert_allclose(held.goal, again.goal, atol=1e-5)
    np.testing.assert_allclose(held.memory.hidden, again.memory.hidden, atol=1e-5)
    # One guess of each tree goes along all of its branches.
    np.testing.assert_array_equal(trees.nodes.memory.seed[:, -1], np.arange(GAMES))


def test_subgoals_change_after_a_simulated_step() -> None:
    trees, _ = grown()
    goal = np.asarray(trees.nodes.memory.goal)
    parent = np.asarray(trees.origins)[:, 1:, 0].astype(int)
    moved = np.abs(goal[:, 1:] - np.take_along_axis(goal, parent[..., None], axis=1)).max(axis=-1)
    assert (moved > 1e-4).all()
    assert np.abs(goal).max(axis=-1).min() > 0


def test_a_root_knows_what_was_inferred_of_the_present() -> None:
    trees, _ = grown()
    _, steps = played()
    held = trees.nodes.memory.memory
    now = steps[1].after.seats.inferred
    np.testing.assert_allclose(held.hidden[:, 0], now.hidden[:, 1], atol=1e-5)
    np.testing.assert_allclose(held.seen[:, 0], now.seen[:, 1], atol=1e-5)
    noise = np.stack([np.asarray(jax.random.normal(jax.random.PRNGKey(seed), (J * D,))) for seed in range(GAMES)])
    record = steps[1].record
    expected = record["infer_mu"][:, 1] + np.exp(0.5 * record["infer_log_var"][:, 1]) * noise
    np.testing.assert_allclose(trees.nodes.memory.goal[:, 0], expected, atol=1e-5)


def test_without_weight_on_subgoals_the_search_is_that_of_direct_om() -> None:
    mac, steps = played()
    plain = player("direct_om")
    told = lambda minds: (minds.own.goal, minds.others.goal)  # noqa: E731
    silent = eqx.tree_at(told, mac.minds, jax.tree.map(jnp.zeros_like, told(mac.minds)))
    same = dataclasses.replace(eqx.tree_at(told, mac.minds, told(plain.minds)), subgoals=None)
    _, seen, *_ = steps[0]
    found = act(dataclasses.replace(mac, minds=silent), seen, mac.initial(GAMES), KEY)
    direct = act(dataclasses.replace(plain, minds=same), seen, plain.initial(GAMES), KEY)
    np.testing.assert_array_equal(found[0], direct[0])
    for name in ("search_policy", "search_value"):
        np.testing.assert_allclose(found[2][name], direct[2][name], atol=1e-5)
    heard = act(mac, seen, mac.initial(GAMES), KEY)
    assert np.abs(heard[2]["search_policy"] - direct[2]["search_policy"]).max() > 1e-4


def test_games_that_begin_forget_and_trees_differ_by_their_draw() -> None:
    mac, steps = played()
    inference, seats = mac.inference, jnp.tile(jnp.arange(SEATS, dtype=jnp.int32), (GAMES, 1))
    world, memory = steps[0].world, steps[1].after.seats.inferred

    @jax.jit
    def infer(last: Array, memory: Any) -> Any:
        return mac.inference.infer(mac.minds, mac.prior, Moment(world, last, world, seats), memory, KEY)

    nothing = jnp.full((GAMES, SEATS), -1)
    fresh = infer(nothing, inference.initial(GAMES, SEATS))
    np.testing.assert_array_equal(infer(nothing, memory).record["infer_mu"], fresh.record["infer_mu"])
    assert np.abs(infer(nothing + 1, memory).record["infer_mu"] - fresh.record["infer_mu"]).max() > 1e-4
    assert fresh.trees.goal.shape == (GAMES, SEATS, 2, J * D)
    assert len(np.unique(fresh.trees.seed)) == GAMES * SEATS * 2


def test_controls_take_subgoals_away_or_exchange_histories() -> None:
    mac, steps = played()
    zero, shuffled = mac.with_features("zero"), mac.with_features("shuffled")
    world, memory = steps[1].world, steps[0].after.seats.inferred
    seats = jnp.tile(jnp.arange(SEATS, dtype=jnp.int32), (GAMES, 1))
    moment = Moment(world, steps[0].actions, world, seats)
    trees = jax.jit(lambda: shuffled.inference.infer(mac.minds, mac.prior, moment, memory, KEY).trees)()
    np.testing.assert_array_equal(trees.memory.hidden[:, :, 0], np.roll(memory.hidden, 1, axis=0))
    judge: Any = zero.inference.judge(mac.minds, 1)
    rows = jax.tree.map(lambda leaf: jnp.swapaxes(leaf, 0, 1).reshape(-1, *leaf.shape[3:]), trees)
    flat: Trace = jax.tree.map(lambda leaf: leaf[: GAMES * SEATS], rows)
    state = jax.tree.map(lambda leaf: jnp.tile(leaf, (SEATS, *(1,) * (leaf.ndim - 1))), world)
    rows_of_seats = seats.T.reshape(-1)
    legal = jax.jit(mac.game.legal)(state)[np.arange(GAMES * SEATS), rows_of_seats]
    trace, record = jax.jit(lambda: judge.follow(state, rows_of_seats, legal, flat))()
    assert not np.asarray(trace.goal).any()
    assert np.asarray(record["infer_mu"]).any()


def test_one_set_of_networks_plays_any_seat() -> None:
    config = small_config("2pool1hop_plus_codes")
    assert (config.mac, config.learner) == ("multi_module_mac", "hop_plus_learner")
    spec = make_env("stag_hunt", **GAME).spec
    assert not jax.eval_shape(lambda: build_mac(config, spec, KEY)).every_seat

    @jax.eval_shape
    def made() -> Any:
        mac: HOPMac = build_mac(config, spec, KEY)
        _, seen = mac.game.reset(KEY, GAMES)
        seats = jnp.arange(GAMES)[:, None] % SEATS
        legal = jnp.take_along_axis(seen.avail, seats[..., None], 1)
        view = PlayerView(seen.obs[:, :1], seen.state, legal, seats, jnp.full((GAMES, SEATS), -1))
        return mac.act_seats(view, mac.initial_seats(GAMES, 1), KEY, 0.0)

    actions, memory, record = made
    assert (actions.shape, record["infer_mu"].shape) == ((GAMES, 1), (GAMES, 1, J * D))
    assert memory.inferred.hidden.shape == (GAMES, 1, 5)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"hop_model": "goals"}, "hop_model: got goals, .* Allowed: subgoals"),
        ({"learner": "hop_learner", "am_model": "none_am"}, "hop_model: got subgoals, .* Allowed: goals, actions"),
        ({"am_model": "none_am"}, "am_model: got none_am, .* Allowed: omg_am"),
        ({"omg_maps": False}, "omg_maps: got False, .* Allowed: True"),
        ({"omg_feature": "view"}, r"omg_feature: got view, but no part of this run reads it"),
        ({"omg_residual": True}, r"omg_residual: got True, but no part of this run reads it"),
        ({"omg_action_dropout": 0.5}, r"omg_action_dropout: got 0.5, but no part of this run reads it"),
        ({"obs_is_state": True}, "obs_is_state: got True, .* Allowed: False"),
        ({"omg_q_input": "oracle", "team": "2pool1hop_plus"}, "omg_q_input: got oracle, .* Allowed: mix, inferred"),
    ],
)
def test_what_does_not_go_together_is_refused_before_a_run(changes: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        adjust(resolve("hop_plus", "stag_hunt", changes).config, has_gpu=False)
