"""Toy grid: two players race for two cells, and each cell pays only the first to arrive.

Both players start equally far from both cells, so whoever knows where the other is heading takes the other cell. The
rules know no collisions and no chance. The one thing drawn at the start of a game is a *plan* for each seat, a cell of
the two, which only that seat sees. It changes no rule and no reward: a scripted player follows it, so that the other
one meets two policies and must find out which.

Everything inside is batch-minor: arrays are `[seats, B]` or `[cells, B]`.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from omg.envs.base import EnvSpec, Observation, Outcome
from omg.envs.places import NumberPlace, SeatCells
from omg.envs.scenes import COMPASS_STEPS, Scenery
from omg.envs.toy_grid.args import ToyGridArgs
from omg.envs.toy_grid.scene import toy_scenery

STAY, NORTH, SOUTH, WEST, EAST = range(5)
N_ACTIONS = 5
ROW_STEP = np.array([0, -1, 1, 0, 0])
COL_STEP = np.array([0, 0, 0, -1, 1])
"""How an action changes the row and the column."""
TOP, BOTTOM = range(2)
"""The two reward cells; a plan is one of them."""


class ToyGridRounds(NamedTuple):
    """Where a game of several rounds is."""

    number: Array
    """[B] int32, the present round, from 0."""
    steps: Array
    """[B] int32, steps played in it."""
    paid: Array
    """[B] int32, cells that paid somebody in the rounds before."""
    tied: Array
    """[B] int32, cells that both entered at once in the rounds before."""


class ToyGridState(NamedTuple):
    """All that a game needs to go on."""

    row: Array
    """[2 seats, B] int32."""
    col: Array
    """[2 seats, B] int32."""
    plan: Array
    """[2 seats, B] int32, `TOP` or `BOTTOM`; seen by its own seat only."""
    pays: Array
    """[2 cells, B] bool, nobody has arrived there yet."""
    paid: Array
    """[2 cells, B] bool, somebody was paid there."""
    steps: Array
    """[B] int32, steps played."""
    rounds: ToyGridRounds | None = None
    """None in games of a single round."""


class ToyGrid:
    """The game of `ToyGridArgs` as a batched `omg.envs.base.Env`.

    Observation of a seat, 7 numbers in [0, 1]: its own row and column, the other's row and column, whether the top and
    the bottom cell still pay, and its plan (0 top, 1 bottom). Rows and columns are divided by `size - 1`. The state has
    6 numbers: row and column of both seats and whether the cells still pay; plans are nobody's business.

    A player who enters a cell that still pays gets `reward`, and the cell pays no more. When both enter it in the same
    step, nobody was first: nobody is paid, and the cell pays no more. The game ends when neither cell pays.

    With `rounds` above 1 a race that is over, by its end or after `episode_limit` steps, is followed by the next: both
    players are back on their starts, both cells pay again, plans stay. Observation and state then end with the round as
    one-hot.

    Metrics: `cells_paid` is the number of cells that paid somebody; `cells_tied` the number of those that both players
    entered in the same step.
    """

    def __init__(self, args: ToyGridArgs) -> None:
        self.args = args
        round_features = args.rounds if args.rounds > 1 else 0
        place = NumberPlace(x=1, y=0, x_scale=args.size - 1, y_scale=args.size - 1, offset=0.5)
        self.spec = EnvSpec(
            name="toy_grid",
            scenario=f"{args.size}x{args.size}" + (f"-{args.rounds}r" if args.rounds > 1 else ""),
            n_agents=2,
            n_actions=N_ACTIONS,
            obs_dim=7 + round_features,
            state_dim=6 + round_features,
            episode_limit=args.episode_limit * args.rounds,
            reward_per_agent=True,
            metrics=("cells_paid", "cells_tied"),
            success_metric="cells_paid",
            seat_blocks=((0, 2),),
            seat_places=place,
            seat_cells=SeatCells(args.size, args.size, 0, 2, place, COMPASS_STEPS, args.rounds),
        )

    def reset(self, key: Array, num_envs: int) -> tuple[ToyGridState, Observation]:
        """Puts the players on their starts and draws a plan for each.

        Args:
            key: random key; the only randomness of a game.
            num_envs: number of games B.

        Returns:
            the state, and `Observation` with obs [B, 2, O], state [B, S], avail [B, 2, 5].
        """
        row, col = self._starts(num_envs)
        zero = jnp.zeros(num_envs, jnp.int32)
        state = ToyGridState(
            row=row,
            col=col,
            plan=jax.random.bernoulli(key, 0.5, (2, num_envs)).astype(jnp.int32),
            pays=jnp.ones((2, num_envs), bool),
            paid=jnp.zeros((2, num_envs), bool),
            steps=zero,
            rounds=ToyGridRounds(zero, zero, zero, zero) if self.args.rounds > 1 else None,
        )
        return state, self._observe(state)

    def step(self, key: Array, state: ToyGridState, actions: Array) -> tuple[ToyGridState, Observation, Outcome]:
        """Moves both players at once and pays whoever is first on a cell.

        Args:
            key: not used, the rules know no chance.
            state: from `reset` or `step`.
            actions: [B, 2] integers; one that leaves the board counts as staying.

        Returns:
            the next state, `Observation`, and `Outcome` with reward [B, 2], everything else [B].
        """
        del key
        action = actions.astype(jnp.int32).T
        last = self.args.size - 1
        row = jnp.clip(state.row + jnp.asarray(ROW_STEP)[action], 0, last)
        col = jnp.clip(state.col + jnp.asarray(COL_STEP)[action], 0, last)
        goal_row, goal_col = (part[:, None, None] for part in np.transpose(self.args.goals))
        # A cell that still pays has nobody on it yet, so whoever stands there now has just arrived: [cells, seats, B].
        arrives = (row == goal_row) & (col == goal_col) & state.pays[:, None]
        taken = jnp.any(arrives, axis=1)
        tied = jnp.all(arrives, axis=1)
        reward = self.args.reward * jnp.sum(arrives & ~tied[:, None], axis=0)
        steps = state.steps + 1
        pays, ever_paid = state.pays & ~taken, state.paid | (taken & ~tied)
        state = ToyGridState(row, col, state.plan, pays, ever_paid, steps, state.rounds)
        ended, cut = ~jnp.any(pays, axis=0), steps >= self.args.episode_limit
        cells_paid, cells_tied = jnp.sum(ever_paid, axis=0), jnp.sum(~pays & ~ever_paid, axis=0)
        if state.rounds is not None:
            number, round_steps = state.rounds.number, state.rounds.steps + 1
            cells_paid, cells_tied = state.rounds.paid + cells_paid, state.rounds.tied + cells_tied
            cut, final = round_steps >= self.args.episode_limit, number == self.args.rounds - 1
            again = (ended | cut) & ~final
            before = ToyGridRounds(number, round_steps, state.rounds.paid, state.rounds.tied)
            after = ToyGridRounds(number + 1, jnp.zeros_like(number), cells_paid, cells_tied)
            fresh = ToyGridState(
                *self._starts(len(steps)), state.plan, jnp.ones_like(pays), jnp.zeros_like(ever_paid), steps, after
            )
            state = jax.tree.map(lambda new, old: jnp.where(again, new, old), fresh, state._replace(rounds=before))
            ended, cut = ended & final, cut & final
        metrics = {"cells_paid": cells_paid.astype(jnp.float32), "cells_tied": cells_tied.astype(jnp.float32)}
        outcome = Outcome(reward.T.astype(jnp.float32), ended, cut & ~ended, metrics)
        return state, self._observe(state), outcome

    def scenery(self) -> Scenery[ToyGridState]:
        """See `omg.envs.scenes.Shown`."""
        return toy_scenery(self.args)

    def _starts(self, num_envs: int) -> tuple[Array, Array]:
        """Rows and columns of both players at the start of a race, each [2, B]."""
        rows, cols = np.transpose(self.args.starts)[..., None]
        row, col = (jnp.broadcast_to(jnp.asarray(axis, jnp.int32), (2, num_envs)) for axis in (rows, cols))
        return row, col

    def _observe(self, state: ToyGridState) -> Observation:
        last = self.args.size - 1
        number: list[Array] = []
        if state.rounds is not None:
            number = list(state.rounds.number == np.arange(self.args.rounds)[:, None])
        row, col = state.row / last, state.col / last
        pays = state.pays.astype(jnp.float32)
        seats = [
            jnp.stack([row[me], col[me], row[1 - me], col[1 - me], *pays, state.plan[me], *number]) for me in (0, 1)
        ]
        legal = [
            jnp.ones_like(state.row, bool),
            state.row > 0,
            state.row < last,
            state.col > 0,
            state.col < last,
        ]
        return Observation(
            obs=jnp.stack(seats).astype(jnp.float32).transpose(2, 0, 1),
            state=jnp.stack([row[0], col[0], row[1], col[1], *pays, *number]).astype(jnp.float32).T,
            avail=jnp.stack(legal).transpose(2, 1, 0),
        )
