"""The first layer of an agent, part by part and without ever building its input [obs | last action | seat | features].

The features are kept apart so that many of them can be tried for the same observation at the price of the features
alone.
"""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array

from omg.modules.agents.base import AgentSizes
from omg.modules.layers import Linear, rows_times, select_rows


def weigh_inputs(layer: Linear, sizes: AgentSizes, obs: Array, last_action: Array, seats: Array | None) -> Array:
    """The layer's sum over everything but the features, before its activation.

    Args:
        layer: [input_dim, W].
        sizes: What the rows of the layer mean.
        obs: [..., A or 1, O].
        last_action: [..., A] integers, -1 for none.
        seats: Integers broadcastable to [..., A]; None for all seats in order.

    Returns:
        [..., A, W], the bias included.
    """
    weight, row = layer.weight, sizes.obs_dim
    constant = layer.bias
    x = rows_times(obs, weight[:row])
    if sizes.use_last_action:
        x = x + select_rows(weight[row : row + sizes.n_actions], last_action)
        row += sizes.n_actions
    if sizes.use_agent_id:
        table = weight[row : row + sizes.n_agents]
        constant = constant + (table if seats is None else select_rows(table, seats))
    # Only with neither last action nor seat among the inputs can an axis of one seat have survived.
    return jnp.broadcast_to(x + constant, (*last_action.shape, weight.shape[-1]))


def weigh_features(layer: Linear, sizes: AgentSizes, features: Array) -> Array:
    """The layer's sum over the features: [..., F] -> [..., W]."""
    return rows_times(features, layer.weight[sizes.input_dim - sizes.feature_dim :])


def check_features(sizes: AgentSizes, features: Array | None) -> None:
    """Features must be given exactly when the agent was built for some."""
    if (features is None) != (sizes.feature_dim == 0):
        raise ValueError(f"features given: {features is not None}; feature_dim is {sizes.feature_dim}")
