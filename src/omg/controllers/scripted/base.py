"""What every scripted player is, and the one that needs no knowledge of the game."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, cast

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from omg.components.selectors import legal_chances, random_legal
from omg.errors import UserError

if TYPE_CHECKING:
    from omg.controllers.base import PlayerView
    from omg.envs.base import Observation


class ScriptedPlayer(eqx.Module):
    """Follows fixed rules, by what it sees now and by nothing else.

    There is nothing in it that could be learned; where scripts differ in numbers alone, these are its leaves. It
    satisfies `base.Player` in single seats, `base.Policy` in all seats and `base.Likely`. It reads the observation,
    never the state, so it fits agents of either `obs_is_state`.
    """

    @abstractmethod
    def choose(self, obs: Array, avail: Array, seats: Array, key: Array) -> Array:
        """The rules.

        Args:
            obs: [N, m, O], what m seats of N games see.
            avail: [N, m, U] bool.
            seats: [N, m] int32, their numbers.
            key: consumed.

        Returns:
            Legal actions [N, m] int32.
        """

    def probabilities(self, obs: Array, avail: Array, seats: Array) -> Array:
        """How likely `choose` is to take each action. Scripts that draw say it themselves; all others need not.

        Args:
            obs: [N, m, O].
            avail: [N, m, U] bool.
            seats: [N, m] int32.

        Returns:
            [N, m, U] float32, which sums to 1 over the actions.

        Raises:
            UserError: the script draws, and has not said how.
        """
        # With no key to draw from, rules that need one fail where they would otherwise pass for certain.
        without_key = cast(Array, None)
        try:
            chosen = self.choose(obs, avail, seats, without_key)
        except (TypeError, ValueError, AttributeError) as error:
            raise UserError(
                f"{type(self).__name__}: this script draws its actions at random and does not say how likely each is. "
                f"Give it the method `probabilities`; see docs/pools.md. ({error})"
            ) from error
        return jax.nn.one_hot(chosen, avail.shape[-1])

    def initial_seats(self, batch: int, seats: int) -> None:
        """No memory."""

    def chances(self, view: PlayerView, memory: None) -> tuple[Array, None]:
        """See `base.Likely.chances`."""
        return self.probabilities(view.obs, view.avail, view.seats), None

    def act_seats(
        self, view: PlayerView, memory: None, key: Array, epsilon: Array | float
    ) -> tuple[Array, None, dict[str, Array]]:
        """See `base.Player.act_seats`. Does not explore, stores nothing."""
        return self.choose(view.obs, view.avail, view.seats, key), None, {}

    def initial(self, batch: int, key: Array) -> None:
        """No memory."""

    def act(
        self, observation: Observation, memory: None, key: Array, epsilon: Array | float
    ) -> tuple[Array, None, dict[str, Array]]:
        """See `base.Policy.act`. Does not explore, stores nothing."""
        shape = observation.avail.shape[:2]
        seats = jnp.broadcast_to(jnp.arange(shape[1], dtype=jnp.int32), shape)
        return self.choose(observation.obs, observation.avail, seats, key), None, {}

    def lineup(self, memory: None) -> None:
        """One player in all seats."""


class RandomPlayer(ScriptedPlayer):
    """All legal actions are equally likely."""

    def choose(self, obs: Array, avail: Array, seats: Array, key: Array) -> Array:
        """See `ScriptedPlayer.choose`."""
        return random_legal(avail, key)

    def probabilities(self, obs: Array, avail: Array, seats: Array) -> Array:
        """See `ScriptedPlayer.probabilities`."""
        return legal_chances(avail)


def random_player(env: object) -> RandomPlayer:
    """The script `random`, for any game."""
    del env
    return RandomPlayer()
