"""Where the others are, and where a subgoal says that they will be: `EnvSpec.seat_places` applied to beliefs.

A subgoal is decoded by its prior. What it stands for (`subgoal_of`) decides what is read off the decoded numbers:

- `places`: the places themselves;
- `others`: what the state says of every other seat, which tells its place. That is the *step* that leads to a slot: it
  says where each of them stood before it, so the place belongs to the slot before;
- `view`, where seats see the global state (`obs_is_state`): the same, of the slot itself. In other views seats see each
  other in ways of each game, and nothing is read off them.

Letters in shapes: A seats, J = A - 1 other seats, in the order in which they follow round the table, S state, B
episodes, T steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from omg.controllers.others import OthersPlaces, OthersSteps, steps_of_others, subgoal_steps
from omg.envs.places import Positions, SeatPlace
from omg.modules.opponent_models.prior import Prior

if TYPE_CHECKING:
    from omg.config import Config
    from omg.envs.base import EnvSpec


class PlaceErrors(NamedTuple):
    """How far guesses of the others' places are from where they really were, in the units of the game's picture."""

    guess: Array
    """[...] distance of the guess."""
    stay: Array
    """[...] distance of the present place: `they stay where they are`."""
    counted: Array
    """[...] bool, who counts: the other is in the game now and then, and the seat itself is now."""


def place_errors(guess: Positions, now: Positions, then: Positions, alive: Array) -> PlaceErrors:
    """Of guesses made now for a time to come; leaves [..., J], and whether the seat itself is in the game [...]."""
    return PlaceErrors(
        jnp.hypot(guess.x - then.x, guess.y - then.y),
        jnp.hypot(now.x - then.x, now.y - then.y),
        now.there & then.there & alive[..., None],
    )


@dataclass(frozen=True)
class PlaceReader:
    """Reads places off states and off subgoals; static."""

    steps: OthersSteps
    place: SeatPlace
    told: OthersSteps | OthersPlaces | None
    """What subgoals stand for; None: the global state."""
    horizon: int
    """H."""
    round_steps: int | None
    """Steps of a round, where subgoals stand for the ends of rounds."""

    def stands_for(self, slots: Array, length: Array) -> Array:
        """The slots that the subgoals of some slots are compared with.

        H steps ahead or at the end of the round, and at the latest behind the last step.

        Args:
            slots: [..., T] integers.
            length: [..., 1] steps of each episode.
        """
        steps = self.round_steps
        ahead = slots + self.horizon if steps is None else (slots // steps + 1) * steps
        return jnp.minimum(ahead, length)

    def later(self, slots: Array, length: Array) -> Array:
        """The slots that their *places* belong to: a slot before those where they are the places of the slot before."""
        early = isinstance(self.told, OthersSteps) or (self.told is not None and self.round_steps is not None)
        return self.stands_for(slots, length) - int(early)

    def standing(self, state: Array, seats: Array) -> Positions:
        """Where the others of some seats really are.

        Args:
            state: [..., S].
            seats: [..., m] integers.

        Returns:
            Leaves [..., m, J].
        """
        everyone = self.place.read(self.steps.blocks_of(state))
        return Positions(*(jnp.take_along_axis(each[..., None, :], self._others(seats), axis=-1) for each in everyone))

    def alive(self, state: Array, seats: Array) -> Array:
        """Whether the seats [..., m] themselves are in the game: [..., m] bool."""
        return jnp.take_along_axis(self.place.read(self.steps.blocks_of(state)).there, seats, axis=-1)

    def guessed(self, prior: Prior, subgoals: Array, seats: Array) -> Positions:
        """Where subgoals [..., m, D] of some seats [..., m] say that the others will be: leaves [..., m, J]."""
        decoded = prior.decode(subgoals)
        if self.told is None:
            everyone = self.place.read(self.steps.blocks_of(decoded))
            return Positions(*(jnp.take_along_axis(each, self._others(seats), axis=-1) for each in everyone))
        by_seat = decoded.reshape(*decoded.shape[:-1], self.steps.n_agents - 1, -1)
        return self.told.place_in(by_seat, self.place)

    def errors(self, guess: Positions, state: Array, seats: Array, length: Array) -> PlaceErrors:
        """How far guesses along episodes are from what came.

        Args:
            guess: Leaves [B, T, m, J], of the first T slots.
            state: [B, T+1, S].
            seats: [B, m] integers.
            length: [B] steps played.

        Returns:
            Leaves [B, T, m, J]; steps that were not played do not count.
        """
        steps = guess.x.shape[1]
        timed = jnp.broadcast_to(seats[:, None], (*state.shape[:2], seats.shape[-1]))
        standing, alive = self.standing(state, timed), self.alive(state, timed)
        now = jnp.arange(steps)
        later = jnp.broadcast_to(self.later(now[None], length[:, None]), (len(state), steps))[..., None, None]
        then = Positions(*(jnp.take_along_axis(values, later, axis=1) for values in standing))
        played = (now < length[:, None])[..., None]
        present = Positions(*(values[:, :steps] for values in standing))
        return place_errors(guess, present, then, alive[:, :steps] & played)

    def _others(self, seats: Array) -> Array:
        """[..., m] -> [..., m, J], who the others are."""
        return (seats[..., None] + 1 + np.arange(self.steps.n_agents - 1)) % self.steps.n_agents


def place_reader(config: Config, spec: EnvSpec) -> PlaceReader | None:
    """Of a configured game; None where subgoals tell no places."""
    told = subgoal_steps(config, spec)
    if spec.seat_places is None or not spec.seat_blocks or not (told is not None or config.obs_is_state):
        return None
    rounds = spec.round_steps if config.omg_candidates == "rounds" else None
    return PlaceReader(steps_of_others(spec), spec.seat_places, told, config.omg_horizon, rounds)
