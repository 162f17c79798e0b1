"""What co-players do in a position of a search, drawn several times.

Letters in shapes: J co-players, U actions, D draws.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from omg.components.selectors import legal_softmax, softmax


def drawn_deeds(key: Array, logits: Array, legal: Array, draws: int) -> Array:
    """What co-players do, drawn several times.

    The draws are spread: each by itself is as likely as any draw is, but however many are taken from the first one on,
    they stand for all that is likely, as far as so few can. Draw d of co-player j is where the summed chances reach the
    fraction of u_j + d * s_j, with a random u_j; the steps s_j are those of Roberts' sequence in J dimensions.

    Args:
        key: consumed.
        logits: [J, U].
        legal: [J, U] bool.
        draws: D.

    Returns:
        [D * J] int8, one draw after the other.
    """
    others = len(logits)
    if draws == 1:
        return softmax(logits, legal, key, 0.0).astype(jnp.int8)
    begin = jax.random.uniform(key, (others,))
    share = (begin + np.arange(draws, dtype=np.float32)[:, None] * spread_steps(others)) % 1.0
    summed = jnp.cumsum(legal_softmax(logits, legal), axis=-1)
    # Short of the last sum by more than rounding.
    passed = summed > (jnp.minimum(share, 1.0 - 1e-6) * summed[:, -1])[..., None]
    return jnp.argmax(passed, axis=-1).astype(jnp.int8).reshape(-1)


def spread_steps(others: int) -> np.ndarray:
    """The steps of Roberts' sequence, [J]: 1 / g, 1 / g^2, ... with g^(J + 1) = g + 1."""
    root = 1.5
    for _ in range(64):
        root = (1.0 + root) ** (1.0 / (others + 1))
    return np.asarray(root ** -np.arange(1.0, others + 1), np.float32)
