"""Tree search in the stag hunt: brute force on tiny boards, masks, leaving, parts and memory."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array

from omg.envs import make_env
from omg.envs.grid import DOWN, RIGHT, STAY
from omg.envs.grid.bits import pack
from omg.envs.stag_hunt import StagHuntState
from omg.envs.stag_hunt.env import HUNT_HARE, HUNT_STAG
from omg.errors import UserError
from omg.planning.search import (
    Decision,
    Roots,
    SearchSettings,
    all_actions,
    choose,
    decide,
    grow_trees,
    own_order,
    part_count,
    search_bytes,
)
from omg.planning.trees import VISITS, by_kernels

# ------------------------------------------------------------------------------------------------------- stag hunt

TINY = make_env("stag_hunt", size=3, players=2, blocks=0, hares=1, stags=1, episode_limit=4)


class Script:
    """Knows nothing; the others hunt a stag when they can, else go right, else down, else stay."""

    def __init__(self, value: float = 0.0) -> None:
        self.value = value

    def own(
        self, keys: Array, state: Any, seat: Array, legal: Array, memory: Any, wanted: Array
    ) -> tuple[Array, Array, Any]:
        return jnp.zeros((len(seat), 7)), jnp.full(len(seat), self.value), memory

    def others(self, keys: Any, state: Any, seat: Array, legal: Array, memory: Any, wanted: Any, known: Any) -> Array:
        order = (HUNT_STAG, RIGHT, DOWN, STAY)
        wish = jnp.stack([legal[..., action] for action in order], axis=-1)
        did = jnp.asarray(order, jnp.int8)[jnp.argmax(wish, axis=-1)]
        return did if known is None else jnp.where(wanted[:, None], did, known)


def brute_force(env: Any, state: Any, seat: Array, discount: float) -> Array:
    """The focal player's best return after each first action, over all its plans: [N, U]."""
    count, actions = len(seat), env.spec.n_actions
    rewards = []
    for _ in range(env.args.episode_limit):
        size = len(seat)
        legal = jnp.take_along_axis(env.legal(state), own_order(seat, 2)[:, 1:, None], axis=1)
        others = Script().others(None, state, seat, legal, None, None, None)
        state, seat, others = jax.tree.map(lambda leaf: jnp.repeat(leaf, actions, axis=0), (state, seat, others))
        mine = jnp.tile(jnp.arange(actions), size)
        state, reward, _ = env.advance(state, all_actions(seat, mine, others))
        rewards.append(jnp.take_along_axis(reward, seat[:, None], axis=1).reshape(count, -1))
    best = jnp.zeros(())
    for reward in rewards[::-1]:
        q = reward + discount * best
        best = q.reshape(count, -1, actions).max(axis=-1)
    return q


def test_search_agrees_with_brute_force_on_tiny_boards() -> None:
    games, settings = 24, SearchSettings(simulations=8000, exploration=5.0)
    seats = jnp.arange(games, dtype=jnp.int32)[:, None] % 2
    memory = jnp.zeros((games, 1, 1), jnp.int8)

    def both(key: Array) -> tuple[Decision, Array]:
        state = TINY.start(key, games)
        exact = brute_force(TINY, state, seats[:, 0], settings.discount)
        return decide(TINY, Script(), settings, state, seats, memory, key), exact

    found, exact = jax.jit(both)(jax.random.key(3))
    legal, q = np.asarray(found.legal)[:, 0], np.asarray(found.q)[:, 0]
    best, q = np.where(legal, exact, -1.0), np.where(legal, q, -1.0)
    top, paid = best.max(axis=1), best.max(axis=1) > 0
    # Different games: a hare at once or later, a stag together with the other, and different first steps.
    assert len(set(np.round(top[paid], 2).tolist())) >= 3
    assert len(set(best.argmax(axis=1)[paid].tolist())) >= 4
    # Among equals any will do.
    chosen = np.take_along_axis(best, q.argmax(axis=1)[:, None], axis=1)[:, 0]
    np.testing.assert_allclose(chosen[paid], top[paid], atol=1e-5)
    # A mean over what was tried is never more than the best, and comes close to it.
    assert (q <= best + 1e-5).all()
    np.testing.assert_allclose(q.max(axis=1)[paid], top[paid], rtol=0.16)
    assert (np.asarray(found.q)[:, 0][~legal] == 0).all()


def standing(env: Any, players: list[int], prey: list[int], time: int = 0) -> StagHuntState:
    """A batch of one, with players and prey on the given cells."""
    return StagHuntState(
        player=jnp.asarray([players], jnp.uint8),
        hunting=jnp.ones((1, len(players)), bool),
        prey=jnp.asarray([prey], jnp.uint8),
        prey_left=jnp.ones((1, len(prey)), bool),
        blocks=pack(np.zeros((1, env.board.cells), bool)),
        last_action=jnp.full((1, len(players)), -1, jnp.int8),
        time=jnp.full(1, time, jnp.int16),
    )


def tree_of(env: Any, state: Any, seat: int, simulations: int, value: float) -> Any:
    settings = SearchSettings(simulations=simulations, exploration=30.0)
    number = jnp.zeros(1, jnp.int32)

    def search() -> Any:
        roots = Roots(state, env.legal(state), jnp.asarray([seat], jnp.int32), jnp.zeros(1, jnp.int8), number)
        return grow_trees(env, Script(value), settings, roots, jax.random.key(0))

    return jax.jit(search)()


def test_nothing_is_expected_behind_the_end_or_after_leaving() -> None:
    # Seat 1 stands on the hare: with it, it leaves for good. The network would promise 100 for every position.
    leaves = tree_of(TINY, standing(TINY, [0, 8], [4, 8]), 1, 60, 100.0)
    assert float(leaves.q[0, HUNT_HARE]) == 1.0
    assert float(leaves.q[0, STAY]) > 20
    # In the last step nothing follows, whatever is done.
    last = tree_of(TINY, standing(TINY, [4, 4], [4, 8], time=3), 0, 60, 100.0)
    assert last.q[0].tolist() == [0, 0, 0, 0, 0, 5.0, 0]


def test_branches_and_the_others_keep_to_the_rules() -> None:
    env = make_env("stag_hunt", size=3, players=3, blocks=0, hares=1, stags=1, episode_limit=6)
    tree = tree_of(env, standing(env, [0, 4, 4], [4, 8]), 0, 80, 0.0)
    nodes = jax.tree.map(lambda leaf: leaf[0], tree.nodes)
    legal = np.asarray(env.legal(nodes.state))
    visits = np.asarray(tree.branches[0, :, :, VISITS])
    assert visits[0].sum() == 80
    assert not visits[~legal[:, 0]].any()
    others, opened = np.asarray(tree.opened[0], int), visits.sum(axis=1) > 0
    assert 10 < opened.sum() < 60
    assert np.take_along_axis(legal[:, 1:], others[..., None], axis=2)[opened].all()
    # Only where the tree goes on is it asked what the others do.
    assert not others[~opened].any()
    # The two at the stag take it at once and leave: below the root they stay, though the script knows other ways.
    assert others[0].tolist() == [HUNT_STAG, HUNT_STAG]
    assert others[opened][1:].tolist() == [[STAY, STAY]] * (int(opened.sum()) - 1)
    assert not np.asarray(nodes.state.hunting)[1:, 1:].any()


@pytest.mark.parametrize("seat", [0, 1, 2])
def test_seats_and_co_players_keep_their_order(seat: int) -> None:
    order = own_order(jnp.asarray([seat]), 3)[0].tolist()
    assert order == [seat, *(other for other in range(3) if other != seat)]
    acted = all_actions(jnp.asarray([seat]), jnp.asarray([5]), jnp.asarray([[6, 7]], jnp.int8))[0]
    assert [int(acted[place]) for place in order] == [5, 6, 7]


# ---------------------------------------------------------------------------------------------------- whole plans


class RandomPlayers:
    """The others do anything legal, by their tree's own luck; values and priors differ from position to position."""

    def own(
        self, keys: Array, state: Any, seat: Array, legal: Array, memory: Any, wanted: Array
    ) -> tuple[Array, Array, Any]:
        cell = jnp.take_along_axis(state.player, seat[:, None], axis=1)[:, 0].astype(jnp.float32)
        logits = jnp.sin(cell[:, None] * jnp.arange(1.0, 8.0))
        return logits, jnp.sin(cell + state.player.sum(axis=1)) + memory, memory

    def others(
        self, keys: Array, state: Any, seat: Array, legal: Array, memory: Any, wanted: Array, known: Array
    ) -> Array:
        chance = jax.vmap(lambda key: jax.random.uniform(key, legal.shape[1:]))(keys)
        return jnp.where(wanted[:, None], jnp.argmax(legal * chance, axis=-1), known).astype(jnp.int8)


RANDOM = RandomPlayers()


@cache
def planned() -> tuple[Decision, Decision, Decision, int]:
    games, settings = 5, SearchSettings(simulations=12, exploration=2.0)
    state = TINY.start(jax.random.key(1), games)
    seats = jnp.tile(jnp.arange(2, dtype=jnp.int32), (games, 1))
    memory = jnp.linspace(0.0, 1.0, games * 2 * 3).reshape(games, 2, 3)
    key = jax.random.key(7)
    needed = search_bytes(settings, state, TINY.legal(state), seats, memory, kernels=False)
    whole, parts, again = jax.jit(
        lambda: (
            decide(TINY, RANDOM, settings, state, seats, memory, key),
            decide(TINY, RANDOM, settings, state, seats, memory, key, limit_bytes=needed // 2),
            decide(TINY, RANDOM, settings, state, seats, memory, jax.random.key(8)),
        )
    )()
    return whole, parts, again, needed


def test_a_plan_in_parts_is_the_same_plan() -> None:
    whole, parts, other_luck, _ = planned()
    for name in Decision._fields:
        np.testing.assert_allclose(getattr(whole, name), getattr(parts, name), atol=1e-6, err_msg=name)
    assert not np.allclose(whole.q, other_luck.q)


def test_a_plan_is_the_mean_of_its_trees() -> None:
    whole = planned()[0]
    games, settings = 5, SearchSettings(simulations=12, exploration=2.0)
    state = TINY.start(jax.random.key(1), games)
    memory = np.linspace(0.0, 1.0, games * 2 * 3).astype(np.float32).reshape(games, 2, 3)
    rows = [(game, slot, sample) for slot in range(2) for game in range(games) for sample in range(3)]
    roots = Roots(
        *jax.tree.map(lambda leaf: leaf[np.array([game for game, _, _ in rows])], (state, TINY.legal(state))),
        jnp.asarray([slot for _, slot, _ in rows], jnp.int32),
        jnp.asarray([memory[row] for row in rows]),
        jnp.asarray([(game * 2 + slot) * 3 + sample for game, slot, sample in rows], jnp.int32),
    )
    trees = jax.jit(lambda: grow_trees(TINY, RANDOM, settings, roots, jax.random.key(7)))()
    legal = np.asarray(TINY.legal(state))
    for game in range(games):
        for slot in range(2):
            mine = [index for index, row in enumerate(rows) if row[:2] == (game, slot)]
            tries, q = np.asarray(trees.visits)[mine], np.asarray(trees.q)[mine]
            mean = [q[tries[:, a] > 0, a].mean() if tries[:, a].any() else 0.0 for a in range(7)]
            np.testing.assert_allclose(whole.q[game, slot], mean, atol=1e-5)
            weights = np.where(legal[game, slot], np.exp(2.0 * np.array(mean)), 0.0)
            np.testing.assert_allclose(whole.chances[game, slot], weights / weights.sum(), atol=1e-5)
            share = (tries / 12).mean(axis=0)
            np.testing.assert_allclose(whole.visits[game, slot], share, atol=1e-6)
            entropy = -sum(part * math.log(part) for part in share if part > 0)
            assert float(whole.entropy[game, slot]) == pytest.approx(entropy, abs=1e-5)
            np.testing.assert_allclose(whole.value[game, slot], np.asarray(trees.value)[mine].mean(), atol=1e-5)


def test_actions_are_drawn_from_the_policy_and_greedy_in_evaluation() -> None:
    q = jnp.asarray([[[0.0, 1.0, 3.0, 0.5]]])
    legal = jnp.asarray([[[True, True, False, True]]])
    policy = np.exp(2 * np.array([0.0, 1.0, -np.inf, 0.5]))
    policy /= policy.sum()
    shape = (4000, 1, 4)
    many = Decision(*(jnp.broadcast_to(part, shape) for part in (q, jnp.asarray(policy)[None, None], legal)), q, q, q)
    drawn = np.asarray(choose(many, jax.random.key(0)))
    np.testing.assert_allclose(np.bincount(drawn[:, 0], minlength=4) / 4000, policy, atol=0.03)
    assert set(np.asarray(choose(many, jax.random.key(0), explore=False))[:, 0]) == {1}


def test_the_memory_of_a_search_is_known_before(monkeypatch: pytest.MonkeyPatch) -> None:
    needed = planned()[3]
    # 5 games, 2 seats, 3 samples, 13 nodes; a node is 2 cells, 2 flags, prey 2 + 2, one word of blocks, 2 actions, the
    # time, one action of the other, and a float of memory; four numbers for each branch and the way there; and one.
    assert needed == 30 * 13 * ((2 + 2 + 2 + 2 + 4 + 2 + 2) + 1 + 4 + 4 * (4 + 4 * 7 + 1))
    games, settings = 16, SearchSettings(simulations=100)
    state, seats = TINY.start(jax.random.key(1), games), jnp.zeros((games, 1), jnp.int32)
    memory = jnp.zeros((games, 1, 4))
    legal = TINY.legal(state)
    told = search_bytes(settings, state, legal, seats, memory, by_kernels())
    compiled = jax.jit(lambda *now: decide(TINY, RANDOM, settings, *now, jax.random.key(0)))
    taken = compiled.lower(state, seats, memory).compile().memory_analysis()
    assert told <= taken.temp_size_in_bytes <= 2.5 * told
    # A GPU's kernels read eight branches of every node where the game has seven actions.
    monkeypatch.setattr("omg.planning.trees.on_cpu", lambda: False)
    monkeypatch.setattr("omg.planning.trees.triton", lambda: object())
    on_gpu = search_bytes(settings, state, legal, seats, memory, by_kernels())
    assert on_gpu - told == games * 4 * 101 * 4 * 4


def test_parts_are_as_few_as_fit() -> None:
    assert part_count(games=10, bytes_of_all=1000, limit_bytes=1000) == 1
    assert part_count(games=10, bytes_of_all=1000, limit_bytes=999) == 2
    assert part_count(games=10, bytes_of_all=1000, limit_bytes=299) == 5
    with pytest.raises(UserError, match="got 99 bytes, but the trees of one game take 100"):
        part_count(games=10, bytes_of_all=1000, limit_bytes=99)
