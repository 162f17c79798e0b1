"""Stag hunt: players on a board hunt hares alone or stags together, and leave with what they caught.

A stag is worth far more, but it falls only to two or more who hunt it in the same step. Who trusts in others that do
not come goes home with nothing.
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
from omg.envs.stag_hunt.args import StagHuntArgs

HUNT_STAG, HUNT_HARE = 5, 6
NOTHING, STAG, HARE = range(3)
"""What a player caught."""
HUNTERS_FOR_STAG = 2


class StagHuntState(NamedTuple):
    """All that a game needs to go on. Prey are numbered stags first; their cells never change."""

    player: Array
    """[B, A] uint8, cells; where they stood last for those who left."""
    hunting: Array
    """[B, A] bool, has not left."""
    prey: Array
    """[B, P] uint8, cells."""
    prey_left: Array
    """[B, P] bool, not yet caught."""
    blocks: Array
    """[B, words] uint32, obstacles as bits (`omg.envs.grid.bits`)."""
    last_action: Array
    """[B, A] int8, what was really done; `NO_ACTION` at the start and for those who had left before."""
    time: Array
    """[B] int16, steps played."""


class StagHunt(GridGame[StagHuntState]):
    """The game of `StagHuntArgs` as a batched `omg.envs.base.Env`; see `GridGame` for what a planner can call.

    Metrics: `stags_hunted` and `hares_hunted` by anybody so far, and `reward_per_player`, the mean over all players of
    what they were paid so far.
    """

    actions = ("up", "down", "left", "right", "stay", "hunt_stag", "hunt_hare")
    pieces = ("block", "stag", "hare")
    args: StagHuntArgs

    def __init__(self, args: StagHuntArgs) -> None:
        super().__init__(
            args,
            name="stag_hunt",
            pieces=f"{args.hare_count}h{args.stag_count}s",
            metrics=("stags_hunted", "hares_hunted", "reward_per_player"),
        )
        self.stags, self.hares = args.stag_count, args.hare_count
        # Of every prey, [P, 1]: its kind, the action that hunts it, how many it takes, what it pays.
        self._kind = np.repeat([STAG, HARE], [args.stag_count, args.hare_count])[:, None]
        is_stag = self._kind == STAG
        self._hunt = np.where(is_stag, HUNT_STAG, HUNT_HARE)
        self._hunters = np.where(is_stag, HUNTERS_FOR_STAG, 1)
        self._worth = np.where(is_stag, args.stag_reward, args.hare_reward).astype(np.float32)

    def start(self, key: Array, num_envs: int) -> StagHuntState:
        """See `GridGame.start`."""
        players, prey = self.args.players, self.args.hare_count + self.args.stag_count
        blocks, cells = new_board(self.board, self.args.blocks, players + prey, key, num_envs)
        return StagHuntState(
            player=cells[:, :players],
            hunting=jnp.ones((num_envs, players), bool),
            prey=cells[:, players:],
            prey_left=jnp.ones((num_envs, prey), bool),
            blocks=blocks,
            last_action=jnp.full((num_envs, players), NO_ACTION, jnp.int8),
            time=jnp.zeros(num_envs, jnp.int16),
        )

    def advance(self, state: StagHuntState, actions: Array) -> tuple[StagHuntState, Array, Array]:
        """See `GridGame.advance`."""
        on = ~self.finished(state) & (state.time < self.args.episode_limit)
        game = batch_last(state)
        action = self._action(game, on, actions)
        hunts, caught, together = self._hunts(game, action)
        successful = hunts & caught
        share = self._worth / jnp.maximum(together, 1)
        player, moves = walk(self.board, game.player, game.blocks, action)
        done = jnp.where(moves | jnp.any(hunts, axis=1), action, STAY)
        done = jnp.where(game.hunting, done, NO_ACTION).astype(jnp.int8)
        game = game._replace(
            player=player,
            hunting=game.hunting & ~jnp.any(successful, axis=1),
            prey_left=game.prey_left & ~caught,
            last_action=jnp.where(on, done, game.last_action),
            time=game.time + on,
        )
        after = batch_last(game)._replace(prey=state.prey, blocks=state.blocks)
        over = self.finished(after) | (after.time >= self.args.episode_limit)
        return after, jnp.sum(jnp.where(successful, share, 0.0), axis=1).T, over

    def caught(self, state: StagHuntState, actions: Array) -> Array:
        """What every player catches when `actions` [B, A] are played in `state`.

        Returns:
            [B, A] int32: `NOTHING`, `STAG` or `HARE`.
        """
        game = batch_last(state)
        hunts, caught, _ = self._hunts(game, self._action(game, ~self.over(state), actions))
        return jnp.sum(jnp.where(hunts & caught, self._kind, NOTHING), axis=1, dtype=jnp.int32).T

    def goals(self) -> StagHuntGoals:
        """See `GridGame.goals`."""
        return StagHuntGoals(self)

    def legal(self, state: StagHuntState) -> Array:
        """See `GridGame.legal`: hunting needs such prey on the own cell; whoever has left can only stay."""
        game = batch_last(state)
        hunts = []
        for first, last in ((0, self.stags), (self.stags, self.stags + self.hares)):
            # Prey by prey: on a CPU this takes half the time of a reduction over an axis.
            here = jnp.zeros_like(game.hunting)
            for prey in range(first, last):
                here |= (game.player == game.prey[prey]) & game.prey_left[prey]
            hunts.append(here)
        return legal_actions(self.board, game.player, game.blocks, game.hunting, hunts)

    def finished(self, state: StagHuntState) -> Array:
        """See `GridGame.finished`: everybody has left, or no prey is left."""
        return ~jnp.any(state.hunting, axis=1) | ~jnp.any(state.prey_left, axis=1)

    def there(self, state: StagHuntState) -> Array:
        """See `GridGame.there`."""
        return state.hunting

    def standing(self, state: StagHuntState) -> tuple[Pieces, ...]:
        """See `GridGame.standing`: stags, then hares."""
        cut = self.stags
        stags = Pieces(state.prey[:, :cut], state.prey_left[:, :cut])
        hares = Pieces(state.prey[:, cut:], state.prey_left[:, cut:])
        return Pieces(state.player, state.hunting), stags, hares

    def from_world(self, world: Array, before: StagHuntState | None = None) -> StagHuntState:
        """See `GridGame.from_world`."""
        read = self._read(world, {"stag": self.stags, "hare": self.hares})
        player = read.player
        prey, left = (jnp.concatenate(both, axis=1) for both in zip(*read.pieces, strict=True))
        if before is not None:
            begins = read.time == 0
            anywhere = read.pictures[0] | read.pictures[1]
            prey, left = keep_numbers((prey, left), (before.prey, before.prey_left), anywhere, begins)
            player = jnp.where(read.there | begins[:, None], player, before.player)
        return StagHuntState(player, read.there, prey, left, read.blocks, read.last_action, read.time)

    def scenery(self) -> Scenery[StagHuntState]:
        """See `omg.envs.scenes.Shown`."""
        return board_scenery(self, {"stag": ("#8b5a2b", 0.4), "hare": ("#b8a68c", 0.3)})

    def metrics(self, state: StagHuntState) -> dict[str, Array]:
        """See `GridGame.metrics`."""
        gone = ~state.prey_left
        stags, hares = (jnp.sum(part, axis=1).astype(jnp.float32) for part in jnp.split(gone, [self.stags], axis=1))
        paid = self.args.stag_reward * stags + self.args.hare_reward * hares
        return {"stags_hunted": stags, "hares_hunted": hares, "reward_per_player": paid / self.args.players}

    def _action(self, game: StagHuntState, on: Array, actions: Array) -> Array:
        """What is done by those who can act, [A, B] int32: everybody else stays. `game` has the batch last."""
        return jnp.where(game.hunting & on, actions.astype(jnp.int32).T, STAY)

    def _hunts(self, game: StagHuntState, action: Array) -> tuple[Array, Array, Array]:
        """Who hunts what [A, P, B] bool, whether it is caught [P, B] bool, and by how many [P, B] int32."""
        here = (game.player[:, None] == game.prey) & game.hunting[:, None] & game.prey_left
        hunts = here & (action[:, None] == self._hunt)
        together = jnp.sum(hunts, axis=0, dtype=jnp.int32)
        return hunts, together >= self._hunters, together


class StagHuntGoals(GoalSet[StagHuntState]):
    """Stag (0) or hare (1), each while one is left. Code and number are the same."""

    count = width = achievements = 2
    alpha = 0.995
    names = ("stag", "hare")

    def __init__(self, game: StagHunt) -> None:
        self.game = game

    def exists(self, state: StagHuntState) -> Array:
        """See `GoalSet.exists`."""
        kinds = jnp.split(state.prey_left, [self.game.stags], axis=1)
        return jnp.stack([jnp.any(left, axis=1) for left in kinds], axis=1)

    def codes(self, state: StagHuntState) -> Array:
        """See `GoalSet.codes`."""
        return jnp.broadcast_to(jnp.arange(2), (len(state.player), 2))

    def reached(self, state: StagHuntState, actions: Array) -> Array:
        """See `GoalSet.reached`."""
        return self.game.caught(state, actions) - 1

    def achievement(self, reached: Array) -> Array:
        """The prey that the player caught: it leaves with the first. See `GoalSet.achievement`."""
        return jnp.max(reached, axis=1)
