"""Tree search in the game itself: only the focal player branches, the others act as they are expected to.

`decide` is the whole of it. Many trees grow at once (`trees.grow`): one for every game, focal seat and sample of what
the others are after. This module gives them the rules of the game, never more trees at a time than the memory has room
for, and says what to make of them.

What the others may do in a position is drawn before the first branch is followed from there, `draws` times, and holds
for all of its branches: everybody moves at the same time, so nobody's move can depend on the branch. Branches are then
compared under the same luck, and the others' networks look at a position at most once, and at most positions never.
The more often a branch is visited, the more of these draws it meets: what it is worth is a mean over what the others
may do, not the best answer to the one thing that they will.

Letters in shapes: N games, m focal seats in each, K trees for each of those, B = m * N * K trees in that order,
A seats, J = A - 1 co-players in the order of their seats, U actions, D draws.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, NamedTuple, Protocol, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from omg.components.selectors import greedy, legal_softmax, softmax
from omg.envs.grid.view import own_first
from omg.errors import UserError
from omg.planning.trees import ILLEGAL, Arrival, Axes, Trees, by_kernels, grow, tree_bytes

Position = TypeVar("Position")
"""A state of the game: a pytree, leaves [B, ...]."""
Memory = TypeVar("Memory")
"""What is known along a branch, e.g. sampled goals: a pytree, leaves [B, ...]."""
Seen = TypeVar("Seen", contravariant=True)


@dataclass(frozen=True)
class SearchSettings:
    """How long and how boldly to search. Static: every change is a new compilation."""

    simulations: int = 200
    """Positions added to each tree."""
    exploration: float = 1.0
    """c of PUCT, in units of the game's rewards; a game says what suits it (`GridGame.exploration`)."""
    discount: float = 0.95
    beta: float = 2.0
    """Actions are drawn with chances proportional to exp(beta * Q)."""
    draws: int = 1
    """How often what the others do in a position is drawn; with 1, each tree knows the future."""


class Game(Protocol[Position]):
    """The rules; every `omg.envs.grid.GridGame` has them."""

    def advance(self, state: Position, actions: Array) -> tuple[Position, Array, Array]:
        """Actions [B, A] -> next state, rewards [B, A], over [B] bool; a game that is over pays nothing any more."""
        ...

    def there(self, state: Position) -> Array:
        """[B, A] bool, players still in the game; one who left is paid nothing any more."""
        ...

    def legal(self, state: Position) -> Array:
        """[B, A, U] bool."""
        ...


class Judge(Protocol[Seen, Memory]):
    """What a focal player thinks of positions. Both functions get B trees in the order of the module's text."""

    def own(
        self, keys: Array, state: Seen, seat: Array, legal: Array, memory: Memory, wanted: Array
    ) -> tuple[Array, Array, Memory]:
        """Looks at positions that enter the trees.

        Args:
            keys: [B] random keys, one for each tree.
            state: the positions, leaves [B, ...].
            seat: [B] int32, focal seats.
            legal: [B, U] bool, of the focal player.
            memory: what is known along the branch; at a root what the caller of the search gave, elsewhere what this
                function returned for the position before.
            wanted: [B] bool, where an answer is needed: behind an end there is nothing to look at, and a tree that has
                found its best way to one goes there again and again.

        Returns:
            the focal player's prior logits [B, U], not masked; the discounted return [B] that it expects from here on;
            and the memory of these positions, of the shapes that it was given. Where no answer is wanted, anything.
        """
        ...

    def others(
        self, keys: Array, state: Seen, seat: Array, legal: Array, memory: Memory, wanted: Array, known: Array
    ) -> Array:
        """Says what the co-players do.

        Args:
            keys: [B] random keys, one for each tree.
            state: the positions, leaves [B, ...].
            seat: [B] int32, focal seats.
            legal: [B, J, U] bool, of the co-players.
            memory: of these positions.
            wanted: [B] bool, where an answer is needed.
            known: [B, D * J] int8, to be returned where none is.

        Returns:
            legal actions [B, D * J] int8, of all co-players in one draw after the other (`drawn_deeds`).
        """
        ...


class Node(NamedTuple, Generic[Position, Memory]):
    """What a tree keeps of a position, leaves [B, ...]."""

    state: Position
    memory: Memory


class Roots(NamedTuple, Generic[Position, Memory]):
    """Where B trees start, leaves [B, ...]."""

    state: Position
    legal: Array
    """[B, A, U] bool."""
    seat: Array
    """[B] int32."""
    memory: Memory
    number: Array
    """[B] int32, different for each tree: with the key of the search it makes the tree's own luck, wherever in a batch
    it stands."""


class Decision(NamedTuple):
    """What came out for N games and m focal seats in each."""

    q: Array
    """[N, m, U] mean over trees of the root's Q; 0 for actions that no tree tried, and for illegal ones."""
    chances: Array
    """[N, m, U] softmax(beta * q) over legal actions: what is acted by, and what the policy network learns."""
    legal: Array
    """[N, m, U] bool."""
    value: Array
    """[N, m] mean over trees of the root's value, the network's own guess included as one visit."""
    visits: Array
    """[N, m, U] shares of visits at the root, mean over trees."""
    entropy: Array
    """[N, m] of `visits`, in nats."""


def decide(
    game: Game[Position],
    judge: Judge[Position, Memory],
    settings: SearchSettings,
    state: Position,
    seats: Array,
    memory: Memory,
    key: Array,
    *,
    limit_bytes: int | None = None,
    axes: Axes = (),
) -> Decision:
    """Searches for all focal seats of N games and averages over the K trees of each.

    Args:
        game: the rules.
        judge: the networks; it gets the trees in the order [m, N, K].
        settings: static.
        state: the present, leaves [N, ...].
        seats: [N, m] int32, focal seats.
        memory: what each tree starts from, e.g. sampled goals; leaves [N, m, K, ...].
        key: consumed.
        limit_bytes: most that the trees may take at a time; None for no limit. Games then go one part after the other,
            with the same result up to rounding. Parts are equal, so there is one compilation; the last one is filled
            up with copies of the last game.
        axes: of `vmap`, see `trees.grow`.

    Raises:
        UserError: when the trees of one game alone are too much for the limit.
    """
    legal, numbers, kernels = game.legal(state), jnp.arange(len(seats), dtype=jnp.int32), by_kernels()
    whole = (state, legal, seats, memory, numbers)

    def decide_part(given: tuple[Position, Array, Array, Memory, Array]) -> Decision:
        state, legal, seats, memory, games = given
        roots, shape = place_roots(state, legal, seats, memory, games)
        trees = grow_trees(game, judge, settings, roots, key, kernels=kernels, axes=axes)
        own_legal = jnp.take_along_axis(legal, seats[..., None], axis=1)
        return summary(trees, settings.beta, own_legal, shape)

    parts = 1
    if limit_bytes is not None:
        parts = part_count(len(seats), search_bytes(settings, state, legal, seats, memory, kernels), limit_bytes)
    if parts == 1:
        return decide_part(whole)
    size = -(-len(seats) // parts)
    chosen = jnp.minimum(jnp.arange(parts * size, dtype=jnp.int32), len(seats) - 1)
    cut = jax.tree.map(lambda leaf: leaf[chosen].reshape(parts, size, *leaf.shape[1:]), whole)
    decided = jax.lax.map(decide_part, cut)
    together: Decision = jax.tree.map(lambda leaf: leaf.reshape(parts * size, *leaf.shape[2:])[: len(seats)], decided)
    return together


def choose(decision: Decision, key: Array, explore: Array | bool = True) -> Array:
    """The actions of a decision.

    Args:
        decision: for N games and m seats.
        key: consumed.
        explore: whether to draw by `chances`; otherwise the legal action of the highest `q`, as in evaluation.

    Returns:
        [N, m] int32.
    """
    # The logarithm of a chance of zero is minus infinity, which `softmax` leaves out together with illegal actions.
    drawn = softmax(jnp.log(decision.chances), decision.legal & (decision.chances > 0), key, 0.0)
    return jnp.where(explore, drawn, greedy(decision.q, decision.legal))


# ------------------------------------------------------------------------------------------------------- the trees


def grow_trees(
    game: Game[Position],
    judge: Judge[Position, Memory],
    settings: SearchSettings,
    roots: Roots[Position, Memory],
    key: Array,
    *,
    kernels: bool = False,
    axes: Axes = (),
) -> Trees[Node[Position, Memory]]:
    """Searches from B positions; `trees.grow` says how.

    Args:
        game: the rules.
        judge: the networks.
        settings: static.
        roots: B positions.
        key: consumed. A tree depends on the key and on its own number, not on the rest of the batch.
        kernels: see `trees.grow`.
        axes: of `vmap`, see `trees.grow`.
    """
    root_key, search_key = jax.random.split(key)
    seat, players = roots.seat, roots.legal.shape[1]
    order = own_order(seat, players)

    def own_luck(key: Array) -> Array:
        """A key for each tree, [B]."""
        return jax.vmap(jax.random.fold_in, (None, 0))(key, roots.number)

    def of_focal(values: Array) -> Array:
        """[B, A, ...] -> [B, ...]."""
        return jnp.take_along_axis(values, seat.reshape(-1, *(1,) * (values.ndim - 1)), axis=1)[:, 0]

    def arrive(
        key: Array, state: Position, legal: Array, memory: Memory, wanted: Array
    ) -> Arrival[Node[Position, Memory]]:
        """What is known of positions that enter the trees, by the memory of the positions before."""
        mine = of_focal(legal)
        logits, value, memory = judge.own(own_luck(key), state, seat, mine, memory, wanted)
        return Arrival(jnp.where(mine, legal_softmax(logits, mine), ILLEGAL), value, Node(state, memory))

    def open_node(key: Array, node: Node[Position, Memory], wanted: Array, known: Array) -> Array:
        """What the others do there."""
        legal = jnp.take_along_axis(game.legal(node.state), order[:, 1:, None], axis=1)
        return judge.others(own_luck(key), node.state, seat, legal, node.memory, wanted, known)

    def expand(
        key: Array, action: Array, node: Node[Position, Memory], others: Array
    ) -> tuple[Array, Array, Arrival[Node[Position, Memory]]]:
        """Everybody's step, what it pays the focal player, and what is thought of where it leads."""
        state, rewards, over = game.advance(node.state, all_actions(seat, action, others))
        there, legal = game.there(state), game.legal(state)
        # The reward belongs to the step; behind the end there is nothing, so it can be counted only once.
        discount = jnp.where(~over & of_focal(there), settings.discount, 0.0)
        return of_focal(rewards), discount, arrive(key, state, legal, node.memory, discount > 0)

    return grow(
        arrive(root_key, roots.state, roots.legal, roots.memory, jnp.ones(seat.shape, bool)),
        open_node,
        expand,
        width=players - 1,
        simulations=settings.simulations,
        exploration=settings.exploration,
        key=search_key,
        draws=settings.draws,
        kernels=kernels,
        axes=axes,
    )


def own_order(seat: Array, players: int) -> Array:
    """The focal player's seat, then those of its co-players: [B] -> [B, A] int32."""
    return jnp.asarray(own_first(players), jnp.int32)[seat]


def all_actions(seat: Array, action: Array, others: Array) -> Array:
    """The actions of all seats in order: the focal player's [B] and its co-players' [B, J] -> [B, A] int32."""
    place = jnp.asarray(np.argsort(own_first(others.shape[1] + 1), axis=1), jnp.int32)[seat]
    return jnp.take_along_axis(jnp.concatenate([action[:, None], others], axis=1).astype(jnp.int32), place, axis=1)


def place_roots(
    state: Position, legal: Array, seats: Array, memory: Memory, games: Array
) -> tuple[Roots[Position, Memory], tuple[int, int, int]]:
    """The trees of N games, whose numbers [N] are given, in the order [m, N, K], and those three sizes."""
    count, slots = seats.shape
    samples = jax.tree.leaves(memory)[0].shape[2]
    shape = (slots, count, samples)

    def flat(values: Array) -> Array:
        return values.reshape(-1, *values.shape[3:])

    def everywhere(leaf: Array) -> Array:
        return flat(jnp.broadcast_to(leaf[None, :, None], (*shape, *leaf.shape[1:])))

    slot, sample = jnp.arange(slots)[:, None, None], jnp.arange(samples)
    roots = Roots(
        state=jax.tree.map(everywhere, state),
        legal=everywhere(legal),
        seat=flat(jnp.broadcast_to(seats.T[:, :, None], shape)).astype(jnp.int32),
        memory=jax.tree.map(lambda leaf: flat(jnp.swapaxes(leaf, 0, 1)), memory),
        number=flat((games[:, None] * slots + slot) * samples + sample),
    )
    return roots, shape


def summary(trees: Trees[Node[Position, Memory]], beta: float, legal: Array, shape: tuple[int, int, int]) -> Decision:
    """What trees in the order [m, N, K] (`shape`) say together; legal [N, m, U]."""

    def per_seat(values: Array) -> Array:
        return jnp.swapaxes(values.reshape(*shape, *values.shape[1:]), 0, 1)

    visits, values, value = (per_seat(part) for part in (trees.visits, trees.q, trees.value))
    tried = visits > 0
    q = jnp.sum(jnp.where(tried, values, 0.0), axis=2) / jnp.maximum(jnp.sum(tried, axis=2), 1)
    shares = jnp.mean(visits / jnp.sum(visits, axis=-1, keepdims=True), axis=2)
    entropy = -jnp.sum(jnp.where(shares > 0, shares * jnp.log(jnp.maximum(shares, 1e-30)), 0.0), axis=-1)
    return Decision(q, legal_softmax(beta * q, legal), legal, jnp.mean(value, axis=2), shares, entropy)


# ------------------------------------------------------------------------------------------------------ the memory


def search_bytes(
    settings: SearchSettings, state: Position, legal: Array, seats: Array, memory: Memory, kernels: bool
) -> int:
    """Bytes that the trees of one search take; what the networks need for a single evaluation comes on top.

    Arguments as for `decide`, legal [N, A, U]; only their shapes matter.
    """

    def size(tree: Position | Memory) -> int:
        return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))

    samples = jax.tree.leaves(memory)[0].shape[2]
    trees_of_game = seats.shape[1] * samples
    _, players, actions = legal.shape
    numbers = len(seats) * trees_of_game * tree_bytes(actions, players - 1, kernels, settings.draws)
    return (settings.simulations + 1) * (numbers + trees_of_game * size(state) + size(memory))


def part_count(games: int, bytes_of_all: int, limit_bytes: int) -> int:
    """Into how many parts games must go so that none takes more than the limit.

    Raises:
        UserError: when one game alone is too much.
    """
    each = -(-bytes_of_all // games)
    fitting = limit_bytes // each
    if fitting < 1:
        raise UserError(
            f"The memory limit of the search: got {limit_bytes:,} bytes, but the trees of one game take {each:,}. "
            f"Allowed: at least that much. Or search with fewer simulations, samples or focal seats."
        )
    return -(-games // fitting)
