"""What a focal player believes about the others' goals: within an episode, and from one episode to the next.

Within an episode, `b(g) <- b(g) * pi(a | s, g)`, normalised. Goals that are gone have no share; when nothing is left of
a belief, it starts again, all existing goals alike.

Between episodes the *outset*, chances of achievements, follows what each co-player did:
`p <- alpha * p + (1 - alpha) * [achievement]`. Where it is the goal reached (stag_hunt), the outset is the belief that
an episode opens with. Where it is the number n of goals reached (snowdrift), what is left is not enough for
everybody: of the numbers `m = n - k` that the co-players may still reach, drawn from `P(n | n >= k)` of each, only
those count that add up to no more than what is left. A player goes on with the chance that its `m > 0`, shared
equally by the goals that exist, and the rest is on being after nothing.

Letters in shapes: N games, m focal seats, J co-players of each in the order of their seats, A seats, G goals,
K samples.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from omg.components.selectors import softmax
from omg.envs.grid.goals import GoalSet
from omg.envs.grid.state import State
from omg.planning.search import own_order


@dataclass(frozen=True)
class BeliefSettings:
    """Which parts of the belief are at work. Static."""

    within: bool = True
    """Whether actions change the belief in the course of an episode; otherwise it stays as the outset has it."""
    between: bool = True
    """Whether an episode opens with what earlier ones have shown; otherwise all existing goals are alike."""
    alpha: float | None = None
    """How much of the outset is kept per episode; None for `GoalSet.alpha`."""


class Beliefs(NamedTuple):
    """What is remembered in the course of N episodes."""

    belief: Array
    """[N, m, J, G] float32, sums to 1 over G."""
    done: Array
    """[N, A] int32, goals that each player has reached in this episode."""


def of_others(values: Array, seats: Array) -> Array:
    """What belongs to the co-players of each focal seat: values [N, A], seats [N, m] -> [N, m, J]."""
    order = own_order(seats, values.shape[1])[..., 1:]
    return jnp.take_along_axis(values[:, None], order, axis=2)


# ------------------------------------------------------------------------------------------------ within an episode


def normalised(weights: Array, exists: Array) -> Array:
    """Weights [..., G] of the goals that exist [..., G] bool, summing to 1; all alike where nothing is left of them."""
    kept = jnp.where(exists, weights, 0.0)
    total = jnp.sum(kept, axis=-1, keepdims=True)
    alike = exists / jnp.maximum(jnp.sum(exists, axis=-1, keepdims=True), 1)
    return jnp.where(total > 0, kept / jnp.where(total > 0, total, 1.0), alike)


def revise(belief: Array, likelihood: Array, exists: Array) -> Array:
    """Bayes' rule.

    Args:
        belief: [..., G].
        likelihood: [..., G] chance of what was done under each goal.
        exists: [..., G] bool, goals that still exist after it.
    """
    return normalised(belief * likelihood, exists)


def opening(goals: GoalSet[State], settings: BeliefSettings, outset: Array, exists: Array, done: Array) -> Array:
    """The belief that an episode opens with, and a new one after a goal was reached.

    Args:
        goals: of the game.
        settings: static.
        outset: [..., J, achievements].
        exists: [..., J, G] bool.
        done: [..., J] integers, goals that each co-player has reached in this episode.

    Returns:
        [..., J, G].
    """
    if not settings.between:
        return normalised(jnp.zeros(exists.shape), exists)
    return normalised(outset if goals.idle is None else goals_from_counts(outset, exists, done), exists)


def goals_from_counts(outset: Array, exists: Array, done: Array) -> Array:
    """From how many goals players reach in an episode to which they are after now; see the module's text.

    Args:
        outset: [..., J, achievements], chances of reaching 0, 1, ... goals.
        exists: [..., J, G] bool, the last being after nothing.
        done: [..., J] integers, reached so far.

    Returns:
        [..., J, G]; all zero where the outset holds so many goals for impossible.
    """
    drifts = exists[..., :-1]
    left = jnp.sum(drifts, axis=-1)
    more, possible = still_to_come(outset, done)
    goes_on = jnp.where(possible, going_on(more, left[..., 0]), 0.0)
    each = goes_on / jnp.maximum(left, 1)
    rest = jnp.where(possible, 1.0 - goes_on, 0.0)
    return jnp.concatenate([jnp.where(drifts, each[..., None], 0.0), rest[..., None]], axis=-1)


def still_to_come(outset: Array, done: Array) -> tuple[Array, Array]:
    """How many more goals a player that has reached `done` [...] will reach, from its outset [..., achievements].

    Returns:
        chances of 0, 1, ... more, [..., achievements]; and whether the outset holds `done` for possible at all, [...]
        bool: where it does not, none is to come.
    """
    size = outset.shape[-1]
    number = done[..., None] + jnp.arange(size)
    weight = jnp.where(number < size, jnp.take_along_axis(outset, jnp.minimum(number, size - 1), axis=-1), 0.0)
    total = jnp.sum(weight, axis=-1, keepdims=True)
    possible = total > 0
    return jnp.where(possible, weight / jnp.where(possible, total, 1.0), jnp.arange(size) == 0), possible[..., 0]


def going_on(more: Array, left: Array) -> Array:
    """The chance of each of J players to reach one more goal, when all of them together reach no more than are left.

    Where the players' habits leave no such numbers, each is judged by itself.

    Args:
        more: [..., J, achievements], from `still_to_come`.
        left: [...] integers.

    Returns:
        [..., J].
    """
    players, size = more.shape[-2:]
    number = jnp.arange(size)
    within = number <= left[..., None]
    adds_up = number[:, None, None] + number[:, None] == number

    def fits(who: list[int]) -> Array:
        """The chance [...] that these players together reach no more than are left."""
        total = jnp.broadcast_to(number == 0, more[..., 0, :].shape).astype(more.dtype)
        for one in who:
            total = jnp.einsum("...a,...b,abn->...n", total, more[..., one, :], adds_up)
        return jnp.sum(total * within, axis=-1)

    everybody = fits(list(range(players)))[..., None]
    without = jnp.stack([fits([one for one in range(players) if one != each]) for each in range(players)], axis=-1)
    stops = more[..., 0] * jnp.where(everybody > 0, without / jnp.where(everybody > 0, everybody, 1.0), 1.0)
    return jnp.clip(1.0 - stops, 0.0, 1.0)


def begin(goals: GoalSet[State], settings: BeliefSettings, outset: Array, state: State, seats: Array) -> Beliefs:
    """Opens N episodes.

    Args:
        goals: of the game.
        settings: static.
        outset: broadcastable to [N, m, J, achievements], from `new_outset` or `learn_outset`.
        state: the first positions, leaves [N, ...].
        seats: [N, m] focal seats.
    """
    players = state.player.shape[1]
    done = jnp.zeros((len(seats), players), jnp.int32)
    return Beliefs(_opened(goals, settings, outset, state, seats, done), done)


def follow(
    goals: GoalSet[State],
    settings: BeliefSettings,
    outset: Array,
    beliefs: Beliefs,
    likelihood: Array,
    before: State,
    actions: Array,
    after: State,
    seats: Array,
) -> Beliefs:
    """Takes one step of N games into account.

    Args:
        goals: of the game.
        settings: static.
        outset: broadcastable to [N, m, J, achievements].
        beliefs: from `begin` or `follow`.
        likelihood: [N, m, J, G], see `goals.goal_likelihoods`; not used where `settings.within` is off.
        before: the positions in which `actions` were played, leaves [N, ...].
        actions: [N, A] integers.
        after: the positions that followed, with the same numbers of goals.
        seats: [N, m] focal seats.
    """
    reached = goals.reached(before, actions) >= 0
    done = beliefs.done + reached
    opened = _opened(goals, settings, outset, after, seats, done)
    if not settings.within:
        return Beliefs(opened, done)
    revised = revise(beliefs.belief, likelihood, goals.exists(after)[:, None, None])
    # Who has reached its goal is after another one, about which its way here tells nothing.
    again = of_others(reached, seats)[..., None]
    return Beliefs(jnp.where(again, opened, revised), done)


def _opened(
    goals: GoalSet[State], settings: BeliefSettings, outset: Array, state: State, seats: Array, done: Array
) -> Array:
    others = of_others(done, seats)
    exists = jnp.broadcast_to(goals.exists(state)[:, None, None], (*others.shape, goals.count))
    return opening(goals, settings, jnp.broadcast_to(outset, (*others.shape, outset.shape[-1])), exists, others)


def sample_goals(belief: Array, codes: Array, samples: int, key: Array) -> Array:
    """Draws what each co-player may be after, each by itself.

    Args:
        belief: [N, m, J, G].
        codes: [N, G] integers, from `GoalSet.codes`.
        samples: K.
        key: consumed.

    Returns:
        codes [N, m, K, J] int16: the memory of K trees for each focal seat.
    """
    games, seats, others, count = belief.shape
    chances = jnp.broadcast_to(belief[:, :, None], (games, seats, samples, others, count))
    number = softmax(jnp.log(chances), chances > 0, key, 0.0)
    drawn = jnp.take_along_axis(codes[:, None], number.reshape(games, 1, -1), axis=2)
    return drawn.reshape(games, seats, samples, others).astype(jnp.int16)


# ------------------------------------------------------------------------------------------------- between episodes


def new_outset(goals: GoalSet[State], *lead: int) -> Array:
    """All achievements alike: [*lead, achievements], e.g. `new_outset(goals, m, J)`."""
    return jnp.full((*lead, goals.achievements), 1.0 / goals.achievements)


def learn_outset(goals: GoalSet[State], settings: BeliefSettings, outset: Array, achievement: Array) -> Array:
    """Follows what co-players did in E episodes, one after the other.

    Args:
        goals: of the game.
        settings: static.
        outset: [..., achievements].
        achievement: [E, ...] int32, e.g. `of_others(Hindsight.achievement, seats)` [E, m, J]; -1: nothing was learned.

    Returns:
        [..., achievements]; unchanged where `settings.between` is off.
    """
    if not settings.between:
        return outset
    alpha = goals.alpha if settings.alpha is None else settings.alpha

    def learn(outset: Array, seen: Array) -> tuple[Array, None]:
        moved = alpha * outset + (1 - alpha) * jax.nn.one_hot(seen, goals.achievements)
        return jnp.where(seen[..., None] >= 0, moved, outset), None

    return jax.lax.scan(learn, outset, achievement)[0]
