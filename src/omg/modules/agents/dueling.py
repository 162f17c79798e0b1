"""`dueling`: a feed-forward network with separate value and advantage, the D3QN of small grid games."""

from __future__ import annotations

import jax
from jax import Array

from omg.modules.agents.base import AgentSizes
from omg.modules.agents.feed_forward import FeedForwardAgent
from omg.modules.layers import Linear


class DuelingAgent(FeedForwardAgent):
    """Linear -> ReLU -> Linear -> ReLU, then Q = V + advantage - mean advantage.

    There is no memory: G and W are the width of the second layer, half that of the first, and the recurrence passes
    its input on.
    """

    value: Linear
    """[W, 1]."""
    advantage: Linear
    """[W, U]."""

    def __init__(self, sizes: AgentSizes, *, key: Array):
        keys = jax.random.split(key, 4)
        self.sizes = sizes
        self.fc1 = Linear(sizes.input_dim, sizes.hidden_dim, key=keys[0])
        self.fc2 = Linear(sizes.hidden_dim, self._width(), key=keys[1])
        self.value = Linear(self._width(), 1, key=keys[2])
        self.advantage = Linear(self._width(), sizes.n_actions, key=keys[3])

    def _width(self) -> int:
        return max(self.sizes.hidden_dim // 2, 1)

    def head(self, h: Array, seats: Array | None = None) -> Array:
        """[..., W] -> [..., U]."""
        advantage = self.advantage(h)
        return self.value(h) + advantage - advantage.mean(axis=-1, keepdims=True)
