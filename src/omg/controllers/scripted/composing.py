"""What scripts are put together from: several good actions of which one is drawn, and one script or another."""

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


class EitherScript(ScriptedPlayer):
    """Acts like one player where something holds, and else like another."""

    where: ScriptedPlayer
    """Acts where it holds."""
    otherwise: ScriptedPlayer

    @abstractmethod
    def holds(self, obs: Array) -> Array:
        """[N, m, O] -> [N, m] bool."""

    def choose(self, obs: Array, avail: Array, seats: Array, key: Array) -> Array:
        """See `ScriptedPlayer.choose`."""
        # Of two choices by the same key only one is ever heard.
        yes, no = (player.choose(obs, avail, seats, key) for player in (self.where, self.otherwise))
        return jnp.where(self.holds(obs), yes, no)

    def probabilities(self, obs: Array, avail: Array, seats: Array) -> Array:
        """See `ScriptedPlayer.probabilities`."""
        yes, no = (player.probabilities(obs, avail, seats) for player in (self.where, self.otherwise))
        return jnp.where(self.holds(obs)[..., None], yes, no)


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
