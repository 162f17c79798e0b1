"""`multi_module_mac`: a different player in every seat, a new team in every parallel game, in one compiled program.

Players of the same shape are stacked. At the start of a batch of games a team is drawn for each; then the seats are
sorted by player into a table [players, places], and from there on every player acts for its row of the table in one
batched product. Observations are gathered to the players, never parameters to the games. The number of places per
player is fixed when the program is compiled, because draws are balanced: over a batch of games, every player of a set
gets as many seats as any other, give or take one round.

Letters in shapes: B games, A seats, m seats of the algorithm that learns; written out: players of one
kind, places per player.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from omg.controllers.base import Foreseeing, Lineup, Memory, Player, PlayerView, WatchesOthers, acts_at_end
from omg.controllers.draw import TeamDraw
from omg.modules.told import TOLD
from omg.types import PyTree

if TYPE_CHECKING:
    from omg.envs.base import Observation

T = TypeVar("T")
R = TypeVar("R")


KIND_RECORDS = f"{TOLD}squad_"
"""What the names of all records begin with that frozen players make."""


class Squad(eqx.Module):
    """The frozen players of a team: stacked by kind, numbered through from the first kind to the last."""

    kinds: tuple[PyTree, ...]
    """Each a player whose arrays have a leading axis for the players (none if it has no arrays)."""
    numbers: tuple[int, ...] = eqx.field(static=True)
    """Players of each kind."""

    @property
    def size(self) -> int:
        """Number of players."""
        return sum(self.numbers)


def build_squad(players: Sequence[Player]) -> tuple[Squad, list[int]]:
    """Stacks players by kind: those of equal structure and shapes share one batched product.

    Args:
        players: Any mixture of `base.Player`.

    Returns:
        The squad, and for each given player its number in the squad.
    """
    groups: dict[tuple[object, ...], list[int]] = {}
    for index, player in enumerate(players):
        leaves, structure = jax.tree.flatten(player)
        groups.setdefault((structure, tuple(np.shape(leaf) for leaf in leaves)), []).append(index)
    kinds: list[PyTree] = []
    numbers: list[int] = []
    position = [0] * len(players)
    for members in groups.values():
        for offset, index in enumerate(members):
            position[index] = sum(numbers) + offset
        kinds.append(jax.tree.map(lambda *leaves: jnp.stack(leaves), *(players[index] for index in members)))
        numbers.append(len(members))
    return Squad(tuple(kinds), tuple(numbers)), position


class TeamMemory(NamedTuple):
    """What a team remembers during a batch of games."""

    lineup: Lineup
    main_seats: Array
    """[B, m] int32."""
    tables: tuple[Array, ...]
    """Per kind [players, places] int32: game * A + seat of each place, B * A for a place nobody needs."""
    main: Memory
    """Memory of the algorithm that learns, or None."""
    kinds: tuple[Memory, ...]
    """Memories of the frozen players, [players, places, ...] per kind."""
    last_actions: Array
    """[B, A] int32."""


class TeamPolicy(eqx.Module):
    """Fills all seats of every game from a squad and, in the seats kept for it, the algorithm that learns."""

    main: Player | None
    """A `base.Player`, or None when all seats are filled from the squad."""
    squad: Squad
    draw: TeamDraw
    tell_players: bool = eqx.field(static=True, default=False)
    """Whether the algorithm that learns is told who sits where."""
    tells: bool = eqx.field(static=True, default=False)
    """Whether what the frozen players record is stored as well, see `kind_records`."""

    def initial(self, batch: int, key: Array) -> TeamMemory:
        """Draws a team for each of `batch` games."""
        lineup, main_seats = self.draw(key, batch)
        owners = lineup.players.reshape(-1)
        tables, first = [], 0
        for number in self.squad.numbers:
            places = self.draw.places(batch, first, number)
            tables.append(_table(owners, first, number, places))
            first += number
        kinds = tuple(
            every_player(partial(_first_memory, places=table.shape[1]), kind, table)
            for kind, table in zip(self.squad.kinds, tables, strict=True)
        )
        main = None if self.main is None else self.main.initial_seats(batch, main_seats.shape[1])
        nothing = jnp.full(lineup.players.shape, -1, jnp.int32)
        return TeamMemory(lineup, main_seats, tuple(tables), main, kinds, nothing)

    def act(
        self, observation: Observation, memory: TeamMemory, key: Array, epsilon: Array | float
    ) -> tuple[Array, TeamMemory, dict[str, Array]]:
        """See `Policy.act`. Only the algorithm that learns explores; what it stores is of its own seats."""
        games, agents = memory.last_actions.shape
        keys = jax.random.split(key, len(self.squad.kinds) + 1)
        flat = jnp.zeros(games * agents, jnp.int32)
        kinds = []
        told: dict[str, Array] = {}
        parts = zip(self.squad.kinds, memory.tables, memory.kinds, keys[1:], strict=True)
        for number, (kind, table, past, kind_key) in enumerate(parts):
            view = _gather(observation, memory.last_actions, table)

            def act(player: Player, part: tuple[PlayerView, Memory, Array]) -> tuple[Array, Memory, dict[str, Array]]:
                chosen, kept, said = player.act_seats(*part, 0.0)
                return chosen, kept, said if self.tells else {}

            chosen, kept, said = every_player(act, kind, (view, past, jax.random.split(kind_key, table.shape[0])))
            flat = flat.at[table.reshape(-1)].set(chosen.reshape(-1), mode="drop")
            kinds.append(kept)
            prefix = kind_records(number)
            told |= {f"{prefix}{name}": _by_seat(rows, table, games, agents) for name, rows in said.items()}
        actions = flat.reshape(games, agents)
        main: Memory = None
        record: dict[str, Array] = {}
        if self.main is not None:
            actions, main, record = self._act_main(observation, memory, actions, keys[0], epsilon)
        return actions, memory._replace(main=main, kinds=tuple(kinds), last_actions=actions), record | told

    @property
    def looks_ahead(self) -> bool:
        """Whether the learning player must be told the true subgoals before every step."""
        return isinstance(self.main, Foreseeing) and self.main.foresight is not None

    @property
    def acts_at_end(self) -> bool:
        """Whether all players find it worth while to act where nothing follows."""
        return all(acts_at_end(player) for player in (self.main, *self.squad.kinds))

    def lineup(self, memory: TeamMemory) -> Lineup:
        """Who sits where."""
        return memory.lineup

    def _act_main(
        self, observation: Observation, memory: TeamMemory, actions: Array, key: Array, epsilon: Array | float
    ) -> tuple[Array, Memory, dict[str, Array]]:
        assert self.main is not None
        view = self.main_view(observation, memory)
        chosen, kept, record = self.main.act_seats(view, memory.main, key, epsilon)
        rows = jnp.arange(actions.shape[0])[:, None]
        return actions.at[rows, memory.main_seats].set(chosen), kept, record

    def main_view(self, observation: Observation, memory: TeamMemory) -> PlayerView:
        """What the algorithm that learns knows now, in its m seats of every game."""
        columns = memory.main_seats[..., None]
        watches = isinstance(self.main, WatchesOthers) and self.main.watches_others
        return PlayerView(
            obs=jnp.take_along_axis(observation.obs, columns, axis=1),
            state=observation.state,
            avail=jnp.take_along_axis(observation.avail, columns, axis=1),
            seats=memory.main_seats,
            last_actions=memory.last_actions,
            players=memory.lineup.players if self.tell_players else None,
            all_obs=observation.obs if watches else None,
            all_avail=observation.avail if watches else None,
        )


def kind_records(kind: int) -> str:
    """What the names of records [B, A, ...] begin with that frozen players of a kind make; zero in others' seats."""
    return f"{KIND_RECORDS}{kind}."


def _by_seat(rows: Array, table: Array, games: int, agents: int) -> Array:
    """Values [players, places, 1, ...] of the places of a table -> [B, A, ...]; zero in the seats of others."""
    shape = rows.shape[3:]
    flat = jnp.zeros((games * agents, *shape), rows.dtype)
    return flat.at[table.reshape(-1)].set(rows.reshape(-1, *shape), mode="drop").reshape(games, agents, *shape)


def _table(owners: Array, first: int, number: int, places: int) -> Array:
    """Seats sorted by player: [B * A] players -> [players, places] flat seats, B * A where a player has fewer."""
    mine = jnp.where((owners >= first) & (owners < first + number), owners - first, number)
    order = jnp.argsort(mine, stable=True)
    begin = jnp.searchsorted(mine[order], jnp.arange(number + 1))
    index = begin[:-1, None] + jnp.arange(places)
    taken = index < begin[1:, None]
    return jnp.where(taken, order[jnp.minimum(index, owners.size - 1)], owners.size).astype(jnp.int32)


def _gather(observation: Observation, last_actions: Array, table: Array) -> PlayerView:
    """The views of the places [players, places, ...]; those of places nobody needs are copies of the last seat's."""
    agents = last_actions.shape[1]
    seat = jnp.minimum(table, last_actions.size - 1)
    game = seat // agents
    return PlayerView(
        obs=observation.obs.reshape(-1, observation.obs.shape[-1])[seat][:, :, None],
        state=observation.state[game],
        avail=observation.avail.reshape(-1, observation.avail.shape[-1])[seat][:, :, None],
        seats=(seat % agents)[:, :, None],
        last_actions=last_actions[game],
    )


def _first_memory(player: Player, _: Array, places: int) -> Memory:
    return player.initial_seats(places, 1)


def every_player(function: Callable[[Player, T], R], kind: PyTree, arguments: T) -> R:
    """`function(player, arguments of that player)` for all players of a kind at once."""
    arrays, rest = eqx.partition(kind, eqx.is_array)
    return jax.vmap(lambda own, part: function(eqx.combine(own, rest), part))(arrays, arguments)
