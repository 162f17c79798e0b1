"""Tree search in the game itself: only the focal player branches, the others act as they are expected to.

Many trees grow at once (`trees.grow`): one for every game, focal seat and sample of the others' goals. This module
gives them the rules of the game, and says what to make of them.

What the others do in a position is drawn once, before the first branch is followed from there, and holds for all of
its branches: everybody moves at the same time, so nobody's move can depend on the branch. Branches are then compared
under the same luck, and the others' networks look at a position at most once, and at most positions never.

Letters in shapes: N games, m focal seats in each, K trees for each of those, B = m * N * K trees in that order,
A seats, J = A - 1 co-players in the order of their seats, U actions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from omg.components.selectors import greedy, legal_softmax, softmax
from omg.envs.grid.view import own_first
from omg.planning.batches import Axes
from omg.planning.trees import ILLEGAL, Arrival, Trees, grow


@dataclass(frozen=True)
class SearchSettings:
    """How long and how boldly to search. Static: every change is a new compilation."""

    simulations: int = 200
    """Positions added to each tree."""
    exploration: float = 1.0
    """c of PUCT, in units of the game's rewards: 1 in stag_hunt, 15 in snowdrift."""
    discount: float = 0.95
    beta: float = 2.0
    """Actions are drawn with chances proportional to exp(beta * Q)."""


class Game(Protocol):
    """The rules; every `omg.envs.grid.GridGame` has them."""

    def advance(self, state: Any, actions: Array) -> tuple[Any, Array, Array]:
        """Actions [B, A] -> next state, rewards [B, A], over [B] bool; a game that is over pays nothing any more."""
        ...

    def legal(self, state: Any) -> Array:
        """[B, A, U] bool."""
        ...

    def there(self, state: Any) -> Array:
        """[B, A] bool, players still in the game; one who left is paid nothing any more."""
        ...


class Judge(Protocol):
    """What a focal player thinks of positions. Both functions get B trees in the order of the module's text."""

    def own(self, keys: Array, state: Any, seat: Array, memory: Any, wanted: Array) -> tuple[Array, Array, Any]:
        """Looks at positions that enter the trees.

        Args:
            keys: [B] random keys, one for each tree.
            state: the positions, leaves [B, ...].
            seat: [B] int32, focal seats.
            memory: what is known along the branch, leaves [B, ...], e.g. the sampled goals; at a root what the caller
                of the search gave, elsewhere what this function returned for the position before.
            wanted: [B] bool, where an answer is needed: behind an end there is nothing to look at, and a tree that has
                found its best way to one goes there again and again.

        Returns:
            the focal player's prior logits [B, U], not masked; the discounted return [B] that it expects from here on;
            and the memory of these positions. Where no answer is wanted, anything.
        """
        ...

    def others(
        self, keys: Array, state: Any, seat: Array, legal: Array, memory: Any, wanted: Array, known: Array
    ) -> Array:
        """Says what the co-players do.

        Args:
            keys: [B] random keys, one for each tree.
            state: the positions, leaves [B, ...].
            seat: [B] int32, focal seats.
            legal: [B, J, U] bool, of the co-players.
            memory: of these positions, leaves [B, ...].
            wanted: [B] bool, where an answer is needed.
            known: [B, J] int8, to be returned where none is.

        Returns:
            legal actions [B, J] int8.
        """
        ...


class Node(NamedTuple):
    """What a tree keeps of a position."""

    state: Any
    """The game, leaves [B, ...]."""
    memory: Any
    """Leaves [B, ...]."""


class Roots(NamedTuple):
    """Where B trees start."""

    state: Any
    """Leaves [B, ...]."""
    seat: Array
    """[B] int32."""
    memory: Any
    """Leaves [B, ...]."""
    number: Array
    """[B] int32, different for each tree: with the key of the search it makes the tree's own luck, wherever in a batch
    it stands."""


class Plan(NamedTuple):
    """What came out for N games and m focal seats in each."""

    q: Array
    """[N, m, U] mean over trees of the root's Q; 0 for actions that no tree tried, and for illegal ones."""
    policy: Array
    """[N, m, U] softmax(beta * q) over legal actions: what is acted by, and what the policy network learns."""
    legal: Array
    """[N, m, U] bool."""
    value: Array
    """[N, m] mean over trees of the root's value, the network's own guess included as one visit."""
    visits: Array
    """[N, m, U] shares of visits at the root, mean over trees."""
    entropy: Array
    """[N, m] of `visits`, in nats."""


def own_order(seat: Array, players: int) -> Array:
    """The focal player's seat, then those of its co-players: [B] -> [B, A] int32."""
    return jnp.asarray(own_first(players), jnp.int32)[seat]


def all_actions(seat: Array, action: Array, others: Array) -> Array:
    """The actions of all seats in order: the focal player's [B] and its co-players' [B, J] -> [B, A] int32."""
    players = others.shape[1] + 1
    place = jnp.asarray(np.argsort(own_first(players), axis=1), jnp.int32)[seat]
    return jnp.take_along_axis(jnp.concatenate([action[:, None], others], axis=1).astype(jnp.int32), place, axis=1)


def grow_trees(game: Game, judge: Judge, settings: SearchSettings, roots: Roots, key: Array, axes: Axes = ()) -> Trees:
    """Searches from B positions; `trees.grow` says how.

    Args:
        game: the rules.
        judge: the networks.
        settings: static.
        roots: B positions.
        key: consumed. A tree depends on the key and on its own number, not on the rest of the batch.
        axes: of `vmap`, see `trees.grow`.

    Returns:
        the trees, whose nodes are `Node`s.
    """
    root_key, search_key = jax.random.split(key)
    players = game.legal(roots.state).shape[1]

    def open_node(key: Array, node: Node, wanted: Array, known: Array) -> Array:
        order = own_order(roots.seat, players)[:, 1:]
        legal = jnp.take_along_axis(game.legal(node.state), order[..., None], axis=1)
        return judge.others(own_luck(key, roots), node.state, roots.seat, legal, node.memory, wanted, known)

    def expand(key: Array, action: Array, node: Node, others: Array) -> tuple[Array, Array, Arrival]:
        state, rewards, over = game.advance(node.state, all_actions(roots.seat, action, others))
        reward = jnp.take_along_axis(rewards, roots.seat[:, None], axis=1)[:, 0]
        # The reward belongs to the step; behind the end there is nothing, so it can be counted only once.
        there = jnp.take_along_axis(game.there(state), roots.seat[:, None], axis=1)[:, 0]
        discount = jnp.where(~over & there, settings.discount, 0.0)
        return reward, discount, arrive(game, judge, roots, state, node.memory, key, discount > 0)

    everywhere = jnp.ones(roots.seat.shape, bool)
    root = arrive(game, judge, roots, roots.state, roots.memory, root_key, everywhere)
    return grow(root, open_node, players - 1, expand, settings.simulations, settings.exploration, search_key, axes)


def own_luck(key: Array, roots: Roots) -> Array:
    """A key for each tree, [B]."""
    return jax.vmap(jax.random.fold_in, (None, 0))(key, roots.number)


def arrive(game: Game, judge: Judge, roots: Roots, state: Any, memory: Any, key: Array, wanted: Array) -> Arrival:
    """What is known of positions that enter the trees of `roots`.

    Args:
        game: the rules.
        judge: the networks.
        roots: of the trees.
        state: the positions, leaves [B, ...].
        memory: of the positions before, leaves [B, ...].
        key: consumed.
        wanted: [B] bool, see `Judge.own`.
    """
    legal = jnp.take_along_axis(game.legal(state), roots.seat[:, None, None], axis=1)[:, 0]
    logits, value, memory = judge.own(own_luck(key, roots), state, roots.seat, memory, wanted)
    return Arrival(jnp.where(legal, legal_softmax(logits, legal), ILLEGAL), value, Node(state, memory))


def plan(
    game: Game,
    judge: Judge,
    settings: SearchSettings,
    state: Any,
    seats: Array,
    memory: Any,
    key: Array,
    games: Array | None = None,
    axes: Axes = (),
) -> Plan:
    """Searches for all focal seats of N games and averages over the K trees of each.

    Args:
        game: the rules.
        judge: the networks; it gets the trees in the order [m, N, K].
        settings: static.
        state: the present, leaves [N, ...].
        seats: [N, m] int32, focal seats.
        memory: what each tree starts from, e.g. sampled goals; leaves [N, m, K, ...].
        key: consumed.
        games: [N] int32, numbers of the games; None for 0, 1, ... A game's plan depends on its number and the key, not
            on the games beside it.
        axes: of `vmap`, see `trees.grow`.
    """
    roots, (slots, count, samples) = place_roots(state, seats, memory, games)
    trees = grow_trees(game, judge, settings, roots, key, axes)

    def per_seat(values: Array) -> Array:
        return jnp.swapaxes(values.reshape(slots, count, samples, *values.shape[1:]), 0, 1)

    visits = per_seat(trees.visits)
    tried = visits > 0
    q = jnp.sum(jnp.where(tried, per_seat(trees.q), 0.0), axis=2) / jnp.maximum(jnp.sum(tried, axis=2), 1)
    legal = jnp.take_along_axis(game.legal(state), seats[..., None], axis=1)
    shares = jnp.mean(visits / jnp.sum(visits, axis=-1, keepdims=True), axis=2)
    entropy = -jnp.sum(jnp.where(shares > 0, shares * jnp.log(jnp.maximum(shares, 1e-30)), 0.0), axis=-1)
    value = jnp.mean(per_seat(trees.value), axis=2)
    return Plan(q, legal_softmax(settings.beta * q, legal), legal, value, shares, entropy)


def place_roots(state: Any, seats: Array, memory: Any, games: Array | None) -> tuple[Roots, tuple[int, int, int]]:
    """The trees of N games in the order [m, N, K], and those three numbers."""
    count, slots = seats.shape
    samples = jax.tree.leaves(memory)[0].shape[2]
    numbers = jnp.arange(count, dtype=jnp.int32) if games is None else games
    shape = (slots, count, samples)

    def flat(values: Array) -> Array:
        return values.reshape(-1, *values.shape[3:])

    def everywhere(leaf: Array) -> Array:
        return flat(jnp.broadcast_to(leaf[None, :, None], (*shape, *leaf.shape[1:])))

    slot, sample = jnp.arange(slots)[:, None, None], jnp.arange(samples)
    roots = Roots(
        state=jax.tree.map(everywhere, state),
        seat=flat(jnp.broadcast_to(seats.T[:, :, None], shape)).astype(jnp.int32),
        memory=jax.tree.map(lambda leaf: flat(jnp.swapaxes(leaf, 0, 1)), memory),
        number=flat((numbers[:, None] * slots + slot) * samples + sample),
    )
    return roots, shape


def choose(planned: Plan, key: Array, explore: Array | bool = True) -> Array:
    """The actions of a plan.

    Args:
        planned: for N games and m seats.
        key: consumed.
        explore: whether to draw from `policy`; otherwise the legal action of the highest `q`, as in evaluation.

    Returns:
        [N, m] int32.
    """
    # The logarithm of a chance of zero is minus infinity, which `softmax` leaves out together with illegal actions.
    drawn = softmax(jnp.log(planned.policy), planned.legal & (planned.policy > 0), key, 0.0)
    return jnp.where(explore, drawn, greedy(planned.q, planned.legal))
