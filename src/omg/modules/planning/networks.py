"""Networks over the binary maps of a board: three small convolutions, then one wide layer.

Everything that depends on the map is computed once per position (`weigh_maps`). A goal only adds its own row of the
wide layer, so that all goals of a co-player cost hardly more than one.

Several networks of one kind are stored as one module whose leaves have a leading axis (`stacked`). They are computed
one after the other all the same: on two CPU cores four networks on 768 maps of 6x6 took 56 ms as plain convolutions
one by one, 236 ms as one grouped convolution and 175 ms as one batched product of unfolded maps.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from omg.modules.layers import Linear, rows_times, select_rows, torch_uniform

KERNEL = 3
MASKED = -1e9
"""In place of the logit of an action that is not legal: its chance is exactly zero, and nothing becomes infinite."""
Module = TypeVar("Module")


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
    hidden: int = 512
    """Width of the layer behind them."""


def masked(logits: Array, legal: Array) -> Array:
    """Logits with `MASKED` in place of actions that are not legal; both [..., U]."""
    return jnp.where(legal, logits, MASKED)


class MapTrunk(eqx.Module):
    """Convolutions over the map, and the wide layer's sum over all that is not a goal."""

    kernels: tuple[Array, ...]
    """[3, 3, in, out] each."""
    biases: tuple[Array, ...]
    """[out] each."""
    dense: Linear
    """[height * width * filters, hidden]."""
    time: Array
    """[hidden], the row of the time: apart, so that it need not be appended to a long vector."""

    def __init__(self, sizes: PlanningSizes, *, key: Array):
        *conv_keys, dense_key, time_key = jax.random.split(key, len(sizes.filters) + 2)
        depths = (sizes.channels, *sizes.filters)
        kernels, biases = [], []
        for inputs, outputs, conv_key in zip(depths[:-1], depths[1:], conv_keys, strict=True):
            kernel_key, bias_key = jax.random.split(conv_key)
            fan_in = KERNEL * KERNEL * inputs
            kernels.append(torch_uniform(kernel_key, (KERNEL, KERNEL, inputs, outputs), fan_in))
            biases.append(torch_uniform(bias_key, (outputs,), fan_in))
        self.kernels, self.biases = tuple(kernels), tuple(biases)
        features = sizes.height * sizes.width * depths[-1]
        self.dense = Linear(features, sizes.hidden, key=dense_key)
        self.time = torch_uniform(time_key, (sizes.hidden,), features)

    def __call__(self, maps: Array, time: Array) -> Array:
        """The wide layer before its activation.

        Args:
            maps: [..., C, H, W], bool or float.
            time: [...] float32, share of the steps that have passed.

        Returns:
            [..., hidden].
        """
        lead = maps.shape[:-3]
        x = jnp.moveaxis(maps.reshape(-1, *maps.shape[-3:]), 1, -1).astype(jnp.float32)
        for kernel, bias in zip(self.kernels, self.biases, strict=True):
            x = jax.lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
            x = jax.nn.relu(x + bias)
        x = self.dense(x.reshape(len(x), -1)) + time.reshape(-1, 1) * self.time
        return x.reshape(*lead, x.shape[-1])


class CoPlayerNetwork(eqx.Module):
    """pi(a | s, t, g): what one co-player will do if g is what it wants."""

    trunk: MapTrunk
    goal: Array
    """[goal_dim, hidden], the rows of the wide layer that a goal adds."""
    head: Linear
    """[hidden, U]."""

    def __init__(self, sizes: PlanningSizes, *, key: Array):
        trunk_key, goal_key, head_key = jax.random.split(key, 3)
        self.trunk = MapTrunk(sizes, key=trunk_key)
        self.goal = torch_uniform(goal_key, (sizes.goal_dim, sizes.hidden), len(self.trunk.dense.weight))
        self.head = Linear(sizes.hidden, sizes.n_actions, key=head_key)

    def weigh_maps(self, maps: Array, time: Array) -> Array:
        """[..., C, H, W], [...] -> [..., hidden], before goal and activation."""
        return self.trunk(maps, time)

    def weigh_goal(self, goal: Array | None) -> Array | float:
        """What a goal adds: integers [...] (rows) or vectors [..., goal_dim] -> [..., hidden]; None adds nothing."""
        return weigh_goal(self.goal, goal)

    def logits(self, weighed: Array) -> Array:
        """[..., hidden] -> [..., U], before the mask."""
        return self.head(jax.nn.relu(weighed))

    def __call__(self, maps: Array, time: Array, goal: Array | None = None) -> Array:
        """[..., C, H, W], [...], goal [...] integers or [..., goal_dim] -> logits [..., U], before the mask."""
        return self.logits(self.weigh_maps(maps, time) + self.weigh_goal(goal))


class PolicyValueNetwork(eqx.Module):
    """What the focal player would do itself, and how well it will do: the prior and the leaf values of a search."""

    trunk: MapTrunk
    goal: Array
    """[goal_dim, hidden]; no rows unless it is told a subgoal."""
    policy: Linear
    """[hidden, U]."""
    value: Linear
    """[hidden, 1]."""

    def __init__(self, sizes: PlanningSizes, *, key: Array):
        trunk_key, goal_key, policy_key, value_key = jax.random.split(key, 4)
        self.trunk = MapTrunk(sizes, key=trunk_key)
        self.goal = torch_uniform(goal_key, (sizes.goal_dim, sizes.hidden), len(self.trunk.dense.weight))
        self.policy = Linear(sizes.hidden, sizes.n_actions, key=policy_key)
        self.value = Linear(sizes.hidden, 1, key=value_key)

    def __call__(self, maps: Array, time: Array, goal: Array | None = None) -> tuple[Array, Array]:
        """Prior logits and value.

        Args:
            maps: [..., C, H, W].
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
        rows: [goal_dim, hidden].
        goal: [...] integers, each the number of a row, a negative one for none; or vectors [..., goal_dim]; or None.

    Returns:
        [..., hidden], or 0 for None.
    """
    if (goal is None) != (len(rows) == 0):
        raise ValueError(f"goal given: {goal is not None}; goal_dim is {len(rows)}")
    if goal is None:
        return 0.0
    return select_rows(rows, goal) if jnp.issubdtype(goal.dtype, jnp.integer) else rows_times(goal, rows)


# ------------------------------------------------------------------------------------------------ several networks


def stacked(build: Callable[[Array], Module], key: Array, count: int) -> Module:
    """`count` networks as one module whose leaves have a leading axis; `build` takes a key."""
    made: Module = jax.vmap(build)(jax.random.split(key, count))
    return made


def apart(networks: Module) -> list[Module]:
    """The networks of a stack one by one; inside a loop, take them apart before it begins."""
    count = len(jax.tree.leaves(networks)[0])
    return [jax.tree.map(lambda leaf, index=index: leaf[index], networks) for index in range(count)]


def co_player_logits(networks: list[CoPlayerNetwork], maps: Array, time: Array, goal: Array | None) -> Array:
    """What every co-player will do, each by its own network and for one goal each.

    Args:
        networks: J of them, from `apart`.
        maps: [..., C, H, W], seen by the focal player.
        time: [...].
        goal: [..., J] integers or [..., J, goal_dim]; None without goals.

    Returns:
        [..., J, U], before the mask.
    """
    axis = maps.ndim - 3
    chosen = [None if goal is None else jnp.take(goal, place, axis=axis) for place in range(len(networks))]
    return jnp.stack([net(maps, time, one) for net, one in zip(networks, chosen, strict=True)], axis=axis)


def goal_logits(networks: list[CoPlayerNetwork], maps: Array, time: Array, codes: Array) -> Array:
    """What every co-player would do for each of G goals; the map is looked at once.

    Args:
        networks: J of them, from `apart`.
        maps: [..., C, H, W].
        time: [...].
        codes: [..., G] integers or [..., G, goal_dim], broadcast over co-players.

    Returns:
        [..., J, G, U], before the mask.
    """
    axis = maps.ndim - 3
    weighed = [net.weigh_maps(maps, time)[..., None, :] + net.weigh_goal(codes) for net in networks]
    return jnp.stack([net.logits(x) for net, x in zip(networks, weighed, strict=True)], axis=axis)
