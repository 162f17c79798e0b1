"""What every critic provides, the sizes it is built from, and its first layer.

A critic reads several inputs (the state, a seat's view, who it is, ...). Some are the same for all seats; these are
weighed once and then repeated, instead of repeating the input and weighing every copy.

Letters in shapes: B episodes, T time slots, m seats, W width of a layer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import jax.numpy as jnp
from jax import Array

from omg.modules.layers import Linear, rows_times


class CriticSizes(NamedTuple):
    """All a critic's shapes depend on; a constant of the compiled program."""

    widths: tuple[int, ...]
    """Widths of its inputs, in the order in which they are given."""
    hidden_dim: int
    second_dim: int | None = None
    """Width of a feed-forward critic's second layer; None: that of the first."""
    n_actions: int = 0
    """U, of critics that value every action."""
    n_agents: int = 0
    """A, of critics with a network for every seat."""
    map_shape: tuple[int, int, int] | None = None
    """Pictures, height and width of the map that the first input begins with, for critics that look at it as one."""

    @property
    def input_dim(self) -> int:
        """Width of all inputs together."""
        return sum(self.widths)


class SlotValues(Protocol):
    """Says what games are worth: a pytree whose leaves are all float arrays."""

    @property
    def value(self) -> Linear:
        """[W, 1], the last layer; with an axis A in front where every seat has a network."""
        ...

    def __call__(self, inputs: Sequence[Array], seats: Array | None = None, breaks: Array | None = None) -> Array:
        """What episodes are worth to each seat from every slot on.

        Args:
            inputs: Arrays [B or 1, T or 1, m or 1, width], which broadcast to [B, T, m, width].
            seats: [B, 1, m] integers, None for all in their order; only critics with a network for every seat ask.
            breaks: [B, T] bool, the slots between the episodes of a row; only critics with a memory ask.

        Returns:
            [B, T, m].
        """
        ...


class Critic(SlotValues, Protocol):
    """A network of its own, which reads what seats see."""

    def try_features(self, inputs: Sequence[Array], features: Array, seats: Array | None = None) -> Array:
        """What the slots would be worth with other features, each after what really came before it.

        Args:
            inputs: As above; the last one are the features.
            features: [B, T', K, m, width], K alternatives for each of the first T' slots.
            seats: As above.

        Returns:
            [B, T', K, m].
        """
        ...


def weigh_inputs(layer: Linear, sizes: CriticSizes, inputs: Sequence[Array]) -> Array:
    """The layer's sum over all inputs, as if they were repeated to equal shapes and put side by side.

    Args:
        layer: [input_dim, W].
        sizes: What the rows of the layer mean.
        inputs: Arrays [..., width] with leading axes that broadcast against each other.

    Returns:
        [..., W], the bias included.
    """
    widths = tuple(one.shape[-1] for one in inputs)
    if widths != sizes.widths:
        raise ValueError(f"inputs of widths {widths} given; the critic was built for {sizes.widths}")
    total, row = layer.bias, 0
    for one, width in zip(inputs, widths, strict=True):
        total = total + rows_times(one, layer.weight[row : row + width])
        row += width
    # An input may be the only one with some axis, and none has to be of full shape.
    leading = jnp.broadcast_shapes(*(one.shape[:-1] for one in inputs))
    return jnp.broadcast_to(total, (*leading, layer.weight.shape[-1]))


def alternatives(inputs: Sequence[Array], steps: int) -> list[Array]:
    """Inputs [B or 1, T or 1, m or 1, width] of the first slots, with an axis for alternatives behind the time."""
    return [(one if one.shape[1] == 1 else one[:, :steps])[:, :, None] for one in inputs]
