"""COMA's critic: the value of each action of a seat, given the state and what all other seats do."""

from __future__ import annotations

from collections.abc import Sequence

import equinox as eqx
import jax
from jax import Array

from omg.modules.critics.base import CriticSizes, weigh_inputs
from omg.modules.layers import Linear


class COMACritic(eqx.Module):
    """Linear -> ReLU -> Linear -> ReLU -> Linear, one output per action.

    The seat's own action is no input: one pass values all its alternatives.
    """

    fc1: Linear
    """[input, W]."""
    fc2: Linear
    """[W, W]."""
    actions: Linear
    """[W, U]."""
    sizes: CriticSizes = eqx.field(static=True)

    def __init__(self, sizes: CriticSizes, *, key: Array):
        keys = jax.random.split(key, 3)
        self.sizes = sizes
        self.fc1 = Linear(sizes.input_dim, sizes.hidden_dim, key=keys[0])
        self.fc2 = Linear(sizes.hidden_dim, sizes.hidden_dim, key=keys[1])
        self.actions = Linear(sizes.hidden_dim, sizes.n_actions, key=keys[2])

    def __call__(self, inputs: Sequence[Array]) -> Array:
        """Inputs [..., m or 1, width] -> values [..., m, U]."""
        hidden = jax.nn.relu(weigh_inputs(self.fc1, self.sizes, inputs))
        return self.actions(jax.nn.relu(self.fc2(hidden)))
