"""What `recall_am` makes of the rounds played with the same others: rules, and how far each is to be believed.

Whoever was met in training is foretold by what was learned; whoever was not, is not, and the network that learned it
does not know that it does not know. So beside it stand rules that hold for anybody, made from this game alone, and
belief goes, by Bayes' rule, to whatever has foretold the ends of the rounds so far:

    w_e  ~  trust_e * product over the rounds that are over of  p_e(cell on which the other ended it)
    p    =  sum over e of  w_e p_e

with e: what was learned, and the rules

- *follows*: what followed when he last ended a round as he did the last one,
- *again*: as in the last round,
- *in turn*: as in the round before it,
- *anything*: the usual, so that nobody is believed who only did less badly than the others.

The usual is what was learned of anybody, its chances at the start of a game, when nothing has been seen yet. A rule
that has nothing to go by says so, too. Were all cells alike instead, then on a large board whoever says nothing would
lose to whoever was wrong.

Letters in shapes: B games, m seats that have a model, J co-players, R rounds, E ways to foretell, K cells.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

RULES = ("follows", "again", "in turn", "anything")
"""What stands beside what was learned, which is the first of the E."""
SLIP = 0.05
"""The chance that somebody does something else than was foretold: the usual."""
UNUSUAL = 0.1
"""The share of the usual that is spread over all cells."""


class Recalled(NamedTuple):
    """What is remembered of a game."""

    belief: Array
    """[B, m, J, E], logarithms of the weights, up to a constant."""
    ended: Array
    """[B, m, J, R] int32, the cell on which each round ended; -1 of those that are not over."""
    foretold: Array
    """[B, m, J, E, K], chances at the start of the round."""
    usual: Array
    """[B, m, J, K], chances of anybody."""
    cells: Array
    """[B, m, J] int32, where the others stood in the step before."""
    number: Array
    """[B, m] int32, the round; -1 before the first step."""

    @staticmethod
    def empty(batch: int, seats: int, others: int, rounds: int, cells: int, trust: float) -> Recalled:
        """Before a game."""
        shape, ways = (batch, seats, others), 1 + len(RULES)
        weights = np.full(ways, (1.0 - trust) / len(RULES))
        weights[0] = trust
        return Recalled(
            jnp.broadcast_to(jnp.log(jnp.asarray(weights, jnp.float32)), (*shape, ways)),
            jnp.full((*shape, rounds), -1, jnp.int32),
            jnp.full((*shape, ways, cells), 1.0 / cells),
            jnp.full((*shape, cells), 1.0 / cells),
            jnp.zeros(shape, jnp.int32),
            jnp.full((batch, seats), -1, jnp.int32),
        )

    def after(self, landed: Array, cells: Array, number: Array, learned: Array) -> Recalled:
        """One step later.

        Args:
            landed: [B, m, J] int32, where the step before led the others to.
            cells: [B, m, J] int32, where they stand now.
            number: [B, m] int32, the round now.
            learned: [B, m, J, K], the chances of what was learned, now.
        """
        begins = number != self.number
        over = (begins & (self.number >= 0))[..., None]
        which = jnp.arange(self.ended.shape[-1]) == self.number[..., None, None]
        ended = jnp.where(over[..., None] & which, landed[..., None], self.ended)
        came = jnp.take_along_axis(self.foretold, landed[..., None, None], axis=-1)[..., 0]
        belief = self.belief + jnp.where(over[..., None], jnp.log(came), 0.0)
        first = (self.number < 0)[..., None, None]
        usual = jnp.where(first, (1.0 - UNUSUAL) * learned + UNUSUAL / learned.shape[-1], self.usual)
        foretold = foretelling(learned, ended, number, usual)
        foretold = jnp.where(begins[..., None, None, None], foretold, self.foretold)
        return Recalled(belief, ended, foretold, usual, cells, number)

    def weights(self) -> Array:
        """[B, m, J, E], which add up to one."""
        return jax.nn.softmax(self.belief)

    def chances(self, learned: Array) -> Array:
        """[B, m, J, K], of the end of this round, with what was learned as it speaks now."""
        now = self.foretold.at[..., 0, :].set(with_slips(learned, self.usual))
        return (self.weights()[..., None] * now).sum(axis=-2)


def foretelling(learned: Array, ended: Array, number: Array, usual: Array) -> Array:
    """The chances of all cells by every way to foretell, [B, m, J, E, K].

    Args:
        learned: [B, m, J, K].
        ended: [B, m, J, R] int32, -1 of rounds that are not over.
        number: [B, m] int32, the round that is foretold.
        usual: [B, m, J, K].
    """
    cells, rounds = learned.shape[-1], np.arange(ended.shape[-1])
    number = jnp.broadcast_to(number[..., None], ended.shape[:-1])

    def end_of(which: Array) -> Array:
        """Of rounds [B, m, J] the cell, -1 where there is none."""
        found = jnp.take_along_axis(ended, jnp.maximum(which, 0)[..., None], axis=-1)[..., 0]
        return jnp.where(which >= 0, found, -1)

    last = end_of(number - 1)
    alike = (ended == last[..., None]) & (last >= 0)[..., None] & (rounds < number[..., None] - 1)
    before = jnp.max(jnp.where(alike, rounds, -2), axis=-1)
    said = jnp.stack([end_of(before + 1), last, end_of(number - 2), jnp.full_like(last, -1)], axis=-1)
    anybody = usual[..., None, :]
    by_rule = jnp.where((said >= 0)[..., None], jax.nn.one_hot(said, cells), anybody)
    return with_slips(jnp.concatenate([learned[..., None, :], by_rule], axis=-2), anybody)


def with_slips(chances: Array, usual: Array) -> Array:
    """[..., K], of which nothing is impossible any more."""
    return (1.0 - SLIP) * chances + SLIP * usual
