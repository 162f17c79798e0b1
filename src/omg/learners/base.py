"""What every learner provides."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol, TypeVar

from jax import Array

from omg.components import EpisodeBatch, Number
from omg.controllers.base import Controller
from omg.modules.opponent_models.prior import Prior
from omg.types import PyTree

S = TypeVar("S")
"""The state of a learner: a named tuple with everything that learning changes, such as parameters, targets, optimiser
and counters."""


class Kept(NamedTuple):
    """What of an episode a learner wants kept in the replay buffer."""

    columns: int | None = None
    """Number of seats whose observations are kept, namely its own; None: those of all seats."""
    state: bool = True
    """Whether the global state is kept."""
    records: Mapping[str, tuple[int, ...]] | None = None
    """What of the player's notes is kept: name -> shape of one time slot; None for none."""
    cut: bool = True
    """Whether batches are cut to their longest episode; every length is another compilation of the update."""
    portions: bool = False
    """Whether an update takes its episodes in portions of different lengths, too; see `omg.learners.seats`."""
    packs: bool = False
    """Whether it takes rows of several episodes, too; see `EpisodeBatch.breaks`."""
    blocks: bool = False
    """Whether it takes such rows in blocks, so that rows without an episode cost nothing; see `omg.learners.blocks`."""


class Learner(Protocol[S]):
    """Pure functions over a state S; the object itself holds only settings."""

    kept: Kept
    examines: bool
    """Whether `examine` has something to say about test episodes."""
    controls: tuple[str, ...]
    """Names of the players that `control` offers."""

    def init(self, key: Array) -> S:
        """The state before the first update."""
        ...

    def keep(self, batch: EpisodeBatch) -> EpisodeBatch:
        """What is stored of newly played episodes, in agreement with `kept`."""
        ...

    def update(
        self, state: S, batch: PyTree, episode: Array | int, t_env: Number, key: Array
    ) -> tuple[S, dict[str, Array]]:
        """One gradient update.

        Args:
            state: From `init` or the update before.
            batch: Sampled episodes, an `EpisodeBatch` of what `keep` left; with `kept.portions` perhaps several.
            episode: Scalar integer, episodes collected so far in the whole run.
            t_env: Scalar count, environment steps so far.
            key: Consumed.

        Returns:
            The new state, and metrics as float32 scalars by name (the same names at every update).
        """
        ...

    def policy(self, state: S) -> Controller | None:
        """The player that is being learned, to collect episodes with; None if it only watches."""
        ...

    def tested(self, state: S) -> Controller | Prior:
        """The same player as it is tested and saved; of a learner that only watches, the prior that it learns."""
        ...

    def control(self, state: S, name: str) -> Controller | Prior:
        """One of `controls`: a player to compare the tested one with on the same games."""
        ...

    def examine(self, state: S, batch: EpisodeBatch, key: Array) -> dict[str, Array]:
        """Further test metrics, from test episodes that were never trained on; often none.

        Args:
            state: From `init` or an update.
            batch: Test episodes with everything in them.
            key: Consumed.
        """
        ...
