"""Many search trees that grow side by side, one node each per simulation: `grow`, one function and two callbacks.

As with `mctx.search`, whoever searches says what is known of the roots, and gives two functions: `open_node` finds out
what is needed to play on from a node, `expand` plays a step from there. The trees are those that `mctx.search` grows
with the same rule (a test compares them), made for deep and narrow trees on any device. mctx climbs back to the root
tree by tree under `vmap`, where every step up rewrites all nodes of all trees: the time of a simulation grows with the
number of simulations. Here a step up or down touches one row of each tree.

A node behind the end of a game is never added: the last one before it is visited again.

Where a step also depends on luck, `open_node` draws it several times for a node, and visits of a branch take turns with
these draws (`turns_of`): a branch then leads to as many nodes as its luck differs, and its mean return is one over what
may happen. With one draw it would be the best that can be done about a future that is known.

Letters in shapes: B trees, U actions, D draws, J numbers of each; written out: nodes of each (the root is node 0,
simulation i may add node i + 1).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Generic, NamedTuple, Protocol, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from omg.modules.convolutions import on_cpu
from omg.modules.kernels import power_of_two, triton
from omg.planning import tree_kernels
from omg.planning.tree_kernels import ACTION, CHILD, DISCOUNT, PARENT, PRIOR, RETURN, REWARD, VISITS

ILLEGAL = -1.0
"""In place of the prior chance of an action that is not legal."""
Axes = tuple[str, ...]
"""Names of mapped axes whose searches run together, see `batches`."""
Node = TypeVar("Node")
"""What a tree keeps of a position: a pytree, leaves [B, ...]."""
Given = TypeVar("Given", contravariant=True)


class Arrival(NamedTuple, Generic[Node]):
    """What is known of B positions when they enter a tree, or are its root."""

    prior: Array
    """[B, U] chances of the legal actions, `ILLEGAL` for others."""
    value: Array
    """[B], the return expected from here on; not asked for behind an end."""
    node: Node


class Open(Protocol[Given]):
    """Finds out what is needed to play on from a node, once it is certain that the tree will."""

    def __call__(self, key: Array, node: Given, wanted: Array, known: Array, /) -> Array:
        """A random key, nodes, in which trees it is wanted [B] bool, what is known [B, D * J] -> what is now, int8.

        One draw after the other. Rows that are not wanted stay as they are.
        """
        ...


class Expand(Protocol[Node]):
    """Plays one step from nodes of the trees."""

    def __call__(self, key: Array, action: Array, node: Node, opened: Array, /) -> tuple[Array, Array, Arrival[Node]]:
        """A random key, actions [B] int32, nodes, a draw of each [B, J] -> rewards, discounts, what followed.

        Rewards and discounts are [B]; a discount of 0 is the end.
        """
        ...


class Trees(NamedTuple, Generic[Node]):
    """B trees; numbers of nodes and actions are floats, too, so that a row is read or written at once."""

    branches: Array
    """[B, nodes, U, 3 + D] float32: prior chance, visits, mean return, and the node it leads to with each draw: 0 for
    none yet, negative for one where the game has ended."""
    origins: Array
    """[B, nodes, 4] float32: how a node was reached: parent, action, reward, discount."""
    nodes: Node
    """Leaves [B, nodes, ...]."""
    opened: Array
    """[B, nodes, D * J] int8, what `Open` said of nodes that have branches."""
    alike: Array
    """[B, nodes, D] float32: the first draw that is the same as this one; nodes lie under its number."""
    root_value: Array
    """[B], what the network said."""

    @property
    def visits(self) -> Array:
        """[B, U] visits of the root's branches."""
        return self.branches[:, 0, :, VISITS]

    @property
    def q(self) -> Array:
        """[B, U] their mean returns; 0 for those never visited."""
        return self.branches[:, 0, :, RETURN]

    @property
    def value(self) -> Array:
        """[B] mean over all visits of the root, the first of which is the network's word."""
        total = self.root_value + jnp.sum(self.visits * self.q, axis=-1)
        return total / (1.0 + jnp.sum(self.visits, axis=-1))


def grow(
    root: Arrival[Node],
    open_node: Open[Node],
    expand: Expand[Node],
    *,
    width: int,
    simulations: int,
    exploration: float,
    key: Array,
    draws: int = 1,
    kernels: bool = False,
    axes: Axes = (),
) -> Trees[Node]:
    """Grows trees.

    In every node the branch of the highest `Q + c * P * sqrt(N) / (1 + n)` is followed: Q the mean return of the
    branch, 0 before its first visit; P its prior chance; N visits of the node, the one that made it included; n visits
    of the branch. Q is in the game's own units, not rescaled. Of equals the first is taken.

    Args:
        root: where they start.
        open_node: called before the first branch of a node is followed; most nodes never get any.
        expand: plays a step.
        width: J, numbers of each draw that `open_node` gives.
        simulations: nodes to add to each.
        exploration: c.
        key: consumed; both functions get new ones in every simulation.
        draws: D, how often `open_node` draws.
        kernels: whether GPU kernels walk the trees where the program turns out to run on CUDA, see `by_kernels`.
        axes: of `vmap`, whose trees wait for each other on their way down and up.
    """
    batch, actions = root.prior.shape
    size = simulations + 1
    row = jnp.arange(batch)
    slots = power_of_two(actions) if kernels else actions
    turns = jnp.asarray(turns_of(simulations, draws))

    def allocate(leaf: Array) -> Array:
        return jnp.zeros((batch, size, *leaf.shape[1:]), leaf.dtype).at[:, 0].set(leaf)

    def branches_of(prior: Array) -> Array:
        filled = jnp.pad(prior, ((0, 0), (0, slots - actions)), constant_values=ILLEGAL)
        return jnp.zeros((batch, slots, CHILD + draws)).at[..., PRIOR].set(filled)

    trees = Trees(
        branches=allocate(branches_of(root.prior)),
        origins=jnp.zeros((batch, size, 4)),
        nodes=jax.tree.map(allocate, root.node),
        opened=jnp.zeros((batch, size, draws * width), jnp.int8),
        alike=jnp.zeros((batch, size, draws)),
        root_value=root.value,
    )
    go_down: Callable[[Array, Array, Array], tuple[Array, ...]] = partial(descend, exploration=exploration, axes=axes)
    go_up: Callable[[Array, Array, Array, Array], Array] = partial(climb, axes=axes)
    if kernels:
        by_kernel = partial(tree_kernels.descend, exploration=exploration)
        go_down = partial(jax.lax.platform_dependent, cuda=by_kernel, default=go_down)
        go_up = partial(jax.lax.platform_dependent, cuda=tree_kernels.climb, default=go_up)

    def simulate(index: Array, carry: tuple[Array, Trees[Node]]) -> tuple[Array, Trees[Node]]:
        key, trees = carry
        key, open_key, expand_key = jax.random.split(key, 3)
        slot = index + 1
        parent, action, draw, ended = go_down(trees.branches, trees.alike, turns)
        before = jax.tree.map(lambda leaf: leaf[row, parent], trees.nodes)
        untouched = jnp.sum(trees.branches[row, parent, :, VISITS], axis=-1) == 0
        known = open_node(open_key, before, untouched, trees.opened[row, parent])
        luck = known.reshape(batch, draws, width)
        reward, discount, after = expand(expand_key, action, before, luck[row, draw])
        origin = jnp.stack([parent.astype(jnp.float32), action.astype(jnp.float32), reward, discount], axis=-1)
        child = jnp.where(discount > 0, slot, -slot).astype(jnp.float32)
        # Where the game had ended before, the new slot stays without a parent that knows it.
        child = jnp.where(ended > 0, -ended.astype(jnp.float32), child)
        branches = trees.branches.at[:, slot].set(branches_of(after.prior))
        branches = branches.at[row, parent, action, CHILD + draw].set(child)
        origins = trees.origins.at[:, slot].set(origin)
        nodes = jax.tree.map(lambda leaf, new: leaf.at[:, slot].set(new), trees.nodes, after.node)
        leaf = jnp.where(ended > 0, ended, slot)
        branches = go_up(branches, origins, leaf, jnp.where(discount > 0, after.value, 0.0))
        opened = trees.opened.at[row, parent].set(known)
        alike = trees.alike.at[row, parent].set(first_alike(luck))
        return key, Trees(branches, origins, nodes, opened, alike, trees.root_value)

    _, grown = jax.lax.fori_loop(0, simulations, simulate, (key, trees))
    return grown._replace(branches=grown.branches[:, :, :actions])


def turns_of(simulations: int, draws: int) -> np.ndarray:
    """Which draw a branch takes at its first, second and later visits: [simulations + 1] int32.

    Until its k-th visit a branch takes ceil(sqrt(k)) draws at most; one that it has not taken yet comes first, else the
    one that it took least often.
    """
    taken = np.zeros(draws, np.int64)
    found = np.zeros(simulations + 1, np.int32)
    for visit in range(simulations + 1):
        found[visit] = np.argmin(taken[: math.isqrt(visit) + 1])
        taken[found[visit]] += 1
    return found


def first_alike(luck: Array) -> Array:
    """For each draw [B, D, J] the number of the first that is the same: [B, D] float32."""
    same = jnp.all(luck[:, :, None] == luck[:, None], axis=-1)
    return jnp.argmax(same, axis=-1).astype(jnp.float32)


def by_kernels() -> bool:
    """Whether programs traced now may walk the trees by GPU kernels."""
    return triton() is not None and not on_cpu()


def tree_bytes(actions: int, width: int, kernels: bool, draws: int = 1) -> int:
    """Bytes that a tree takes for every node, besides the node itself; see `Trees`.

    Three numbers of every branch (the kernels fill branches up to a power of two) and one for each draw, four of how
    the node was reached, and `width` bytes and a number for each draw.
    """
    slots = power_of_two(actions) if kernels else actions
    return 4 * ((CHILD + draws) * slots + 4 + draws) + draws * width


def anywhere(flags: Array, axes: Axes) -> Array:
    """Whether any flag is set, here or in the searches that run together with this one; a bool scalar."""
    found = jnp.any(flags)
    return jax.lax.pmax(found.astype(jnp.int32), axes) > 0 if axes else found


def descend(
    branches: Array, alike: Array, turns: Array, exploration: float, axes: Axes = ()
) -> tuple[Array, Array, Array, Array]:
    """Follows the best branches from all roots.

    Args:
        branches: [B, nodes, U, 3 + D].
        alike: [B, nodes, D].
        turns: of `turns_of`.
        exploration: c.
        axes: see `grow`.

    Returns:
        the last nodes, the actions there and the draws whose turn it is, with which they lead to nothing yet or to an
        end; and the node of that end, 0 for none. [B] int32 each.
    """
    batch = len(branches)
    row, nobody = jnp.arange(batch), jnp.zeros(batch, jnp.int32)

    def step(walk: tuple[Array, ...]) -> tuple[Array, ...]:
        node, _, _, child = walk
        # Those that have arrived choose again where they stand, and choose the same.
        node = jnp.maximum(node, child)
        here = branches[row, node]
        prior, visits = here[..., PRIOR], here[..., VISITS]
        total = 1.0 + jnp.sum(visits, axis=-1, keepdims=True)
        score = here[..., RETURN] + exploration * prior * jnp.sqrt(total) / (1.0 + visits)
        action = jnp.argmax(jnp.where(prior < 0, -jnp.inf, score), axis=-1).astype(jnp.int32)
        turn = turns[visits[row, action].astype(jnp.int32)]
        draw = alike[row, node, turn].astype(jnp.int32)
        return node, action, draw, here[row, action, CHILD + draw].astype(jnp.int32)

    start = step((nobody, nobody, nobody, nobody))
    # A child has a higher number than its parent, so the highest of both is where to go on.
    node, action, draw, child = jax.lax.while_loop(lambda walk: anywhere(walk[3] > 0, axes), step, start)
    return node, action, draw, -child


def climb(branches: Array, origins: Array, leaf: Array, value: Array, axes: Axes = ()) -> Array:
    """Adds the return of every tree's newest visit to all branches on the way back to its root.

    Args:
        branches: [B, nodes, U, 3 + D].
        origins: [B, nodes, 4].
        leaf: [B] int32, the nodes that were visited last.
        value: [B], the return from there on.
        axes: see `grow`.

    Returns:
        the branches.
    """
    row = jnp.arange(len(leaf))
    nowhere = branches.shape[1]

    def step(climb: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        branches, node, value = climb
        origin = origins[row, node]
        parent, action = origin[:, PARENT].astype(jnp.int32), origin[:, ACTION].astype(jnp.int32)
        value = origin[:, REWARD] + origin[:, DISCOUNT] * value
        visits, mean = branches[row, parent, action, VISITS], branches[row, parent, action, RETURN]
        mean = mean + (value - mean) / (visits + 1.0)
        # Those already at the root write nowhere.
        there = jnp.where(node > 0, parent, nowhere)
        counted = jnp.stack([visits + 1.0, mean], axis=-1)
        branches = branches.at[row, there, action, VISITS : RETURN + 1].set(counted, mode="drop")
        return branches, jnp.where(node > 0, parent, 0), value

    return jax.lax.while_loop(lambda climb: anywhere(climb[1] > 0, axes), step, (branches, leaf, value))[0]
