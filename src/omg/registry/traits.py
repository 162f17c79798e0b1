"""What parts say about themselves, so that nobody has to know them by name: one class of traits for each kind."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from omg.registry.keys import Keys


@dataclass(frozen=True, kw_only=True)
class Traits:
    """Of any part."""

    sections: tuple[type[Keys], ...] = ()
    """The settings that it reads. A key in them that names another part brings that part's settings along."""


class ModelTraining(Enum):
    """How an opponent model learns."""

    NONE = "none"
    """Not at all."""
    SUPERVISED = "supervised"
    """By its own `loss`, from what the others were seen to do."""
    SUBGOALS = "subgoals"
    """Together with the subgoals that are selected for it in hindsight, and with their prior."""


@dataclass(frozen=True, kw_only=True)
class LearnerTraits(Traits):
    """Of a learner."""

    on_policy: bool = False
    """It uses exactly the episodes just played, each round once."""
    plans: bool = False
    """Its player searches the game itself."""
    watches: bool = False
    """It has no player of its own: it learns from the games of others."""
    models: ModelTraining = ModelTraining.SUPERVISED
    """Which opponent models it can train; NONE: there must be none."""
    learns_probabilities: bool = False
    """It learns the probabilities that actions are drawn with, so they must be drawn that way."""
    reads_cells: bool = False
    """It can learn with subgoals that are cells of a board (`omg_inference: cells`)."""
    mixes: bool = False
    """It can combine the seats' values by a mixer."""
    one_team_value: bool = False
    """It learns one value of the team's joint action, without a mixer."""
    own_networks: bool = False
    """It needs a feed-forward network of each seat's own."""
    controller: str = "basic_mac"
    """The controller that its player acts through in a team."""

    @property
    def infers_subgoals(self) -> bool:
        """Whether it trains a player together with the subgoals that it infers; it then has use for their prior."""
        return self.models is ModelTraining.SUBGOALS and not self.watches


@dataclass(frozen=True, kw_only=True)
class ModelTraits(Traits):
    """Of an opponent model."""

    absent: bool = False
    """It stands for having none."""
    training: ModelTraining = ModelTraining.SUPERVISED
    """How it learns."""
    told_players: bool = False
    """It is told who plays in which seat, so it needs a team of known players and cannot meet others."""
    stores_others: bool = False
    """It learns from what the other seats saw, so that has to be stored."""
    infers_cells: bool = False
    """It speaks of cells of a board, which the game's views have to tell of."""


@dataclass(frozen=True, kw_only=True)
class ControllerTraits(Traits):
    """Of a controller."""

    searches: bool = False
    """Its player searches the game itself."""
    seats_a_team: bool = False
    """It seats the player that learns among others; how that acts, its learner says."""


@dataclass(frozen=True, kw_only=True)
class SelectorTraits(Traits):
    """Of an action selector."""

    of_a_policy: bool = False
    """It takes the outputs for logits of probabilities that are learned."""
    without_floor: str | None = None
    """The selector of a policy that does the same if epsilon is 0."""


@dataclass(frozen=True, kw_only=True)
class AgentTraits(Traits):
    """Of an agent network."""

    recurrent: bool = False
    """It remembers earlier steps."""
    individual: bool = False
    """Every seat has a network of its own."""
    critic: str = "mlp"
    """The value critic of its kind."""

    @property
    def feed_forward_of_its_own(self) -> bool:
        """Whether every seat has a network of its own that remembers nothing."""
        return self.individual and not self.recurrent


@dataclass(frozen=True, kw_only=True)
class MixerTraits(Traits):
    """Of a mixer."""

    weightless: bool = False
    """It has no parameters."""


@dataclass(frozen=True, kw_only=True)
class OptimiserTraits(Traits):
    """Of an optimiser."""

    moments: bool = False
    """It keeps a running mean of gradients beside that of their squares."""


@dataclass(frozen=True, kw_only=True)
class RunnerTraits(Traits):
    """Of a runner: how it limits other keys."""

    one_game: bool = False
    """It plays one game at a time: `batch_size_run` is 1."""
    tests_in_rounds: bool = True
    """Tests are whole rounds of `batch_size_run` games, as in PyMARL, rather than any number of games at once."""
    stand_in: str | None = None
    """It plays JAX games only; others then go to the runner of this name."""


@dataclass(frozen=True, kw_only=True)
class ScriptTraits(Traits):
    """Of a player that follows fixed rules."""

    envs: tuple[str, ...] = ()
    """Names of the games it can play; empty: all."""


@dataclass(frozen=True, kw_only=True)
class TrackerTraits(Traits):
    """Of a tracker."""

    switch: str | None = None
    """A key that also turns it on."""
