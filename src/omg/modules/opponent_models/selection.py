"""What a subgoal is worth to the agent, and which of several it picks."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array


def state_value(q: Array, avail: Array, kind: str) -> Array:
    """V(s, g) from Q(s, g, a): `mean`, `max` or `softmax`-weighted mean over legal actions; 0 where none is legal.

    Args:
        q: [..., U].
        avail: [..., U] bool, broadcastable.
        kind: What `omg_value` says.

    Returns:
        [...].
    """
    avail = jnp.broadcast_to(avail, q.shape)
    if kind == "max":
        best = jnp.where(avail, q, -jnp.inf).max(axis=-1)
        return jnp.where(avail.any(axis=-1), best, 0.0)
    if kind == "softmax":
        return (jax.nn.softmax(q, axis=-1, where=avail) * q).sum(axis=-1)
    return jnp.where(avail, q, 0.0).sum(axis=-1) / jnp.maximum(avail.sum(axis=-1), 1)


def pick_offset(mode: str, values: Array | None, shape: tuple[int, ...], horizon: int, key: Array) -> Array:
    """How many steps ahead the selected state lies, 1 to H.

    Args:
        mode: What `subgoal_mode` says.
        values: [B, T, H, m], V of all candidates; needed by `optimistic` and `conservative` alone.
        shape: (B, T, m).
        horizon: H.
        key: For `random`.

    Returns:
        [B, T, m] int32; of equal candidates the nearest.
    """
    if mode in ("optimistic", "conservative"):
        assert values is not None
        best = jnp.argmax if mode == "optimistic" else jnp.argmin
        return best(values, axis=2).astype(jnp.int32) + 1
    if mode == "random":
        return jax.random.randint(key, shape, 1, horizon + 1)
    return jnp.full(shape, {"next": 1, "k3": min(3, horizon)}[mode], jnp.int32)
