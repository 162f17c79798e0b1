"""Searches of any size within a given memory: the games are planned for part by part."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from omg.errors import UserError
from omg.planning.batches import Axes
from omg.planning.search import Game, Judge, Plan, SearchSettings, arrive, place_roots, plan
from omg.planning.trees import branch_slots

NUMBER = 4
"""Bytes of a float."""


def search_bytes(game: Game, judge: Judge, settings: SearchSettings, state: Any, seats: Array, memory: Any) -> int:
    """Bytes that the trees of one `plan` take; what the networks need for a single evaluation comes on top.

    Arguments as for `plan`; only their shapes matter.
    """

    def start(state: Any, seats: Array, memory: Any) -> Any:
        roots, _ = place_roots(state, seats, memory, None)
        everywhere = jnp.ones(roots.seat.shape, bool)
        arrival = arrive(game, judge, roots, roots.state, roots.memory, jax.random.key(0), everywhere)
        return arrival, game.legal(state)

    root, legal = jax.eval_shape(start, state, seats, memory)
    trees, actions = root.prior.shape
    node = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(root.node))
    # See `trees.Trees`: four numbers of every branch, four of how the node was reached, an action of every co-player.
    return (settings.simulations + 1) * (trees * (NUMBER * 4 * (branch_slots(actions) + 1) + legal.shape[1] - 1) + node)


def part_count(games: int, bytes_of_all: int, limit_bytes: int) -> int:
    """Into how many parts games must go so that none takes more than the limit.

    Raises:
        UserError: when one game alone is too much.
    """
    each = -(-bytes_of_all // games)
    fitting = limit_bytes // each
    if fitting < 1:
        raise UserError(
            f"The memory limit of the search: got {limit_bytes:,} bytes, but the trees of one game take {each:,}. "
            f"Allowed: at least that much. Or search with fewer simulations, samples or focal seats."
        )
    return -(-games // fitting)


def plan_in_parts(
    game: Game,
    judge: Judge,
    settings: SearchSettings,
    state: Any,
    seats: Array,
    memory: Any,
    key: Array,
    *,
    limit_bytes: int,
    axes: Axes = (),
) -> Plan:
    """`plan`, with the same result up to rounding, but never more trees at once than fit into `limit_bytes`.

    Parts are equal, so there is one compilation; the last one is filled up with copies of the last game.
    """
    games = len(seats)
    parts = part_count(games, search_bytes(game, judge, settings, state, seats, memory), limit_bytes)
    if parts == 1:
        return plan(game, judge, settings, state, seats, memory, key, axes=axes)
    size = -(-games // parts)
    numbers = jnp.minimum(jnp.arange(parts * size, dtype=jnp.int32), games - 1)

    def cut(leaf: Array) -> Array:
        return leaf[numbers].reshape(parts, size, *leaf.shape[1:])

    def plan_part(part: Any) -> Plan:
        of_part, its_seats, its_memory, its_games = part
        return plan(game, judge, settings, of_part, its_seats, its_memory, key, its_games, axes)

    planned = jax.lax.map(plan_part, jax.tree.map(cut, (state, seats, memory, jnp.arange(games, dtype=jnp.int32))))
    whole: Plan = jax.tree.map(lambda leaf: leaf.reshape(parts * size, *leaf.shape[2:])[:games], planned)
    return whole
