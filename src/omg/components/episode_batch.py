"""Whole episodes as one pytree of padded arrays, and the mask that tells played time slots from padding.

Letters in shapes: B episodes, T steps (T+1 time slots: the extra one holds the last observation), A seats,
O observation features, S state features, U actions.

What `filled` means here: a slot is filled when an action was *played* in it and its reward recorded. The slot after
the last played one holds only the observation that a target may bootstrap from; it is not filled. An episode of
length n therefore has exactly n filled slots, whether it ended for real or by the time limit, and cutting a batch to
the longest of its episodes changes nothing. Batches from elsewhere may mark that last slot as filled too;
`loss_mask` removes it after a real end.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array


class EpisodeBatch(NamedTuple):
    """B episodes, each padded to T+1 time slots."""

    obs: Array
    """[B, T+1, A, O] float32."""
    state: Array
    """[B, T+1, S] float32; has no agent axis."""
    avail: Array
    """[B, T+1, A, U] bool, legal actions."""
    actions: Array
    """[B, T+1, A] int32; the slot behind the last step holds what would have been done next. Only COMA's targets look
    there, where the time limit cut a game."""
    reward: Array
    """[B, T+1] float32, or [B, T+1, A] in general-sum games."""
    terminated: Array
    """[B, T+1] bool, true in the slot whose step ended the game for real; never true for the time limit."""
    filled: Array
    """[B, T+1] bool, slots in which an action was played."""
    seat: Array | None
    """[B] int32, the seat of the algorithm that learns; None when it holds all seats."""
    records: dict[str, Array]
    """What the policies noted while acting, e.g. `infer_mu` [B, T+1, m, D] of the m seats that have an opponent model;
    empty when there is nothing."""
    players: Array | None = None
    """[B, A] int32, the pool member in every seat, -1 where the algorithm that learns sits; None without a team."""
    breaks: Array | None = None
    """[B, T+1] bool, of rows that hold several episodes: the slots between one and the next, where whatever remembers
    forgets. None where every row is one episode."""


def loss_mask(batch: EpisodeBatch) -> Array:
    """The steps that count in a loss: filled, and not behind a real end.

    Returns:
        [B, T] float32 of zeros and ones.
    """
    played = batch.filled[:, :-1]
    over = jnp.pad(batch.terminated[:, :-2], ((0, 0), (1, 0)))
    return (played & ~over).astype(jnp.float32)


def ended_by_limit(batch: EpisodeBatch) -> EpisodeBatch:
    """The same episodes, but those that the time limit cut count as ended for real by their last step."""
    goes_on = jnp.pad(batch.filled[:, 1:], ((0, 0), (0, 1)))
    return batch._replace(terminated=batch.terminated | (batch.filled & ~goes_on))


def lengths(batch: EpisodeBatch) -> Array:
    """Number of steps that count in each episode, [B] int32; its last view stands in the slot of that number."""
    return loss_mask(batch).sum(axis=1).astype(jnp.int32)


def view_mask(batch: EpisodeBatch) -> Array:
    """The slots that hold a view of the game: those that were played, and the one behind them.

    Returns:
        [B, T+1] float32 of zeros and ones.
    """
    return viewed_slots(lengths(batch), batch.filled.shape[1])


def viewed_slots(length: Array, slots: int) -> Array:
    """The same from the lengths [B] of episodes: [B, slots]."""
    return (jnp.arange(slots) <= length[:, None]).astype(jnp.float32)


def truncate(batch: EpisodeBatch, length: int) -> EpisodeBatch:
    """Keeps the first `length` steps and the slot behind them, `length + 1` slots in all.

    Args:
        batch: Episodes of T >= length steps.
        length: Steps to keep; static, since it decides the shapes.
    """
    timed = batch._replace(seat=None, players=None)
    shorter: EpisodeBatch = jax.tree.map(lambda values: values[:, : length + 1], timed)
    return shorter._replace(seat=batch.seat, players=batch.players)


def take_seats(values: Array, seats: Array) -> Array:
    """Some seats' columns of per-seat values.

    Args:
        values: [B, T+1, A, ...].
        seats: [B, m] integers.

    Returns:
        [B, T+1, m, ...].
    """
    index = seats.reshape(seats.shape[0], 1, seats.shape[1], *(1,) * (values.ndim - 3))
    return jnp.take_along_axis(values, index, axis=2)


def keep_seats(batch: EpisodeBatch, seats: Array, *, state: bool) -> EpisodeBatch:
    """What a learner of a few seats needs of whole episodes: the observations and masks of those seats alone.

    Args:
        batch: Episodes with all A seats.
        seats: [B, m] integers, the seats that learn.
        state: Whether the global state is needed; otherwise it shrinks to no features.

    Returns:
        The same episodes with obs [B, T+1, m, O] and avail [B, T+1, m, U]; actions and rewards stay those of all seats.
    """
    return batch._replace(
        obs=take_seats(batch.obs, seats),
        avail=take_seats(batch.avail, seats),
        state=batch.state if state else batch.state[..., :0],
    )


def masked_mean(values: Array, mask: Array) -> Array:
    """Sum of the masked values over the number of masked values; 0 when nothing is masked in.

    Args:
        values: [B, T], or [B, T, A] (then each step counts once per agent).
        mask: [B, T] of zeros and ones.

    Returns:
        A float32 scalar. Non-finite values are multiplied by the mask like all others, so they show.
    """
    wide = jnp.broadcast_to(mask.reshape(mask.shape + (1,) * (values.ndim - mask.ndim)), values.shape)
    return (values * wide).sum() / jnp.maximum(wide.sum(), 1.0)
