"""Values that change with the number of environment steps: pure functions of `t_env`, usable inside compiled code."""

from __future__ import annotations

import math

import jax.numpy as jnp
from jax import Array

from omg.components.counts import Count, Number


def linear(t_env: Number, start: float, finish: float, steps: int) -> Array:
    """Goes from `start` to `finish` in a straight line over `steps`, then stays.

    Args:
        t_env: Count, integer array or number of any shape.
        start: Value at step 0.
        finish: Value from step `steps` on.
        steps: Length of the way; 0 means `finish` from the beginning.

    Returns:
        float32 of the shape of `t_env`.
    """
    time = t_env.real() if isinstance(t_env, Count) else jnp.asarray(t_env, jnp.float32)
    share = jnp.clip(time / float(steps), 0.0, 1.0) if steps > 0 else jnp.ones(time.shape)
    return start + share * (finish - start)


def exponential(t_env: Number, start: float, finish: float, steps: int) -> Array:
    """Decays as `finish ** (t_env / steps)`, limited to [`finish`, `start`]; reaches `finish` at `steps`.

    Args:
        t_env: Count, integer array or number of any shape.
        start: Upper limit.
        finish: Lower limit and value from step `steps` on; at 0 the curve is `exp(-t_env)`.
        steps: Length of the way; 0 means `finish` from the beginning.

    Returns:
        float32 of the shape of `t_env`.
    """
    time = t_env.real() if isinstance(t_env, Count) else jnp.asarray(t_env, jnp.float32)
    if steps <= 0:
        return jnp.full(time.shape, finish)
    rate = -math.log(finish) / steps if finish > 0 else 1.0
    return jnp.clip(jnp.exp(-rate * time), finish, start)
