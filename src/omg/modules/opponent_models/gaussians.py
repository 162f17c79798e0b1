"""Diagonal normal distributions given by mean and logarithm of the variance."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array

LOWEST_LOG_VAR, HIGHEST_LOG_VAR = -8.0, 4.0
"""A network's output is kept between these, so that no divergence is infinite."""


def bounded(log_var: Array) -> Array:
    """A logarithm of a variance within the allowed range."""
    return jnp.clip(log_var, LOWEST_LOG_VAR, HIGHEST_LOG_VAR)


def sample(mean: Array, log_var: Array, key: Array) -> Array:
    """One draw each, differentiable by mean and log_var: [..., D] -> [..., D]."""
    return mean + jnp.exp(0.5 * log_var) * jax.random.normal(key, mean.shape)


def kl_to_standard(mean: Array, log_var: Array) -> Array:
    """KL(N(mean, var) || N(0, 1)) summed over the last axis: [..., D] -> [...]."""
    return 0.5 * (mean**2 + jnp.exp(log_var) - 1.0 - log_var).sum(axis=-1)


def kl_between(mean: Array, log_var: Array, other_mean: Array, other_log_var: Array) -> Array:
    """KL(N(mean, var) || N(other_mean, other_var)) summed over the last axis: [..., D] -> [...]."""
    spread = jnp.exp(log_var - other_log_var) + (mean - other_mean) ** 2 * jnp.exp(-other_log_var)
    return 0.5 * (spread - 1.0 + other_log_var - log_var).sum(axis=-1)
