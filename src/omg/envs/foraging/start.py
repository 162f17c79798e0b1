"""How a game of foraging starts: where players and foods are put, and their levels.

Nothing is rejected and drawn again, so a start takes the same short time always and never fails.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from omg.envs.foraging.args import FOOD_GAP, ForagingArgs, packing

Bound = int | tuple[int, ...] | Array
"""A level for all items, one per item, or one per game [B]."""


class ForagingRounds(NamedTuple):
    """Where a game of several rounds is."""

    number: Array
    """[B] int32, the present round, from 0."""
    steps: Array
    """[B] int32, steps played in it."""
    score: Array
    """[B] int32, sum of the levels of the foods taken in the rounds before it."""


class ForagingState(NamedTuple):
    """All that a game needs to go on; foods are in row-major order, those already taken at the end."""

    player_row: Array
    """[players, B] int32."""
    player_col: Array
    """[players, B] int32."""
    player_level: Array
    """[players, B] int32."""
    food_row: Array
    """[foods, B] int32, `ABSENT` once taken."""
    food_col: Array
    """[foods, B] int32, `ABSENT` once taken."""
    food_level: Array
    """[foods, B] int32, 0 once taken."""
    spawned: Array
    """[B] int32, sum of all food levels at the start."""
    steps: Array
    """[B] int32, steps played."""
    rounds: ForagingRounds | None = None
    """None in games of a single round."""


def new_games(args: ForagingArgs, key: Array, num_envs: int, player_level: Array | None = None) -> ForagingState:
    """Random starts of `num_envs` games, with players of the levels [players, B] if they are given."""
    player_key, food_key, player_level_key, food_level_key = jax.random.split(key, 4)
    player_chance = jax.random.uniform(player_key, (args.players, num_envs))
    food_chance = jax.random.uniform(food_key, (args.max_food, num_envs))
    player_cell, free = _choose_cells(player_chance, jnp.ones((args.rows * args.cols, num_envs), bool))
    food_cell, stuck = _choose_food_cells(args, food_chance, free)
    if _may_get_stuck(args):
        # The random foods of these games left no room for the last ones: they get a tight layout, mirrored at random.
        mirror_chance = jax.random.uniform(jax.random.fold_in(food_key, 1), (num_envs,))
        tight_cell = _mirrored(args, packing(args)[: args.max_food], mirror_chance)
        around = jnp.all(np.arange(args.rows * args.cols)[:, None, None] != tight_cell, axis=1)
        food_cell = jnp.where(stuck, tight_cell, food_cell)
        player_cell = jnp.where(stuck, _choose_cells(player_chance, around)[0], player_cell)
    food_cell = _sorted(food_cell)
    if player_level is None:
        player_level = _levels(player_level_key, args.min_player_level, args.max_player_level, player_cell.shape)
    weakest = player_level if args.players <= 3 else jnp.sort(player_level, axis=0)[:3]
    highest = jnp.sum(weakest, axis=0) if args.max_food_level is None else args.max_food_level
    lowest = highest if args.force_coop else args.min_food_level
    food_level = _levels(food_level_key, lowest, highest, food_cell.shape)
    zero = jnp.zeros(num_envs, jnp.int32)
    return ForagingState(
        player_row=player_cell // args.cols,
        player_col=player_cell % args.cols,
        player_level=player_level,
        food_row=food_cell // args.cols,
        food_col=food_cell % args.cols,
        food_level=food_level,
        spawned=jnp.sum(food_level, axis=0),
        steps=zero,
        rounds=ForagingRounds(zero, zero, zero) if args.rounds > 1 else None,
    )


def next_round(args: ForagingArgs, key: Array, state: ForagingState, over: Array) -> ForagingState:
    """Draws the fields of those games anew whose round is over [B] bool; their players keep their levels."""
    assert state.rounds is not None
    fresh = new_games(args, key, over.shape[0], state.player_level)
    number, steps, score = state.rounds
    gathered = state.spawned - jnp.sum(state.food_level, axis=0)
    moved = fresh._replace(
        steps=state.steps, rounds=ForagingRounds(number + 1, jnp.zeros_like(steps), score + gathered)
    )
    drawn: ForagingState = jax.tree.map(lambda new, old: jnp.where(over, new, old), moved, state)
    return drawn


def _choose_cells(chance: Array, free: Array) -> tuple[Array, Array]:
    """Different cells, one after the other, each uniformly among those still free.

    Args:
        chance: [n, B] uniform numbers, one per cell to choose.
        free: [cells, B] bool, at least n of each game.

    Returns:
        the cells [n, B] int32, and what is free afterwards [cells, B].
    """
    every_cell = np.arange(len(free))[:, None]
    cells = []
    for uniform in chance:
        cell, _ = _choose_cell(uniform, free)
        free &= every_cell != cell
        cells.append(cell)
    return jnp.stack(cells), free


def _choose_food_cells(args: ForagingArgs, chance: Array, free: Array) -> tuple[Array, Array]:
    """Cells for food, one after the other, each uniformly among those that the rules still allow.

    Args:
        args: the game.
        chance: [foods, B] uniform numbers.
        free: [cells, B] bool, cells without players.

    Returns:
        the cells [foods, B] int32, and `stuck` [B] bool: no allowed cell was left for some food of this game.
    """
    row, col = (axis.reshape(-1, 1) for axis in np.mgrid[: args.rows, : args.cols])
    free &= (row > 0) & (row < args.rows - 1) & (col > 0) & (col < args.cols - 1)
    stuck = jnp.zeros(chance.shape[1], bool)
    cells = []
    for uniform in chance:
        cell, count = _choose_cell(uniform, free)
        stuck |= count == 0
        free &= jnp.abs(row - cell // args.cols) + jnp.abs(col - cell % args.cols) > FOOD_GAP
        cells.append(cell)
    return jnp.stack(cells), stuck


def _choose_cell(uniform: Array, free: Array) -> tuple[Array, Array]:
    """A free cell [B] by `uniform` [B] numbers, and how many there were [B]; `free` is [cells, B]."""
    count = jnp.sum(free, axis=0)

    def count_down(carry: tuple[Array, Array], is_free: Array) -> tuple[tuple[Array, Array], None]:
        cell, left = carry
        left = left - is_free
        return (cell + (left >= 0), left), None

    # One pass with a running count takes a tenth of the time of `cumsum` and a comparison (CPU).
    start = (jnp.zeros_like(count), _below(uniform, count))
    (cell, _), _ = jax.lax.scan(count_down, start, free)
    return cell, count


def _levels(key: Array, lowest: Bound, highest: Bound, shape: tuple[int, ...]) -> Array:
    """Levels of `shape` [items, B], uniform between the bounds; bounds that differ by item are dealt at random."""
    if lowest is highest and not isinstance(highest, tuple):
        return jnp.broadcast_to(jnp.asarray(highest, jnp.int32), shape)
    if isinstance(lowest, tuple) or isinstance(highest, tuple):
        order = jnp.argsort(jax.random.uniform(jax.random.fold_in(key, 1), shape), axis=0)
        lowest, highest = (
            jnp.asarray(bound)[order] if isinstance(bound, tuple) else bound for bound in (lowest, highest)
        )
    return lowest + _below(jax.random.uniform(key, shape), highest - lowest + 1)


def _below(uniform: Array, count: int | Array) -> Array:
    """Integers in 0 … count - 1 from uniform numbers in [0, 1)."""
    return (uniform * count).astype(jnp.int32)


def _sorted(values: Array) -> Array:
    """[n, B] in ascending order along n: insertion, element by element of the batch."""
    ordered: list[Array] = []
    for value in values:
        larger = value
        for place, other in enumerate(ordered):
            ordered[place], larger = jnp.minimum(other, larger), jnp.maximum(other, larger)
        ordered.append(larger)
    return jnp.stack(ordered)


def _mirrored(args: ForagingArgs, cells: list[int], uniform: Array) -> Array:
    """The cells [n, B] with the field turned upside down, left to right, both or not at all by `uniform` [B]."""
    row, col = (part[:, None] for part in np.divmod(np.array(cells), args.cols))
    quarter = _below(uniform, 4)
    mirrored_row = jnp.where(quarter % 2 == 1, args.rows - 1 - row, row)
    mirrored_col = jnp.where(quarter // 2 == 1, args.cols - 1 - col, col)
    return mirrored_row * args.cols + mirrored_col


def _may_get_stuck(args: ForagingArgs) -> bool:
    """Whether foods placed at random can leave no room for the last one: each forbids up to 13 cells to the others."""
    return (args.rows - 2) * (args.cols - 2) <= 13 * (args.max_food - 1) + args.players
