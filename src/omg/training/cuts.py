"""How the episodes of an update are cut: learning on padding would be most of the work.

Every way to cut is compiled for itself, and each update takes the first one that all its episodes fit into.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from omg.components import EpisodeBatch, replay
from omg.components.replay import Storage

_SHORTEST = 16
_EARLY = 0.75
"""Share of a batch's episodes that go into its short portion."""


class Portion(NamedTuple):
    """Some episodes of a batch."""

    episodes: int
    length: int
    """Steps that are kept of each."""


Cut = tuple[Portion, ...]
"""The portions of a batch, shortest episodes first."""


def cuts_for(episodes: int, limit: int, *, few: bool = False, portions: bool = False) -> tuple[Cut, ...]:
    """Ways to cut batches, the smallest first; the last takes everything.

    Args:
        episodes: Of a batch.
        limit: The longest episode possible.
        few: Two ways at most, for learners that take long to compile and whose updates see so many episodes that a
            long one is nearly always among them.
        portions: Whether a batch may come in several. With `few` this is then one of the two ways: three quarters of
            the episodes, the shorter ones, a third as long as the rest.
    """
    whole = (Portion(episodes, limit),)
    third = _rounded(limit / 3)
    early = int(episodes * _EARLY)
    if few and portions and 2 * third <= limit and 0 < early < episodes:
        return ((Portion(early, third), Portion(episodes - early, limit)), whole)
    lengths = {min(limit, _rounded(limit * eighths / 8)) for eighths in ((4,) if few else (2, 3, 4, 6))}
    return (*((Portion(episodes, length),) for length in sorted(lengths - {limit})), whole)


def choose_cut(cuts: Sequence[Cut], storage: Storage, batches: Array, axis_name: str | None) -> tuple[Array, Array]:
    """Orders batches for their portions and picks how to cut each.

    Args:
        cuts: From `cuts_for`.
        storage: The replay buffer.
        batches: [updates, B] rows of it.
        axis_name: Of the seeds: they are cut alike, or all ways would be computed for each. None where they are not
            mapped.

    Returns:
        The rows, by length where a cut has several portions; and the index of the cut of each update, [updates] int32.
    """
    lengths = replay.gather_lengths(storage, batches)
    if any(len(cut) > 1 for cut in cuts):
        order = jnp.argsort(lengths, axis=1)
        lengths, batches = (jnp.take_along_axis(values, order, axis=1) for values in (lengths, batches))
    fits = []
    for cut in cuts[:-1]:
        longest = [lengths[:, rows].max(axis=1) for rows in _rows(cut)]
        fits.append(jnp.all(jnp.stack([each <= part.length for each, part in zip(longest, cut, strict=True)]), axis=0))
    fits.append(jnp.ones(len(batches), bool))
    everywhere = jnp.stack(fits).astype(jnp.int32)
    if axis_name is not None:
        everywhere = jax.lax.pmin(everywhere, axis_name)
    return batches, jnp.argmax(everywhere, axis=0).astype(jnp.int32)


def read_cut(cut: Cut, storage: Storage, indices: Array) -> EpisodeBatch | tuple[EpisodeBatch, ...]:
    """The episodes of an update: one batch, or several in a cut with several portions.

    Args:
        cut: How to cut.
        storage: The replay buffer.
        indices: [B] rows of it, as `choose_cut` has ordered them.
    """
    batches = tuple(
        replay.gather(storage, indices[rows], part.length) for rows, part in zip(_rows(cut), cut, strict=True)
    )
    return batches[0] if len(batches) == 1 else batches


def _rows(cut: Cut) -> list[slice]:
    """Where each part's episodes are in an ordered batch."""
    slices, first = [], 0
    for part in cut:
        slices.append(slice(first, first + part.episodes))
        first += part.episodes
    return slices


def _rounded(steps: float) -> int:
    """Up to a multiple of 8."""
    return max(_SHORTEST, -(-int(-(-steps // 1)) // 8) * 8)
