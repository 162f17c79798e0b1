"""The first layer of an agent, part by part and without ever building its input [obs | last action | seat | features].

The features are kept apart so that many of them can be tried for the same observation at the price of the features
alone.
"""

from __future__ import annotations

from abc import abstractmethod

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from omg.modules.agents.base import AgentSizes
from omg.modules.layers import Linear, rows_times, select_rows


def as_one_hot(obs: Array, largest: int) -> Array:
    """Every number as a one-hot vector over -largest ... largest; larger ones count as the largest.

    A small network can hardly tell row 3 from row 4 by a number, but at once by a switch of its own.

    Args:
        obs: [..., O].
        largest: 0 leaves the numbers as they are.

    Returns:
        [..., O * (2 * largest + 1)].
    """
    if not largest:
        return obs
    index = jnp.clip(jnp.round(obs), -largest, largest).astype(jnp.int32) + largest
    return jax.nn.one_hot(index, 2 * largest + 1, dtype=obs.dtype).reshape(*obs.shape[:-1], -1)


def wrong_features(sizes: AgentSizes, features: Array | None) -> ValueError:
    """The error where features are not given exactly when the agent was built for some."""
    return ValueError(f"features given: {features is not None}; feature_dim is {sizes.feature_dim}")


class InputAgent(eqx.Module):
    """The part of an agent network that is the same for all seats up to its first layer's activation."""

    fc1: Linear
    """[input_dim, W1]; rows in the order obs, last action, seat, features."""
    sizes: AgentSizes = eqx.field(static=True)

    def embed(self, obs: Array, last_action: Array, features: Array | None = None, seats: Array | None = None) -> Array:
        """See `AgentNetwork.embed`: [..., A or 1, O], [..., A], [..., A, F] -> [..., A, W2]."""
        if (features is None) != (self.sizes.feature_dim == 0):
            raise wrong_features(self.sizes, features)
        x = self.weigh_inputs(obs, last_action, seats)
        return self.activate(x if features is None else x + self.weigh_features(features))

    def weigh_inputs(self, obs: Array, last_action: Array, seats: Array | None = None) -> Array:
        """The first layer's sum over everything but the features, before its activation.

        Args:
            obs: [..., A or 1, O].
            last_action: [..., A] integers, -1 for none.
            seats: Integers broadcastable to [..., A]; None for all seats in order.

        Returns:
            [..., A, W1], the bias included.
        """
        sizes, weight, constant = self.sizes, self.fc1.weight, self.fc1.bias
        seen = self.look(obs)
        row = seen.shape[-1]
        x = rows_times(seen, weight[:row])
        if sizes.use_last_action:
            x = x + select_rows(weight[row : row + sizes.n_actions], last_action)
            row += sizes.n_actions
        if sizes.use_agent_id:
            table = weight[row : row + sizes.n_agents]
            constant = constant + (table if seats is None else select_rows(table, seats))
        # Only with neither last action nor seat among the inputs can an axis of one seat have survived.
        return jnp.broadcast_to(x + constant, (*last_action.shape, weight.shape[-1]))

    def look(self, obs: Array) -> Array:
        """An observation as it enters the first layer: [..., O] -> [..., rows for it]."""
        return as_one_hot(obs, self.sizes.one_hot) if self.sizes.one_hot else obs

    def weigh_features(self, features: Array, seats: Array | None = None) -> Array:
        """The first layer's sum over the features, the same for every seat: [..., F] -> [..., W1]."""
        return rows_times(features, self.fc1.weight[-self.sizes.feature_dim :])

    @abstractmethod
    def activate(self, x: Array, seats: Array | None = None) -> Array:
        """[..., W1] -> [..., W2]; see `AgentNetwork.activate`."""
