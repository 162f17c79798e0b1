"""What games on a board have in common, and how the pure functions of a game make an `omg.envs.base.Env`.

Letters in shapes: B games, A seats, U actions, C channels of a map, O observation, S global state.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar, Generic, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from omg.envs.base import EnvSpec, Observation, Outcome
from omg.envs.grid.args import GridArgs
from omg.envs.grid.bits import marked, numbered, pack, unpack
from omg.envs.grid.board import MOVED, Board
from omg.envs.grid.goals import GoalSet
from omg.envs.grid.picture import draw_board
from omg.envs.grid.state import GridState, State
from omg.envs.grid.view import MapView, own_first
from omg.envs.places import CellPlace, SeatCells
from omg.errors import UserError

__all__ = ["GridGame", "GridState", "Pieces", "State", "WorldRead"]


class Pieces(NamedTuple):
    """Things of one kind on the field."""

    cell: Array
    """[B, n] uint8."""
    there: Array
    """[B, n] bool, whether each is still there."""


class WorldRead(NamedTuple):
    """What all games read from a global state in the same way."""

    player: Array
    """[B, A] uint8, cells; 0 for those who are not there."""
    there: Array
    """[B, A] bool."""
    blocks: Array
    """[B, words] uint32."""
    last_action: Array
    """[B, A] int8, -1 for none."""
    time: Array
    """[B] int16."""
    pieces: tuple[Pieces, ...]
    """In the order of `GridGame.pieces` after the obstacles, each numbered row by row."""
    pictures: tuple[Array, ...]
    """The same as [B, cells] bool each."""


class GridGame(ABC, Generic[State]):
    """A game on a board as a batched `Env`, made of functions that a planner can call one by one.

    All are pure, and nothing is random after the start. A state is a `NamedTuple` that has what `GridState` says.

    - `advance(state, actions)`: one step, without observations;
    - `legal(state)`: the legal actions;
    - `there(state)`: who is still in the game;
    - `sight(state, seat)` and `view_of(...)`: what one seat of each game sees; `views(state)`: what all seats observe;
    - `world(state)` and `from_world(world)`: the global state, and the way back;
    - `over(state)`: the game has ended or its time is up;
    - `goals()`: what players may be after;
    - `draw(state, index)`: a picture.
    """

    actions: ClassVar[tuple[str, ...]]
    """Their names, in order; the first five are those of `UP` to `STAY`."""
    pieces: ClassVar[tuple[str, ...]]
    """What the channels after the players' show, the obstacles first."""
    exploration: ClassVar[float] = 1.0
    """How boldly to search the game, c of PUCT, where nothing else is asked for: in units of its rewards."""
    args: GridArgs
    spec: EnvSpec
    map_view: MapView

    def __init__(self, args: GridArgs, *, name: str, pieces: str, metrics: tuple[str, ...]) -> None:
        self.args = args
        self.board: Board = args.board
        self.cells = self.board.cells
        size = f"{self.board.height}x{self.board.width}"
        blocks = f"-{args.blocks}b" if args.blocks else ""
        self.map_view = MapView(args.players, self.pieces, self.board.height, self.board.width, len(self.actions))
        self.map_shape = (self.map_view.channels, self.board.height, self.board.width)
        place = CellPlace(self.board.height, self.board.width)
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
            map_shape=self.map_shape,
            seat_blocks=((0, self.cells),),
            seat_places=place,
            # Whatever else players do, they do where they stand.
            seat_cells=SeatCells(
                self.board.height,
                self.board.width,
                0,
                self.cells,
                place,
                tuple(MOVED.get(name, (0, 0)) for name in self.actions),
            ),
        )

    # ----------------------------------------------------------------------------------------- the game's own rules

    @abstractmethod
    def start(self, key: Array, num_envs: int) -> State:
        """Random starts of `num_envs` games."""

    @abstractmethod
    def advance(self, state: State, actions: Array) -> tuple[State, Array, Array]:
        """Plays one step of every game; one that is over stays as it is and pays nothing.

        Args:
            state: from `start` or `advance`.
            actions: [B, A] integers; an illegal one counts as staying.

        Returns:
            the next state, rewards [B, A] float32, and whether the game is over now [B] bool, by its rules or because
            its time is up (`finished` tells which).
        """

    @abstractmethod
    def legal(self, state: State) -> Array:
        """Legal actions [B, A, U] bool; staying always is."""

    @abstractmethod
    def finished(self, state: State) -> Array:
        """Whether the game has ended by its rules, [B] bool."""

    @abstractmethod
    def there(self, state: State) -> Array:
        """Which players are still in the game, [B, A] bool."""

    @abstractmethod
    def standing(self, state: State) -> tuple[Pieces, ...]:
        """What stands on the field: the players, then of each kind of `pieces` after the obstacles all there are."""

    @abstractmethod
    def metrics(self, state: State) -> dict[str, Array]:
        """`spec.metrics` name -> [B] float32, from the start of the game until now."""

    @abstractmethod
    def from_world(self, world: Array, before: State | None = None) -> State:
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

    def goals(self) -> GoalSet[State]:
        """What players may be after.

        Raises:
            UserError: for a game that does not say.
        """
        raise UserError(
            f"env: got {self.spec.name}, a game that names no goals of its players (`GridGame.goals`), but "
            f"hop_model=goals needs them. Allowed with it: hop_model=actions or subgoals."
        )

    # --------------------------------------------------------------------------------------- what follows from them

    def over(self, state: State) -> Array:
        """Whether the game has ended or its time is up, [B] bool."""
        return self.finished(state) | (state.time >= self.args.episode_limit)

    def sight(self, state: State, seat: Array) -> tuple[Array, Array]:
        """What networks look at for one seat of each game, seat [B] integers.

        Returns:
            maps [B, C, height, width] bool with that player first, and the share of the steps that have passed, [B]
            float32.
        """
        (cell, there), shared = self.drawn(state)
        order = jnp.asarray(own_first(self.args.players))[seat]
        cell, there = (jnp.take_along_axis(values, order, axis=1) for values in (cell, there))
        own = marked(cell, there, self.cells)
        maps = jnp.concatenate([own, shared], axis=1).reshape(len(seat), *self.map_shape)
        return maps, state.time / jnp.float32(self.args.episode_limit)

    def view_of(self, state: State, seat: Array, sight: tuple[Array, Array], legal: Array) -> Array:
        """What one seat of each game observes: its row of `views`, by itself.

        Args:
            state: the positions.
            seat: [B] integers.
            sight: of that seat.
            legal: [B, U] bool, of that seat.

        Returns:
            [B, O] float32.
        """
        maps, time = sight
        order = jnp.asarray(own_first(self.args.players))[seat]
        last = self._one_hot(jnp.take_along_axis(state.last_action, order, axis=1))
        parts = (maps.reshape(len(seat), -1), legal, time[:, None], last.reshape(len(seat), -1))
        return jnp.concatenate([part.astype(jnp.float32) for part in parts], axis=-1)

    def views(self, state: State) -> Array:
        """What every seat observes, [B, A, O] float32; `map_view` says what is where."""
        batch, players = state.player.shape
        order = own_first(players)
        (cell, there), shared = self.drawn(state)
        own = marked(cell[:, order], there[:, order], self.cells)
        common = jnp.broadcast_to(shared[:, None], (batch, players, *shared.shape[1:]))
        maps = jnp.concatenate([own, common], axis=2).reshape(batch, players, -1)
        last = self._one_hot(state.last_action)[:, order].reshape(batch, players, -1)
        parts = (maps, self.legal(state), jnp.zeros((batch, players, 1), bool), last)
        # All but the time are bits, and putting bits together takes a fraction of the time it takes with floats.
        is_time = np.arange(self.spec.obs_dim) == self.map_view.map_size + len(self.actions)
        time = state.time[:, None] / jnp.float32(self.args.episode_limit)
        return jnp.where(is_time, time[:, None], jnp.concatenate(parts, axis=-1).astype(jnp.float32))

    def world(self, state: State) -> Array:
        """The global state [B, S] float32: the map with the players in the order of their seats, time, last actions."""
        players, shared = self.drawn(state)
        time = state.time[:, None] / jnp.float32(self.args.episode_limit)
        parts = (marked(*players, self.cells), shared, time, self._one_hot(state.last_action))
        return jnp.concatenate([part.reshape(len(time), -1).astype(jnp.float32) for part in parts], axis=-1)

    def observe(self, state: State) -> Observation:
        """What `Env.reset` and `Env.step` show: obs [B, A, O], state [B, S], avail [B, A, U]."""
        return Observation(self.views(state), self.world(state), self.legal(state))

    def reset(self, key: Array, num_envs: int) -> tuple[State, Observation]:
        """Places everybody and everything at random.

        Args:
            key: random key; the only randomness of a game.
            num_envs: number of games B.

        Returns:
            the state, and `Observation` with obs [B, A, O], state [B, S], avail [B, A, U].
        """
        state = self.start(key, num_envs)
        return state, self.observe(state)

    def step(self, key: Array, state: State, actions: Array) -> tuple[State, Observation, Outcome]:
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

    def draw(self, state: State, index: int = 0) -> str:
        """Game `index` of a batch as a picture, a complete SVG document."""
        there = np.asarray(self.there(state)[index])
        players = [int(cell) if stays else None for cell, stays in zip(state.player[index], there, strict=True)]
        shared = np.asarray(self.drawn(state)[1][index])
        blocks, *others = (np.flatnonzero(picture).tolist() for picture in shared)
        caption = f"step {int(state.time[index])} of {self.args.episode_limit}"
        return draw_board(self.board, blocks, dict(zip(self.pieces[1:], others, strict=True)), players, caption)

    def drawn(self, state: State) -> tuple[Pieces, Array]:
        """The players, and the pictures that all seats have in common, those of `pieces`: [B, pictures, cells] bool."""
        players, *kinds = self.standing(state)
        pictures = [jnp.any(marked(*kind, self.cells), axis=1) for kind in kinds]
        return players, jnp.stack([unpack(state.blocks, self.cells), *pictures], axis=1)

    def _one_hot(self, actions: Array) -> Array:
        """[..., n] int8 -> [..., n, U] bool; a negative action gives no mark."""
        return actions[..., None] == np.arange(len(self.actions), dtype=np.int8)

    def _read(self, world: Array, counts: Mapping[str, int]) -> WorldRead:
        """What a `world` [B, S] shows; counts: of each of `pieces` after the obstacles, how many there are at most."""
        view = self.map_view
        maps, last, time = view.maps(world), view.last_actions(world), view.time(world)[:, 0]
        pictures = maps.reshape(len(world), -1, self.cells) > 0.5
        players, block, kinds = jnp.split(pictures, (view.players, view.players + 1), axis=1)
        drawn = tuple(kinds[:, place] for place in range(len(counts)))
        did = jnp.where(jnp.any(last > 0, axis=-1), jnp.argmax(last, axis=-1), -1)
        return WorldRead(
            player=jnp.argmax(players, axis=-1).astype(jnp.uint8),
            there=jnp.any(players, axis=-1),
            blocks=pack(block[:, 0]),
            last_action=did.astype(jnp.int8),
            time=jnp.round(time.astype(jnp.float32) * self.args.episode_limit).astype(jnp.int16),
            pieces=tuple(
                Pieces(*numbered(picture, counts[name])) for picture, name in zip(drawn, self.pieces[1:], strict=True)
            ),
            pictures=drawn,
        )
