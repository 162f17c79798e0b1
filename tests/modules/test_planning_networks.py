"""Networks of a planning player against slow, obvious versions; goals as rows and as vectors; stacks of networks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from omg.envs import make_env
from omg.modules.convolutions import convolve, spread
from omg.modules.planning import (
    CoPlayersNetwork,
    MapTrunk,
    PlanningSizes,
    PolicyValueNetwork,
    each,
    masked,
    spread_trunks,
)
from omg.modules.planning.light import LightTrunk, light_trunks, multiplies_bfloat16, pieces
from omg.modules.planning.spread import SpreadTrunk
from omg.planning.goals import goal_likelihoods
from omg.planning.minds import GoalJudge, Judgement, network_sizes, new_minds, renewed, where_wanted

SIZES = PlanningSizes(channels=3, height=4, width=5, n_actions=6, goal_dim=4, filters=(2, 3, 4), hidden_dim=7)
ROWS = 6


def one_of(networks: Any, index: int) -> Any:
    return jax.tree.map(lambda leaf: leaf[index], networks)


def made(make: Callable[[], Any]) -> Any:
    """Networks with the weights that they draw, as arrays of NumPy: looking at parts of those compiles nothing."""
    return jax.device_get(jax.jit(make)())


def one_key() -> jax.Array:
    """Of a stack of one."""
    return jax.random.split(jax.random.key(0), 1)


def views(seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.random((ROWS, 3, 4, 5)) < 0.3, rng.random(ROWS).astype(np.float32)


def slow_trunk(trunk: MapTrunk, picture: np.ndarray, time: float) -> np.ndarray:
    """One map [C, H, W], cell by cell."""
    x = picture.astype(np.float64)
    for kernel, bias in zip(trunk.kernels, trunk.biases, strict=True):
        weight, (_, height, width) = np.asarray(kernel), x.shape
        padded = np.pad(x, ((0, 0), (1, 1), (1, 1)))
        out = np.empty((weight.shape[-1], height, width))
        for row in range(height):
            for col in range(width):
                around = padded[:, row : row + 3, col : col + 3].transpose(1, 2, 0)
                out[:, row, col] = np.tensordot(around, weight, axes=3) + bias
        x = np.maximum(out, 0)
    return x.transpose(1, 2, 0).reshape(-1) @ trunk.dense.weight + trunk.dense.bias + time * np.asarray(trunk.time)


def test_trunk_is_three_padded_convolutions_and_a_wide_layer() -> None:
    maps, time = views(0)
    trunk = made(lambda: MapTrunk(SIZES, key=jax.random.key(0)))
    assert [kernel.shape for kernel in trunk.kernels] == [(3, 3, 3, 2), (3, 3, 2, 3), (3, 3, 3, 4)]
    ask = jax.jit(lambda trunk, maps, time: trunk(maps, time))
    found = np.asarray(ask(trunk, maps.reshape(2, 3, 3, 4, 5), time.reshape(2, 3)))
    expected = [slow_trunk(trunk, picture, share) for picture, share in zip(maps, time, strict=True)]
    np.testing.assert_allclose(found.reshape(ROWS, 7), expected, atol=1e-5)


def test_convolutions_spread_over_the_board_are_the_same() -> None:
    maps, time = views(0)
    own = made(lambda: PolicyValueNetwork(replace(SIZES, goal_dim=0), key=jax.random.key(0)))
    found, expected = jax.jit(lambda own: (spread_trunks(own, 4, 5)(maps, time), own(maps, time)))(own)
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == other.dtype
        # Numbers of eight bits, in five layers.
        np.testing.assert_allclose(one, other, atol=0.02 * float(np.abs(other).max()))
    kernel = np.asarray(own.trunk.kernels[1])
    matrix = np.asarray(jax.jit(lambda kernel: spread(kernel, 4, 5, channels_first=False))(kernel))
    rng = np.random.default_rng(1)
    cells = rng.random((ROWS, 4, 5, 2)).astype(np.float32)
    expected = jax.jit(convolve)(cells, kernel).reshape(ROWS, -1)
    np.testing.assert_allclose(cells.reshape(ROWS, -1) @ matrix, expected, atol=1e-5)


def test_learning_elsewhere_than_on_a_cpu_spreads_its_convolutions(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(2)
    cells, weights = rng.random((6, 3, 4, 2)).astype(np.float32), rng.random((6, 3, 4, 5)).astype(np.float32)
    kernels = rng.normal(size=(2, 3, 3, 2, 5)).astype(np.float32)

    def learned(cells: jax.Array, kernel: jax.Array) -> jax.Array:
        return (jax.nn.relu(convolve(cells, kernel)) * weights).sum()

    # Two networks at once, as they are learned.
    both = jax.vmap(jax.value_and_grad(learned, argnums=(0, 1)), in_axes=(None, 0))
    value, (by_cells, by_kernel) = jax.jit(both)(cells, kernels)
    monkeypatch.setattr("omg.modules.convolutions.on_cpu", lambda: False)
    for many in (1, 100):
        monkeypatch.setattr("omg.modules.convolutions._MANY_MAPS", many)
        program = jax.make_jaxpr(lambda *given: both(*given))(cells, kernels)
        # A matrix from all cells to all cells, or none.
        assert ("24,60]" in str(program)) == (many == 1)
        found, (found_cells, found_kernel) = jax.jit(lambda *given: both(*given))(cells, kernels)
        np.testing.assert_allclose(found, value, rtol=1e-5)
        np.testing.assert_allclose(found_cells, by_cells, atol=1e-5)
        np.testing.assert_allclose(found_kernel, by_kernel, atol=2e-4)


def test_a_search_elsewhere_than_on_a_cpu_spreads_its_networks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("omg.planning.minds.on_cpu", lambda: False)
    env = make_env("stag_hunt", size=4, blocks=0)
    minds = jax.eval_shape(lambda: jax.vmap(lambda key: new_minds(network_sizes(env, 2), 4, key))(one_key()))
    judge = jax.eval_shape(lambda minds: GoalJudge(env, env.goals(), minds, trees=64).minds, minds)
    assert isinstance(judge.own.trunk, SpreadTrunk)
    assert isinstance(judge.others.trunk, SpreadTrunk)
    assert judge.own.trunk.layers[0].shape == (1, 7 * 16, 16 * 16)
    few = jax.eval_shape(lambda minds: GoalJudge(env, env.goals(), minds, trees=8).minds, minds)
    assert isinstance(few.own.trunk, MapTrunk)


def test_a_search_on_a_cpu_that_multiplies_bfloat16_has_light_networks(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    flags = tmp_path / "cpuinfo"
    monkeypatch.setattr("omg.modules.planning.light._CPU_FLAGS", flags)
    for text, fast in ((None, False), ("flags : avx2 fma", False), ("flags : avx2 avx512_bf16 fma", True)):
        if text is not None:
            flags.write_text(text)
        multiplies_bfloat16.cache_clear()
        assert multiplies_bfloat16() == fast
    env = make_env("stag_hunt", size=4, blocks=0)
    minds = jax.eval_shape(lambda: jax.vmap(lambda key: new_minds(network_sizes(env, 2), 4, key))(one_key()))
    for trees, kind in ((64, LightTrunk), (8, MapTrunk)):
        judge = jax.eval_shape(lambda minds, n=trees: GoalJudge(env, env.goals(), minds, trees=n).minds, minds)
        assert isinstance(judge.own.trunk, kind)
        assert isinstance(judge.others.trunk, kind)
        assert judge.own.policy.weight.dtype == jnp.float32
    multiplies_bfloat16.cache_clear()


@pytest.mark.parametrize(("height", "width", "cut"), [(3, 2, [(0, 2)]), (4, 5, [(0, 2), (2, 5)]), (2, 7, None)])
def test_light_networks_say_the_same(height: int, width: int, cut: list[tuple[int, int]] | None) -> None:
    assert pieces(width) == (cut or [(0, 2), (2, 4), (4, 7)])
    sizes = PlanningSizes(5, height, width, 4, filters=(4, 6), hidden_dim=16)
    maps = np.random.default_rng(0).random((2, 9, 5, height, width)) < 0.4
    time = np.linspace(0, 1, 18, dtype=np.float32).reshape(2, 9)
    own = made(lambda: PolicyValueNetwork(sizes, key=jax.random.key(0)))
    found, expected = jax.jit(lambda own: (light_trunks(own, width)(maps, time), own(maps, time)))(own)
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_allclose(one, other, atol=0.01 * float(np.abs(other).max()))


def test_published_sizes_are_the_defaults() -> None:
    env = make_env("stag_hunt")
    sizes = network_sizes(env, 2)
    assert (sizes.filters, sizes.hidden_dim) == ((16, 32, 32), 512)
    shapes = jax.eval_shape(lambda: new_minds(sizes, 4, jax.random.key(0)))
    assert [kernel.shape for kernel in shapes.own.trunk.kernels] == [(3, 3, 7, 16), (3, 3, 16, 32), (3, 3, 32, 32)]
    assert shapes.own.trunk.dense.weight.shape == (64 * 32, 512)
    assert (shapes.own.goal.shape, shapes.own.policy.weight.shape) == ((0, 512), (512, 7))
    assert (shapes.others.goal.shape, shapes.others.weight.shape) == ((3, 2, 512), (3, 512, 7))
    # One body for all co-players.
    assert shapes.others.trunk.dense.weight.shape == (64 * 32, 512)


def test_co_players_share_a_body_and_a_goal_adds_its_rows_of_the_wide_layer() -> None:
    maps, time = views(1)
    network = made(lambda: CoPlayersNetwork(SIZES, 2, key=jax.random.key(1)))
    codes = np.array([[0, 1], [3, 2], [1, 0], [2, 2], [2, 3], [-1, 1]])
    vectors = np.where(codes[..., None] >= 0, np.eye(4, dtype=np.float32)[codes], 0.0).astype(np.float32)
    every = np.tile(np.arange(4), (ROWS, 1))

    @jax.jit
    def ask(network: CoPlayersNetwork) -> Any:
        said = (network(maps, time, jnp.asarray(codes)), network(maps, time, vectors))
        return said, network.for_goals(maps, time, jnp.asarray(every))

    (by_code, by_vector), every_goal = jax.device_get(ask(network))
    np.testing.assert_allclose(by_code, by_vector, atol=1e-6)
    body = np.stack([slow_trunk(network.trunk, maps[i], time[i]) for i in range(ROWS)])
    for place in range(2):
        hidden = np.maximum(body + vectors[:, place] @ np.asarray(network.goal[place]), 0)
        expected = hidden @ np.asarray(network.weight[place]) + np.asarray(network.bias[place])
        np.testing.assert_allclose(by_code[:, place], expected, atol=1e-5)
    assert every_goal.shape == (ROWS, 2, 4, 6)
    picked = np.take_along_axis(every_goal, np.maximum(codes, 0)[:, :, None, None], axis=2)[:, :, 0]
    np.testing.assert_allclose(picked[codes >= 0], by_code[codes >= 0], atol=1e-5)
    assert np.abs(by_code[:, 0] - by_code[:, 1]).max() > 0.01
    with pytest.raises(ValueError, match="goal_dim is 4"):
        network(maps, time)


def test_policy_and_value_share_their_layers() -> None:
    maps, time = views(2)
    network = made(lambda: PolicyValueNetwork(SIZES, key=jax.random.key(2)))
    goal = np.ones((ROWS, 4), np.float32)
    logits, value = jax.jit(lambda network: network(maps, time, goal))(network)
    hidden = [slow_trunk(network.trunk, maps[i], time[i]) + goal[i] @ np.asarray(network.goal) for i in range(ROWS)]
    hidden = np.maximum(hidden, 0)
    np.testing.assert_allclose(logits, hidden @ network.policy.weight + network.policy.bias, atol=1e-5)
    np.testing.assert_allclose(value, (hidden @ network.value.weight + network.value.bias)[:, 0], atol=1e-5)


def test_networks_say_the_same_one_by_one_and_together(monkeypatch: pytest.MonkeyPatch) -> None:
    maps, time = views(4)
    keys = jax.random.split(jax.random.key(4), 3)
    several = made(lambda: jax.vmap(lambda key: CoPlayersNetwork(SIZES, 2, key=key))(keys))
    goal = jnp.asarray(np.random.default_rng(0).integers(0, 4, (3, ROWS, 2)))
    ask = lambda several: each(lambda network, goal: network(maps, time, goal), several, goal)  # noqa: E731
    one_by_one = jax.jit(ask)(several)
    monkeypatch.setattr("omg.modules.planning.networks.on_cpu", lambda: False)
    together = jax.jit(lambda several: ask(several))(several)
    np.testing.assert_allclose(together, one_by_one, atol=1e-5)
    assert np.abs(together[0] - together[1]).max() > 0.01


def test_a_convolution_has_the_gradient_of_xlas() -> None:
    rng = np.random.default_rng(5)
    x, kernel = (jnp.asarray(rng.normal(size=shape), jnp.float32) for shape in ((2, 4, 5, 3), (3, 3, 3, 2)))

    def by_xla(x: jax.Array, kernel: jax.Array) -> jax.Array:
        return jax.lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))

    def gradients(function: Any) -> Any:
        return jax.jit(jax.value_and_grad(lambda *given: jnp.sum(jnp.sin(function(*given))), argnums=(0, 1)))(x, kernel)

    for found, expected in zip(*(jax.tree.leaves(gradients(way)) for way in (convolve, by_xla)), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_illegal_actions_have_no_chance() -> None:
    legal = jnp.asarray([[True, False, True], [False, True, False]])
    chances = jax.nn.softmax(masked(jnp.asarray([[1.0, 90.0, 1.0], [-5.0, -5.0, 3.0]]), legal))
    np.testing.assert_allclose(chances, [[0.5, 0.0, 0.5], [0.0, 1.0, 0.0]])


# ------------------------------------------------------------------------------------ what the networks are shown


def test_networks_see_the_map_of_the_focal_seat() -> None:
    env = make_env("stag_hunt", size=5)
    state = jax.device_get(jax.jit(env.start, static_argnums=1)(jax.random.key(0), 8))
    hunting = state.hunting.copy()
    hunting[3, 1] = False
    state, seat = state._replace(hunting=hunting, time=state.time + np.int16(7)), np.arange(8) % 4
    (maps, time), views_of_all = jax.jit(lambda: (env.sight(state, seat), env.views(state)))()
    expected = np.asarray(env.map_view.maps(np.asarray(views_of_all)))[np.arange(8), seat]
    np.testing.assert_array_equal(maps, expected)
    np.testing.assert_allclose(time, np.full(8, 0.2))


def test_likelihoods_are_the_chances_of_what_was_done() -> None:
    env = make_env("snowdrift", size=4, players=3, drifts=2)
    goals = env.goals()
    sizes = network_sizes(env, goals.width, filters=(2,), hidden_dim=5)
    minds = made(lambda: jax.vmap(lambda key: new_minds(sizes, 3, key))(jax.random.split(jax.random.key(0), 2)))
    games = 4
    state = jax.jit(env.start, static_argnums=1)(jax.random.key(1), games)
    seats = np.array([[0, 1], [1, 2], [2, 0], [0, 2]])
    legal = np.asarray(jax.jit(env.legal)(state))
    actions = np.array([[np.flatnonzero(row)[game % 2] for row in legal[game]] for game in range(games)])
    actions[2, 1] = -1
    codes = np.asarray(jax.jit(goals.codes)(state))
    likelihoods = jax.jit(lambda minds, *given: goal_likelihoods(env, minds.others, *given))
    found = np.asarray(likelihoods(minds, state, seats, codes, actions))
    assert found.shape == (games, 2, 2, 3)

    @jax.jit
    def answers(networks: CoPlayersNetwork) -> list[list[jax.Array]]:
        """Of slot and goal: logits [games, J, U], for one goal at a time."""
        seen = [env.sight(state, jnp.asarray(seats[:, slot])) for slot in range(2)]
        both = [jnp.tile(codes[:, goal, None], (1, 2)) for goal in range(3)]
        return [[one_of(networks, slot)(*seen[slot], goal) for goal in both] for slot in range(2)]

    said = np.asarray(jax.device_get(answers(minds.others)), np.float64)
    for game in range(games):
        for slot in range(2):
            others = [seat for seat in range(3) if seat != seats[game, slot]]
            for place, other in enumerate(others):
                for goal in range(3):
                    weights = np.where(legal[game, other], np.exp(said[slot, goal, game, place]), 0)
                    did = actions[game, other]
                    expected = 1.0 if did < 0 else weights[did] / weights.sum()
                    assert float(found[game, slot, place, goal]) == pytest.approx(expected, abs=1e-5)


def test_goals_that_are_gone_are_replaced_by_some_that_exist() -> None:
    env = make_env("snowdrift", size=4, players=4, drifts=3)
    goals = env.goals()
    games = 400
    start = jax.device_get(jax.jit(env.start, static_argnums=1)(jax.random.key(5), 1))
    state = jax.tree.map(lambda leaf: np.repeat(leaf, games, axis=0), start)
    state.drift_left[:, 1] = False
    cell = [int(number) for number in state.drift[0]]
    codes = np.tile(np.asarray([cell[0], cell[1], 16], np.int16), (games, 1))
    keys = jax.random.split(jax.random.key(0), games)
    found = np.asarray(jax.jit(lambda: renewed(goals, keys, state, codes))())
    assert set(found[:, 0]) == {cell[0]}
    assert set(found[:, 2]) == {16}
    for code in (cell[0], cell[2], 16):
        assert abs(float(np.mean(found[:, 1] == code)) - 1 / 3) < 0.09


@pytest.mark.parametrize("wanting", [0, 1, 4, 5, 11])
def test_answers_are_computed_only_where_they_are_wanted(wanting: int) -> None:
    rng = np.random.default_rng(wanting)
    wanted = np.zeros(11, bool)
    wanted[rng.permutation(11)[:wanting]] = True
    given, known = np.arange(11.0), (np.full((11, 2), -1.0), np.full(11, -2.0))

    def answer(rows: jax.Array) -> tuple[jax.Array, jax.Array]:
        return jnp.stack([rows, rows**2], axis=-1), rows + 5

    pairs = np.where(wanted[:, None], np.stack([given, given**2], axis=-1), known[0])
    for size in (4, 11, 16):
        found = jax.jit(lambda *rows, size=size: where_wanted(answer, *rows, size))(given, wanted, known)
        np.testing.assert_array_equal(found[0], pairs)
        np.testing.assert_array_equal(found[1], np.where(wanted, given + 5, known[1]))


def test_the_judge_asks_each_seats_own_networks() -> None:
    env = make_env("stag_hunt", size=4, players=3, blocks=0)
    goals = env.goals()
    sizes = network_sizes(env, goals.width, filters=(2,), hidden_dim=5)
    minds = made(lambda: jax.vmap(lambda key: new_minds(sizes, 3, key))(jax.random.split(jax.random.key(0), 2)))
    rows = 40
    state = jax.jit(env.start, static_argnums=1)(jax.random.key(1), rows)
    seat = np.repeat(np.asarray([2, 0], np.int32), rows // 2)
    memory = np.random.default_rng(0).integers(0, 2, (rows, 2)).astype(np.int16)
    keys, wanted = jax.random.split(jax.random.key(2), rows), np.arange(rows) % 3 == 0
    order = np.array([[0, 1]] * (rows // 2) + [[1, 2]] * (rows // 2))
    legal = np.take_along_axis(np.asarray(jax.jit(env.legal)(state)), order[..., None], axis=1)
    known = np.full((rows, 2), -7, np.int8)

    @jax.jit
    def ask(minds: Any) -> Any:
        some = [GoalJudge(env, goals, minds, parts=parts) for parts in (1, 2)]
        given = jax.tree.map(jnp.asarray, (keys, state, seat, legal, memory, wanted, known))
        looks = [judge.own(*given[:3], given[3][:, 0], *given[4:6]) for judge in some]
        return looks, *(judge.others(*given) for judge in some), env.sight(*given[1:3])

    looks, whole, in_parts, (maps, time) = jax.device_get(ask(minds))
    np.testing.assert_array_equal(whole, in_parts)
    np.testing.assert_array_equal(whole[~wanted], -7)
    assert np.take_along_axis(legal[wanted], whole[wanted][..., None].astype(int), axis=2).all()
    alone = jax.jit(lambda mind, maps, time: mind.own(maps, time))
    for logits, value, after in looks:
        np.testing.assert_array_equal(after, memory)
        for index in range(2):
            mine = slice(index * 20, index * 20 + 20)
            expected = alone(one_of(minds, index), maps[mine], time[mine])
            asked = wanted[mine]
            np.testing.assert_allclose(logits[mine], np.where(asked[:, None], expected[0], 0), atol=1e-5)
            np.testing.assert_allclose(value[mine], np.where(asked, expected[1], 0), atol=1e-5)


def test_networks_spelled_out_say_what_they_say_in_a_loop() -> None:
    maps, time = views(3)
    stack = made(lambda: jax.vmap(lambda key: MapTrunk(SIZES, key=key))(jax.random.split(jax.random.key(1), 3)))
    given = (maps.reshape(3, 2, 3, 4, 5), time.reshape(3, 2))
    ask = [
        jax.jit(lambda *given, apart=apart: each(lambda trunk, *own: trunk(*own), stack, *given, apart=apart))
        for apart in (False, True)
    ]
    np.testing.assert_allclose(ask[0](*given), ask[1](*given), atol=1e-6)


def test_networks_of_large_searches_are_spelled_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("omg.planning.minds.multiplies_bfloat16", lambda: False)
    env = make_env("stag_hunt", size=4, blocks=0)
    sizes = network_sizes(env, 0)
    minds = jax.eval_shape(
        lambda: jax.vmap(lambda key: new_minds(sizes, 4, key))(jax.random.split(jax.random.key(0), 4))
    )
    state = jax.eval_shape(lambda: env.start(jax.random.key(1), 8))
    seat = jnp.repeat(jnp.arange(4), 2)

    def convolutions(trees: int) -> int:
        def look(minds: Any, state: Any) -> Any:
            legal = jnp.ones((len(seat), 7), bool)
            return Judgement(env, minds, trees=trees).own(seat, state, seat, legal, seat, seat >= 0)

        return str(jax.make_jaxpr(look)(minds, state)).count("conv_general_dilated")

    # In a loop over the four networks, or each for itself.
    assert convolutions(64) == 4 * convolutions(63) > 0
