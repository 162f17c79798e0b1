"""What a seat of a board game observes: a stack of binary maps, then a few numbers."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from omg.envs.grid.bits import Board


@dataclass(frozen=True)
class MapView:
    """Where things are in an observation [..., O] and in a state [..., S].

    Both begin with the map: `channels` binary pictures of `height` x `width` cells, row by row. The first `players`
    channels show one player each, the others what stands on the field, in the order of `pieces`. In an observation the
    first channel is the own player and the other players follow in the order of their seats; in a state all players
    are in the order of their seats. After the map come, in an observation, the own legal actions; then the share of
    the steps that have passed; then the last action of every player as one-hot, in the order of the channels.

    Hashable, so that networks and scripts can keep it as a static field.
    """

    players: int
    pieces: tuple[str, ...]
    height: int
    width: int
    actions: int

    @property
    def channels(self) -> int:
        """Number of binary pictures."""
        return self.players + len(self.pieces)

    @property
    def board(self) -> Board:
        """The field."""
        return Board(self.height, self.width)

    @property
    def map_size(self) -> int:
        """Numbers of the map: channels * height * width."""
        return self.channels * self.height * self.width

    @property
    def obs_dim(self) -> int:
        """Numbers of an observation: the map, legal actions, time, last actions."""
        return self.map_size + self.actions + 1 + self.players * self.actions

    @property
    def state_dim(self) -> int:
        """Numbers of a state: the map, time, last actions."""
        return self.map_size + 1 + self.players * self.actions

    def channel(self, piece: str) -> int:
        """The channel that shows `piece`."""
        return self.players + self.pieces.index(piece)

    def maps(self, numbers: Array) -> Array:
        """The map of observations or states: [..., O] or [..., S] -> [..., channels, height, width]."""
        return numbers[..., : self.map_size].reshape(*numbers.shape[:-1], self.channels, self.height, self.width)

    def rest(self, numbers: Array) -> Array:
        """What comes after the map: [..., O] -> [..., O - map_size], likewise for states."""
        return numbers[..., self.map_size :]

    def legal(self, obs: Array) -> Array:
        """The own legal actions of observations: [..., O] -> [..., actions]."""
        return obs[..., self.map_size : self.map_size + self.actions]

    def time(self, numbers: Array) -> Array:
        """The share of the steps that have passed: [..., O] or [..., S] -> [..., 1]."""
        after = self.players * self.actions
        return numbers[..., -after - 1 : -after]

    def last_actions(self, numbers: Array) -> Array:
        """Last actions, all zero for none: [..., O] or [..., S] -> [..., players, actions]."""
        last = numbers[..., -self.players * self.actions :]
        return last.reshape(*numbers.shape[:-1], self.players, self.actions)


def own_first(players: int) -> np.ndarray:
    """[players, players]: for every seat itself, then the others in the order of their seats."""
    seats = np.arange(players)
    return np.stack([np.concatenate([[seat], np.delete(seats, seat)]) for seat in seats])


def marked(cell: Array, there: Array, cells: int) -> Array:
    """Every piece on a picture of its own: cell numbers [..., n] and whether it is there -> [..., n, cells] bool."""
    return (cell[..., None] == np.arange(cells, dtype=np.uint8)) & there[..., None]


def numbered(picture: Array, count: int) -> tuple[Array, Array]:
    """The marked cells of a picture as pieces, numbered row by row: the opposite of `marked`.

    Args:
        picture: [..., cells] bool, with at most `count` marks.
        count: number of pieces.

    Returns:
        their cells [..., count] uint8, 0 for those that are not there, and whether they are there [..., count] bool.
    """
    cells = picture.shape[-1]
    rank, _ = jax.lax.top_k(jnp.where(picture, cells - np.arange(cells), 0), count)
    there = rank > 0
    return jnp.where(there, cells - rank, 0).astype(jnp.uint8), there


def chosen(actions: Array) -> Array:
    """The opposite of `one_hot`: [..., n, count] -> [..., n] int8, -1 where there is no mark."""
    return jnp.where(jnp.any(actions > 0, axis=-1), jnp.argmax(actions, axis=-1), -1).astype(jnp.int8)


def one_hot(actions: Array, count: int) -> Array:
    """[..., n] int8 -> [..., n, count] bool; a negative action gives no mark."""
    return actions[..., None] == np.arange(count, dtype=np.int8)


def seat_maps(player: Array, there: Array, shared: Array) -> Array:
    """The maps of all seats.

    Args:
        player: [B, A] uint8, their cells.
        there: [B, A] bool, players still in the game.
        shared: [B, K, cells] bool, the pictures that all seats have in common.

    Returns:
        [B, A, (A + K) * cells] bool.
    """
    batch, players = player.shape
    order = own_first(players)
    own = marked(player[:, order], there[:, order], shared.shape[-1])
    common = jnp.broadcast_to(shared[:, None], (batch, players, *shared.shape[1:]))
    return jnp.concatenate([own, common], axis=2).reshape(batch, players, -1)
