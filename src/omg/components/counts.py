"""Numbers of steps, and values that change with them.

Counts have 64 bits in programs of 32: JAX runs without wide integers, and runs may be longer than 2^31 steps. Schedules
are pure functions of such a count, usable inside compiled code.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

_WORD = 2**32


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Count:
    """A whole number from 0 to 2^64 - 1, or an array of them, as two words; a pytree.

    Below 2^32 the high word is 0 and everything here computes just what the low word alone would.
    """

    high: Array
    """[...] uint32."""
    low: Array
    """[...] uint32, of the same shape."""

    @staticmethod
    def of(value: int, shape: tuple[int, ...] = ()) -> Count:
        """The same number everywhere, `shape`."""
        high, low = divmod(value, _WORD)
        return Count(jnp.full(shape, high, jnp.uint32), jnp.full(shape, low, jnp.uint32))

    @staticmethod
    def from_numpy(values: np.ndarray) -> Count:
        """What `numpy` gives, of its shape."""
        high, low = np.divmod(np.asarray(values, np.int64), _WORD)
        return Count(jnp.asarray(high, jnp.uint32), jnp.asarray(low, jnp.uint32))

    def plus(self, number: Array) -> Count:
        """The sum with a whole number of 0 to 2^31 - 1 of the same shape."""
        low = self.low + jnp.asarray(number).astype(jnp.uint32)
        return Count(self.high + (low < self.low).astype(jnp.uint32), low)

    def below(self, limit: Count | int) -> Array:
        """Whether it is smaller than `limit`; bool of its shape."""
        high, low = (limit.high, limit.low) if isinstance(limit, Count) else map(np.uint32, divmod(limit, _WORD))
        return (self.high < high) | ((self.high == high) & (self.low < low))

    def real(self) -> Array:
        """The nearest float32, or one beside it; of its shape."""
        return self.high.astype(jnp.float32) * float(_WORD) + self.low.astype(jnp.float32)

    def numpy(self) -> np.ndarray:
        """As int64, for the host; counts stay far below 2^63."""
        return np.asarray(self.high, np.int64) * _WORD + np.asarray(self.low, np.int64)


Number = Count | Array | int
"""What schedules and learners take for a number of steps."""


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
