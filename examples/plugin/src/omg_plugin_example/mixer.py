"""`weighted_sum`: the value of the joint action is a sum with weights that are learned, one for each seat."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from omg.modules.mixers.base import MixerSizes


class WeightedSum(eqx.Module):
    """Satisfies `omg.modules.mixers.base.Mixer`. The weights are positive, so the seats' best actions stay the best."""

    raw: Array
    """[A]; the weights are their softplus."""

    def __init__(self, sizes: MixerSizes, *, key: Array):
        del key  # All weights begin at 1.
        self.raw = jnp.full((sizes.n_agents,), jnp.log(jnp.expm1(1.0)))

    def __call__(self, qs: Array, state: Array) -> Array:
        """Values of the seats' actions [B, T, A] and states [B, T, S] -> values of the joint action [B, T]."""
        return (qs * jax.nn.softplus(self.raw)).sum(axis=-1)
