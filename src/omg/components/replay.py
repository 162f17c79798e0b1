"""A ring of episodes in compact types, as pure functions over one pytree that the compiled loop donates.

Observations and states are kept in half precision, actions in the smallest integer that holds them; rewards stay
exact. Nothing here keeps a counter: the caller's number of episodes so far says where the ring stands, so it stays
one unbatched scalar when many seeds' storages are stacked and mapped over.

Letters in shapes: T the time limit of the game, the rest as in `episode_batch`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

import jax
import jax.numpy as jnp
from jax import Array, lax

from omg.components.episode_batch import EpisodeBatch
from omg.errors import unknown_name

FLOAT_TYPES = {"float16": jnp.float16, "bfloat16": jnp.bfloat16, "float32": jnp.float32}


class Sizes(Protocol):
    """The part of an environment's spec that decides how large an episode is."""

    @property
    def n_agents(self) -> int: ...  # noqa: D102
    @property
    def n_actions(self) -> int: ...  # noqa: D102
    @property
    def obs_dim(self) -> int: ...  # noqa: D102
    @property
    def state_dim(self) -> int: ...  # noqa: D102
    @property
    def episode_limit(self) -> int: ...  # noqa: D102
    @property
    def reward_per_agent(self) -> bool: ...  # noqa: D102


class Storage(NamedTuple):
    """`capacity` episodes in storage types; the fields are those of `EpisodeBatch`."""

    obs: Array
    """[capacity, T+1, A, O] float16, bfloat16 or float32."""
    state: Array
    """[capacity, T+1, S], type as `obs`."""
    avail: Array
    """[capacity, T+1, A, U] bool. Packing eight to a byte would save 5 % of all on 8m: not worth unpacking."""
    actions: Array
    """[capacity, T+1, A] int8 or int16."""
    reward: Array
    """[capacity, T+1] or [capacity, T+1, A] float32."""
    terminated: Array
    """[capacity, T+1] bool."""
    filled: Array
    """[capacity, T+1] bool."""
    seat: Array | None
    """[capacity] int32 or None."""
    records: dict[str, Array]
    """name -> [capacity, T+1, ...], type as `obs`."""
    players: Array | None = None
    """[capacity, A] int16 or None."""


def storage_for(
    sizes: Sizes,
    capacity: int,
    dtype: str = "float16",
    reward_per_agent: bool | None = None,
    records: Mapping[str, tuple[int, ...]] | None = None,
    seat: bool = False,
    columns: int | None = None,
    state: bool = True,
) -> Storage:
    """An empty ring.

    Args:
        sizes: The environment's spec.
        capacity: Episodes it holds.
        dtype: Type of observations, states and records: a key of `FLOAT_TYPES`.
        reward_per_agent: Whether rewards have an agent axis; None: as the environment says.
        records: Name -> shape of one time slot, e.g. `{"infer_mu": (n_agents, 64)}`.
        seat: Whether episodes carry the seat of the algorithm that learns and the players of all seats.
        columns: Number of seats whose observations and masks are kept; None: all.
        state: Whether the global state is kept.
    """
    if dtype not in FLOAT_TYPES:
        raise unknown_name("replay type", dtype, FLOAT_TYPES)
    per_agent = sizes.reward_per_agent if reward_per_agent is None else reward_per_agent
    slots = (capacity, sizes.episode_limit + 1)
    agents = (*slots, sizes.n_agents)
    seen = agents if columns is None else (*slots, columns)
    float_type = FLOAT_TYPES[dtype]
    return Storage(
        obs=jnp.zeros((*seen, sizes.obs_dim), float_type),
        state=jnp.zeros((*slots, sizes.state_dim if state else 0), float_type),
        avail=jnp.zeros((*seen, sizes.n_actions), bool),
        actions=jnp.zeros(agents, jnp.int8 if sizes.n_actions <= 128 else jnp.int16),
        reward=jnp.zeros(agents if per_agent else slots, jnp.float32),
        terminated=jnp.zeros(slots, bool),
        filled=jnp.zeros(slots, bool),
        seat=jnp.zeros(capacity, jnp.int32) if seat else None,
        records={name: jnp.zeros((*slots, *shape), float_type) for name, shape in (records or {}).items()},
        players=jnp.zeros((capacity, sizes.n_agents), jnp.int16) if seat else None,
    )


def insert(storage: Storage, batch: EpisodeBatch, episodes_so_far: Array | int) -> Storage:
    """Writes B <= capacity new episodes over the oldest ones; in place when `storage` is donated.

    Args:
        storage: The ring.
        batch: New episodes, of the full T+1 slots or fewer (what lies behind them then counts as not played).
        episodes_so_far: Scalar integer, episodes inserted before this call.
    """
    episodes, slots = batch.filled.shape
    capacity, all_slots = storage.filled.shape
    if episodes > capacity or slots > all_slots:
        raise ValueError(f"{episodes} episodes of {slots} slots do not fit a ring of {capacity} with {all_slots} slots")
    rows = (episodes_so_far + jnp.arange(episodes)) % capacity
    # Stale marks of the longer episode that lay here before must not survive behind a shorter one.
    pad = ((0, 0), (0, all_slots - slots))
    padded = batch._replace(filled=jnp.pad(batch.filled, pad), terminated=jnp.pad(batch.terminated, pad))

    def write(old: Array, new: Array) -> Array:
        where = (rows, slice(new.shape[1])) if new.ndim > 1 else rows
        return old.at[where].set(new.astype(old.dtype), unique_indices=True)

    # Whatever is kept has the name that it has in the batch; a missing seat or record is a structure error here.
    new = Storage(**{name: getattr(padded, name) for name in Storage._fields})
    # `players` [B, A] has no time axis, but its second axis is as long as the ring's, so the same rule writes it.
    return jax.tree.map(write, storage, new)


def sample_indices(key: Array, size: Array | int, capacity: int, batch_size: int, draws: int) -> Array:
    """Draws rows uniformly without replacement among the first `size`, several times independently.

    The largest of one uniform number per row: a set drawn without replacement, with static shapes whatever `size`.

    Args:
        key: Consumed.
        size: Scalar integer, rows that hold an episode; at least `batch_size`, or else empty rows (whose loss mask
            is zero) fill up the batch.
        capacity: episodes that there is room for.
        batch_size: Rows per draw.
        draws: Number of draws.

    Returns:
        [draws, batch_size] int32, distinct within each draw.
    """
    score = jax.random.uniform(key, (draws, capacity))
    _, indices = lax.top_k(jnp.where(jnp.arange(capacity) < size, score, -1.0), batch_size)
    return indices


def gather(storage: Storage, indices: Array, length: int) -> EpisodeBatch:
    """Reads episodes, their first `length` steps and the slot behind them, in learning types.

    Args:
        storage: The ring.
        indices: [B] integer rows.
        length: Steps to read; static. At least the longest of `gather_lengths`, or the rest of it is cut off.

    Returns:
        Episodes of `length + 1` slots. Only those slots are touched, not the whole rows.
    """
    timed = _read(storage, lambda values: values[indices, : length + 1])
    return timed._replace(
        seat=None if storage.seat is None else storage.seat[indices],
        players=None if storage.players is None else storage.players[indices].astype(jnp.int32),
    )


def gather_rows(storage: Storage, episodes: Array, slots: Array) -> EpisodeBatch:
    """Reads rows of several episodes, in learning types; who played them is left out.

    Args:
        storage: The ring.
        episodes: [rows, slots] integers, its row for every slot; -1 for none.
        slots: [rows, slots] integers, which slot of the episode; more than it has behind its end.

    Returns:
        So many rows of so many slots. Behind an episode's last view nothing is played and the action is -1, as before
        a first step.
    """
    slots = jnp.minimum(slots, storage.filled.shape[1] - 1)
    batch = _read(storage, lambda values: values[episodes, slots])
    played = batch.filled & (episodes >= 0)
    # One slot behind the last that was played holds a view, too.
    follows = jnp.pad(played[:, :-1], ((0, 0), (1, 0)))
    breaks = ~(played | follows)
    return batch._replace(
        filled=played,
        terminated=batch.terminated & played,
        actions=jnp.where(breaks[..., None], -1, batch.actions),
        breaks=breaks,
    )


def _read(storage: Storage, take: Callable[[Array], Array]) -> EpisodeBatch:
    """What `take` makes of everything that has slots, in learning types."""
    return EpisodeBatch(
        obs=take(storage.obs).astype(jnp.float32),
        state=take(storage.state).astype(jnp.float32),
        avail=take(storage.avail),
        actions=take(storage.actions).astype(jnp.int32),
        reward=take(storage.reward),
        terminated=take(storage.terminated),
        filled=take(storage.filled),
        seat=None,
        records={name: take(values).astype(jnp.float32) for name, values in storage.records.items()},
    )


def gather_lengths(storage: Storage, indices: Array) -> Array:
    """Steps played in each of the episodes at `indices` [...]; int32 of the same shape."""
    return storage.filled[indices].sum(axis=-1, dtype=jnp.int32)
