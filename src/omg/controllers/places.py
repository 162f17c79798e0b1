"""Where the others are, and where a subgoal says that they will be: `EnvSpec.seat_places` applied to beliefs.

A subgoal is decoded by its prior; where it stands for what the others do (`subgoal_of: others`), or for the global
state (`obs_is_state`), the decoded numbers hold a place for every other seat. In other views seats see each other in
ways of each game, and nothing is read off them.

What the others do is the *step* that leads to a slot: it says where each of them stood before it. The place that is
decoded therefore belongs to the slot before the one that the subgoal stands for.

Letters in shapes: A seats, J = A - 1 other seats, in the order in which they follow round the table, S state.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import jax.numpy as jnp
import numpy as np
from jax import Array

from omg.controllers.others import OthersSteps, steps_of_others
from omg.envs.places import Places, SeatPlace
from omg.modules.opponent_models.prior import Prior

if TYPE_CHECKING:
    from omg.config import Config
    from omg.envs.base import EnvSpec


@dataclass(frozen=True)
class PlaceReader:
    """Reads places off states and off subgoals; static."""

    steps: OthersSteps
    place: SeatPlace
    of_others: bool
    """Whether subgoals stand for what the others do; otherwise for the global state."""

    @property
    def early(self) -> int:
        """How many slots before the one that a subgoal stands for its places belong to."""
        return int(self.of_others)

    def standing(self, state: Array, seats: Array) -> Places:
        """Where the others of some seats really are.

        Args:
            state: [..., S].
            seats: [..., m] integers.

        Returns:
            Leaves [..., m, J].
        """
        everyone = self.place.read(self.steps.blocks_of(state))
        return Places(*(jnp.take_along_axis(each[..., None, :], self._others(seats), axis=-1) for each in everyone))

    def guessed(self, prior: Prior, subgoals: Array, seats: Array) -> Places:
        """Where subgoals [..., m, D] of some seats [..., m] say that the others will be: leaves [..., m, J]."""
        decoded = prior.decode(subgoals)
        if not self.of_others:
            everyone = self.place.read(self.steps.blocks_of(decoded))
            return Places(*(jnp.take_along_axis(each, self._others(seats), axis=-1) for each in everyone))
        by_seat = decoded.reshape(*decoded.shape[:-1], self.steps.n_agents - 1, -1)
        return self.place.read(by_seat[..., : self.steps.place_dim])

    def _others(self, seats: Array) -> Array:
        """[..., m] -> [..., m, J], who the others are."""
        return (seats[..., None] + 1 + np.arange(self.steps.n_agents - 1)) % self.steps.n_agents


def place_reader(config: Config, spec: EnvSpec) -> PlaceReader | None:
    """Of a configured game; None where subgoals tell no places."""
    of_others = config.subgoal_of == "others"
    if spec.seat_places is None or not spec.seat_blocks or not (of_others or config.obs_is_state):
        return None
    return PlaceReader(steps_of_others(spec), spec.seat_places, of_others)
