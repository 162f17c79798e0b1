"""Views brought to mean 0 and deviation 1, for models that learn by a loss of their own (`am_normalise`).

The subgoal prior does the same to what it encodes. Without it a feature of large numbers drowns the others: in what the
model reads, and in what a reconstruction counts. The statistics are counted while the model learns and are part of it.

Letters in shapes: B episodes, T time slots, O features of a view.
"""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array

from omg.modules.layers import Linear
from omg.modules.opponent_models.base import ModelSizes
from omg.modules.opponent_models.prior import InputStatistics


def statistics_for(sizes: ModelSizes, features: int) -> InputStatistics | None:
    """Of no views yet, O = `features`; None where views are read as they are."""
    return InputStatistics.empty(features) if sizes.normalise else None


def normalised(views: Array, statistics: InputStatistics | None) -> Array:
    """From original to normalised units, [..., O]; as they are without statistics."""
    if statistics is None:
        return views
    mean, deviation = statistics.scale()
    return (views - mean) / deviation


def counting(statistics: InputStatistics | None, views: Array, mask: Array) -> InputStatistics | None:
    """With views [B, T, ..., O] counted in, where the mask [B, T] is one."""
    if statistics is None:
        return None
    weight = jnp.broadcast_to(mask.reshape(mask.shape + (1,) * (views.ndim - 3)), views.shape[:-1])
    return statistics.add(views.reshape(-1, views.shape[-1]), weight.reshape(-1))


def absorbed(layer: Linear, statistics: InputStatistics | None) -> tuple[Array, Array]:
    """Weight [in, out] and bias [out] of a layer that does to views what this one does to normalised ones.

    Args:
        layer: Whose first O rows read the view.
        statistics: What it is normalised by.
    """
    if statistics is None:
        return layer.weight, layer.bias
    mean, deviation = statistics.scale()
    rows = layer.weight[: mean.size] / deviation[:, None]
    return jnp.concatenate([rows, layer.weight[mean.size :]]), layer.bias - mean @ rows
