"""What players of a game may be after, and which of it they turned out to be after.

A goal has two names. Its *number* is its place in a belief; its *code* is the row that it has in the input of a
co-player's network. They differ where numbers mean nothing by themselves: the third drift is anywhere on the board, but
the cell of a drift says where to go.

A new game with goals is a `GoalSet` and a line in `GOALS`.

Letters in shapes: B games, T steps, A seats, G goals.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from omg.envs.grid import GridGame
from omg.envs.snowdrift import Snowdrift
from omg.envs.stag_hunt import StagHunt
from omg.errors import unknown_name

NO_GOAL = -1


class GoalSet(ABC):
    """The goals of one configured game."""

    count: int
    """Goals G."""
    width: int
    """Number of codes: rows of a network's input."""
    prior_size: int
    """Outcomes of an episode that are told apart from episode to episode, see `outcome`."""
    alpha: float
    """How much of the prior over outcomes is kept from one episode to the next, unless set otherwise."""
    idle: int | None = None
    """The code of being after nothing, where that is a goal (the last one); outcomes then count goals reached."""
    codes_are_cells: bool = False
    """Whether the first codes are the cells of the board: they change when it is turned."""

    @abstractmethod
    def exists(self, state: Any) -> Array:
        """Which goals can still be reached, [B, G] bool."""

    @abstractmethod
    def codes(self, state: Any) -> Array:
        """The codes of all goals, [B, G] int32."""

    @abstractmethod
    def reached(self, state: Any, actions: Array) -> Array:
        """The number of the goal that every player reaches when `actions` [B, A] are played: [B, A] int32, or -1."""

    @abstractmethod
    def outcome(self, reached: Array) -> Array:
        """What an episode tells about a player: `reached` [B, T, A] -> [B, A] int32 in [0, prior_size), -1: nothing."""

    def reached_codes(self, state: Any, actions: Array) -> Array:
        """The code of the goal that every player reaches, [B, A] int32, or -1."""
        reached = self.reached(state, actions)
        codes = jnp.take_along_axis(self.codes(state), jnp.maximum(reached, 0), axis=1)
        return jnp.where(reached >= 0, codes, NO_GOAL)


class StagHuntGoals(GoalSet):
    """Stag (0) or hare (1), each while one is left. Code and number are the same."""

    count = width = prior_size = 2
    alpha = 0.995

    def __init__(self, env: StagHunt) -> None:
        self.env = env

    def exists(self, state: Any) -> Array:
        """See `GoalSet.exists`."""
        return self.env.kinds_left(state)

    def codes(self, state: Any) -> Array:
        """See `GoalSet.codes`."""
        return jnp.broadcast_to(jnp.arange(2), (len(state.player), 2))

    def reached(self, state: Any, actions: Array) -> Array:
        """See `GoalSet.reached`."""
        return self.env.caught(state, actions) - 1

    def outcome(self, reached: Array) -> Array:
        """The prey that the player caught: it leaves with the first. See `GoalSet.outcome`."""
        return jnp.max(reached, axis=1)


class SnowdriftGoals(GoalSet):
    """Each drift while it is left (its number; its cell as code), or none of them (the last number and code).

    An episode's outcome is how many drifts the player removed.
    """

    alpha = 0.98
    codes_are_cells = True

    def __init__(self, env: Snowdrift) -> None:
        self.env = env
        self.count = self.prior_size = env.args.drifts + 1
        self.idle = env.board.cells
        self.width = env.board.cells + 1

    def exists(self, state: Any) -> Array:
        """See `GoalSet.exists`; to do nothing is always possible."""
        return jnp.pad(state.drift_left, ((0, 0), (0, 1)), constant_values=True)

    def codes(self, state: Any) -> Array:
        """See `GoalSet.codes`."""
        return jnp.pad(state.drift.astype(jnp.int32), ((0, 0), (0, 1)), constant_values=self.width - 1)

    def reached(self, state: Any, actions: Array) -> Array:
        """See `GoalSet.reached`; none is never reached."""
        return self.env.removed(state, actions)

    def outcome(self, reached: Array) -> Array:
        """See `GoalSet.outcome`."""
        return jnp.sum(reached >= 0, axis=1, dtype=jnp.int32)


GOALS: dict[str, Any] = {"stag_hunt": StagHuntGoals, "snowdrift": SnowdriftGoals}


def make_goals(env: GridGame) -> GoalSet:
    """The goals of a game.

    Raises:
        UserError: for a game that has none.
    """
    if env.spec.name not in GOALS:
        raise unknown_name("game with goals (env)", env.spec.name, GOALS)
    made: GoalSet = GOALS[env.spec.name](env)
    return made


# ------------------------------------------------------------------------------------------------------- hindsight


class Hindsight(NamedTuple):
    """What the players of B episodes were after, known from what they reached."""

    code: Array
    """[B, T, A] int32, the code of the goal that the player reached next; 0 where unknown."""
    known: Array
    """[B, T, A] bool: steps to learn from. False behind the last goal a player reached, and behind the episode."""
    outcome: Array
    """[B, A] int32, see `GoalSet.outcome`."""


def hindsight(goals: GoalSet, state: Any, actions: Array, played: Array) -> Hindsight:
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
    return Hindsight(code, known, goals.outcome(reached))


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
