"""HOP: beliefs about the others' goals, from what each of them was seen to do.

The game says what there is to be after (`omg.envs.grid.GoalSet`), `beliefs` who is after what. Here is what a player
makes of a step (`GoalInference`), how likely it was for each goal (`goal_likelihoods`), and, once an episode is over,
what everybody turned out to be after (`hindsight`).

Letters in shapes: N games, f seats that are planned for, J co-players of each, A seats, G goals, K trees, B episodes,
T steps.
"""

from __future__ import annotations

from typing import ClassVar, Generic, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from omg.components.selectors import legal_softmax
from omg.envs.grid import GoalSet, GridGame
from omg.envs.grid.goals import NO_GOAL
from omg.envs.grid.state import State
from omg.modules.opponent_models.base import ModelSizes
from omg.modules.opponent_models.prior import Prior
from omg.modules.planning import CoPlayersNetwork, each
from omg.modules.told import GOAL_X, GOAL_Y, Expectation, ExpectedGoals
from omg.planning.beliefs import Beliefs, begin, follow, learn_outset, new_outset, sample_goals
from omg.planning.inference import InferenceSettings, Inferred, Labels, Moment
from omg.planning.minds import GoalJudge, Minds
from omg.planning.search import own_order


class GoalInference(Generic[State]):
    """Beliefs about goals, within episodes and from one to the next."""

    own_goal_dim = 0
    infers_subgoals: ClassVar[bool] = False
    model_sizes: ModelSizes | None = None
    turns = True

    def __init__(self, game: GridGame[State], settings: InferenceSettings) -> None:
        self.game, self.settings = game, settings
        self.goals = game.goals()
        self.goal_dim = self.goals.width

    def new_outset(self, *lead: int) -> Array:
        """See `Inference.new_outset`: all achievements alike."""
        return new_outset(self.goals, *lead)

    def learn_outset(self, outset: Array, achievement: Array) -> Array:
        """See `Inference.learn_outset`."""
        return learn_outset(self.goals, self.settings.beliefs, outset, achievement)

    def initial(self, games: int, seats: int) -> Beliefs:
        """See `Inference.initial`: the first step opens the beliefs."""
        players = self.game.spec.n_agents
        belief = jnp.zeros((games, seats, players - 1, self.goals.count))
        return Beliefs(belief, jnp.zeros((games, players), jnp.int32))

    def infer(self, minds: Minds, outset: Array, moment: Moment[State], memory: Beliefs, key: Array) -> Inferred:
        """See `Inference.infer`; records the `belief` [N, f, J * G]."""
        goals, settings = self.goals, self.settings.beliefs
        before, state, seats = moment.before, moment.state, moment.seats
        likelihood = jnp.ones(memory.belief.shape)
        if settings.within:
            codes = goals.codes(before)
            likelihood = goal_likelihoods(self.game, minds.others, before, seats, codes, moment.last_actions)
        opened = begin(goals, settings, outset, state, seats)
        did = jnp.maximum(moment.last_actions, 0)
        followed = follow(goals, settings, outset, memory, likelihood, before, did, state, seats)
        begins = moment.last_actions[:, 0] < 0
        beliefs: Beliefs = jax.tree.map(
            lambda new, old: jnp.where(begins.reshape(-1, *(1,) * (new.ndim - 1)), new, old), opened, followed
        )
        trees = sample_goals(beliefs.belief, goals.codes(state), self.settings.samples, key)
        return Inferred(beliefs, trees, {"belief": beliefs.belief.reshape(*seats.shape, -1)})

    def judge(self, minds: Minds, trees: int) -> GoalJudge[State]:
        """See `Inference.judge`."""
        return GoalJudge(self.game, self.goals, minds, trees=trees)

    def expect(
        self, others: CoPlayersNetwork, sight: tuple[Array, Array], legal: Array, state: State, record: dict[str, Array]
    ) -> Array:
        """See `Inference.expect`: sum_g b(g) pi(a | s, g)."""
        chances = legal_softmax(others.for_goals(*sight, self.goals.codes(state)), legal[:, :, None])
        belief = record["belief"].reshape(*legal.shape[:2], self.goals.count)
        return jnp.sum(chances * belief[..., None], axis=2)

    def labels(self, states: State, actions: Array, played: Array) -> Labels:
        """See `Inference.labels`: the goal that each player reached next."""
        seen = hindsight(self.goals, states, actions, played)
        return Labels(seen.code, seen.known, seen.achievement)

    def shown(self, state: State, seats: Array) -> dict[str, Array]:
        """See `Inference.shown`: where the goals are."""
        shape = (*seats.shape, self.goals.count)
        x, y = (jnp.broadcast_to(place[:, None], shape) for place in self.goals.places(state))
        return {GOAL_X: x, GOAL_Y: y}

    def expects(self, records: dict[str, Array], prior: Prior | None) -> tuple[Expectation, ...]:
        """See `Inference.expects`: the beliefs."""
        del prior
        belief = records["belief"]
        chances = belief.reshape(*belief.shape[:-1], -1, self.goals.count)
        places = records[GOAL_X], records[GOAL_Y]
        return (ExpectedGoals(chances, *places, self.goals.names, round_table=False),)

    def turned(self, goal: Array | None, cell_to: Array) -> Array | None:
        """See `Inference.turned`."""
        if goal is None or not self.goals.codes_are_cells:
            return goal
        cells = cell_to.shape[-1]
        moved = jnp.take_along_axis(cell_to, jnp.clip(goal, 0, cells - 1), axis=-1)
        return jnp.where((goal >= 0) & (goal < cells), moved, goal)


def goal_likelihoods(
    game: GridGame[State], others: CoPlayersNetwork, state: State, seats: Array, codes: Array, actions: Array
) -> Array:
    """How likely what the others really did was, for each goal they may have.

    Args:
        game: the rules.
        others: the networks, leaves [P, ...]: one for each focal seat, or one for all of them.
        state: the positions in which they acted, leaves [N, ...].
        seats: [N, m] focal seats.
        codes: [N, G] integers, the goals as rows of the networks' input.
        actions: [N, A] what was done then; -1 for who had left.

    Returns:
        [N, m, J, G]; 1 where a co-player had left or could do only one thing, for that tells nothing.
    """
    legal = game.legal(state)

    def of_seat(network: CoPlayersNetwork, seat: Array) -> Array:
        order = own_order(seat, legal.shape[1])[:, 1:]
        allowed = jnp.take_along_axis(legal, order[..., None], axis=1)
        did = jnp.take_along_axis(actions, order, axis=1).astype(jnp.int32)
        chances = legal_softmax(network.for_goals(*game.sight(state, seat), codes), allowed[:, :, None])
        chance = jnp.take_along_axis(chances, jnp.maximum(did, 0)[:, :, None, None], axis=-1)[..., 0]
        free = (did >= 0) & (jnp.sum(allowed, axis=-1) > 1)
        return jnp.where(free[..., None], chance, 1.0)

    if len(others.bias) > 1:
        return jnp.moveaxis(each(of_seat, others, seats.T), 0, 1)
    only = jax.tree.map(lambda leaf: leaf[0], others)
    return jnp.stack([of_seat(only, seat) for seat in seats.T], axis=1)


# ------------------------------------------------------------------------------------------------------- hindsight


class Hindsight(NamedTuple):
    """What the players of B episodes were after, known from what they reached."""

    code: Array
    """[B, T, A] int32, the code of the goal that the player reached next; 0 where unknown."""
    known: Array
    """[B, T, A] bool: steps to learn from. False behind the last goal a player reached, and behind the episode."""
    achievement: Array
    """[B, A] int32, see `GoalSet.achievement`."""


def hindsight(goals: GoalSet[State], state: State, actions: Array, played: Array) -> Hindsight:
    """Labels every step of played episodes with the goal that each player reached next.

    Where being after nothing is a goal, it is the label of players who reached nothing in the whole episode.

    Args:
        goals: of the game.
        state: the positions, leaves [B, T, ...], e.g. from `GridGame.from_world`.
        actions: [B, T, A] what was done in them.
        played: [B, T] bool, steps that belong to the episode.
    """
    batch, steps, seats = actions.shape
    flat = jax.tree.map(lambda leaf: leaf.reshape(batch * steps, *leaf.shape[2:]), state)
    did = actions.reshape(-1, seats)
    shape = (batch, steps, seats)
    reached, codes = (
        jnp.where(played[..., None], values.reshape(shape), NO_GOAL)
        for values in (goals.reached(flat, did), goals.reached_codes(flat, did))
    )
    code, known = next_reached(codes, played)
    if goals.idle is not None:
        nothing = ~jnp.any(reached >= 0, axis=1, keepdims=True) & played[..., None]
        code, known = jnp.where(nothing, goals.idle, code), known | nothing
    return Hindsight(code, known, goals.achievement(reached))


def next_reached(reached: Array, played: Array) -> tuple[Array, Array]:
    """For every step what is reached in it or next after it, within the same episode.

    Args:
        reached: [B, T, A] integers, -1 for nothing.
        played: [B, T] bool.

    Returns:
        [B, T, A] integers, 0 where nothing follows; and whether anything does, [B, T, A] bool.
    """
    steps = reached.shape[1]
    when = jnp.where((reached >= 0) & played[..., None], jnp.arange(steps)[:, None], steps)
    nearest = jax.lax.cummin(when, axis=1, reverse=True)
    known = (nearest < steps) & played[..., None]
    found = jnp.take_along_axis(reached, jnp.minimum(nearest, steps - 1), axis=1)
    return jnp.where(known, found, 0), known
