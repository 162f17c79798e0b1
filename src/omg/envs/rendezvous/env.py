"""Rendezvous: two players start in the middle of a board and are paid if a round ends with both on the same corner.

Everybody has just enough steps to reach a corner, so whoever follows comes too late: where the other is heading must
be known beforehand, from the rounds played with it. A view tells where both are and what round it is, and nothing of
earlier rounds. The rules know no chance, not even at the start.

Everything inside is batch-minor: arrays are `[seats, B]` or `[B]`.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from omg.envs.base import EnvSpec, Observation, Outcome
from omg.envs.places import CellPlace, SeatCells
from omg.envs.rendezvous.args import RendezvousArgs
from omg.envs.rendezvous.scene import rendezvous_scenery
from omg.envs.scenes import COMPASS_STEPS, Scenery

STAY, NORTH, SOUTH, WEST, EAST = range(5)
N_ACTIONS = 5
ROW_STEP = np.array([0, -1, 1, 0, 0])
COL_STEP = np.array([0, 0, 0, -1, 1])
"""How an action changes the row and the column."""


class RendezvousState(NamedTuple):
    """All that a game needs to go on."""

    row: Array
    """[2 seats, B] int32."""
    col: Array
    """[2 seats, B] int32."""
    met: Array
    """[B] int32, rounds that ended with both on the same corner."""
    steps: Array
    """[B] int32, steps played."""


class Rendezvous:
    """The game of `RendezvousArgs` as a batched `omg.envs.base.Env`.

    Observation of a seat, zeros and ones, in four one-hot parts: its own cell (`size * size`, row by row), the other's
    cell, the step in the round (`moves`) and the round (`rounds`). The state is the same with the cell of seat 0 first.
    At the end of a round both are put back to the middle before anybody looks: where the last step led is told by the
    actions alone.

    When a round ends with both on the same corner, whichever it is, the team is paid `1 / rounds`.

    Metric: `met`, the share of all rounds in which they have met so far.
    """

    def __init__(self, args: RendezvousArgs) -> None:
        self.args = args
        width = 2 * args.size**2 + args.round_moves + args.rounds
        self.spec = EnvSpec(
            name="rendezvous",
            scenario=f"{args.size}x{args.size}-{args.round_moves}m-{args.rounds}r",
            n_agents=2,
            n_actions=N_ACTIONS,
            obs_dim=width,
            state_dim=width,
            episode_limit=args.round_moves * args.rounds,
            metrics=("met",),
            success_metric="met",
            seat_blocks=((0, args.size**2),),
            seat_places=CellPlace(args.size, args.size),
            round_steps=args.round_moves,
            seat_cells=SeatCells(
                args.size, args.size, 0, args.size**2, CellPlace(args.size, args.size), COMPASS_STEPS, args.rounds
            ),
        )

    def reset(self, key: Array, num_envs: int) -> tuple[RendezvousState, Observation]:
        """Puts both players in the middle.

        Args:
            key: not used, all games start alike.
            num_envs: number of games B.

        Returns:
            the state, and `Observation` with obs [B, 2, O], state [B, O], avail [B, 2, 5].
        """
        del key
        middle = jnp.full((2, num_envs), self.args.middle, jnp.int32)
        zero = jnp.zeros(num_envs, jnp.int32)
        state = RendezvousState(row=middle, col=middle, met=zero, steps=zero)
        return state, self._observe(state)

    def step(self, key: Array, state: RendezvousState, actions: Array) -> tuple[RendezvousState, Observation, Outcome]:
        """Moves both players at once; a round that ends is paid, and the next one starts.

        Args:
            key: not used, the rules know no chance.
            state: from `reset` or `step`.
            actions: [B, 2] integers; one that leaves the board counts as staying.

        Returns:
            the next state, `Observation`, and `Outcome`, everything in it [B].
        """
        del key
        args, middle, last = self.args, self.args.middle, self.args.size - 1
        action = actions.astype(jnp.int32).T
        row = jnp.clip(state.row + jnp.asarray(ROW_STEP)[action], 0, last)
        col = jnp.clip(state.col + jnp.asarray(COL_STEP)[action], 0, last)
        on = state.steps < self.spec.episode_limit
        steps = state.steps + on
        round_ends = on & (steps % args.round_moves == 0)
        on_corner = ((row[0] == 0) | (row[0] == last)) & ((col[0] == 0) | (col[0] == last))
        meet = round_ends & on_corner & (row[0] == row[1]) & (col[0] == col[1])
        state = RendezvousState(
            row=jnp.where(round_ends, middle, row),
            col=jnp.where(round_ends, middle, col),
            met=state.met + meet,
            steps=steps,
        )
        terminated = steps >= self.spec.episode_limit
        outcome = Outcome(
            reward=meet.astype(jnp.float32) / args.rounds,
            terminated=terminated,
            truncated=jnp.zeros_like(terminated),
            metrics={"met": state.met.astype(jnp.float32) / args.rounds},
        )
        return state, self._observe(state), outcome

    def scenery(self) -> Scenery[RendezvousState]:
        """See `omg.envs.scenes.Shown`."""
        return rendezvous_scenery(self.args)

    def _observe(self, state: RendezvousState) -> Observation:
        args, last = self.args, self.args.size - 1
        # [numbers, B] each; behind the end of a game there is no round, and its part is all zeros.
        cells = state.row * args.size + state.col
        places = [jax.nn.one_hot(cells[seat], args.size**2, axis=0) for seat in (0, 1)]
        time = [
            jax.nn.one_hot(state.steps % args.round_moves, args.round_moves, axis=0),
            jax.nn.one_hot(state.steps // args.round_moves, args.rounds, axis=0),
        ]
        views = [jnp.concatenate([places[me], places[1 - me], *time]) for me in (0, 1)]
        legal = [
            jnp.ones_like(state.row, bool),
            state.row > 0,
            state.row < last,
            state.col > 0,
            state.col < last,
        ]
        return Observation(
            obs=jnp.stack(views).transpose(2, 0, 1),
            state=views[0].T,
            avail=jnp.stack(legal).transpose(2, 1, 0),
        )
