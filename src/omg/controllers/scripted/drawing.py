"""Scripts that have several good actions and draw one of them."""

from __future__ import annotations

from abc import abstractmethod

import jax.numpy as jnp
from jax import Array

from omg.components.selectors import legal_chances, random_legal
from omg.controllers.scripted.base import ScriptedPlayer


class AnyOfScript(ScriptedPlayer):
    """Takes any of the actions that its rules call good, all equally likely."""

    @abstractmethod
    def good(self, obs: Array, avail: Array, seats: Array) -> Array:
        """The actions that it draws from: [N, m, U] bool, at least one of each seat and all of them legal.

        Args:
            obs: [N, m, O], what m seats of N games see.
            avail: [N, m, U] bool.
            seats: [N, m] int32, their numbers.
        """

    def choose(self, obs: Array, avail: Array, seats: Array, key: Array) -> Array:
        """See `ScriptedPlayer.choose`."""
        return random_legal(self.good(obs, avail, seats), key)

    def probabilities(self, obs: Array, avail: Array, seats: Array) -> Array:
        """See `ScriptedPlayer.probabilities`."""
        return legal_chances(self.good(obs, avail, seats))


def steps_closer(down: Array, right: Array) -> Array:
    """The steps of a shortest way on an open board, among the actions stay, north, south, west and east.

    Args:
        down: [...] rows from here down to the goal, negative if it is above.
        right: [...] columns from here to the right.

    Returns:
        [..., 5] bool; staying on the goal itself, and nowhere else.
    """
    arrived = (down == 0) & (right == 0)
    return jnp.stack([arrived, down < 0, down > 0, right < 0, right > 0], axis=-1)
