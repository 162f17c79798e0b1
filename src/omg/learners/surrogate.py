"""What a clipped update raises and lowers, element by element."""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array


def clipped_surrogate(ratio: Array, advantage: Array, clip: float) -> Array:
    """PPO's objective, to be raised: the worse of the weighed advantage with and without limits, element by element.

    Args:
        ratio: Probability of what was done, now over then.
        advantage: How much better than expected it was.
        clip: How far from 1 the ratio is of use. Its gradient is zero where the advantage would push it on from there.
    """
    return jnp.minimum(ratio * advantage, jnp.clip(ratio, 1.0 - clip, 1.0 + clip) * advantage)


def value_error(values: Array, old: Array, targets: Array, clip: float | None) -> Array:
    """Squared errors of a critic, element by element.

    Args:
        values: What it says now.
        old: What it said before the update.
        targets: What it should say.
        clip: How far from `old` it is of use to move; the larger of both errors counts. None: no limit.
    """
    error = (values - targets) ** 2
    if clip is None:
        return error
    return jnp.maximum(error, (old + jnp.clip(values - old, -clip, clip) - targets) ** 2)
