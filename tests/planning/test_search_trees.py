"""Trees of the search in games that are written down: hand-worked, golden, by a slow search and by mctx."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import mctx
import numpy as np
import pytest
from jax import Array

from omg.planning import trees
from omg.planning.luck import drawn_deeds
from omg.planning.search import (
    Roots,
    SearchSettings,
    grow_trees,
)
from omg.planning.trees import CHILD, PARENT, VISITS

GOLDEN = Path(__file__).parents[1] / "golden" / "search_trees.json"


class Table(NamedTuple):
    """A game of two players as tables over S positions, U actions of the focal player (seat 0)."""

    next: Any
    """[S, U]."""
    reward: Any
    """[S, U]."""
    over: Any
    """[S] bool."""
    legal: Any
    """[S, U] bool."""
    logits: Any
    """[S, U]."""
    value: Any
    """[S]."""


class TableGame:
    """`search.Game` and `search.Judge` of a table; the other player does 0 if there is one draw (`luck_of`)."""

    def __init__(self, table: Table) -> None:
        self.table = Table(*(jnp.asarray(part) for part in table))

    def advance(self, state: Array, actions: Array) -> tuple[Array, Array, Array]:
        on, action = ~self.table.over[state], actions[:, 0]
        reward = jnp.where(on, self.table.reward[state, action] + 0.5 * actions[:, 1], 0.0)
        after = jnp.where(on, (self.table.next[state, action] + actions[:, 1]) % len(self.table.over), state)
        return after, jnp.stack([reward, 100 + reward], axis=1), self.table.over[after]

    def legal(self, state: Array) -> Array:
        return jnp.stack([self.table.legal[state], jnp.ones_like(self.table.legal[state])], axis=1)

    def there(self, state: Array) -> Array:
        return jnp.ones((len(state), 2), bool)

    def own(
        self, keys: Array, state: Array, seat: Array, legal: Array, memory: Any, wanted: Array
    ) -> tuple[Array, Array, Any]:
        # What nobody wants to know must not be used.
        logits = jnp.where(wanted[:, None], self.table.logits[state], jnp.nan)
        return logits, jnp.where(wanted, self.table.value[state], jnp.nan), memory + 1

    def others(self, *given: Any) -> Array:
        _, state, *_, wanted, known = given
        return jnp.where(wanted[:, None], luck_of(state[:, None], known.shape[1]), known).astype(jnp.int8)

    def search(self, starts: list[int], settings: SearchSettings) -> Any:
        count = len(starts)
        zeros = jnp.zeros(count, jnp.int32)
        state = jnp.asarray(starts, jnp.int32)
        roots = Roots(state, self.legal(state), zeros, zeros, jnp.arange(count))
        return jax.jit(lambda: grow_trees(self, self, settings, roots, jax.random.key(0)))()


def luck_of(position: Any, draws: int) -> Any:
    """What the other player does there, draw by draw: 0 in the first one, and some of them alike."""
    return (position * np.arange(draws) + np.arange(draws) // 2) % 3


def slow_search(table: Table, start: int, settings: SearchSettings) -> tuple[list[int], list[float], float]:
    """The same search, one node and one branch at a time: visits and Q of the root's branches, and its value."""
    nodes: list[dict[str, Any]] = []

    def add(position: int, ended: bool) -> float:
        allowed = np.flatnonzero(table.legal[position])
        weights = {a: math.exp(table.logits[position][a]) for a in allowed}
        prior = {a: weight / sum(weights.values()) for a, weight in weights.items()}
        value = 0.0 if ended else float(table.value[position])
        nodes.append({"at": position, "prior": prior, "children": {}, "returns": [value]})
        return value

    def visit(node: dict[str, Any]) -> float:
        def score(action: int) -> float:
            child = node["children"].get(action)
            tries, q = (0, 0.0) if child is None else (child["n"], child["sum"] / child["n"])
            return q + settings.exploration * node["prior"][action] * math.sqrt(len(node["returns"])) / (1 + tries)

        action = max(node["prior"], key=score)
        child = node["children"].setdefault(action, {"after": {}, "n": 0, "sum": 0.0, "taken": [0] * settings.draws})
        # The draw that the branch took least often, of as many as it may have by now.
        allowed = child["taken"][: math.ceil(math.sqrt(child["n"] + 1))]
        draw = allowed.index(min(allowed))
        child["taken"][draw] += 1
        deed = int(luck_of(node["at"], settings.draws)[draw])
        on = not table.over[node["at"]]
        reward = float(table.reward[node["at"]][action]) + 0.5 * deed if on else 0.0
        if deed not in child["after"]:
            after = (int(table.next[node["at"]][action]) + deed) % len(table.over) if on else node["at"]
            ended = bool(table.over[after])
            behind = add(after, ended)
            child["after"][deed] = nodes[-1], ended
        else:
            behind, ended = 0.0, child["after"][deed][1]
            if not ended:
                behind = visit(child["after"][deed][0])
        total = reward if ended else reward + settings.discount * behind
        child["n"] += 1
        child["sum"] += total
        node["returns"].append(total)
        return total

    add(start, False)
    root = nodes[0]
    for _ in range(settings.simulations):
        visit(root)
    children = [root["children"].get(action) for action in range(table.legal.shape[1])]
    q = [0.0 if child is None else child["sum"] / child["n"] for child in children]
    return [0 if child is None else child["n"] for child in children], q, float(np.mean(root["returns"]))


def test_hand_worked_tree_counts_the_last_reward_once() -> None:
    # Action 0 pays 1 and ends the game, where the network still promises 9; action 1 leads to a position worth 0.5.
    table = Table(
        next=np.array([[1, 2], [1, 1], [2, 2]]),
        reward=np.array([[1.0, 0.0], [7.0, 7.0], [0.0, 0.0]]),
        over=np.array([False, True, False]),
        legal=np.ones((3, 2), bool),
        logits=np.zeros((3, 2)),
        value=np.array([0.0, 9.0, 0.5]),
    )
    found = TableGame(table).search([0], SearchSettings(simulations=6, exploration=1.0, discount=0.5))
    # Five times 1 + 0.5 * sqrt(N) / (1 + n) is more than 0.5 * sqrt(N); in the sixth simulation 1.204 < 1.225.
    assert found.visits[0].tolist() == [5, 1]
    assert found.q[0].tolist() == [1.0, 0.25]
    assert float(found.value[0]) == pytest.approx((0 + 5 * 1 + 0.25) / 7)
    # What the evaluation remembers goes down the branches: one more than in the node above.
    depth, parent = np.asarray(found.nodes.memory[0]), np.asarray(found.origins[0, :, PARENT], int)
    assert all(depth[node] == depth[parent[node]] + 1 for node in range(1, 7))
    # No position was added behind the end: its branches were never visited.
    assert found.branches[0, 1, :, VISITS].tolist() == [0, 0]


def random_table(seed: int, positions: int = 12, actions: int = 3) -> Table:
    rng = np.random.default_rng(seed)
    legal = rng.random((positions, actions)) < 0.7
    legal[:, 1] = True
    return Table(
        next=rng.integers(0, positions, (positions, actions)),
        reward=np.round(rng.normal(size=(positions, actions)), 2),
        over=np.arange(positions) % 5 == 4,
        legal=legal,
        logits=np.round(rng.normal(size=(positions, actions)), 2),
        value=np.round(rng.normal(size=positions), 2),
    )


def test_trees_are_those_in_the_golden_file() -> None:
    golden = json.loads(GOLDEN.read_text())
    table = Table(*(np.array(golden["table"][name]) for name in Table._fields))
    settings = SearchSettings(**golden["settings"])
    found = TableGame(table).search(golden["starts"], settings)
    assert found.visits.astype(int).tolist() == golden["visits"]
    np.testing.assert_allclose(found.q, golden["q"], atol=1e-4)
    np.testing.assert_allclose(found.value, golden["value"], atol=1e-4)


@pytest.mark.parametrize(("exploration", "draws"), [(0.3, 1), (4.0, 1), (0.3, 4), (4.0, 6)])
def test_trees_are_those_of_a_slow_search(exploration: float, draws: int) -> None:
    settings = SearchSettings(simulations=40, exploration=exploration, discount=0.9, draws=draws)
    table, starts = random_table(3), [0, 1, 2, 3, 5]
    found = TableGame(table).search(starts, settings)
    for index, start in enumerate(starts):
        visits, q, value = slow_search(table, start, settings)
        assert found.visits[index].tolist() == visits
        np.testing.assert_allclose(found.q[index], q, atol=1e-5)
        assert float(found.value[index]) == pytest.approx(value, abs=1e-5)


def test_trees_are_those_of_mctx_node_by_node() -> None:
    # Without ends, behind which mctx goes on adding nodes.
    table = random_table(5)._replace(over=np.zeros(12, bool))
    game, settings, starts = TableGame(table), SearchSettings(simulations=50, exploration=2.0), jnp.arange(6)
    ours = game.search(starts.tolist(), settings)

    def arrive(state: Array) -> tuple[Array, Array]:
        legal = game.table.legal[state]
        return jnp.where(legal, game.table.logits[state], -1e9), game.table.value[state]

    def expand(_: Any, key: Array, action: Array, state: Array) -> tuple[mctx.RecurrentFnOutput, Array]:
        after, reward, _ = game.advance(state, jnp.stack([action, jnp.zeros_like(action)], axis=1))
        logits, value = arrive(after)
        discount = jnp.full(len(after), settings.discount)
        out = mctx.RecurrentFnOutput(reward=reward[:, 0], discount=discount, prior_logits=logits, value=value)
        return out, after

    def select(key: Array, tree: Any, index: Array, depth: Any = 0) -> Array:
        visits, logits = tree.children_visits[index], tree.children_prior_logits[index]
        q = jnp.where(visits > 0, tree.qvalues(index), 0.0)
        prior = settings.exploration * jax.nn.softmax(logits)
        score = q + prior * jnp.sqrt(tree.node_visits[index]) / (1 + visits)
        return jnp.argmax(jnp.where(logits < -1e8, -jnp.inf, score)).astype(jnp.int32)

    @jax.jit
    def theirs_of(starts: Array) -> Any:
        logits, value = arrive(starts)
        root = mctx.RootFnOutput(prior_logits=logits, value=value, embedding=starts)
        return mctx.search(
            None,
            jax.random.key(0),
            root=root,
            recurrent_fn=expand,
            root_action_selection_fn=select,
            interior_action_selection_fn=select,
            num_simulations=50,
        )

    theirs = theirs_of(starts)
    np.testing.assert_array_equal(ours.branches[..., VISITS], theirs.children_visits)
    np.testing.assert_array_equal(ours.branches[..., CHILD], jnp.maximum(theirs.children_index, 0))
    np.testing.assert_array_equal(ours.origins[:, 1:, PARENT], theirs.parents[:, 1:])
    np.testing.assert_array_equal(ours.nodes.state, theirs.embeddings)
    np.testing.assert_allclose(ours.q, theirs.summary().qvalues, atol=1e-4)
    np.testing.assert_allclose(ours.value, theirs.summary().value, atol=1e-4)


@pytest.mark.parametrize("draws", [1, 5])
def test_gpu_kernels_grow_the_same_trees_also_when_mapped(monkeypatch: pytest.MonkeyPatch, draws: int) -> None:
    table, settings = random_table(7), SearchSettings(simulations=30, exploration=1.5, discount=0.9, draws=draws)
    starts = [0, 1, 2, 3, 5, 6]
    plain = TableGame(table).search(starts, settings)

    def by_kernel(*given: Any, cuda: Any, default: Any) -> Any:
        return cuda(*given, interpret=True)

    monkeypatch.setattr(jax.lax, "platform_dependent", by_kernel)
    assert trees.tree_bytes(3, 0, kernels=True) == 16 * (4 + 1) + 4
    game, zeros = TableGame(table), jnp.zeros(3, jnp.int32)

    @jax.jit
    @jax.vmap
    def search(own: Array) -> Any:
        roots = Roots(own, game.legal(own), zeros, zeros, jnp.arange(3))
        return grow_trees(game, game, settings, roots, jax.random.key(0), kernels=True)

    found = search(jnp.asarray(starts, jnp.int32).reshape(2, 3))
    for ours, theirs in zip(jax.tree.leaves(found), jax.tree.leaves(plain), strict=True):
        np.testing.assert_allclose(ours.reshape(theirs.shape), theirs, rtol=1e-6)


# -------------------------------------------------------------------------------------------------------------- luck

SAFE, GUESS, LOTTERY = range(3)
"""First actions: 1 for sure; guess the coin that the other player throws in the next step, for 1.6 or nothing; or 3 if
the coin that it throws now shows 1, which it does in 3 of 10 times."""


class CoinGame:
    """Positions: 0 the first one, 1 where the coin is guessed, 2 the end. Of actions 0 and 1 of the other player, the
    second is chosen in 3 of 10 times at first, and in half of all times at the guess."""

    def advance(self, state: Array, actions: Array) -> tuple[Array, Array, Array]:
        own, coin = actions[:, 0], actions[:, 1]
        first = jnp.stack([jnp.ones_like(coin), jnp.zeros_like(coin), 3 * coin], axis=1)
        reward = jnp.where(state == 0, jnp.take_along_axis(first, own[:, None], axis=1)[:, 0], 1.6 * (own == coin))
        after = jnp.where((state == 0) & (own == GUESS), 1, 2)
        return after, jnp.stack([reward, reward], axis=1), after == 2

    def legal(self, state: Array) -> Array:
        mine = jnp.arange(3) < jnp.where(state == 0, 3, 2)[:, None]
        return jnp.stack([mine, jnp.broadcast_to(jnp.arange(3) < 2, mine.shape)], axis=1)

    def there(self, state: Array) -> Array:
        return jnp.ones((len(state), 2), bool)

    def own(
        self, keys: Array, state: Array, seat: Array, legal: Array, memory: Any, wanted: Array
    ) -> tuple[Array, Array, Any]:
        return jnp.zeros(legal.shape), jnp.zeros(len(state)), memory

    def others(
        self, keys: Array, state: Array, seat: Array, legal: Array, memory: Any, wanted: Array, known: Array
    ) -> Array:
        chance = jnp.where(state == 0, 0.3, 0.5)[:, None]
        logits = jnp.log(jnp.concatenate([1 - chance, chance, chance], axis=1))[:, None]
        drawn = jax.vmap(lambda *row: drawn_deeds(*row, draws=known.shape[1]))(keys, logits, legal)
        return jnp.where(wanted[:, None], drawn, known)


@pytest.mark.parametrize("draws", [1, 16])
def test_a_search_that_draws_the_others_anew_does_not_know_their_coin(draws: int) -> None:
    game, trees = CoinGame(), 64
    zeros = jnp.zeros(trees, jnp.int32)
    settings = SearchSettings(simulations=800, exploration=3.0, discount=1.0, draws=draws)
    roots = Roots(zeros, game.legal(zeros), zeros, zeros, jnp.arange(trees))
    found = jax.jit(lambda: grow_trees(game, game, settings, roots, jax.random.key(0)))()
    q = np.asarray(found.q).mean(axis=0)
    assert q[SAFE] == 1.0
    if draws == 1:
        # It knows what the coin will show: nearly all of its guesses are right, and the best action seems a bad one.
        assert q[GUESS] > 1.4
        assert q.argmax() == GUESS
    else:
        # Exactly, 0.5 * 1.6 and 0.3 * 3, so that the safe action is best; means over trees of 16 draws each.
        np.testing.assert_allclose(q, [1.0, 0.8, 0.9], atol=0.08)
        assert q.argmax() == SAFE
        assert np.asarray(found.value).mean() == pytest.approx(1.0, abs=0.1)


def test_draws_are_as_likely_as_they_should_be_one_by_one_and_together() -> None:
    chances = np.array([[0.1, 0.6, 0.3], [0.5, 0.0, 0.5]])
    logits, legal = jnp.log(jnp.asarray(chances) + 1e-9), jnp.asarray(chances > 0)
    keys = jax.random.split(jax.random.key(0), 4000)
    drawn = np.asarray(jax.jit(jax.vmap(lambda key: drawn_deeds(key, logits, legal, 8)))(keys)).reshape(4000, 8, 2)
    for draw in range(8):
        for other in range(2):
            counts = np.bincount(drawn[:, draw, other], minlength=3) / 4000
            np.testing.assert_allclose(counts, chances[other], atol=0.03)
        # Both at once, each as if by itself.
        assert np.mean((drawn[:, draw] == [1, 2]).all(axis=1)) == pytest.approx(0.3, abs=0.03)
    # Spread: what is likely 6 of 10 times is 5 of 8 draws more or less, hardly ever 3 or 7 as in draws by themselves.
    often = (drawn[..., 0] == 1).sum(axis=1)
    assert np.mean((often >= 4) & (often <= 6)) > 0.97


def test_turns_widen_with_the_square_root_of_visits() -> None:
    assert trees.turns_of(9, 3).tolist() == [0, 1, 0, 1, 2, 2, 0, 1, 2, 0]
    assert trees.turns_of(4, 1).tolist() == [0] * 5
    turns = trees.turns_of(99, 8)
    # In the end all have had their turn as often.
    assert set(np.bincount(turns, minlength=8).tolist()) == {12, 13}
    assert len(set(turns[:49].tolist())) == 7
