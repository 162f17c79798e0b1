"""How the episodes of an update are laid out: learning on padding would be most of the work.

There are two ways to lay them out. *Cut*: every episode is a row of its own, as long as the longest, perhaps in several
portions of different lengths. *Packed*: several episodes stand one behind the other in a row, with a slot between them
in which whatever remembers forgets (`EpisodeBatch.breaks`).

Every layout is compiled for itself, and each update takes the first one that all its episodes fit into.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from omg.components import EpisodeBatch, replay
from omg.components.replay import Storage
from omg.learners.blocks import layouts
from omg.modules.convolutions import on_cpu

_SHORTEST = 16
_EARLY = 0.75
"""Share of a batch's episodes that go into its short portion."""
_FEWEST, _FEWEST_ACCELERATED = 24, 1024
"""Sequences of which a step of the recurrent loops takes so many at least, or waits more than it computes."""
_EVEN_SLOTS, _NEARLY = 64, 1.1
"""Slots of a row that an accelerator likes, and how much longer a row may become for it."""
_SHARES = (0.22, 0.25, 0.3125, 0.4375, 0.625)
"""Rows of packed batches, as shares of the episodes."""


class Portion(NamedTuple):
    """Some episodes of a batch."""

    episodes: int
    length: int
    """Steps that are kept of each."""


class Packing(NamedTuple):
    """Rows that a batch's episodes are packed into."""

    rows: int
    length: int
    """Steps of a row; a slot follows."""


Cut = tuple[Portion, ...] | Packing
"""A layout: the portions of a batch, shortest episodes first, or rows of several episodes."""


class Due(NamedTuple):
    """Which episodes an update sees and where they are laid; several updates have an axis in front."""

    indices: Array
    """[B] int32 rows of the replay buffer."""
    cut: Array
    """[] int32, the index of the layout."""
    row: Array
    """[B] int32, the row of each episode if they are packed."""
    start: Array
    """[B] int32, its first slot there."""


def cuts_for(
    episodes: int,
    limit: int,
    *,
    few: bool = False,
    portions: bool = False,
    packed_seats: int = 0,
    in_blocks: bool = False,
) -> tuple[Cut, ...]:
    """Ways to lay out batches, the smallest first; the last takes everything.

    Args:
        episodes: Of a batch.
        limit: The longest episode possible.
        few: Two ways at most, for learners that take long to compile and whose updates see so many episodes that a
            long one is nearly always among them.
        portions: Whether a batch may come in several. With `few` this is then one of the two ways: three quarters of
            the episodes, the shorter ones, a third as long as the rest.
        packed_seats: Seats of an episode that are learned from, if batches may be packed; 0: they may not.
        in_blocks: Whether packed rows are learned from in blocks, however many of them hold anything, see
            `omg.learners.blocks`. Of few seats a block is more than packing saves.
    """
    whole = (Portion(episodes, limit),)
    if packed_seats and in_blocks:
        found = layouts(packed_seats, episodes)
        if 2 * found[0][1] <= episodes:
            # Rows that hold nothing are not learned from, but they are read.
            return tuple(Packing(rows, _row_length(limit)) for rows in sorted({rows for rows, _ in found}))
    if packed_seats and not in_blocks:
        rows = sorted({round(episodes * share) for share in _SHARES})
        fewest = _FEWEST if on_cpu() else _FEWEST_ACCELERATED
        return (*(Packing(each, _row_length(limit)) for each in rows if each * packed_seats >= fewest), whole)
    third = _rounded(limit / 3)
    early = int(episodes * _EARLY)
    if few and portions and 2 * third <= limit and 0 < early < episodes:
        return ((Portion(early, third), Portion(episodes - early, limit)), whole)
    lengths = {min(limit, _rounded(limit * eighths / 8)) for eighths in ((4,) if few else (2, 3, 4, 6))}
    return (*((Portion(episodes, length),) for length in sorted(lengths - {limit})), whole)


def _row_length(limit: int) -> int:
    """Steps of a packed row.

    An accelerator cuts the sums over all steps into equal parts: where they do not come out even, whole arrays are
    copied and filled up. So there rows of nearly so many slots have 64, 128, ...
    """
    even = -(-(limit + 1) // _EVEN_SLOTS) * _EVEN_SLOTS
    return even - 1 if not on_cpu() and even <= _NEARLY * (limit + 1) else limit


def worth_packing(episodes: int, seats: int) -> bool:
    """Whether rows of several episodes are computed faster than cut ones, if so many seats of each learn.

    They are as long as the time limit, and fewer. An accelerator takes about as long for few sequences as for many, and
    less for short ones: it needs so many episodes that the packed rows keep it busy, too.
    """
    return on_cpu() or episodes * seats / 3 >= _FEWEST_ACCELERATED


def choose_cuts(cuts: Sequence[Cut], storage: Storage, batches: Array, axis_name: str | None) -> Due:
    """Orders batches for their layouts and picks one for each.

    Args:
        cuts: From `cuts_for`.
        storage: The replay buffer.
        batches: [updates, B] rows of it.
        axis_name: Of the seeds: they are laid out alike, or all ways would be computed for each. None where they are
            not mapped.

    Returns:
        Of all updates. Where order matters to a layout, the shortest episodes come first.
    """
    lengths = replay.gather_lengths(storage, batches)
    if any(isinstance(cut, Packing) or len(cut) > 1 for cut in cuts):
        order = jnp.argsort(lengths, axis=1)
        lengths, batches = (jnp.take_along_axis(values, order, axis=1) for values in (lengths, batches))
    row, start = jnp.zeros_like(lengths), jnp.zeros_like(lengths)
    packings = [cut for cut in cuts if isinstance(cut, Packing)]
    if packings:
        row, start = pack(lengths, packings[0].length)
    needed = row.max(axis=1) + 1
    fits = [_fits(cut, lengths, needed) for cut in cuts[:-1]]
    fits.append(jnp.ones(len(batches), bool))
    everywhere = jnp.stack(fits).astype(jnp.int32)
    if axis_name is not None:
        everywhere = jax.lax.pmin(everywhere, axis_name)
    return Due(batches, jnp.argmax(everywhere, axis=0).astype(jnp.int32), row, start)


def pack(lengths: Array, length: int) -> tuple[Array, Array]:
    """Lays episodes into rows, the longest first, each into the first row with room for it.

    Those of one length are laid together, as many into each row as there is room for: this takes as many steps as there
    are lengths, of however many episodes.

    Args:
        lengths: [updates, B] int32 steps, ascending, none above `length`.
        length: Steps of a row, which has a slot more.

    Returns:
        Row and first slot of each episode, [updates, B] int32 each. The first rows are used.
    """

    def pack_one(lengths: Array) -> tuple[Array, Array]:
        counts = jnp.zeros(length + 1, jnp.int32).at[lengths].add(1)

        def lay(used: Array, at_length: tuple[Array, Array]) -> tuple[Array, tuple[Array, Array]]:
            steps, count = at_length
            # An episode takes the slots of its steps, one for its last view and one to forget, but for the row's last.
            slots = steps + 2
            room = (length - used + 2) // slots
            until = jnp.cumsum(room, dtype=jnp.int32)
            return used + jnp.clip(count - until + room, 0, room) * slots, (used, until)

        steps = jnp.arange(length + 1)
        used, until = lax.scan(lay, jnp.zeros_like(lengths), (steps, counts), reverse=True)[1]
        # Of one length the last episode comes first.
        order = jnp.cumsum(counts, dtype=jnp.int32)[lengths] - 1 - jnp.arange(len(lengths), dtype=jnp.int32)
        row = _first_above(until, lengths, order)
        slots = lengths + 2
        before = until[lengths, row] - (length - used[lengths, row] + 2) // slots
        return row, used[lengths, row] + (order - before) * slots

    return jax.vmap(pack_one)(lengths)


def _first_above(rising: Array, line: Array, least: Array) -> Array:
    """The first place in a line of `rising` [lines, B] with more than `least` [N], of lines [N]: [N] int32."""

    def halve(_: int, bounds: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = bounds
        middle = (low + high) // 2
        above = rising[line, middle] > least
        return jnp.where(above, low, middle + 1), jnp.where(above, middle, high)

    last = rising.shape[1] - 1
    ends = jnp.zeros_like(least), jnp.full_like(least, last)
    return jnp.minimum(lax.fori_loop(0, rising.shape[1].bit_length(), halve, ends)[0], last)


def read_cut(cut: Cut, storage: Storage, due: Due) -> EpisodeBatch | tuple[EpisodeBatch, ...]:
    """The episodes of an update: one batch, or several in a layout with several portions.

    Args:
        cut: The layout.
        storage: The replay buffer.
        due: Of the update.
    """
    if isinstance(cut, Packing):
        return replay.gather_rows(storage, *_slots(cut, due))
    batches = tuple(
        replay.gather(storage, due.indices[rows], part.length) for rows, part in zip(_rows(cut), cut, strict=True)
    )
    return batches[0] if len(batches) == 1 else batches


def _slots(packing: Packing, due: Due) -> tuple[Array, Array]:
    """Of every slot the row of the replay buffer (-1 for none) and the slot there, [rows, length + 1] int32 each."""
    shape = (packing.rows, packing.length + 1)
    order = jnp.arange(len(due.indices))
    # A shorter episode of a row stands further back, so that from the front on numbers only rise.
    rank = len(order) - order
    marked = jnp.zeros(shape, jnp.int32).at[due.row, due.start].set(rank, mode="drop")
    rank = lax.cummax(marked, axis=1)
    episode = len(order) - rank
    there = rank > 0
    slots = jnp.arange(shape[1]) - due.start.at[episode].get(mode="clip")
    return jnp.where(there, due.indices.at[episode].get(mode="clip"), -1), jnp.maximum(slots, 0)


def _fits(cut: Cut, lengths: Array, needed: Array) -> Array:
    """Whether all episodes fit in: lengths [updates, B] in their order, and rows needed [updates] -> [updates]."""
    if isinstance(cut, Packing):
        return needed <= cut.rows
    longest = [lengths[:, rows].max(axis=1) for rows in _rows(cut)]
    return jnp.all(jnp.stack([each <= part.length for each, part in zip(longest, cut, strict=True)]), axis=0)


def _rows(cut: tuple[Portion, ...]) -> list[slice]:
    """Where each part's episodes are in an ordered batch."""
    slices, first = [], 0
    for part in cut:
        slices.append(slice(first, first + part.episodes))
        first += part.episodes
    return slices


def _rounded(steps: float) -> int:
    """Up to a multiple of 8."""
    return max(_SHORTEST, -(-int(-(-steps // 1)) // 8) * 8)
