"""What changes during a run, what a round of it tells, and how functions of one seed become functions of all.

Letters in shapes: Z seeds, I iterations of a chunk, B games of a round.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

import jax
import numpy as np
from jax import Array

from omg.components import Count
from omg.components.counts import linear
from omg.components.replay import Storage
from omg.config import Config
from omg.controllers.base import Lineup
from omg.controllers.team import Squad
from omg.learners.base import S
from omg.modules.convolutions import on_cpu
from omg.runners.vector import EpisodeStats
from omg.training.tuned import Tuned
from omg.types import PyTree

SEEDS_AXIS = "seeds"
TEST_STREAM = 0x7E57
EXAMINE_STREAM = 0xE8A1

Seated = Squad | tuple[Squad, Lineup] | None
"""The frozen players of a run: the same for all seeds; or, with leaves [Z, ...], each seed's own and where they sit."""
T = TypeVar("T")


class RunState(NamedTuple, Generic[S]):
    """Everything that changes during a run. Z seeds lead every array except the shared episode counter."""

    learner: S
    """Parameters, targets and optimiser of the learner, [Z, ...]."""
    storage: Storage | None
    """Replay buffer, [Z, buffer_size, ...]; None where nothing is learned."""
    key: Array
    """[Z, 2] uint32."""
    t_env: Count
    """[Z], environment steps."""
    episodes: Array
    """[] int32, episodes played by each seed."""
    stored: Array
    """[] int32, episodes put into the replay buffer; fewer than `episodes` after a resume without its buffer."""
    squad: Seated = None
    """What the collector seats beside the player that learns; None without a team."""
    tuned: Tuned | None = None
    """What follows from the configuration alone and is in no checkpoint; None: what the learner was built with."""


class IterationLog(NamedTuple):
    """What one iteration tells the host; a chunk stacks them to [I, Z, ...]."""

    stats: EpisodeStats
    learner: dict[str, Array]
    """Means over the iteration's updates; all-zero while `updates` is 0."""
    updates: Array
    epsilon: Array
    t_env: Count
    active: Array
    """Whether the seed was still training (it stops at `t_max`)."""
    dropped: np.ndarray | None = None
    """Episodes lost since the log before because their game failed, those of tests included; None for JAX games."""


class SeedMap(NamedTuple):
    """Makes functions of one seed functions of all."""

    axis: str | None = SEEDS_AXIS
    """Name of the mapped axis; None where seeds are not mapped: one after another is computed as if it were alone."""

    def __call__(self, function: Callable[..., T]) -> Callable[..., T]:
        """`function` for arguments and results with a leading axis Z."""
        if self.axis is not None:
            return jax.vmap(function, axis_name=self.axis)

        def in_turn(*given: PyTree) -> T:
            return _alone(function, given) if _seeds(given) == 1 else jax.lax.map(lambda own: function(*own), given)

        return in_turn

    def at_once(self, function: Callable[..., T]) -> Callable[..., T]:
        """The same with all seeds at once in any case: for what moves more than it computes."""
        if self.axis is not None:
            return self(function)

        def together(*given: PyTree) -> T:
            return _alone(function, given) if _seeds(given) == 1 else jax.vmap(function)(*given)

        return together


def _seeds(given: tuple[PyTree, ...]) -> int:
    """Z."""
    return int(jax.tree.leaves(given)[0].shape[0])


def _alone(function: Callable[..., T], given: tuple[PyTree, ...]) -> T:
    """A function of the only seed there is, without any mapping."""
    found = function(*jax.tree.map(lambda leaf: leaf[0], given))
    return jax.tree.map(lambda leaf: leaf[None], found)


def seeds_on_device() -> SeedMap:
    """How a compiled program has its seeds: as an axis on an accelerator, which computes many as fast as one.

    A CPU computes one network faster than several side by side, which moreover wait for the longest game and the
    longest episode of all of them. There they take turns inside the program.
    """
    return SeedMap(None) if on_cpu() else SeedMap()


def split_key(key: Array) -> tuple[Array, Array, Array]:
    """The key of a seed's next iteration, and those of this one's play and samples."""
    next_key, play_key, sample_key = jax.random.split(key, 3)
    return next_key, play_key, sample_key


def exploration(config: Config, t_env: Count | Array) -> Array:
    """Epsilon after so many steps, of their shape."""
    return linear(t_env, config.epsilon_start, config.epsilon_finish, config.epsilon_anneal_time)
