"""`conv`: convolutions over the map that an observation begins with, then the network of `mlp`."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
from jax import Array

from omg.modules.agents.base import AgentSizes
from omg.modules.agents.inputs import as_one_hot
from omg.modules.agents.mlp import MLPAgent
from omg.modules.layers import Linear
from omg.modules.maps import MapEncoder, encoded_dim


class ConvAgent(MLPAgent):
    """Three convolutions over the map; their pictures and all else -> Linear -> ReLU -> Linear -> ReLU -> Linear.

    In a game whose observations have no map it is the network of `mlp`.
    """

    encoder: MapEncoder

    def __init__(self, sizes: AgentSizes, *, key: Array):
        keys = jax.random.split(key, 4)
        self.sizes = sizes
        self.encoder = MapEncoder(sizes.map_shape, key=keys[3])
        self.fc1 = Linear(self._encoded_sizes().input_dim, sizes.hidden_dim, key=keys[0])
        self.fc2 = Linear(sizes.hidden_dim, self._width(), key=keys[1])
        self.fc3 = Linear(self._width(), sizes.n_actions, key=keys[2])

    def look(self, obs: Array) -> Array:
        """The last pictures of the map, then everything behind it: [..., O] -> [..., rows for it]."""
        front = self._map_size()
        rest = as_one_hot(obs[..., front:], self.sizes.one_hot)
        return self.encoder(rest if front == 0 else jnp.concatenate([obs[..., :front], rest], axis=-1))

    def _map_size(self) -> int:
        return 0 if self.sizes.map_shape is None else math.prod(self.sizes.map_shape)

    def _encoded_sizes(self) -> AgentSizes:
        """What the rows of the first layer mean: the encoded observation in place of the one that is seen."""
        front, sizes = self._map_size(), self.sizes
        behind = sizes._replace(obs_dim=sizes.obs_dim - front).seen_dim
        return sizes._replace(obs_dim=encoded_dim(front + behind, sizes.map_shape), one_hot=0)
