"""Tabular Q-learning in the toy grid with three kinds of tables, and their exact optima.

Seat 0 learns; seat 1 walks a random shortest path to one of the two reward cells, drawn at the start of each game. The
state s is the cells of both players (view `joint`) or seat 0's own cell alone (view `own`). A table has one more index,
the *context* c:

    subgoal   Q(s, g, a)     g: the reward cell the other walks to
    action    Q(s, a-, a)    a-: the action that the other takes in this very step, as if predicted without error
    none      Q(s, a)

All three start at `initial` everywhere and learn by the same rule, after each game, from its last step to its first:

    Q(s, c, a) += alpha (r + gamma max_a' Q(s', c', a') - Q(s, c, a)),     nothing follows after the end of a game

with c' = c for the subgoal (the other keeps its goal) and c' = the other's next action for the action. The subgoal of a
finished game is known, since the other stands on it (hindsight). While playing it is not: the learner keeps a belief b
over the goals, b(g) proportional to the probability of the other's moves so far under g, and takes the action with the
best sum over g of b(g) Q(s, g, a).

Shapes are written out: `tables` one for each seed, `states` the cells or pairs of them, 5 actions; T steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from omg.envs.toy_grid.tables import RaceTables, belief_by_cell, reachable

Context = Literal["subgoal", "action", "none"]
View = Literal["own", "joint"]
VIEWS: tuple[View, ...] = ("own", "joint")
CONTEXTS: dict[Context, int] = {"subgoal": 2, "action": 5, "none": 1}
"""Kinds of tables and their number of contexts."""

TOLERANCE = 0.1
"""An entry is formed when it is within this share of its exact value."""
_TEST_GAMES = 128
_TIE = 1e-5
"""Height of the noise that breaks ties between equally good actions."""


class Settings(NamedTuple):
    """How the learner learns; equal for all kinds of tables."""

    gamma: float = 0.9
    alpha: float = 0.5
    epsilon: float = 0.1
    """Share of random legal actions while learning."""
    initial: float = 1.0
    """Value of all entries before learning: the most that can be earned, so that what was never tried looks best."""
    episode_limit: int = 40
    """Steps until a game is cut; long enough for the other to arrive."""


class Games(NamedTuple):
    """What happened in games played side by side. Slot T holds only where the players stand and what follows."""

    own: Array
    """[T + 1, games] int32, cell of seat 0."""
    other: Array
    """[T + 1, games] int32, cell of seat 1."""
    action: Array
    """[T, games] int32, of seat 0."""
    other_action: Array
    """[T + 1, games] int32, of seat 1."""
    played: Array
    """[T, games] bool, the game was still on in this slot."""
    paid: Array
    """[T, games] bool, seat 0 was paid in this slot, which ends the game."""
    goal: Array
    """[games] int32, the reward cell that seat 1 walked to: 0 top, 1 bottom."""


class Steps(NamedTuple):
    """One step of games, each for a table of its own; every field is [tables] unless it says otherwise."""

    state: Array
    context: Array
    action: Array
    reward: Array
    ended: Array
    """bool: nothing follows."""
    next_state: Array
    next_context: Array
    next_legal: Array
    """[tables, 5] bool."""
    counts: Array
    """bool: False leaves the table as it is."""


class TableHistory(NamedTuple):
    """How good the tables were in the course of learning."""

    episodes: np.ndarray
    """[points] games learned from so far."""
    returns: np.ndarray
    """[points, tables] mean discounted return of greedy play."""
    formed: np.ndarray | None
    """[points, tables] share of the entries that have formed; None in the view `own`, where the game is not Markov."""


class Optimum(NamedTuple):
    """What a kind of table would hold if it were learned to the end, in the view `joint`."""

    q: np.ndarray
    """[states, contexts, 5] float64; 0 outside `entries`."""
    entries: np.ndarray
    """[states, contexts, 5] bool: legal actions in states and contexts that can occur."""
    start: float
    """Expected discounted return of the best play with this context."""


def new_tables(tables: RaceTables, settings: Settings, view: View, context: Context, count: int) -> Array:
    """Tables before learning, [tables, states, contexts, 5]."""
    states = tables.cells**2 if view == "joint" else tables.cells
    return jnp.full((count, states, CONTEXTS[context], 5), settings.initial, jnp.float32)


def play(
    tables: RaceTables,
    settings: Settings,
    view: View,
    context: Context,
    q: Array,
    players: Array,
    key: Array,
    epsilon: float,
) -> Games:
    """Plays one game for each entry of `players`.

    Args:
        tables: the board.
        settings: the episode limit is read.
        view: what a state of `q` is.
        context: what a context of `q` is.
        q: [tables, states, contexts, 5].
        players: [games], which of the tables plays each game.
        key: consumed. The same key gives the other the same goals and paths, whatever the learner does.
        epsilon: share of random legal actions.
    """
    moves, legal, policies = (jnp.asarray(table) for table in (tables.moves, tables.legal, tables.policies))
    games, limit = len(players), settings.episode_limit
    start_key, step_key = jax.random.split(key)
    goal_draw, first_draw = jax.random.uniform(start_key, (2, games))
    goal = (goal_draw < 0.5).astype(jnp.int32)

    def other_acts(cell: Array, draw: Array) -> Array:
        return jnp.sum(jnp.cumsum(policies[goal, cell], axis=-1) <= draw[:, None], axis=-1)

    def goes_on(carry: tuple[Array, Games, Array, Array]) -> Array:
        time, _, _, active = carry
        return (time < limit) & jnp.any(active)

    def step(carry: tuple[Array, Games, Array, Array]) -> tuple[Array, Games, Array, Array]:
        time, seen, belief, active = carry
        own, other, other_action = seen.own[time], seen.other[time], seen.other_action[time]
        path_draw, explore_draw, *choice_draws = jax.random.uniform(jax.random.fold_in(step_key, time), (7, games))
        state = _state(tables, view, own, other)
        if context == "subgoal":
            values = jnp.sum(belief[..., None] * q[players, state], axis=1)
        else:
            values = q[players, state, other_action if context == "action" else 0]
        explores = explore_draw < epsilon
        values = jnp.where(explores[:, None], 0.0, values) + _TIE * jnp.stack(choice_draws, axis=1)
        action = jnp.argmax(jnp.where(legal[own], values, -jnp.inf), axis=-1)
        next_own, next_other = moves[own, action], moves[other, other_action]
        paid = active & _paid(tables, next_own, next_other)
        belief = belief * policies[:, other, other_action].T
        belief = belief / jnp.sum(belief, axis=-1, keepdims=True)
        seen = seen._replace(
            own=seen.own.at[time + 1].set(next_own),
            other=seen.other.at[time + 1].set(next_other),
            action=seen.action.at[time].set(action),
            other_action=seen.other_action.at[time + 1].set(other_acts(next_other, path_draw)),
            played=seen.played.at[time].set(active),
            paid=seen.paid.at[time].set(paid),
        )
        return time + 1, seen, belief, active & ~paid

    slots = jnp.zeros((limit + 1, games), jnp.int32)
    nothing = jnp.zeros((limit, games), bool)
    first_own, first_other = (jnp.full(games, cell, jnp.int32) for cell in tables.starts)
    seen = Games(
        own=slots.at[0].set(first_own),
        other=slots.at[0].set(first_other),
        action=slots[1:],
        other_action=slots.at[0].set(other_acts(first_other, first_draw)),
        played=nothing,
        paid=nothing,
        goal=goal,
    )
    # The batch is an axis of the arrays, not a vmap: the loop keeps one condition and ends with the last game.
    start = (jnp.zeros((), jnp.int32), seen, jnp.full((games, 2), 0.5), jnp.ones(games, bool))
    return lax.while_loop(goes_on, step, start)[1]


def update(q: Array, settings: Settings, steps: Steps) -> Array:
    """One step of Q-learning in each of the tables [tables, states, contexts, 5]."""
    table = jnp.arange(len(q))
    entry = (table, steps.state, steps.context, steps.action)
    following = jnp.where(steps.next_legal, q[table, steps.next_state, steps.next_context], -jnp.inf)
    target = steps.reward + settings.gamma * jnp.where(steps.ended, 0.0, jnp.max(following, axis=-1))
    return q.at[entry].add(settings.alpha * jnp.where(steps.counts, target - q[entry], 0.0))


def learn(tables: RaceTables, settings: Settings, view: View, context: Context, q: Array, games: Games) -> Array:
    """Updates table n of `q` [tables, states, contexts, 5] with all steps of game n, from the last to the first."""
    legal = jnp.asarray(tables.legal)
    length = jnp.sum(jnp.any(games.played, axis=1))

    def slot(time: Array) -> tuple[Array, Array]:
        state = _state(tables, view, games.own[time], games.other[time])
        if context == "subgoal":
            return state, games.goal
        return state, games.other_action[time] if context == "action" else jnp.zeros_like(state)

    def step(back: Array, q: Array) -> Array:
        time = length - 1 - back
        state, now = slot(time)
        next_state, following = slot(time + 1)
        paid = games.paid[time]
        return update(
            q,
            settings,
            Steps(
                state=state,
                context=now,
                action=games.action[time],
                reward=paid.astype(q.dtype),
                ended=paid,
                next_state=next_state,
                next_context=following,
                next_legal=legal[games.own[time + 1]],
                counts=games.played[time],
            ),
        )

    return lax.fori_loop(0, length, step, q)


def train(
    tables: RaceTables,
    settings: Settings,
    view: View,
    context: Context,
    *,
    seeds: int,
    points: Sequence[int],
    seed: int = 0,
) -> TableHistory:
    """Learns `seeds` tables side by side and measures them.

    Args:
        tables: the board.
        settings: the learner's.
        view: what a state is.
        context: what a context is.
        seeds: number of tables, each with games of its own.
        points: numbers of games per table after which to measure, ascending.
        seed: of all random numbers.
    """
    optimum = solve(tables, settings.gamma, context) if view == "joint" else None
    learn_key, test_key = jax.random.split(jax.random.key(seed))

    @partial(jax.jit, donate_argnums=0)
    def advance(q: Array, first: Array, last: Array) -> Array:
        def episode(number: Array, q: Array) -> Array:
            key = jax.random.fold_in(learn_key, number)
            games = play(tables, settings, view, context, q, jnp.arange(seeds), key, settings.epsilon)
            return learn(tables, settings, view, context, q, games)

        return lax.fori_loop(first, last, episode, q)

    @jax.jit
    def greedy_return(q: Array, point: Array) -> Array:
        players = jnp.repeat(jnp.arange(seeds), _TEST_GAMES)
        games = play(tables, settings, view, context, q, players, jax.random.fold_in(test_key, point), 0.0)
        discount = settings.gamma ** jnp.arange(settings.episode_limit)
        return jnp.mean((discount @ games.paid).reshape(seeds, _TEST_GAMES), axis=1)

    q = new_tables(tables, settings, view, context, seeds)
    returns, shares, done = [], [], 0
    for point in points:
        q, done = advance(q, done, point), point
        returns.append(np.asarray(greedy_return(q, point)))
        if optimum is not None:
            shares.append(formed(np.asarray(q), optimum, settings.initial))
    return TableHistory(np.asarray(points), np.stack(returns), np.stack(shares) if shares else None)


def formed(q: np.ndarray, optimum: Optimum, initial: float, tolerance: float = TOLERANCE) -> np.ndarray:
    """Share of the entries within `tolerance` of their exact value: tables [tables, states, contexts, 5] -> [tables].

    Entries that can never occur do not count, nor do those whose exact value is the one that all entries start with.
    """
    counts = optimum.entries & np.not_equal(optimum.q, initial)
    exact = optimum.q[counts]
    return np.mean(np.abs(q[:, counts] - exact) <= tolerance * exact, axis=1)


def solve(tables: RaceTables, gamma: float, context: Context, change: float = 1e-10) -> Optimum:
    """Value iteration for a kind of table in the view `joint`.

    The context is known when seat 0 acts: the goal itself for `subgoal`, the other's action of this step for `action`.
    For `action` and `none`, the other's further moves are as likely as its cell makes them.

    Args:
        tables: the board.
        gamma: discount.
        context: the kind of table.
        change: the iteration ends when no value changes by more.
    """
    occurs = reachable(tables)
    mixture = np.einsum("og,goa->oa", belief_by_cell(tables), tables.policies)
    # By own cell, other's cell, own action, other's action: where both stand next, and whether seat 0 is paid.
    own, other = tables.moves[:, None, :, None], tables.moves[None, :, None, :]
    paid = np.isin(own, tables.goals) & (own != other)
    if context == "subgoal":
        contexts, weights = np.moveaxis(occurs, 0, -1), np.full(2, 0.5)
    elif context == "action":
        contexts = np.einsum("gso,goa->soa", occurs, tables.policies) > 0
        weights = mixture[tables.starts[1]]
    else:
        contexts, weights = np.any(occurs, axis=0, keepdims=True).transpose(1, 2, 0), np.ones(1)
    entries = contexts[..., None] & tables.legal[:, None, None]

    def backup(value: np.ndarray) -> np.ndarray:
        """What each pair of actions brings, [cells, cells, 5, 5], from the values of what follows [cells, cells]."""
        return np.where(paid, 1.0, gamma * value[own, other])

    def improve(q: np.ndarray) -> np.ndarray:
        best = np.where(entries, q, 0.0).max(axis=-1)
        if context == "subgoal":
            return np.stack(
                [np.einsum("soab,ob->soa", backup(best[..., g]), tables.policies[g]) for g in range(2)], axis=2
            )
        if context == "action":
            return backup(np.einsum("sob,ob->so", best, mixture)).swapaxes(2, 3)
        return np.einsum("soab,ob->soa", backup(best[..., 0]), mixture)[:, :, None]

    q = np.zeros(entries.shape)
    changed = np.inf
    while changed > change:
        better = np.where(entries, improve(q), 0.0)
        changed, q = float(np.abs(better - q).max()), better
    start = float(q[tuple(tables.starts)].max(axis=-1) @ weights)
    states = tables.cells**2
    return Optimum(q.reshape(states, -1, 5), entries.reshape(states, -1, 5), start)


def _state(tables: RaceTables, view: View, own: Array, other: Array) -> Array:
    return own * tables.cells + other if view == "joint" else own


def _paid(tables: RaceTables, own: Array, other: Array) -> Array:
    """Whether seat 0, unpaid so far and now on `own`, is the first on a reward cell."""
    return ((own == tables.goals[0]) | (own == tables.goals[1])) & (own != other)
