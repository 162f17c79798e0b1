"""What a planning player makes of the others: the part of HOP that another model of them replaces.

An `Inference` follows each co-player in the course of an episode, says what every search tree starts from and which
`Judge` knows what to do with that, and labels played episodes for learning. `ActionInference` is direct opponent
modelling: the others' networks are told nothing. HOP has beliefs about goals (`planning.goals`), HOP+ infers subgoals
(`planning.subgoals`). A new one is a class and a line in `INFERENCES`; its name is then a value of the key `hop_model`.

Letters in shapes: N games, f seats that are planned for, J co-players of each, A seats, G goals, K trees, B episodes,
T steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Generic, NamedTuple, Protocol

import jax.numpy as jnp
from jax import Array

from omg.components.selectors import legal_softmax
from omg.envs.grid import GridGame
from omg.envs.grid.state import State
from omg.modules.opponent_models.base import ModelSizes
from omg.modules.opponent_models.prior import Prior
from omg.modules.planning import CoPlayersNetwork
from omg.modules.told import Expectation
from omg.planning.beliefs import BeliefSettings
from omg.planning.minds import Judgement, Minds
from omg.planning.search import Judge
from omg.types import PyTree


@dataclass(frozen=True)
class InferenceSettings:
    """Static."""

    samples: int
    """K, trees for each decision."""
    beliefs: BeliefSettings
    """Of models that have beliefs."""
    subgoals: ModelSizes | None = None
    """Of models that infer subgoals."""
    draws: bool = True
    """Whether each tree has subgoals of its own, drawn from what is inferred; otherwise all have the mean."""
    features: str = "inferred"
    """What becomes of subgoals: `inferred` (used as they are), `zero`, or `shuffled` (each game's trees start from the
    history of another game)."""


class Moment(NamedTuple, Generic[State]):
    """One step of N games as a player sees it."""

    before: State
    """The positions of the step before, leaves [N, ...]; at time 0 anything."""
    last_actions: Array
    """[N, A] integers, what was done there; -1 at time 0."""
    state: State
    """The positions now, leaves [N, ...]."""
    seats: Array
    """[N, f] int32."""


class Inferred(NamedTuple):
    """What is made of a moment."""

    memory: PyTree
    """For the next one, leaves [N, ...]."""
    trees: PyTree
    """What each tree starts from, leaves [N, f, K, ...]."""
    record: dict[str, Array]
    """What is stored with the step, name -> [N, f, ...]."""


class Labels(NamedTuple):
    """What the co-players' networks learn from in B episodes."""

    goal: Array | None
    """[B, T, A] what each player is taken to have been after, as its network is told it; None for nothing."""
    known: Array
    """[B, T, A] bool, steps to learn from."""
    achievement: Array | None
    """[B, A] what each player's episode tells the outset; None where there is none."""


class Inference(Protocol[State]):
    """Built as `Class(game, settings)`; holds no arrays. Its memory and what trees start from are its own pytrees."""

    infers_subgoals: ClassVar[bool]
    """Whether it needs `InferenceSettings.subgoals`."""
    goal_dim: int
    """Width of the goals that co-players' networks are told; 0 for none."""
    own_goal_dim: int
    """Width of what the focal player's own network is told of them; 0 for nothing."""
    model_sizes: ModelSizes | None
    """Of the model that infers subgoals; None for none."""
    turns: bool
    """Whether what it tells networks is known for boards that are turned or mirrored, see `turned`."""

    def __init__(self, game: GridGame[State], settings: InferenceSettings) -> None:
        """Holds the rules; settings are static."""
        ...

    def new_outset(self, *lead: int) -> Array:
        """What is known before the first episode, [*lead, achievements]; no achievements where none are told apart."""
        ...

    def learn_outset(self, outset: Array, achievement: Array) -> Array:
        """Follows episodes one after the other: [..., achievements] and [E, ...] -> [..., achievements]."""
        ...

    def initial(self, games: int, seats: int) -> PyTree:
        """Memory before the first step of `games` episodes."""
        ...

    def infer(self, minds: Minds, outset: Array, moment: Moment[State], memory: PyTree, key: Array) -> Inferred:
        """Takes a step of the games into account.

        Args:
            minds: the networks, leaves [f, ...], or [1, ...] for all seats alike.
            outset: [f, J, achievements], or [1, J, achievements] for all seats alike.
            moment: what is seen.
            memory: from `initial` or the step before.
            key: consumed.
        """
        ...

    def judge(self, minds: Minds, trees: int) -> Judge[State, PyTree]:
        """Who looks at positions in the trees, so many for each set of networks."""
        ...

    def expect(
        self, others: CoPlayersNetwork, sight: tuple[Array, Array], legal: Array, state: State, record: dict[str, Array]
    ) -> Array:
        """What one seat expects of its co-players in M positions, everything that they may be after taken together.

        Args:
            others: the seat's network for them.
            sight: maps [M, C, height, width] and time [M], see `GridGame.sight`.
            legal: [M, J, U] bool, of the co-players.
            state: the positions, leaves [M, ...], with the numbers that pieces had while the game was played.
            record: what `infer` recorded there, name -> [M, ...].

        Returns:
            chances [M, J, U].
        """
        ...

    def labels(self, states: State, actions: Array, played: Array) -> Labels:
        """What was played in B episodes: states with leaves [B, T, ...], actions [B, T, A], played [B, T] bool."""
        ...

    def shown(self, state: State, seats: Array) -> dict[str, Array]:
        """What `expects` needs to know of the positions besides the records of `infer`: name -> [N, f, ...].

        Args:
            state: the positions, leaves [N, ...].
            seats: [N, f].
        """
        ...

    def expects(self, records: dict[str, Array], prior: Prior | None) -> tuple[Expectation, ...]:
        """What was made of the others, for people to look at.

        Args:
            records: of played episodes, name -> [B, T, f, ...]: of `infer` and `shown`.
            prior: the space of subgoals, where there is one.
        """
        ...

    def turned(self, goal: Array | None, cell_to: Array) -> Array | None:
        """What the labels would be had the board been turned.

        Args:
            goal: [..., J], of `Labels.goal`.
            cell_to: [..., cells] int32, where each cell has gone (`omg.envs.grid.symmetry`).
        """
        ...


class ActionInference(Generic[State]):
    """Nothing is inferred: what a co-player will do depends on the position alone."""

    goal_dim = 0
    own_goal_dim = 0
    infers_subgoals: ClassVar[bool] = False
    model_sizes: ModelSizes | None = None
    turns = True

    def __init__(self, game: GridGame[State], settings: InferenceSettings) -> None:
        self.game, self.settings = game, settings

    def new_outset(self, *lead: int) -> Array:
        """See `Inference.new_outset`: none."""
        return jnp.zeros((*lead, 0))

    def learn_outset(self, outset: Array, achievement: Array) -> Array:
        """See `Inference.learn_outset`: nothing to follow."""
        del achievement
        return outset

    def initial(self, games: int, seats: int) -> PyTree:
        """See `Inference.initial`: nothing to remember."""
        del games, seats

    def infer(self, minds: Minds, outset: Array, moment: Moment[State], memory: PyTree, key: Array) -> Inferred:
        """See `Inference.infer`: the trees differ by their luck alone."""
        del minds, outset, memory, key
        return Inferred(None, jnp.zeros((*moment.seats.shape, self.settings.samples, 1), jnp.int16), {})

    def judge(self, minds: Minds, trees: int) -> Judge[State, PyTree]:
        """See `Inference.judge`."""
        return Judgement(self.game, minds, trees=trees)

    def expect(
        self, others: CoPlayersNetwork, sight: tuple[Array, Array], legal: Array, state: State, record: dict[str, Array]
    ) -> Array:
        """See `Inference.expect`."""
        del state, record
        return legal_softmax(others(*sight), legal)

    def labels(self, states: State, actions: Array, played: Array) -> Labels:
        """See `Inference.labels`: every step tells something."""
        del states
        return Labels(None, jnp.broadcast_to(played[..., None], actions.shape), None)

    def shown(self, state: State, seats: Array) -> dict[str, Array]:
        """See `Inference.shown`: nothing."""
        del state, seats
        return {}

    def expects(self, records: dict[str, Array], prior: Prior | None) -> tuple[Expectation, ...]:
        """See `Inference.expects`: nothing."""
        del records, prior
        return ()

    def turned(self, goal: Array | None, cell_to: Array) -> Array | None:
        """See `Inference.turned`: nothing to turn."""
        del cell_to
        return goal
