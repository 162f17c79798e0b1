"""What a planning player makes of the others: the part of HOP that another model of them replaces.

An `Inference` follows each co-player in the course of an episode, says what every search tree starts from and which
`Judge` knows what to do with that, and labels played episodes for learning. `GoalInference` is HOP's: beliefs about
goals. `ActionInference` is direct opponent modelling: the others' networks are told nothing. HOP+ infers subgoals
(`planning.subgoals`). A new one is a class and a line in `INFERENCES`; its name is then a value of the key `hop_model`.

Letters in shapes: N games, f seats that are planned for, J co-players of each, A seats, G goals, K trees, B episodes,
T steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
from jax import Array

from omg.components.selectors import legal_softmax
from omg.envs.grid import GridGame
from omg.modules.opponent_models.base import ModelSizes
from omg.modules.planning import CoPlayersNetwork
from omg.planning.beliefs import Beliefs, BeliefSettings, begin, follow, learn_prior, new_prior, sample_goals
from omg.planning.goals import Hindsight, hindsight, make_goals
from omg.planning.minds import GoalJudge, Minds, goal_likelihoods
from omg.planning.search import Judge


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


class Moment(NamedTuple):
    """One step of N games as a player sees it."""

    before: Any
    """The positions of the step before, leaves [N, ...]; at time 0 anything."""
    last_actions: Array
    """[N, A] integers, what was done there; -1 at time 0."""
    state: Any
    """The positions now, leaves [N, ...]."""
    seats: Array
    """[N, f] int32."""

    @property
    def first(self) -> Array:
        """Games that begin, [N] bool."""
        return self.last_actions[:, 0] < 0


class Inferred(NamedTuple):
    """What is made of a moment."""

    memory: Any
    """For the next one, leaves [N, ...]."""
    trees: Any
    """What each tree starts from, leaves [N, f, K, ...]."""
    record: dict[str, Array]
    """What is stored with the step, name -> [N, f, ...]."""


class Labels(NamedTuple):
    """What the co-players' networks learn from in B episodes."""

    goal: Array | None
    """[B, T, A] what each player is taken to have been after, as its network is told it; None for nothing."""
    known: Array
    """[B, T, A] bool, steps to learn from."""
    outcome: Array | None
    """[B, A] what each player's episode tells the prior; None where there is none."""


class Inference(Protocol):
    """Built as `Class(game, settings)`; holds no arrays."""

    goal_dim: int
    """Width of the goals that co-players' networks are told; 0 for none."""
    own_goal_dim: int
    """Width of what the focal player's own network is told of them; 0 for nothing."""
    model_sizes: ModelSizes | None
    """Of the model that infers subgoals; None for none."""
    turns: bool
    """Whether what it tells networks is known for boards that are turned or mirrored, see `turned`."""

    def new_prior(self, *lead: int) -> Array:
        """What is known before the first episode, [*lead, outcomes]; no outcomes without a prior."""
        ...

    def learn_prior(self, prior: Array, outcome: Array) -> Array:
        """Follows episodes one after the other: [..., outcomes] and [E, ...] -> [..., outcomes]."""
        ...

    def initial(self, games: int, seats: int) -> Any:
        """Memory before the first step of `games` episodes."""
        ...

    def infer(self, minds: Minds, per_seat: bool, prior: Array, moment: Moment, memory: Any, key: Array) -> Inferred:
        """Takes a step of the games into account.

        Args:
            minds: the networks.
            per_seat: whether they, and the prior, have a leading axis f, one for each seat.
            prior: [f, J, outcomes], or [1, J, outcomes] for all seats alike.
            moment: what is seen.
            memory: from `initial` or the step before.
            key: consumed.
        """
        ...

    def judge(self, minds: Minds, per_seat: bool, trees: int) -> Judge:
        """Who looks at positions in the trees, so many for each set of networks."""
        ...

    def expect(
        self, others: CoPlayersNetwork, seen: tuple[Array, Array], legal: Array, state: Any, record: dict[str, Array]
    ) -> Array:
        """What one seat expects of its co-players in M positions, everything that they may be after taken together.

        Args:
            others: the seat's network for them.
            seen: maps [M, C, H, W] and time [M], see `minds.seen_by`.
            legal: [M, J, U] bool, of the co-players.
            state: the positions, leaves [M, ...], with the numbers that pieces had while the game was played.
            record: what `infer` recorded there, name -> [M, ...].

        Returns:
            chances [M, J, U].
        """
        ...

    def labels(self, states: Any, actions: Array, played: Array) -> Labels:
        """What was played in B episodes: states with leaves [B, T, ...], actions [B, T, A], played [B, T] bool."""
        ...

    def turned(self, goal: Array | None, cell_to: Array) -> Array | None:
        """What the labels would be had the board been turned.

        Args:
            goal: [..., J], of `Labels.goal`.
            cell_to: [..., cells] int32, where each cell has gone (`omg.envs.grid.symmetry`).
        """
        ...


class GoalInference:
    """Beliefs about goals, within episodes and from one to the next."""

    own_goal_dim = 0
    model_sizes: ModelSizes | None = None
    turns = True

    def __init__(self, game: GridGame, settings: InferenceSettings) -> None:
        self.game, self.settings = game, settings
        self.goals = make_goals(game)
        self.goal_dim = self.goals.width

    def new_prior(self, *lead: int) -> Array:
        """See `Inference.new_prior`: all outcomes alike."""
        return new_prior(self.goals, *lead)

    def learn_prior(self, prior: Array, outcome: Array) -> Array:
        """See `Inference.learn_prior`."""
        return learn_prior(self.goals, self.settings.beliefs, prior, outcome)

    def initial(self, games: int, seats: int) -> Beliefs:
        """See `Inference.initial`: the first step opens the beliefs."""
        players = self.game.spec.n_agents
        belief = jnp.zeros((games, seats, players - 1, self.goals.count))
        return Beliefs(belief, jnp.zeros((games, players), jnp.int32))

    def infer(self, minds: Minds, per_seat: bool, prior: Array, moment: Moment, memory: Any, key: Array) -> Inferred:
        """See `Inference.infer`; records the `belief` [N, f, J * G]."""
        goals, settings = self.goals, self.settings.beliefs
        before, state, seats = moment.before, moment.state, moment.seats
        likelihood = jnp.ones(memory.belief.shape)
        if settings.within:
            likelihood = goal_likelihoods(
                self.game, minds, before, seats, goals.codes(before), moment.last_actions, per_seat=per_seat
            )
        opened = begin(goals, settings, prior, state, seats)
        did = jnp.maximum(moment.last_actions, 0)
        followed = follow(goals, settings, prior, memory, likelihood, before, did, state, seats)
        beliefs: Beliefs = jax.tree.map(lambda new, old: where_game(moment.first, new, old), opened, followed)
        trees = sample_goals(beliefs.belief, goals.codes(state), self.settings.samples, key)
        return Inferred(beliefs, trees, {"belief": beliefs.belief.reshape(*seats.shape, -1)})

    def judge(self, minds: Minds, per_seat: bool, trees: int) -> Judge:
        """See `Inference.judge`."""
        return GoalJudge(self.game, self.goals, minds, per_seat=per_seat, trees=trees)

    def expect(
        self, others: CoPlayersNetwork, seen: tuple[Array, Array], legal: Array, state: Any, record: dict[str, Array]
    ) -> Array:
        """See `Inference.expect`: sum_g b(g) pi(a | s, g)."""
        chances = legal_softmax(others.for_goals(*seen, self.goals.codes(state)), legal[:, :, None])
        belief = record["belief"].reshape(*legal.shape[:2], self.goals.count)
        return jnp.sum(chances * belief[..., None], axis=2)

    def labels(self, states: Any, actions: Array, played: Array) -> Labels:
        """See `Inference.labels`: the goal that each player reached next."""
        seen: Hindsight = hindsight(self.goals, states, actions, played)
        return Labels(seen.code, seen.known, seen.outcome)

    def turned(self, goal: Array | None, cell_to: Array) -> Array | None:
        """See `Inference.turned`."""
        if goal is None or not self.goals.codes_are_cells:
            return goal
        cells = cell_to.shape[-1]
        moved = jnp.take_along_axis(cell_to, jnp.clip(goal, 0, cells - 1), axis=-1)
        return jnp.where((goal >= 0) & (goal < cells), moved, goal)


class ActionInference:
    """Nothing is inferred: what a co-player will do depends on the position alone."""

    goal_dim = 0
    own_goal_dim = 0
    model_sizes: ModelSizes | None = None
    turns = True

    def __init__(self, game: GridGame, settings: InferenceSettings) -> None:
        self.game, self.settings = game, settings

    def new_prior(self, *lead: int) -> Array:
        """See `Inference.new_prior`: none."""
        return jnp.zeros((*lead, 0))

    def learn_prior(self, prior: Array, outcome: Array) -> Array:
        """See `Inference.learn_prior`: nothing to follow."""
        del outcome
        return prior

    def initial(self, games: int, seats: int) -> Any:
        """See `Inference.initial`: nothing to remember."""
        del games, seats

    def infer(self, minds: Minds, per_seat: bool, prior: Array, moment: Moment, memory: Any, key: Array) -> Inferred:
        """See `Inference.infer`: the trees differ by their luck alone."""
        del minds, per_seat, prior, memory, key
        return Inferred(None, jnp.zeros((*moment.seats.shape, self.settings.samples, 1), jnp.int16), {})

    def judge(self, minds: Minds, per_seat: bool, trees: int) -> Judge:
        """See `Inference.judge`."""
        return GoalJudge(self.game, None, minds, per_seat=per_seat, trees=trees)

    def expect(
        self, others: CoPlayersNetwork, seen: tuple[Array, Array], legal: Array, state: Any, record: dict[str, Array]
    ) -> Array:
        """See `Inference.expect`."""
        del state, record
        return legal_softmax(others(*seen), legal)

    def labels(self, states: Any, actions: Array, played: Array) -> Labels:
        """See `Inference.labels`: every step tells something."""
        del states
        return Labels(None, jnp.broadcast_to(played[..., None], actions.shape), None)

    def turned(self, goal: Array | None, cell_to: Array) -> Array | None:
        """See `Inference.turned`: nothing to turn."""
        del cell_to
        return goal


def where_game(condition: Array, new: Array, old: Array) -> Array:
    """Per game: [N] bool and [N, ...] each."""
    return jnp.where(condition.reshape(-1, *(1,) * (new.ndim - 1)), new, old)
