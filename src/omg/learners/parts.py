"""Episodes of one update in parts of similar length.

Most episodes of a game with a generous time limit are far shorter than the longest of a batch, and learning on padding
would be most of the work. Losses are means over the steps that were played, so a batch may come as several, each cut to
its own length: the mean of their means, weighted by their steps, is the mean of the whole. (A prior that is learned
along counts views, one more per episode than steps; its parts' weights are off by that much.)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from omg.components import EpisodeBatch, loss_mask

Batches = EpisodeBatch | tuple[EpisodeBatch, ...]
"""The episodes of an update: all in one, or in parts."""


def as_parts(batches: Batches) -> tuple[EpisodeBatch, ...]:
    """The parts, one or several."""
    return (batches,) if isinstance(batches, EpisodeBatch) else batches


def step_shares(parts: Sequence[EpisodeBatch]) -> list[Array]:
    """Which share of all played steps each part has; scalars."""
    steps = [loss_mask(part).sum() for part in parts]
    total = jnp.maximum(sum(steps), 1.0)
    return [each / total for each in steps]


def weigh(values: Sequence[Any], shares: Sequence[Array]) -> Any:
    """The mean over the whole from the parts' means; pytrees of scalars of the same structure."""
    if len(values) == 1:
        return values[0]
    return jax.tree.map(lambda *means: sum(share * mean for share, mean in zip(shares, means, strict=True)), *values)


def part_keys(key: Array, parts: int) -> list[Array]:
    """Randomness of each part."""
    return [key] if parts == 1 else list(jax.random.split(key, parts))
