"""Games in positions that tests have chosen, and small compiled parts of games that several files share."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from omg.envs.foraging.env import ForagingState
from omg.envs.grid.bits import pack
from omg.envs.stag_hunt import StagHunt, StagHuntArgs
from omg.envs.stag_hunt.env import StagHuntState
from omg.envs.toy_grid import ToyGrid, ToyGridArgs

Cells = Sequence[tuple[int, int]]


def distances(free: np.ndarray, goals: np.ndarray) -> np.ndarray:
    """Steps from every free cell to the nearest goal [H, W]; infinite where there is no way. Cell by cell."""
    steps = np.where(goals, 0.0, np.inf)
    queue = deque(zip(*np.nonzero(goals), strict=True))
    while queue:
        row, col = queue.popleft()
        for near in ((row - 1, col), (row + 1, col), (row, col - 1), (row, col + 1)):
            inside = 0 <= near[0] < free.shape[0] and 0 <= near[1] < free.shape[1]
            if inside and free[near] and np.isinf(steps[near]):
                steps[near] = steps[row, col] + 1
                queue.append(near)
    return steps


def hunt_position(env: StagHunt, players: Cells, stags: Cells, hares: Cells, blocks: Cells = ()) -> StagHuntState:
    """A batch of one."""

    def numbers(cells: Cells) -> jax.Array:
        return jnp.asarray([[row * env.board.width + col for row, col in cells]], jnp.uint8)

    taken = np.zeros((1, env.board.cells), bool)
    taken[0, [row * env.board.width + col for row, col in blocks]] = True
    return StagHuntState(
        player=numbers(players),
        hunting=jnp.ones((1, len(players)), bool),
        prey=numbers([*stags, *hares]),
        prey_left=jnp.ones((1, len(stags) + len(hares)), bool),
        blocks=pack(taken),
        last_action=jnp.full((1, len(players)), -1, jnp.int8),
        time=jnp.zeros(1, jnp.int16),
    )


@cache
def hunt(**args: Any) -> StagHunt:
    return StagHunt(StagHuntArgs(**args))


@cache
def first_world(env):
    """The start of a single battle."""
    return jax.jit(lambda: env.reset(jax.random.PRNGKey(0), 1)[0])()


def battle_position(env, ally=None, enemy=None, **fields):
    """A single battle with chosen positions; `ally`, `enemy`: {unit: dict of fields}."""
    # The positions are written by NumPy: compiling each assignment would take longer than the battle.
    world = jax.tree.map(np.array, first_world(env))
    for side, changes in ((world.ally, ally or {}), (world.enemy, enemy or {})):
        for unit, values in changes.items():
            for key, value in values.items():
                getattr(side, key)[unit, 0] = value
    return jax.tree.map(jnp.asarray, world)._replace(**fields)


def foraging_position(players: list[tuple[int, int, int]], foods: list[tuple[int, int, int]]) -> ForagingState:
    """A batch of one from (row, column, level) of each player and food; foods in row-major order."""
    player, food = (np.asarray(pieces, np.int32).T[..., None] for pieces in (players, foods))
    spawned, steps = food[2].sum(axis=0, dtype=np.int32), np.zeros(1, np.int32)
    return jax.tree.map(jnp.asarray, ForagingState(*player, *food, spawned=spawned, steps=steps))


@cache
def toy_step(env: ToyGrid) -> Any:
    return jax.jit(env.step)


@cache
def toy_grid(**args: Any) -> ToyGrid:
    return ToyGrid(ToyGridArgs(**args))
