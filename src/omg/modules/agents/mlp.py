"""`mlp`: a plain feed-forward network without memory."""

from __future__ import annotations

import jax
from jax import Array

from omg.modules.agents.base import AgentSizes
from omg.modules.agents.feed_forward import FeedForwardAgent
from omg.modules.layers import Linear


class MLPAgent(FeedForwardAgent):
    """Linear -> ReLU -> Linear -> ReLU -> Linear.

    There is no memory: G and W are the width of the second layer, and the recurrence passes its input on.
    """

    fc3: Linear
    """[W, U]."""

    def __init__(self, sizes: AgentSizes, *, key: Array):
        keys = jax.random.split(key, 3)
        self.sizes = sizes
        self.fc1 = Linear(sizes.input_dim, sizes.hidden_dim, key=keys[0])
        self.fc2 = Linear(sizes.hidden_dim, self._width(), key=keys[1])
        self.fc3 = Linear(self._width(), sizes.n_actions, key=keys[2])

    def _width(self) -> int:
        return self.sizes.hidden_dim if self.sizes.second_dim is None else self.sizes.second_dim

    def head(self, h: Array, seats: Array | None = None) -> Array:
        """[..., W] -> [..., U]."""
        return self.fc3(h)
