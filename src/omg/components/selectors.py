"""How values or logits of the legal actions become an action.

Every selector has the same signature: `(values [..., U], avail [..., U] bool, key, epsilon) -> actions [...] int32`,
and picks a legal action wherever there is one. Each spends a single uniform number per row: a Gumbel draw per action
took 40 times as long on a CPU as the walk over the running sum used here.
"""

from __future__ import annotations

from itertools import accumulate

import jax
import jax.numpy as jnp
from jax import Array

ILLEGAL_LOG_PROBABILITY = -1e9
"""Stands for minus infinity: rows of padding have no legal action, and infinities would turn to NaN in gradients."""


def epsilon_greedy(values: Array, avail: Array, key: Array, epsilon: Array | float) -> Array:
    """The best legal action, or with probability `epsilon` (for each row by itself) any legal one.

    Args:
        values: [..., U] action values.
        avail: [..., U] bool.
        key: Consumed.
        epsilon: Scalar, or broadcastable to [...]; 0 gives exactly the legal argmax.

    Returns:
        [...] int32.
    """
    uniform = jax.random.uniform(key, avail.shape[:-1])
    # Given that it is below epsilon, the number divided by epsilon is again uniform: it also chooses the action.
    explored = _draw(avail.astype(jnp.float32), uniform / jnp.maximum(epsilon, jnp.finfo(jnp.float32).tiny))
    return jnp.where(uniform < epsilon, explored, greedy(values, avail))


def multinomial_late_mask(values: Array, avail: Array, key: Array, epsilon: Array | float) -> Array:
    """`multinomial` as PyMARL has it without `mask_before_softmax`: softmax and floor are over all actions.

    Only then illegal ones are left out. Arguments and result as in `multinomial`.
    """
    weight = jnp.asarray(epsilon, jnp.float32)[..., None]
    mixed = (1.0 - weight) * jax.nn.softmax(values, axis=-1) + weight / avail.shape[-1]
    # Of legal actions alone the weights may be tiny; `_draw` needs only their shares.
    return _draw(jnp.where(avail, mixed, 0.0), _uniform(key, avail))


def multinomial(values: Array, avail: Array, key: Array, epsilon: Array | float) -> Array:
    """Samples from the softmax of legal logits mixed with a uniform floor: `(1 - epsilon) p + epsilon / legal`.

    Args:
        values: [..., U] logits.
        avail: [..., U] bool.
        key: Consumed.
        epsilon: Scalar, or broadcastable to [...]; weight of the floor.

    Returns:
        [...] int32.
    """
    floor = legal_chances(avail)
    weight = jnp.asarray(epsilon, jnp.float32)[..., None]
    return _draw((1.0 - weight) * legal_softmax(values, avail) + weight * floor, _uniform(key, avail))


def multinomial_log_probabilities(
    values: Array, avail: Array, epsilon: Array | float, *, late_mask: bool = False
) -> Array:
    """Logarithms of the probabilities that `multinomial` draws with; finite, so that gradients pass through them.

    Args:
        values: [..., U] logits.
        avail: [..., U] bool.
        epsilon: Scalar, or broadcastable to [...]; weight of the uniform floor, with 0 there is none. A plain 0.0 says
            so beforehand, and then nothing of it is computed.
        late_mask: Those of `multinomial_late_mask` instead.

    Returns:
        [..., U]; `ILLEGAL_LOG_PROBABILITY` for illegal actions.
    """
    weight = jnp.asarray(epsilon, jnp.float32)[..., None]
    if late_mask:
        floor = jnp.log(weight) - jnp.log(float(avail.shape[-1]))
        mixed = jnp.logaddexp(jnp.log1p(-weight) + jax.nn.log_softmax(values, axis=-1), floor)
        return jnp.where(
            avail,
            jax.nn.log_softmax(jnp.where(avail, mixed, ILLEGAL_LOG_PROBABILITY), axis=-1),
            ILLEGAL_LOG_PROBABILITY,
        )
    log_softmax = jax.nn.log_softmax(jnp.where(avail, values, ILLEGAL_LOG_PROBABILITY), axis=-1)
    if isinstance(epsilon, float) and epsilon == 0.0:
        return jnp.where(avail, log_softmax, ILLEGAL_LOG_PROBABILITY)
    legal = jnp.maximum(avail.sum(axis=-1, keepdims=True, dtype=jnp.float32), 1.0)
    # A weight of 0 or 1 makes one of the two terms minus infinity, which `logaddexp` leaves out of value and gradient.
    mixed = jnp.logaddexp(jnp.log1p(-weight) + log_softmax, jnp.log(weight) - jnp.log(legal))
    return jnp.where(avail, mixed, ILLEGAL_LOG_PROBABILITY)


def softmax(values: Array, avail: Array, key: Array, epsilon: Array | float) -> Array:
    """Samples from the softmax of legal logits; `epsilon` is not used. Arguments as in `multinomial`."""
    del epsilon
    return _draw(legal_softmax(values, avail), _uniform(key, avail))


def greedy_chances(values: Array, avail: Array) -> Array:
    """What `epsilon_greedy` draws with where epsilon is 0: all on the best legal action, [..., U] float32."""
    return jax.nn.one_hot(greedy(values, avail), avail.shape[-1])


def late_mask_chances(values: Array, avail: Array) -> Array:
    """What `multinomial_late_mask` draws with where epsilon is 0: [..., U] float32."""
    weights = jnp.where(avail, jax.nn.softmax(values, axis=-1), 0.0)
    return weights / jnp.maximum(weights.sum(axis=-1, keepdims=True), jnp.finfo(jnp.float32).tiny)


def legal_chances(avail: Array) -> Array:
    """What `random_legal` draws with: [..., U] bool -> [..., U] float32, zeros in a row without a legal action."""
    legal = avail.astype(jnp.float32)
    return legal / jnp.maximum(legal.sum(axis=-1, keepdims=True), 1.0)


def random_legal(avail: Array, key: Array) -> Array:
    """One of the legal actions, all equally likely: [..., U] bool -> [...] int32."""
    return _draw(avail.astype(jnp.float32), _uniform(key, avail))


def greedy(values: Array, avail: Array) -> Array:
    """The legal action of the highest value, the first of equals: [..., U] -> [...] int32."""
    return jnp.argmax(jnp.where(avail, values, -jnp.inf), axis=-1).astype(jnp.int32)


def legal_softmax(values: Array, avail: Array) -> Array:
    """Softmax over the legal actions; exactly zero elsewhere, and all zeros in a row without any: [..., U]."""
    return jax.nn.softmax(values, axis=-1, where=avail)


def _uniform(key: Array, avail: Array) -> Array:
    return jax.random.uniform(key, avail.shape[:-1])


def _draw(weights: Array, uniform: Array) -> Array:
    """The index whose share of the weights `uniform` falls into.

    Args:
        weights: [..., U], not negative. Entries of weight zero are never drawn.
        uniform: [...] in [0, 1); larger numbers count as the highest below 1.

    Returns:
        [...] int32; the last index where all weights are zero.
    """
    # Spelled out action by action because XLA's cumulative sum is seven times slower here on a CPU.
    running = list(accumulate(weights[..., action] for action in range(weights.shape[-1])))
    total = running[-1]
    # Rounding must not carry the threshold to the total itself, which would lie behind the last positive weight.
    threshold = jnp.minimum(uniform * total, jnp.nextafter(total, jnp.zeros_like(total)))
    passed = [(below <= threshold).astype(jnp.int32) for below in running[:-1]]
    return sum(passed, start=jnp.zeros(total.shape, jnp.int32))
