"""What the others do, step by step: what subgoals stand for with `subgoal_of: others`.

A coming view also shows what the agent itself will have done, which is its own choice and no news about the others. So
this leaves the own seat out. Of every other seat, in the order in which they follow round the table, there is

    [ what the state says of it | the action it takes there, one-hot ]

of the step that leads to a slot; nobody has done anything before the first slot, which holds zeros. Place and action
together say where a step ends, also where the next view no longer shows it (a round that is over).

A game says where its state speaks of single seats (`EnvSpec.seat_blocks`). Of one that does not, the seats'
observations stand in.

Letters in shapes: B episodes, T steps, A seats, m seats that learn, U actions, F features of the others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
from jax import Array

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


def steps_of_others(spec: EnvSpec) -> OthersSteps:
    """Of a game."""
    return OthersSteps(spec.n_agents, spec.n_actions, spec.obs_dim, spec.seat_blocks)


def subgoal_steps(config: Config, spec: EnvSpec) -> OthersSteps | None:
    """What subgoals stand for, where that is what the others do (`subgoal_of`); None: it is what seats see."""
    return steps_of_others(spec) if config.subgoal_of == "others" else None
