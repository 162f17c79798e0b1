"""Level-based foraging: players on a grid load food together when their levels add up to the food's level.

The rules, the observation vector and the reward are those of the `lbforaging` package, to the letter, including what
is surprising there: legal moves ignore the other players; players who want the same cell all stay, but a player may
enter a cell whose owner tried to leave and failed; a player near the edge sees other players further than `sight`.
Food lies off the border and no two foods are within Manhattan distance 2, so a player never touches two of them.

Everything inside is batch-minor: arrays are `[players, B]` or `[foods, B]`, never `[B, rows, cols]`.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax import Array

from omg.envs.base import EnvSpec, Observation, Outcome
from omg.envs.foraging.args import ForagingArgs
from omg.envs.foraging.scene import foraging_scenery
from omg.envs.foraging.start import ForagingState, new_games, next_round
from omg.envs.places import NumberPlace, SeatCells
from omg.envs.scenes import COMPASS_STEPS, Scenery

STAY, NORTH, SOUTH, WEST, EAST, LOAD = range(6)
N_ACTIONS = 6
ABSENT = -1
"""Row and column of a food that was taken; no player can be next to it."""


class Foraging:
    """The game of `ForagingArgs` as a batched `omg.envs.base.Env`.

    Observation of a seat, `lbforaging`'s vector of raw numbers: (row, column, level) of each food, then of the seat
    itself, then of the others in seat order; (-1, -1, 0) fills the places of what is taken or out of sight. With
    `observe_agent_levels` off the players' levels are left out. Positions are relative to the top left corner of what
    the seat sees; with `relative_positions` those of foods and other players count from the seat's own cell, and
    (0, 0, 0) fills the places. With `grid_observation` it is `lbforaging`'s maps instead, one after the other, each
    `window` x `window` cells with the seat in the middle: the players' levels, the foods' levels, and 1 where a player
    could stand (inside the field, neither food nor a player there).

    The state is the list seen from above: (row, column, level) of all foods in row-major order, then of all players in
    seat order: `3 * (max_food + players)` numbers.

    With `rounds` above 1 a game goes on when all food is taken or `episode_limit` steps are over: on a new field, with
    the same players. Observation and state then end with the round as one-hot.

    Metrics: `score` is the sum of the levels of the foods taken so far by anybody, whatever `normalize_reward` and
    `penalty` are; `foods_left` is the number of foods still there, or that were when the round ended.
    """

    def __init__(self, args: ForagingArgs) -> None:
        self.args = args
        features_per_player = 3 if args.observe_agent_levels else 2
        sees_all = args.sight is None or args.sight >= max(args.rows, args.cols) - 1
        self._sight = None if sees_all else args.sight
        prefix = "" if self._sight is None else f"{self._sight}s-"
        suffix = ("-coop" if args.force_coop else "") + (f"-{args.rounds}r" if args.rounds > 1 else "")
        round_features = args.rounds if args.rounds > 1 else 0
        place = NumberPlace(x=1, y=0, offset=0.5)
        view_features = 3 * args.max_food + features_per_player * args.players
        self.spec = EnvSpec(
            name="foraging",
            scenario=f"{prefix}{args.rows}x{args.cols}-{args.players}p-{args.max_food}f{suffix}",
            n_agents=args.players,
            n_actions=N_ACTIONS,
            obs_dim=(3 * args.window**2 if args.grid_observation else view_features) + round_features,
            state_dim=3 * (args.max_food + args.players) + round_features,
            episode_limit=args.episode_limit * args.rounds,
            reward_per_agent=True,
            metrics=("score", "foods_left"),
            success_metric="score",
            seat_blocks=((3 * args.max_food, 3),),
            seat_places=place,
            seat_cells=SeatCells(
                args.rows,
                args.cols,
                3 * args.max_food,
                features_per_player,
                place,
                (*COMPASS_STEPS, (0, 0)),
                args.rounds,
            )
            if sees_all and not (args.grid_observation or args.relative_positions)
            else None,
        )

    def reset(self, key: Array, num_envs: int) -> tuple[ForagingState, Observation]:
        """Places players and foods at random.

        Args:
            key: random key; the only randomness of a game.
            num_envs: number of games B.

        Returns:
            the state, and `Observation` with obs [B, A, O], state [B, S], avail [B, A, 6].
        """
        state = new_games(self.args, key, num_envs)
        return state, self._observe(state)

    def step(self, key: Array, state: ForagingState, actions: Array) -> tuple[ForagingState, Observation, Outcome]:
        """Moves the players, then lets those who load take their food.

        Args:
            key: draws the fields of new rounds; in games of one round not used, the rules know no chance.
            state: from `reset` or `step`.
            actions: [B, A] integers; an illegal one counts as staying.

        Returns:
            the next state, `Observation`, and `Outcome` with reward [B, A], everything else [B].
        """
        action = actions.astype(jnp.int32).T
        player_row, player_col = _move(self.args, state, action)
        north, south, west, east = _touching(state)
        loads = (north | south | west | east) & (action == LOAD)[:, None]
        power = jnp.sum(jnp.where(loads, state.player_level[:, None], 0), axis=0)
        taken = power >= state.food_level
        reward = _reward(self.args, state, loads, power, taken)
        food_row, food_col, food_level = _close_ranks(~taken, state.food_row, state.food_col, state.food_level)
        steps, rounds = state.steps + 1, state.rounds
        state = ForagingState(
            player_row, player_col, state.player_level, food_row, food_col, food_level, state.spawned, steps, rounds
        )
        level_left = jnp.sum(food_level, axis=0)
        score = state.spawned - level_left
        empty, cut = level_left == 0, steps >= self.args.episode_limit
        if rounds is not None:
            score += rounds.score
            rounds = rounds._replace(steps=rounds.steps + 1)
            cut = rounds.steps >= self.args.episode_limit
            over, last = empty | cut, rounds.number == self.args.rounds - 1
            state = next_round(self.args, key, state._replace(rounds=rounds), over & ~last)
            empty, cut = empty & last, cut & last
        metrics = {
            "score": score.astype(jnp.float32),
            "foods_left": jnp.sum(food_level > 0, axis=0).astype(jnp.float32),
        }
        return state, self._observe(state), Outcome(reward.T, empty, cut & ~empty, metrics)

    def scenery(self) -> Scenery[ForagingState]:
        """See `omg.envs.scenes.Shown`."""
        return foraging_scenery(self.args, sees_all=self._sight is None)

    def _observe(self, state: ForagingState) -> Observation:
        foods = (state.food_row, state.food_col, state.food_level)
        players = (state.player_row, state.player_col, state.player_level)
        north, south, west, east = _touching(state)
        touches_food = jnp.any(north | south | west | east, axis=1)
        legal = [jnp.ones_like(touches_food), *_legal_moves(self.args, state), touches_food]
        views = _maps(self.args, state) if self.args.grid_observation else _views(self.args, self._sight, state)
        world = jnp.concatenate([_interleave(*foods), _interleave(*players)])
        if state.rounds is not None:
            number = (state.rounds.number == np.arange(self.args.rounds)[:, None]).astype(jnp.int32)
            world = jnp.concatenate([world, number])
            everywhere = jnp.broadcast_to(number, (self.args.players, *number.shape))
            views = jnp.concatenate([views, everywhere], axis=1)
        return Observation(
            obs=views.astype(jnp.float32).transpose(2, 0, 1),
            state=world.astype(jnp.float32).T,
            avail=jnp.stack(legal).transpose(2, 1, 0),
        )


def _touching(state: ForagingState) -> tuple[Array, Array, Array, Array]:
    """Four arrays [players, foods, B] bool: the food lies right north, south, west, east of the player."""
    down = state.food_row - state.player_row[:, None]
    right = state.food_col - state.player_col[:, None]
    same_row, same_col = down == 0, right == 0
    return (down == -1) & same_col, (down == 1) & same_col, (right == -1) & same_row, (right == 1) & same_row


def _legal_moves(args: ForagingArgs, state: ForagingState) -> tuple[Array, Array, Array, Array]:
    """Four arrays [players, B] bool: going north, south, west, east neither leaves the field nor enters food."""
    north, south, west, east = (~jnp.any(food, axis=1) for food in _touching(state))
    return (
        north & (state.player_row > 0),
        south & (state.player_row < args.rows - 1),
        west & (state.player_col > 0),
        east & (state.player_col < args.cols - 1),
    )


def _move(args: ForagingArgs, state: ForagingState, action: Array) -> tuple[Array, Array]:
    """New rows and columns, each [players, B]: whoever wants the same cell as another stays."""
    legal = _legal_moves(args, state)
    north, south, west, east = (
        (action == move) & allowed for move, allowed in zip((NORTH, SOUTH, WEST, EAST), legal, strict=True)
    )
    row = state.player_row + south - north
    col = state.player_col + east - west
    cell = row * args.cols + col
    alone = jnp.sum(cell[:, None] == cell, axis=1) == 1
    return jnp.where(alone, row, state.player_row), jnp.where(alone, col, state.player_col)


def _reward(args: ForagingArgs, state: ForagingState, loads: Array, power: Array, taken: Array) -> Array:
    """Rewards [players, B] from who loads what (`loads` [players, foods, B]); power and taken are [foods, B]."""
    worth = jnp.where(taken, state.food_level, 0).astype(jnp.float32)
    if args.normalize_reward:
        worth = worth / (jnp.maximum(power, 1) * state.spawned * args.rounds)
    reward = jnp.sum(jnp.where(loads, worth, 0.0), axis=1) * state.player_level
    if args.penalty:
        reward -= args.penalty * jnp.any(loads & ~taken, axis=1)
    return reward


def _close_ranks(keep: Array, row: Array, col: Array, level: Array) -> tuple[Array, Array, Array]:
    """Moves the kept items [..., items, B] to the front in their order and fills up with (-1, -1, 0)."""
    count = keep.shape[-2]
    earlier = np.tri(count, k=-1, dtype=bool)[..., None]
    rank = jnp.sum(earlier & keep[..., None, :, :], axis=-2)
    slot = np.arange(count)[:, None, None]
    chosen = keep[..., None, :, :] & (rank[..., None, :, :] == slot)

    def pick(value: Array, fill: int) -> Array:
        # Counting from the fill value leaves exactly it where no item is chosen.
        return fill + jnp.sum(jnp.where(chosen, value[..., None, :, :] - fill, 0), axis=-2)

    return pick(row, ABSENT), pick(col, ABSENT), pick(level, 0)


def _views(args: ForagingArgs, sight: int | None, state: ForagingState) -> Array:
    """What the seats observe, [players, O, B] int32."""
    seats = np.arange(args.players)
    self_first = np.stack([np.concatenate([[seat], np.delete(seats, seat)]) for seat in seats])
    foods = tuple(
        jnp.broadcast_to(value, (args.players, *value.shape))
        for value in (state.food_row, state.food_col, state.food_level)
    )
    players = (state.player_row[self_first], state.player_col[self_first], state.player_level[self_first])
    if sight is not None:
        row, col = state.player_row[:, None], state.player_col[:, None]
        top, left = jnp.maximum(row - sight, 0), jnp.maximum(col - sight, 0)
        near = (jnp.abs(foods[0] - row) <= sight) & (jnp.abs(foods[1] - col) <= sight) & (foods[2] > 0)
        foods = _close_ranks(near, foods[0] - top, foods[1] - left, foods[2])
        # lbforaging's window for players: 2 * sight from the corner, which reaches further at the field's edges.
        down, right = players[0] - top, players[1] - left
        seen = (down >= 0) & (down <= 2 * sight) & (right >= 0) & (right <= 2 * sight)
        players = _close_ranks(seen, down, right, players[2])
    if args.relative_positions:
        own_row, own_col = players[0][:, :1], players[1][:, :1]
        foods = _from_cell(own_row, own_col, *foods)
        others = _from_cell(own_row, own_col, *(value[:, 1:] for value in players))
        row, col = (jnp.concatenate(pair, axis=1) for pair in ((own_row, others[0]), (own_col, others[1])))
        players = (row, col, players[2])
    known = players if args.observe_agent_levels else players[:2]
    return jnp.concatenate([_interleave(*foods), _interleave(*known)], axis=-2)


def _from_cell(own_row: Array, own_col: Array, row: Array, col: Array, level: Array) -> tuple[Array, Array, Array]:
    """Items [players, items, B] with positions counted from a cell [players, 1, B]; (0, 0, 0) where there is none."""
    there = level > 0
    return jnp.where(there, row - own_row, 0), jnp.where(there, col - own_col, 0), level


def _maps(args: ForagingArgs, state: ForagingState) -> Array:
    """What the seats observe with `grid_observation`, [players, 3 * window * window, B] int32."""
    reach = args.window // 2
    offset = np.arange(-reach, reach + 1)[:, None]
    rows = state.player_row[:, None] + offset  # [players, window, B]: the field's row of each row of the map
    cols = state.player_col[:, None] + offset

    def paint(row: Array, col: Array, value: Array) -> Array:
        """Values of items [items, B] at their cells, [players, window, window, B]; of several on one, the last."""
        painted = jnp.zeros((args.players, args.window, args.window, row.shape[-1]), value.dtype)
        for item in range(row.shape[0]):
            there = (rows == row[item])[:, :, None] & (cols == col[item])[:, None]
            painted = jnp.where(there, value[item], painted)
        return painted

    levels = state.player_level if args.observe_agent_levels else jnp.ones_like(state.player_level)
    players = paint(state.player_row, state.player_col, levels)
    foods = paint(state.food_row, state.food_col, state.food_level)
    inside_row, inside_col = (rows >= 0) & (rows < args.rows), (cols >= 0) & (cols < args.cols)
    free = inside_row[:, :, None] & inside_col[:, None] & (players == 0) & (foods == 0)
    maps = jnp.stack([players, foods, free.astype(players.dtype)], axis=1)
    return maps.reshape(args.players, -1, maps.shape[-1])


def _interleave(*values: Array) -> Array:
    """[..., items, B] each -> [..., items * len(values), B], item by item."""
    stacked = jnp.stack(values, axis=-2)
    return stacked.reshape(*stacked.shape[:-3], -1, stacked.shape[-1])
