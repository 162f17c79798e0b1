"""What games on a board have in common: walking, and how the pure functions of a game make an `omg.envs.base.Env`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from omg.envs.base import EnvSpec, Observation, Outcome
from omg.envs.grid.args import GridArgs
from omg.envs.grid.bits import Board, contains, pack, unpack
from omg.envs.grid.picture import draw_board
from omg.envs.grid.view import MapView, chosen, marked, one_hot, own_first, seat_maps

UP, DOWN, LEFT, RIGHT, STAY = range(5)
MOVES = (UP, DOWN, LEFT, RIGHT)
NO_ACTION = -1
"""In place of a last action: before the first step, and for players who had left before the last one."""


class GridGame(ABC):
    """A game on a board as a batched `Env`, made of functions that a planner can call one by one.

    All are pure, and nothing is random after the start. A state is a `NamedTuple` of small integers with the batch of
    games first, so that a search tree can hold many. All states have `player` [B, A] uint8 (cells, numbered row by
    row), `blocks` [B, words] uint32 (obstacles as bits), `last_action` [B, A] int8 and `time` [B] int16.

    - `advance(state, actions)`: one step, without observations;
    - `legal(state)`: the legal actions;
    - `views(state)` and `maps(state)`: what the seats observe, all of it or the map alone; `map_of` for one seat;
    - `world(state)` and `from_world(world)`: the global state, and the way back;
    - `over(state)`: the game has ended or its time is up;
    - `draw(state, index)`: a picture.
    """

    actions: ClassVar[tuple[str, ...]]
    """Their names, in order; the first five are those of `UP` to `STAY`."""
    pieces: ClassVar[tuple[str, ...]]
    """What the channels after the players' show."""
    args: GridArgs
    spec: EnvSpec
    map_view: MapView

    def __init__(self, args: GridArgs, *, name: str, pieces: str, metrics: tuple[str, ...]) -> None:
        self.args = args
        self.board: Board = args.board
        size = f"{self.board.height}x{self.board.width}"
        blocks = f"-{args.blocks}b" if args.blocks else ""
        self.map_view = MapView(args.players, self.pieces, self.board.height, self.board.width, len(self.actions))
        self.spec = EnvSpec(
            name=name,
            scenario=f"{size}-{args.players}p-{pieces}{blocks}",
            n_agents=args.players,
            n_actions=len(self.actions),
            obs_dim=self.map_view.obs_dim,
            state_dim=self.map_view.state_dim,
            episode_limit=args.episode_limit,
            reward_per_agent=True,
            metrics=metrics,
            success_metric="reward_per_player",
            map_shape=(self.map_view.channels, self.board.height, self.board.width),
        )

    # ----------------------------------------------------------------------------------------- the game's own rules

    @abstractmethod
    def start(self, key: Array, num_envs: int) -> Any:
        """Random starts of `num_envs` games."""

    @abstractmethod
    def advance(self, state: Any, actions: Array) -> tuple[Any, Array, Array]:
        """Plays one step of every game; one that is over stays as it is and pays nothing.

        Args:
            state: from `start` or `advance`.
            actions: [B, A] integers; an illegal one counts as staying.

        Returns:
            the next state, rewards [B, A] float32, and whether the game is over now [B] bool, by its rules or because
            its time is up (`finished` tells which).
        """

    @abstractmethod
    def legal(self, state: Any) -> Array:
        """Legal actions [B, A, U] bool; staying always is."""

    @abstractmethod
    def finished(self, state: Any) -> Array:
        """Whether the game has ended by its rules, [B] bool."""

    @abstractmethod
    def there(self, state: Any) -> Array:
        """Which players are still in the game, [B, A] bool."""

    @abstractmethod
    def pictures(self, state: Any) -> list[Array]:
        """The pictures of `pieces` after the obstacles, each [B, cells] bool."""

    @abstractmethod
    def metrics(self, state: Any) -> dict[str, Array]:
        """`spec.metrics` name -> [B] float32, from the start of the game until now."""

    @abstractmethod
    def from_world(self, world: Array, before: Any | None = None) -> Any:
        """The game that looks like `world`, to go on from there: whoever sees the global state can plan with it.

        A picture tells neither the numbers of pieces nor the cells of those that are gone. Without `before`, pieces
        are numbered row by row, those that are gone come last, and theirs is cell 0; none of that changes what
        happens from here on.

        Args:
            world: [B, S], from `world`, also after storage as float16.
            before: earlier states of the same games, best those of the step before: pieces keep the numbers they have
                there, and players who left the cell where they stood. Games that are at their start are numbered anew.

        Returns:
            the state, with leaves [B, ...].
        """

    # --------------------------------------------------------------------------------------- what follows from them

    def over(self, state: Any) -> Array:
        """Whether the game has ended or its time is up, [B] bool."""
        return self.finished(state) | (state.time >= self.args.episode_limit)

    def maps(self, state: Any) -> Array:
        """The map of every seat, [B, A, C * H * W] bool; `map_view` says what is where."""
        return seat_maps(state.player, self.there(state), self._shared(state))

    def map_of(self, state: Any, seat: Array) -> Array:
        """The map of one seat of each game, seat [B] integers -> [B, C * H * W] bool."""
        order = jnp.asarray(own_first(self.args.players))[seat]
        player, there = (jnp.take_along_axis(values, order, axis=1) for values in (state.player, self.there(state)))
        own = marked(player, there, self.board.cells)
        return jnp.concatenate([own, self._shared(state)], axis=1).reshape(len(order), -1)

    def views(self, state: Any) -> Array:
        """What every seat observes, [B, A, O] float32; `map_view` says what is where."""
        batch, players = state.player.shape
        last = one_hot(state.last_action, len(self.actions))[:, own_first(players)].reshape(batch, players, -1)
        parts = (self.maps(state), self.legal(state), jnp.zeros((batch, players, 1), bool), last)
        # All but the time are bits, and putting bits together takes a fraction of the time it takes with floats.
        is_time = np.arange(self.map_view.obs_dim) == self.map_view.map_size + len(self.actions)
        return jnp.where(is_time, self._time(state)[:, None], jnp.concatenate(parts, axis=-1).astype(jnp.float32))

    def world(self, state: Any) -> Array:
        """The global state [B, S] float32: the map with the players in the order of their seats, time, last actions."""
        batch = len(state.player)
        players = marked(state.player, self.there(state), self.board.cells)
        last = one_hot(state.last_action, len(self.actions))
        parts = (players, self._shared(state), self._time(state), last)
        return jnp.concatenate([part.reshape(batch, -1).astype(jnp.float32) for part in parts], axis=-1)

    def observe(self, state: Any) -> Observation:
        """What `Env.reset` and `Env.step` show: obs [B, A, O], state [B, S], avail [B, A, U]."""
        return Observation(self.views(state), self.world(state), self.legal(state))

    def reset(self, key: Array, num_envs: int) -> tuple[Any, Observation]:
        """Places everybody and everything at random.

        Args:
            key: random key; the only randomness of a game.
            num_envs: number of games B.

        Returns:
            the state, and `Observation` with obs [B, A, O], state [B, S], avail [B, A, U].
        """
        state = self.start(key, num_envs)
        return state, self.observe(state)

    def step(self, key: Array, state: Any, actions: Array) -> tuple[Any, Observation, Outcome]:
        """Plays one step: `advance`, and what is seen after it.

        Args:
            key: not used, the rules know no chance.
            state: from `reset` or `step`.
            actions: [B, A] integers; an illegal one counts as staying.

        Returns:
            the next state, `Observation`, and `Outcome` with reward [B, A], everything else [B].
        """
        del key
        state, reward, ended = self.advance(state, actions)
        terminated = self.finished(state)
        outcome = Outcome(reward, terminated, ended & ~terminated, self.metrics(state))
        return state, self.observe(state), outcome

    def draw(self, state: Any, index: int = 0) -> str:
        """Game `index` of a batch as a picture, a complete SVG document."""
        there = np.asarray(self.there(state)[index])
        players = [int(cell) if stays else None for cell, stays in zip(state.player[index], there, strict=True)]
        blocks, *others = (np.flatnonzero(picture).tolist() for picture in np.asarray(self._shared(state)[index]))
        caption = f"step {int(state.time[index])} of {self.args.episode_limit}"
        return draw_board(self.board, blocks, dict(zip(self.pieces[1:], others, strict=True)), players, caption)

    def block_map(self, state: Any) -> Array:
        """Which cells are obstacles, [B, cells] bool."""
        return unpack(state.blocks, self.board.cells)

    def _shared(self, state: Any) -> Array:
        """[B, K, cells] bool."""
        return jnp.stack([self.block_map(state), *self.pictures(state)], axis=1)

    def _read(self, world: Array) -> tuple[dict[str, Array], Array, dict[str, Array]]:
        """What all games read from a `world` in the same way.

        Returns:
            the fields that all states have, by name; which players are there [B, A] bool; and the pictures of `pieces`
            after the obstacles, name -> [B, cells] bool.
        """
        view, cells = self.map_view, self.board.cells
        pictures = view.maps(world).reshape(len(world), view.channels, cells) > 0.5
        players, block = pictures[:, : view.players], pictures[:, view.channel("block")]
        fields = {
            "player": jnp.argmax(players, axis=-1).astype(jnp.uint8),
            "blocks": pack(block),
            "last_action": chosen(view.last_actions(world)),
            "time": jnp.round(view.time(world)[:, 0].astype(jnp.float32) * self.args.episode_limit).astype(jnp.int16),
        }
        others = {name: pictures[:, view.channel(name)] for name in self.pieces[1:]}
        return fields, jnp.any(players, axis=-1), others

    def _time(self, state: Any) -> Array:
        """[B, 1] float32."""
        return state.time[:, None] / jnp.float32(self.args.episode_limit)


def batch_last(tree: Any) -> Any:
    """The arrays of a state, or those computed from it, with the axis of games at the other end.

    Rules are computed on [pieces, B]: inner loops then run over games, which is twice as fast on a CPU.
    """
    return jax.tree.map(jnp.transpose, tree)


def keep_numbers(
    fresh: tuple[Array, Array], before: tuple[Array, Array], picture: Array, begins: Array
) -> tuple[Array, Array]:
    """The cells of pieces [B, n] and whether they are there, with the numbers they had before.

    Args:
        fresh: the same, numbered row by row.
        before: the same in an earlier state.
        picture: [B, cells] bool, those that are there now.
        begins: [B] bool, games without a before.
    """
    cell, there = before
    there = there & jnp.take_along_axis(picture, cell.astype(jnp.int32), axis=1)
    return jnp.where(begins[:, None], fresh[0], cell), jnp.where(begins[:, None], fresh[1], there)


def by_seat(parts: Sequence[Array]) -> Array:
    """Bits of all seats side by side: U arrays [A, B] bool, at most 8 -> [B, A, U] bool.

    They travel as one small number per seat: turning U arrays around one by one takes twice as long.
    """
    code = jnp.zeros(parts[0].shape, jnp.uint8)
    for place, part in enumerate(parts):
        code |= part.astype(jnp.uint8) << place
    return (code.T[..., None] >> np.arange(len(parts), dtype=np.uint8)) & 1 != 0


def open_moves(board: Board, player: Array, blocks: Array) -> list[Array]:
    """Whether a step up, down, left and right neither leaves the board nor enters an obstacle: four [A, B] bool.

    Args:
        board: the field.
        player: [A, B] uint8, cells.
        blocks: [words, B] uint32, obstacles.
    """
    cell = player.astype(jnp.int32)
    row, col = cell // board.width, cell % board.width
    inside = (row > 0, row < board.height - 1, col > 0, col < board.width - 1)
    targets = (cell - board.width, cell + board.width, cell - 1, cell + 1)
    return [within & ~contains(blocks, target) for within, target in zip(inside, targets, strict=True)]


def walk(board: Board, player: Array, blocks: Array, action: Array) -> tuple[Array, Array]:
    """Moves players; they may share a cell.

    Args:
        board: the field.
        player: [A, B] uint8, cells.
        blocks: [words, B] uint32, obstacles.
        action: [A, B] int32.

    Returns:
        the new cells [A, B] uint8, and whether the action was a move that was possible [A, B] bool.
    """
    cell = player.astype(jnp.int32)
    row, col = cell // board.width, cell % board.width
    up, down, left, right = (action == move for move in MOVES)
    # The one cell that is wanted is looked up instead of all four.
    target = cell + board.width * (down.astype(jnp.int32) - up) + right - left
    inside = (
        (up & (row > 0)) | (down & (row < board.height - 1)) | (left & (col > 0)) | (right & (col < board.width - 1))
    )
    moves = inside & ~contains(blocks, target)
    return jnp.where(moves, target, cell).astype(jnp.uint8), moves
