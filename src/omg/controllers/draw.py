"""Who plays with whom: teams drawn for every game of a batch, as data and not as Python.

A team has A slots in the order of its name (`4iql3qmix1iql_omg`); the slots of each part are filled from that part's
own set of players. The slots are then laid round the table from a seat that is drawn too (`rotate`), so that the
algorithm that learns comes to play from every seat.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from omg.controllers.base import Lineup

LEARNER = -1
"""Stands for the algorithm that learns among the players of a lineup."""
MANNERS = ("homologue", "odd", "mixed", "varied")
"""`homologue`: one player for all seats of a part. `odd`: the same, but one seat of the part has another player.
`mixed`: a player of its own for every seat. `varied`: a third of the games each."""


class TeamSlots(NamedTuple):
    """Neighbouring slots of a team that are filled from one set of players."""

    slots: int
    players: tuple[int, ...]
    """Numbers in the squad; empty for the algorithm that learns."""


class TeamDraw(eqx.Module):
    """Draws teams; see the module's text. Static but for `fixed`."""

    parts: tuple[TeamSlots, ...] = eqx.field(static=True)
    manner: str = eqx.field(static=True, default="homologue")
    """One of MANNERS."""
    rotate: bool = eqx.field(static=True, default=True)
    """Whether the first slot's seat is drawn; otherwise it is seat 0."""
    turns: tuple[int, ...] = eqx.field(static=True, default=())
    """The seats that are drawn for the first slot; empty for all."""
    fixed: Lineup | None = None
    """Lineups to use as they are instead of drawing, for evaluation; needs `most`."""
    most: tuple[int, ...] = eqx.field(static=True, default=())
    """With `fixed`: the number of seats of each player of the squad."""

    @property
    def seats(self) -> int:
        """A."""
        return sum(part.slots for part in self.parts)

    @property
    def main_slots(self) -> tuple[int, ...]:
        """Slots of the algorithm that learns."""
        slots: list[int] = []
        first = 0
        for part in self.parts:
            if not part.players:
                slots += range(first, first + part.slots)
            first += part.slots
        return tuple(slots)

    def main_offsets(self) -> np.ndarray:
        """[m], how far each seat of the algorithm that learns is from its first one, going round the table."""
        slots = np.asarray(self.main_slots, np.int32)
        return slots - slots[0] if len(slots) else slots

    def main_seats(self, seat: Array) -> Array:
        """All seats of the algorithm that learns, from its first one: [B] -> [B, m]."""
        return (seat[:, None] + self.main_offsets()) % self.seats

    def __call__(self, key: Array, batch: int) -> tuple[Lineup, Array]:
        """Teams for `batch` games: who sits where, and the seats [B, m] of the algorithm that learns."""
        if self.fixed is not None:
            return self.fixed, self.main_seats(self.fixed.seat)
        keys = jax.random.split(key, len(self.parts) + 1)
        slots = jnp.concatenate(
            [self._fill(part, part_key, batch) for part, part_key in zip(self.parts, keys[1:], strict=True)], axis=1
        )
        turn = jnp.zeros(batch, jnp.int32)
        if self.rotate:
            turns = jnp.asarray(self.turns or range(self.seats), jnp.int32)
            turn = turns[_deal(jax.random.bits(keys[0], (batch + 1,)), len(turns))]
        first_main = self.main_slots[0] if self.main_slots else 0
        source = (jnp.arange(self.seats) - turn[:, None]) % self.seats
        players = jnp.take_along_axis(slots, source, axis=1)
        seat = ((turn + first_main) % self.seats).astype(jnp.int32)
        return Lineup(seat, players.astype(jnp.int32)), self.main_seats(seat)

    def seated(self, seats: tuple[int, ...] | None) -> TeamDraw:
        """The same draw, but the algorithm that learns only gets some seats; None for all.

        Raises:
            ValueError: It has too many seats for that.
        """
        if seats is None or not self.rotate or not self.main_slots:
            return self
        taken = [{(turn + slot) % self.seats for slot in self.main_slots} for turn in range(self.seats)]
        fitting = tuple(turn for turn, mine in enumerate(taken) if mine <= set(seats))
        if not fitting:
            raise ValueError(f"{len(self.main_slots)} seats do not fit into {len(seats)}")
        return dataclasses.replace(self, turns=fitting)

    def places(self, batch: int, first: int, number: int) -> int:
        """The most seats that any of the players `first` to `first + number - 1` can get in `batch` games."""
        if self.fixed is not None:
            return max(max(self.most[first : first + number]), 1)
        counts = np.zeros(number, np.int64)
        for part in self.parts:
            mine = [player - first for player in part.players if first <= player < first + number]
            if mine:
                counts[mine] += sum(self._most(part, games, manner) for games, manner in self._blocks(batch))
        return int(max(counts.max(), 1))

    def _blocks(self, batch: int) -> list[tuple[int, str]]:
        """The games of a batch by manner; their order in the batch means nothing."""
        if self.manner != "varied":
            return [(batch, self.manner)]
        third, rest = divmod(batch, 3)
        return [(third + (index < rest), manner) for index, manner in enumerate(("homologue", "odd", "mixed"))]

    @staticmethod
    def _most(part: TeamSlots, games: int, manner: str) -> int:
        """The most seats of a part that one of its players can get in `games` games."""
        if manner == "mixed":
            return -(-games * part.slots // len(part.players))
        # An odd seat is one seat less in the games of one player and one more in those of another.
        return -(-games // len(part.players)) * part.slots

    def _fill(self, part: TeamSlots, key: Array, batch: int) -> Array:
        """Players for the slots of a part, [B, slots]."""
        if not part.players:
            return jnp.full((batch, part.slots), LEARNER, jnp.int32)
        blocks = self._blocks(batch)
        keys = jax.random.split(key, len(blocks))
        filled = [
            self._fill_block(part, block_key, games, manner)
            for (games, manner), block_key in zip(blocks, keys, strict=True)
            if games
        ]
        return jnp.concatenate(filled)

    @staticmethod
    def _fill_block(part: TeamSlots, key: Array, games: int, manner: str) -> Array:
        players, number = jnp.asarray(part.players, jnp.int32), len(part.players)
        if manner == "mixed":
            cards = _deal(jax.random.bits(key, (games * part.slots + 1,)), number)
            return players[cards].reshape(games, part.slots)
        # All chances of a block in one call: random generators are what takes long to compile.
        bits = jax.random.bits(key, (2 * games + 2,))
        same = jnp.broadcast_to(_deal(bits[: games + 1], number)[:, None], (games, part.slots))
        if manner == "odd" and number > 1 and part.slots > 1:
            # One step for all games keeps the draw balanced.
            step = (1 + bits[-1] % (number - 1)).astype(jnp.int32)
            slot = (bits[games + 1 : -1, None] % part.slots).astype(jnp.int32)
            same = jnp.where(jnp.arange(part.slots) == slot, (same + step) % number, same)
        return players[same]


def _deal(bits: Array, number: int) -> Array:
    """Cards 0 to `number - 1` from a shuffled deck with equally many of each, give or take one.

    Args:
        bits: [draws + 1] uint32, random.
        number: Of different cards.

    Returns:
        [draws] int32.
    """
    # The offset decides whose cards the last round is short of.
    offset = (bits[-1] % number).astype(jnp.int32)
    return (jnp.argsort(bits[:-1]).astype(jnp.int32) + offset) % number
