"""What a seat of a board game observes: a stack of binary maps, then a few numbers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from jax import Array

from omg.envs.grid.board import Board


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


@cache
def own_first(players: int) -> np.ndarray:
    """[players, players]: for every seat itself, then the others in the order of their seats; not to be changed."""
    seats = np.arange(players)
    order = np.stack([np.concatenate([[seat], np.delete(seats, seat)]) for seat in seats])
    order.setflags(write=False)
    return order
