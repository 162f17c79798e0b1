"""From networks to what a search and a belief need: priors, values, and what the others will do for each goal.

Letters in shapes: N games, m focal seats in each, J co-players in the order of their seats, G goals, B trees.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from omg.components.selectors import legal_softmax, random_legal, softmax
from omg.envs.grid import GridGame
from omg.envs.grid.view import one_hot
from omg.modules.opponent_models.base import ModelSizes
from omg.modules.opponent_models.subgoal import SubgoalModel
from omg.modules.planning import (
    CoPlayersNetwork,
    PlanningSizes,
    PolicyValueNetwork,
    each,
    light_trunks,
    multiplies_bfloat16,
    on_cpu,
    redrawn,
    spread_trunks,
)
from omg.planning.goals import GoalSet
from omg.planning.search import own_order

SMALLEST_PART = 16
"""Rows below which a product is not faster any more: reading the weights takes all of its time."""
MANY_TREES = 64
"""Trees of each set of networks from which on a search makes them ready first. On a GPU they are spread over the board:
their matrices are read in every simulation, and for few trees that is more than nine shifted copies of the maps. On a
CPU every one of them is compiled for itself, and in bfloat16 where the CPU can (`light_trunks`)."""


class Minds(eqx.Module):
    """The networks of one focal player, or of m of them with a leading axis m on every leaf."""

    own: PolicyValueNetwork
    others: CoPlayersNetwork
    """What the co-players will do, in the order of their seats."""
    subgoals: SubgoalModel | None = None
    """Infers what the co-players are heading for, without its prior; None for players that infer no subgoals."""


def network_sizes(env: GridGame, goal_dim: int, **changes: Any) -> PlanningSizes:
    """The sizes of a game's networks; `changes` are other fields of `PlanningSizes`, e.g. `hidden`."""
    view = env.map_view
    return PlanningSizes(view.channels, view.height, view.width, view.actions, goal_dim, **changes)


def new_minds(
    sizes: PlanningSizes, players: int, key: Array, *, own_goal_dim: int = 0, subgoals: ModelSizes | None = None
) -> Minds:
    """Fresh networks of one focal player.

    Args:
        sizes: with the width of the co-players' goals.
        players: seats A.
        key: consumed.
        own_goal_dim: width of what the focal player's own network is told of the others' goals.
        subgoals: of the model that infers them, if there is one.
    """
    own_key, others_key = jax.random.split(key)
    own = PolicyValueNetwork(replace(sizes, goal_dim=own_goal_dim), key=own_key)
    others = CoPlayersNetwork(sizes, players - 1, key=others_key)
    if subgoals is None:
        return Minds(own, others)
    model_key = jax.random.fold_in(key, 2)
    return Minds(own, others, redrawn(SubgoalModel(subgoals, key=model_key).with_prior(None), model_key))


def seen_by(env: GridGame, state: Any, seat: Array) -> tuple[Array, Array]:
    """What the networks look at: maps [B, C, H, W] bool with the focal player first, and time [B] float32."""
    view = env.map_view
    maps = env.map_of(state, seat).reshape(len(seat), view.channels, view.height, view.width)
    return maps, state.time / jnp.float32(env.args.episode_limit)


def view_of(env: GridGame, state: Any, seat: Array) -> Array:
    """What one seat of each game observes, seat [B] -> [B, O] float32: its row of `GridGame.views`, by itself."""
    rows = jnp.arange(len(seat))
    order = own_order(seat, env.args.players)
    last = one_hot(jnp.take_along_axis(state.last_action, order, axis=1), len(env.actions)).reshape(len(seat), -1)
    time = state.time[:, None] / jnp.float32(env.args.episode_limit)
    parts = (env.map_of(state, seat), env.legal(state)[rows, seat], time, last)
    return jnp.concatenate([part.astype(jnp.float32) for part in parts], axis=-1)


class GoalJudge:
    """How HOP looks at positions (`search.Judge`): each co-player acts by its own network for the goal it was given.

    The memory of a tree is the sampled goals [B, J] int16 (`beliefs.sample_goals`). A co-player whose goal is gone,
    because it or somebody else reached it, goes on with another one that exists, all of them alike: its network has
    never seen a goal that is not there. Without goals the memory is handed on as it is; only its axes [N, m, K] matter.

    Most positions of a tree never get a branch, and nobody asks what the others would do there; and nobody looks behind
    the end of a game, where many simulations lead. So the trees that do ask are gathered, and the networks run on
    `parts` parts of the batch until all have an answer. On a GPU, where loops cost more than products, all trees are
    answered at once.
    """

    def __init__(
        self,
        env: GridGame,
        goals: GoalSet | None,
        minds: Minds,
        *,
        per_seat: bool = False,
        trees: int = 1,
        parts: int | None = None,
    ) -> None:
        """Holds the game and the networks.

        Args:
            env: the game.
            goals: of the game; None for networks that are not told any.
            minds: the networks.
            per_seat: whether they have a leading axis m, one set for each focal seat.
            trees: that each set of them is asked about at once; for many it is made ready first (`MANY_TREES`).
            parts: into how many parts a batch is cut; 1 for all at once; None: 8 on a CPU, 1 elsewhere.
        """
        self.env, self.goals = env, goals
        self.minds = minds if per_seat else jax.tree.map(lambda leaf: leaf[None], minds)
        self.large = trees >= MANY_TREES
        if self.large:
            view = env.map_view
            if not on_cpu():
                self.minds = each(lambda mind: spread_trunks(mind, view.height, view.width), self.minds)
            elif multiplies_bfloat16():
                self.minds = each(lambda mind: light_trunks(mind, view.width), self.minds)
        self.parts = parts or (8 if on_cpu() else 1)

    def own(self, keys: Array, state: Any, seat: Array, memory: Any, wanted: Array) -> tuple[Array, Array, Any]:
        """See `search.Judge.own`."""
        if self.goals is not None:
            memory = renewed(self.goals, keys, state, memory)
        logits, value = self._ask(self._look, self.minds.own, (state, seat), wanted, self._nothing(seat))
        return logits, value, memory

    def others(
        self, keys: Array, state: Any, seat: Array, legal: Array, memory: Any, wanted: Array, known: Array
    ) -> Array:
        """See `search.Judge.others`."""
        said: Array = self._ask(self._act, self.minds.others, (keys, state, seat, legal, memory), wanted, known)
        return said

    def _ask(self, answer: Callable[[Any, Any], Any], networks: Any, given: Any, wanted: Array, known: Any) -> Any:
        """What each set of networks says of its trees.

        Args:
            answer: a set of networks, some rows of `given` -> what it says of them.
            networks: leaves [P, ...].
            given: leaves [B, ...].
            wanted: [B] bool, see `where_wanted`.
            known: leaves [B, ...], what is said of all other trees.
        """
        of_each = self._by_network((given, wanted, known))
        rows = of_each[1].shape[1]
        size = rows if self.parts == 1 else max(-(-rows // self.parts), SMALLEST_PART)

        def of_one(network: Any, given: Any, wanted: Array, known: Any) -> Any:
            return where_wanted(partial(answer, network), given, wanted, known, size)

        said = each(of_one, networks, *of_each, apart=self.large)
        return jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), said)

    def _nothing(self, seat: Array) -> tuple[Array, Array]:
        """Logits [B, U] and values [B] of positions that nobody asks about."""
        return jnp.zeros((len(seat), self.env.map_view.actions)), jnp.zeros(len(seat))

    @property
    def _sets(self) -> int:
        """P."""
        return len(jax.tree.leaves(self.minds)[0])

    def _by_network(self, tree: Any) -> Any:
        """Rows of all trees [B, ...] as those of each set of networks, [P, B / P, ...]."""
        return jax.tree.map(lambda leaf: leaf.reshape(self._sets, -1, *leaf.shape[1:]), tree)

    def _look(self, network: PolicyValueNetwork, given: Any) -> tuple[Array, Array]:
        """The focal players' logits [b, U] and values [b] of some trees."""
        logits, value = network(*seen_by(self.env, *given))
        return logits, value

    def _act(self, network: CoPlayersNetwork, given: Any) -> Array:
        """What the co-players of some trees do, [b, J] int8."""
        keys, state, seat, legal, memory = given
        maps, time = seen_by(self.env, state, seat)
        goal = None if self.goals is None else memory.astype(jnp.int32)
        return draw_actions(keys, network(maps, time, goal), legal).astype(jnp.int8)


def where_wanted(answer: Callable[[Any], Any], given: Any, wanted: Array, known: Any, size: int) -> Any:
    """Computes an answer only for the rows that want one, a part of them at a time.

    Args:
        answer: from some rows of `given` to their answers.
        given: leaves [B, ...].
        wanted: [B] bool.
        known: leaves [B, ...], the answers of all other rows.
        size: rows of a part; the whole batch is computed at once when it is no larger.

    Returns:
        leaves [B, ...].
    """
    rows = len(wanted)
    if size >= rows:
        return jax.tree.map(
            lambda new, old: jnp.where(wanted.reshape(-1, *(1,) * (old.ndim - 1)), new, old), answer(given), known
        )
    count = jnp.sum(wanted)
    # Those that want an answer first; behind the last row there is room for a whole part.
    order = jnp.pad(jnp.argsort(~wanted), (0, size), constant_values=rows)

    def step(carry: tuple[Array, Any]) -> tuple[Array, Any]:
        begin, known = carry
        mine = jax.lax.dynamic_slice(order, (begin,), (size,))
        found = answer(jax.tree.map(lambda leaf: leaf[jnp.minimum(mine, rows - 1)], given))
        mine = jnp.where(begin + jnp.arange(size) < count, mine, rows)
        return begin + size, jax.tree.map(lambda old, new: old.at[mine].set(new, mode="drop"), known, found)

    return jax.lax.while_loop(lambda carry: carry[0] < count, step, (jnp.int32(0), known))[1]


def renewed(goals: GoalSet, keys: Array, state: Any, codes: Array) -> Array:
    """Goals that are gone are replaced by any that exists: keys [B], codes [B, J] -> [B, J], as given if none does."""
    exists, all_codes = goals.exists(state), goals.codes(state)
    holds = jnp.any((codes[:, :, None] == all_codes[:, None]) & exists[:, None], axis=-1)
    choices = jnp.broadcast_to(exists[:, None], (*codes.shape, goals.count))
    number = jax.vmap(random_legal)(choices, keys)
    other = jnp.take_along_axis(all_codes, number, axis=1).astype(codes.dtype)
    return jnp.where(holds | ~jnp.any(exists, axis=-1, keepdims=True), codes, other)


def draw_actions(keys: Array, logits: Array, legal: Array) -> Array:
    """Draws actions with each tree's own key: [B], [B, J, U], [B, J, U] -> [B, J] int32."""
    return jax.vmap(lambda key, row, allowed: softmax(row, allowed, key, 0.0))(keys, logits, legal)


def goal_likelihoods(
    env: GridGame, minds: Minds, state: Any, seats: Array, codes: Array, actions: Array, *, per_seat: bool = False
) -> Array:
    """How likely what the others really did was, for each goal they may have.

    Args:
        env: the game.
        minds: the networks.
        state: the positions in which they acted, leaves [N, ...].
        seats: [N, m] focal seats.
        codes: [N, G] integers, the goals as rows of the networks' input.
        actions: [N, A] what was done then; -1 for who had left.
        per_seat: whether the networks have a leading axis m.

    Returns:
        [N, m, J, G]; 1 where a co-player had left or could do only one thing, for that tells nothing.
    """
    legal = env.legal(state)

    def of_seat(others: CoPlayersNetwork, seat: Array) -> Array:
        order = own_order(seat, legal.shape[1])[:, 1:]
        allowed = jnp.take_along_axis(legal, order[..., None], axis=1)
        did = jnp.take_along_axis(actions, order, axis=1).astype(jnp.int32)
        maps, time = seen_by(env, state, seat)
        chances = legal_softmax(others.for_goals(maps, time, codes), allowed[:, :, None])
        chance = jnp.take_along_axis(chances, jnp.maximum(did, 0)[:, :, None, None], axis=-1)[..., 0]
        free = (did >= 0) & (jnp.sum(allowed, axis=-1) > 1)
        return jnp.where(free[..., None], chance, 1.0)

    if per_seat:
        return jnp.moveaxis(each(of_seat, minds.others, seats.T), 0, 1)
    return jnp.stack([of_seat(minds.others, seat) for seat in seats.T], axis=1)
