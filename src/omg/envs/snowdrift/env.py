"""Snowdrift: players on a board shovel drifts away; everybody gains, and only those who shovel pay for it.

Cleaning alone still pays, but letting others clean pays more.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from omg.envs.grid.game import GridGame, Pieces
from omg.envs.grid.goals import GoalSet
from omg.envs.grid.scene import board_scenery
from omg.envs.grid.start import new_board
from omg.envs.grid.walking import NO_ACTION, STAY, batch_last, keep_numbers, legal_actions, walk
from omg.envs.scenes import Scenery
from omg.envs.snowdrift.args import SnowdriftArgs

SHOVEL = 5
NO_DRIFT = -1
"""In place of the number of a drift."""


class SnowdriftState(NamedTuple):
    """All that a game needs to go on; the cells of drifts never change."""

    player: Array
    """[B, A] uint8, cells."""
    drift: Array
    """[B, D] uint8, cells."""
    drift_left: Array
    """[B, D] bool, not yet removed."""
    blocks: Array
    """[B, words] uint32, obstacles as bits (`omg.envs.grid.bits`)."""
    last_action: Array
    """[B, A] int8, what was really done; `NO_ACTION` at the start."""
    time: Array
    """[B] int16, steps played."""


class Snowdrift(GridGame[SnowdriftState]):
    """The game of `SnowdriftArgs` as a batched `omg.envs.base.Env`; see `GridGame` for what a planner can call.

    Metrics: `drifts_removed` so far, and `reward_per_player`, the mean over all players of what they were paid so far.
    """

    actions = ("up", "down", "left", "right", "stay", "shovel")
    pieces = ("block", "drift")
    exploration = 15.0
    args: SnowdriftArgs

    def __init__(self, args: SnowdriftArgs) -> None:
        metrics = ("drifts_removed", "reward_per_player")
        super().__init__(args, name="snowdrift", pieces=f"{args.drifts}d", metrics=metrics)

    def start(self, key: Array, num_envs: int) -> SnowdriftState:
        """See `GridGame.start`."""
        players, drifts = self.args.players, self.args.drifts
        blocks, cells = new_board(self.board, self.args.blocks, players + drifts, key, num_envs)
        return SnowdriftState(
            player=cells[:, :players],
            drift=cells[:, players:],
            drift_left=jnp.ones((num_envs, drifts), bool),
            blocks=blocks,
            last_action=jnp.full((num_envs, players), NO_ACTION, jnp.int8),
            time=jnp.zeros(num_envs, jnp.int16),
        )

    def advance(self, state: SnowdriftState, actions: Array) -> tuple[SnowdriftState, Array, Array]:
        """See `GridGame.advance`."""
        on = ~self.finished(state) & (state.time < self.args.episode_limit)
        game = batch_last(state)
        action = jnp.where(on, actions.astype(jnp.int32).T, STAY)
        shovels = self._shovels(game, action)
        together = jnp.sum(shovels, axis=0, dtype=jnp.int32)
        removed = together > 0
        gain = self.args.benefit * jnp.sum(removed, axis=0).astype(jnp.float32)
        cost = self.args.cost / jnp.maximum(together, 1).astype(jnp.float32)
        player, moves = walk(self.board, game.player, game.blocks, action)
        done = jnp.where(moves | jnp.any(shovels, axis=1), action, STAY).astype(jnp.int8)
        game = game._replace(
            player=player,
            drift_left=game.drift_left & ~removed,
            last_action=jnp.where(on, done, game.last_action),
            time=game.time + on,
        )
        after = batch_last(game)._replace(drift=state.drift, blocks=state.blocks)
        over = self.finished(after) | (after.time >= self.args.episode_limit)
        return after, (gain - jnp.sum(jnp.where(shovels, cost, 0.0), axis=1)).T, over

    def removed(self, state: SnowdriftState, actions: Array) -> Array:
        """Which drift every player removes when `actions` [B, A] are played in `state`.

        Returns:
            [B, A] int32: the number of the drift, several players may share one; `NO_DRIFT` for none.
        """
        action = jnp.where(self.over(state), STAY, actions.astype(jnp.int32).T)
        shovels = self._shovels(batch_last(state), action)
        numbers = np.arange(self.args.drifts, dtype=np.int32)[:, None]
        return jnp.max(jnp.where(shovels, numbers, NO_DRIFT), axis=1).T

    def goals(self) -> SnowdriftGoals:
        """See `GridGame.goals`."""
        return SnowdriftGoals(self)

    def legal(self, state: SnowdriftState) -> Array:
        """See `GridGame.legal`: shovelling needs a drift on the own cell."""
        game = batch_last(state)
        shovel = jnp.any(self._here(game), axis=1)
        return legal_actions(self.board, game.player, game.blocks, jnp.ones_like(shovel), [shovel])

    def finished(self, state: SnowdriftState) -> Array:
        """See `GridGame.finished`: no drift is left."""
        return ~jnp.any(state.drift_left, axis=1)

    def there(self, state: SnowdriftState) -> Array:
        """See `GridGame.there`: nobody ever leaves."""
        return jnp.ones(state.player.shape, bool)

    def standing(self, state: SnowdriftState) -> tuple[Pieces, ...]:
        """See `GridGame.standing`."""
        return Pieces(state.player, jnp.ones(state.player.shape, bool)), Pieces(state.drift, state.drift_left)

    def from_world(self, world: Array, before: SnowdriftState | None = None) -> SnowdriftState:
        """See `GridGame.from_world`."""
        read = self._read(world, {"drift": self.args.drifts})
        ((drift, left),) = read.pieces
        if before is not None:
            drift, left = keep_numbers(
                (drift, left), (before.drift, before.drift_left), read.pictures[0], read.time == 0
            )
        return SnowdriftState(read.player, drift, left, read.blocks, read.last_action, read.time)

    def scenery(self) -> Scenery[SnowdriftState]:
        """See `omg.envs.scenes.Shown`."""
        return board_scenery(self, {"drift": ("#7fa8c4", 0.4)})

    def metrics(self, state: SnowdriftState) -> dict[str, Array]:
        """See `GridGame.metrics`."""
        removed = jnp.sum(~state.drift_left, axis=1).astype(jnp.float32)
        # However the cost of a drift is shared, all players together pay it once.
        each = self.args.benefit - self.args.cost / self.args.players
        return {"drifts_removed": removed, "reward_per_player": each * removed}

    def _here(self, game: SnowdriftState) -> Array:
        """Which drift is on the cell of which player, [A, D, B] bool; `game` has the batch last."""
        return (game.player[:, None] == game.drift) & game.drift_left

    def _shovels(self, game: SnowdriftState, action: Array) -> Array:
        """Who shovels which drift, [A, D, B] bool."""
        return self._here(game) & (action == SHOVEL)[:, None]


class SnowdriftGoals(GoalSet[SnowdriftState]):
    """Each drift while it is left (its number; its cell as code), or none of them (the last number and code).

    An episode's achievement is how many drifts the player removed.
    """

    alpha = 0.98
    codes_are_cells = True

    def __init__(self, game: Snowdrift) -> None:
        self.game = game
        self.count = self.achievements = game.args.drifts + 1
        self.idle = game.cells
        self.width = game.cells + 1

    @property
    def names(self) -> tuple[str, ...]:
        """See `GoalSet.names`."""
        return (*(f"drift {number + 1}" for number in range(self.count - 1)), "none")

    def places(self, state: SnowdriftState) -> tuple[Array, Array]:
        """See `GoalSet.places`: the cells of the drifts that are left."""
        drift, width = state.drift.astype(jnp.int32), self.game.board.width
        places = (jnp.where(state.drift_left, cells + 0.5, jnp.nan) for cells in (drift % width, drift // width))
        x, y = (jnp.pad(place, ((0, 0), (0, 1)), constant_values=jnp.nan) for place in places)
        return x, y

    def exists(self, state: SnowdriftState) -> Array:
        """See `GoalSet.exists`; to do nothing is always possible."""
        return jnp.pad(state.drift_left, ((0, 0), (0, 1)), constant_values=True)

    def codes(self, state: SnowdriftState) -> Array:
        """See `GoalSet.codes`."""
        return jnp.pad(state.drift.astype(jnp.int32), ((0, 0), (0, 1)), constant_values=self.width - 1)

    def reached(self, state: SnowdriftState, actions: Array) -> Array:
        """See `GoalSet.reached`; none is never reached."""
        return self.game.removed(state, actions)

    def achievement(self, reached: Array) -> Array:
        """See `GoalSet.achievement`."""
        return jnp.sum(reached >= 0, axis=1, dtype=jnp.int32)
