"""Networks over the binary maps of a board: three small convolutions, then one wide layer.

Everything that depends on the map is computed once per position (`weigh_maps`). A goal only adds its own row of the
wide layer, so that all goals of a co-player cost hardly more than one.

The networks of several players are stored as one module whose leaves have a leading axis, and `each` runs them:
together on a GPU, one after the other in one loop on a CPU, so that a program is compiled for one network however
many there are. On two CPU cores four networks on 192 maps of 6x6 each took 22 ms so, 24 ms spelled out one by one (with
three times the compilation), 44 ms as one grouped convolution and 65 ms as one batched product of unfolded maps.
In a search over many positions they are spelled out all the same (`apart`): a core that has nothing to do takes up the
next network, and four of them on 768 maps cost a quarter less.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from omg.modules.convolutions import KERNEL, Conv3x3, convolve, on_cpu
from omg.modules.layers import Dense, Linear, select_rows
from omg.types import PyTree

MASKED = -1e9
"""In place of the logit of an action that is not legal: its chance is exactly zero, and nothing becomes infinite."""
Module = TypeVar("Module")
Found = TypeVar("Found")


@dataclass(frozen=True)
class PlanningSizes:
    """What the networks of one game have in common."""

    channels: int
    """Pictures of the map."""
    height: int
    width: int
    n_actions: int
    goal_dim: int = 0
    """Numbers of a goal or subgoal; 0 for networks that are not told any."""
    filters: tuple[int, ...] = (16, 32, 32)
    """Outputs of the convolutions."""
    hidden_dim: int = 512
    """W, width of the layer behind them."""


def masked(logits: Array, legal: Array) -> Array:
    """Logits with `MASKED` in place of actions that are not legal; both [..., U]."""
    return jnp.where(legal, logits, MASKED)


def draw_parameters(key: Array, *parts: tuple[tuple[int, ...], int]) -> list[Array]:
    """New parameters of a network, each uniform within 1 / sqrt(fan_in) as PyTorch has it.

    All come from one draw: with one for each of them, the start of a run took three times as long to compile.

    Args:
        key: consumed.
        parts: shape and fan-in of each.
    """
    sizes = [math.prod(shape) for shape, _ in parts]
    numbers = jax.random.uniform(key, (sum(sizes),), minval=-1.0, maxval=1.0)
    cuts = [sum(sizes[: index + 1]) for index in range(len(sizes) - 1)]
    pieces = jnp.split(numbers, cuts)
    return [piece.reshape(shape) / math.sqrt(fan_in) for piece, (shape, fan_in) in zip(pieces, parts, strict=True)]


def redrawn(module: Module, key: Array) -> Module:
    """The same module with the parameters of all its `Linear` and `Conv3x3` layers from one draw; key is consumed."""

    def is_layer(node: object) -> bool:
        return isinstance(node, Linear | Conv3x3)

    layers = [node for node in jax.tree.leaves(module, is_leaf=is_layer) if is_layer(node)]
    shapes = [
        (leaf.shape, math.prod(layer.weight.shape[:-1])) for layer in layers for leaf in (layer.weight, layer.bias)
    ]
    drawn = iter(draw_parameters(key, *shapes))

    def draw(node: PyTree) -> PyTree:
        if not is_layer(node):
            return node
        return eqx.tree_at(lambda layer: (layer.weight, layer.bias), node, (next(drawn), next(drawn)))

    made: Module = jax.tree.map(draw, module, is_leaf=is_layer)
    return made


class MapTrunk(eqx.Module):
    """Convolutions over the map, and the wide layer's sum over all that is not a goal."""

    kernels: tuple[Array, ...]
    """[3, 3, in, out] each."""
    biases: tuple[Array, ...]
    """[out] each."""
    dense: Dense
    """[height * width * filters, W]."""
    time: Array
    """[W], the row of the time: apart, so that it need not be appended to a long vector."""

    def __init__(self, sizes: PlanningSizes, *, key: Array):
        depths = (sizes.channels, *sizes.filters)
        features = sizes.height * sizes.width * depths[-1]
        wide = sizes.hidden_dim
        parts: list[tuple[tuple[int, ...], int]] = []
        for inputs, outputs in pairwise(depths):
            fan_in = KERNEL * KERNEL * inputs
            parts += [((KERNEL, KERNEL, inputs, outputs), fan_in), ((outputs,), fan_in)]
        drawn = draw_parameters(key, *parts, ((features, wide), features), ((wide,), features), ((wide,), features))
        *convolutions, weight, bias, self.time = drawn
        self.kernels, self.biases = tuple(convolutions[::2]), tuple(convolutions[1::2])
        self.dense = Dense(weight, bias)

    def __call__(self, maps: Array, time: Array) -> Array:
        """The wide layer before its activation.

        Args:
            maps: [..., C, height, width], bool or float.
            time: [...] float32, share of the steps that have passed.

        Returns:
            [..., W].
        """
        lead = maps.shape[:-3]
        x = jnp.moveaxis(maps.reshape(-1, *maps.shape[-3:]), 1, -1).astype(jnp.float32)
        for kernel, bias in zip(self.kernels, self.biases, strict=True):
            x = jax.nn.relu(convolve(x, kernel) + bias)
        x = x.reshape(len(x), -1) @ self.dense.weight + self.dense.bias + time.reshape(-1, 1) * self.time
        return x.reshape(*lead, x.shape[-1])


def with_trunks(networks: Module, change: Callable[[MapTrunk], eqx.Module]) -> Module:
    """Some networks with something else in place of each of their trunks."""

    def is_trunk(node: object) -> bool:
        return isinstance(node, MapTrunk)

    changed: Module = jax.tree.map(lambda node: change(node) if is_trunk(node) else node, networks, is_leaf=is_trunk)
    return changed


class CoPlayersNetwork(eqx.Module):
    """pi_j(a | s, t, g): what each of J co-players will do if g is what it wants.

    All look at the map through one body, once for all of them and all goals; each has its own rows for goals and its
    own last layer.
    """

    trunk: MapTrunk
    goal: Array
    """[J, goal_dim, W], the rows of the wide layer that a goal adds."""
    weight: Array
    """[J, W, U], of the last layers."""
    bias: Array
    """[J, U]."""

    def __init__(self, sizes: PlanningSizes, others: int, *, key: Array):
        trunk_key, rest_key = jax.random.split(key)
        self.trunk = MapTrunk(sizes, key=trunk_key)
        wide, actions = sizes.hidden_dim, sizes.n_actions
        goal = ((others, sizes.goal_dim, wide), len(self.trunk.dense.weight))
        self.goal, self.weight, self.bias = draw_parameters(
            rest_key, goal, ((others, wide, actions), wide), ((others, actions), wide)
        )

    def __call__(self, maps: Array, time: Array, goal: Array | None = None) -> Array:
        """What every co-player will do, for one goal each.

        Args:
            maps: [M, C, height, width], seen by the focal player.
            time: [M].
            goal: [M, J] integers or [M, J, goal_dim]; None without goals.

        Returns:
            [M, J, U], before the mask.
        """
        return self.told(self.trunk(maps, time), goal)

    def told(self, weighed: Array, goal: Array | None) -> Array:
        """The same from what the body makes of the positions, [M, W]."""
        weighed = weighed[None]
        if goal is None:
            weighed = jnp.broadcast_to(weighed + weigh_goal(self.goal[0], None), (len(self.bias), *weighed.shape[1:]))
        else:
            weighed = weighed + jax.vmap(weigh_goal)(jnp.asarray(self.goal), jnp.moveaxis(goal, 1, 0))
        return jnp.moveaxis(self.say(weighed), 0, 1)

    def told_each(self, weighed: Array, goals: Array) -> Array:
        """The same of K goals for each co-player, integers [M, J, K]: [M, J, K, U]."""
        added = jnp.asarray(jax.vmap(weigh_goal)(jnp.asarray(self.goal), jnp.moveaxis(goals, 1, 0)))
        said = self.say((weighed[None, :, None] + added).reshape(len(added), -1, added.shape[-1]))
        return jnp.moveaxis(said.reshape(*added.shape[:-1], -1), 0, 1)

    def for_goals(self, maps: Array, time: Array, codes: Array) -> Array:
        """What every co-player would do for each of G goals.

        Args:
            maps: [M, C, height, width].
            time: [M].
            codes: [M, G] integers or [M, G, goal_dim], the same for all co-players.

        Returns:
            [M, J, G, U], before the mask.
        """
        added = jnp.asarray(jax.vmap(weigh_goal, in_axes=(0, None))(jnp.asarray(self.goal), codes))
        weighed = self.trunk(maps, time)[None, :, None] + added
        said = self.say(weighed.reshape(len(added), -1, added.shape[-1]))
        return jnp.moveaxis(said.reshape(*added.shape[:-1], -1), 0, 1)

    def say(self, weighed: Array) -> Array:
        """The last layers: the wide layer before its activation, [J, rows, W] -> logits [J, rows, U]."""
        return jnp.matmul(jax.nn.relu(weighed), self.weight) + self.bias[:, None]


class PolicyValueNetwork(eqx.Module):
    """What the focal player would do itself, and how well it will do: the prior and the leaf values of a search."""

    trunk: MapTrunk
    goal: Array
    """[goal_dim, W]; no rows unless it is told a subgoal."""
    policy: Dense
    """[W, U]."""
    value: Dense
    """[W, 1]."""

    def __init__(self, sizes: PlanningSizes, *, key: Array):
        trunk_key, rest_key = jax.random.split(key)
        self.trunk = MapTrunk(sizes, key=trunk_key)
        wide, actions = sizes.hidden_dim, sizes.n_actions
        goal = ((sizes.goal_dim, wide), len(self.trunk.dense.weight))
        heads = [((wide, width), wide) for width in (actions, 1)] + [((width,), wide) for width in (actions, 1)]
        self.goal, *weights = draw_parameters(rest_key, goal, *heads)
        self.policy, self.value = Dense(weights[0], weights[2]), Dense(weights[1], weights[3])

    def __call__(self, maps: Array, time: Array, goal: Array | None = None) -> tuple[Array, Array]:
        """Prior logits and value.

        Args:
            maps: [..., C, height, width].
            time: [...].
            goal: [...] integers or [..., goal_dim]; None without goals.

        Returns:
            logits [..., U] before the mask, and value [...].
        """
        x = jax.nn.relu(self.trunk(maps, time) + weigh_goal(self.goal, goal))
        return self.policy(x), self.value(x)[..., 0]


def weigh_goal(rows: Array, goal: Array | None) -> Array | float:
    """The wide layer's sum over the goal.

    Args:
        rows: [goal_dim, W].
        goal: [...] integers, each the number of a row, a negative one for none; or vectors [..., goal_dim]; or None.

    Returns:
        [..., W], or 0 for None.
    """
    if (goal is None) != (len(rows) == 0):
        raise ValueError(f"goal given: {goal is not None}; goal_dim is {len(rows)}")
    if goal is None:
        return 0.0
    if jnp.issubdtype(goal.dtype, jnp.integer):
        return select_rows(rows, goal)
    return (goal.reshape(-1, goal.shape[-1]) @ rows).reshape(*goal.shape[:-1], rows.shape[-1])


# ------------------------------------------------------------------------------------------------ several networks


def each(
    function: Callable[..., Found],
    networks: PyTree,
    *arguments: PyTree,
    apart: bool = False,
    together: bool | None = None,
) -> Found:
    """`function(network, arguments of that network)` for all networks of a stack.

    Args:
        function: takes a network without the leading axis, and as many further arguments.
        networks: leaves [P, ...].
        arguments: leaves [P, ...].
        apart: whether those that do not run together are spelled out one by one instead of in a loop; takes longer to
            compile.
        together: whether they run together; None: unless programs are for a CPU.

    Returns:
        what it returns, leaves [P, ...].
    """
    if not on_cpu() if together is None else together:
        return jax.vmap(function)(networks, *arguments)
    count = len(jax.tree.leaves(networks)[0])
    if count > 1 and not apart:
        return jax.lax.map(lambda own: function(*own), (networks, *arguments))
    found = [function(*jax.tree.map(lambda leaf, i=i: leaf[i], (networks, *arguments))) for i in range(count)]
    stacked: Found = jax.tree.map(lambda *leaves: jnp.stack(leaves), *found)
    return stacked
