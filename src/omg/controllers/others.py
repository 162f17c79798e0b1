"""What the others do, step by step, and where they are: what subgoals stand for with `subgoal_of: others` or `places`.

A coming view also shows what the agent itself will have done, which is its own choice and no news about the others. So
this leaves the own seat out. Of every other seat, in the order in which they follow round the table, there is

    [ what the state says of it | the action it takes there, one-hot ]

of the step that leads to a slot; nobody has done anything before the first slot, which holds zeros. Place and action
together say where a step ends, also where the next view no longer shows it (a round that is over).

A game says where its state speaks of single seats (`EnvSpec.seat_blocks`). Of one that does not, the seats'
observations stand in.

With `subgoal_of: places` a slot stands for where the others *are* in it, three numbers for each of them:

    x, y, and 1 as long as it is in the game

in the units of the game's picture (`EnvSpec.seat_places`). Who has left stays where it was seen last. Numbers that are
places make a small and exact prior, and the mean of two of them lies between them, which that of two pictures does not.

Letters in shapes: B episodes, T steps, A seats, m seats that learn, U actions, F features of the others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
from jax import Array

from omg.envs.places import Positions, SeatPlace
from omg.errors import UserError
from omg.modules.opponent_models.base import others_of

if TYPE_CHECKING:
    from omg.components import EpisodeBatch
    from omg.config import Config
    from omg.envs.base import EnvSpec


@dataclass(frozen=True)
class OthersSteps:
    """Reads off episodes what the others did; static."""

    n_agents: int
    n_actions: int
    obs_dim: int
    blocks: tuple[tuple[int, int], ...]
    """`EnvSpec.seat_blocks`."""

    @property
    def reads_state(self) -> bool:
        """Whether it reads the global state; otherwise the observations of all seats."""
        return bool(self.blocks)

    @property
    def place_dim(self) -> int:
        """Numbers that say what one seat is."""
        return sum(width for _, width in self.blocks) if self.blocks else self.obs_dim

    @property
    def dim(self) -> int:
        """F."""
        return (self.n_agents - 1) * (self.place_dim + self.n_actions)

    def places(self, batch: EpisodeBatch) -> Array:
        """[B, T+1, A, `place_dim`], what is said of every seat."""
        return self.blocks_of(batch.state) if self.blocks else batch.obs

    def blocks_of(self, state: Array) -> Array:
        """What a state [..., S] says of every seat, [..., A, `place_dim`]; of games that have blocks."""
        seats = self.n_agents
        parts = [
            state[..., start : start + seats * width].reshape(*state.shape[:-1], seats, width)
            for start, width in self.blocks
        ]
        return jnp.concatenate(parts, axis=-1)

    def along(self, batch: EpisodeBatch, seats: Array | None) -> Array:
        """What the others of each seat did in the step before every slot.

        Args:
            batch: Episodes with what this reads: the state, or the observations of all seats.
            seats: [B, m] integers; None for all seats.

        Returns:
            [B, T+1, m, F] float32.
        """
        if seats is None:
            seats = jnp.broadcast_to(jnp.arange(self.n_agents), (batch.actions.shape[0], self.n_agents))
        steps = jnp.concatenate([self.places(batch), jax.nn.one_hot(batch.actions, self.n_actions)], axis=-1)
        of_others = others_of(steps[:, :-1], seats)
        return jnp.pad(of_others.reshape(*of_others.shape[:3], -1), ((0, 0), (1, 0), (0, 0), (0, 0)))

    def place_in(self, by_seat: Array, place: SeatPlace) -> Positions:
        """The places in decoded numbers [..., J, `place_dim` + U], as the game tells them: leaves [..., J]."""
        return place.read(by_seat[..., : self.place_dim])


@dataclass(frozen=True)
class OthersPlaces:
    """Reads off episodes where the others are; static."""

    steps: OthersSteps
    place: SeatPlace
    round_steps: int | None = None
    """Where slots stand for the ends of rounds, the steps of a round: the slot in which one is over shows where the
    others were last seen in it, not the start of the next."""
    reads_state = True
    """See `OthersSteps.reads_state`."""

    @property
    def dim(self) -> int:
        """F."""
        return 3 * (self.steps.n_agents - 1)

    def along(self, batch: EpisodeBatch, seats: Array | None) -> Array:
        """Where the others of each seat are in every slot; arguments and shapes as of `OthersSteps.along`."""
        if seats is None:
            everyone = jnp.arange(self.steps.n_agents)
            seats = jnp.broadcast_to(everyone, (batch.actions.shape[0], self.steps.n_agents))
        places = self.place.read(self.steps.blocks_of(batch.state))
        slots = jnp.arange(places.x.shape[1])
        shown = slots
        if self.round_steps is not None:
            shown = jnp.where((slots % self.round_steps == 0) & (slots > 0), slots - 1, slots)
        last = jnp.broadcast_to(slots[:, None], places.x.shape)
        if self.place.leaves:
            # The last slot up to this one in which the seat was in the game.
            last = jax.lax.cummax(jnp.where(places.there, last, 0), axis=1)
        seen = jnp.take_along_axis(last, jnp.broadcast_to(shown[:, None], last.shape), axis=1)
        x, y = (jnp.take_along_axis(values, seen, axis=1) for values in places[:2])
        each = jnp.stack([x, y, places.there.astype(jnp.float32)], axis=-1)
        return others_of(each, seats).reshape(*each.shape[:2], seats.shape[1], -1)

    def place_in(self, by_seat: Array, place: SeatPlace) -> Positions:
        """The places in decoded numbers [..., J, 3]: leaves [..., J]."""
        del place
        x, y, there = jnp.moveaxis(by_seat, -1, 0)
        return Positions(x, y, there > 0.5)


def steps_of_others(spec: EnvSpec) -> OthersSteps:
    """Of a game."""
    return OthersSteps(spec.n_agents, spec.n_actions, spec.obs_dim, spec.seat_blocks)


def subgoal_steps(config: Config, spec: EnvSpec) -> OthersSteps | OthersPlaces | None:
    """What subgoals stand for, where that is the others (`subgoal_of`); None: it is what seats see.

    Raises:
        UserError: `subgoal_of: places` in a game that does not say where players are.
    """
    if config.subgoal_of == "places":
        if spec.seat_places is None or not spec.seat_blocks:
            raise UserError(
                f"subgoal_of: got places, but {spec.name} {spec.scenario} does not say where its players are. "
                f"Allowed: view, others."
            )
        rounds = spec.round_steps if config.omg_candidates == "rounds" else None
        return OthersPlaces(steps_of_others(spec), spec.seat_places, rounds)
    return steps_of_others(spec) if config.subgoal_of == "others" else None
