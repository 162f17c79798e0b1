"""How likely the players of a squad were to do what was done: the evidence for who sits where.

Letters in shapes: K players of the squad, B games, A seats, T steps.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from omg.components import EpisodeBatch
from omg.controllers.base import Likely, Memory, Player, PlayerView
from omg.controllers.team import Squad, every_player
from omg.errors import UserError
from omg.types import PyTree

FLOOR = 1e-3
"""The share of a step that is thought to be any legal action, whoever acts: rounding must not rule out the truth."""


class _Step(NamedTuple):
    """One time slot of recorded games, a row for every seat: N = B * A."""

    view: PlayerView
    actions: Array
    """[N] int32."""


def floored(chances: Array, avail: Array, floor: float = FLOOR) -> Array:
    """Chances of actions with a share `floor` of all legal ones mixed in: [..., U] and [..., U] bool -> [..., U]."""
    legal = jnp.maximum(avail.sum(axis=-1, keepdims=True), 1)
    return (1.0 - floor) * chances + floor * avail / legal


def check_likely(player: object, name: str) -> Likely:
    """The player, if its chances are known.

    Raises:
        UserError: they are not; `name` says whose.
    """
    if not isinstance(player, Likely):
        raise UserError(
            f"{name}: how likely a {type(player).__name__} is to do something is not known, so nobody can be told from "
            f"it by what it does. Allowed: scripts and players of basic_mac."
        )
    return player


def squad_memory(squad: Squad, batch: int, seats: int) -> tuple[Memory, ...]:
    """Memory of all players of a squad at the start of the same games: per kind [players, batch, ...]."""

    def first(player: Player, _: Array) -> Memory:
        return player.initial_seats(batch, seats)

    return tuple(every_player(first, kind, number) for kind, number in _kinds(squad))


def squad_chances(squad: Squad, view: PlayerView, memories: tuple[Memory, ...]) -> tuple[Array, tuple[Memory, ...]]:
    """How likely all players of a squad would be to act, each in the same N games.

    Returns:
        [K, N, m, U] float32, players by their number in the squad, and what they then remember, as in `squad_memory`.

    Raises:
        UserError: somebody's chances are not known.
    """

    def ask(player: Player, part: tuple[Array, Memory]) -> tuple[Array, Memory]:
        return check_likely(player, "squad").chances(view, part[1])

    asked = [
        every_player(ask, kind, (number, memory))
        for (kind, number), memory in zip(_kinds(squad), memories, strict=True)
    ]
    return jnp.concatenate([chances for chances, _ in asked]), tuple(memory for _, memory in asked)


def _kinds(squad: Squad) -> list[tuple[PyTree, Array]]:
    """Each kind with the numbers of its players: those without arrays have nothing else to be counted by."""
    return [(kind, jnp.arange(number)) for kind, number in zip(squad.kinds, squad.numbers, strict=True)]


def log_chances(squad: Squad, batch: EpisodeBatch, floor: float = FLOOR) -> Array:
    """The log-likelihood of what each seat did, step by step, under every player of a squad.

    Every seat is taken as a seat of its own, as `TeamPolicy` has it, and every player remembers what it would have seen
    there from the start of the game on.

    Args:
        squad: The players in question.
        batch: B recorded games.
        floor: See `floored`.

    Returns:
        [K, B, T, A] float32, zero where nothing was played; players by their number in the squad.

    Raises:
        UserError: somebody's chances are not known.
    """
    games, slots, agents = batch.actions.shape
    steps = jax.vmap(_of_slot, in_axes=(1, 1, 1, 1, 1))(
        batch.obs, batch.state, batch.avail, batch.actions, _last_actions(batch.actions)
    )

    def one(memories: tuple[Memory, ...], step: _Step) -> tuple[tuple[Memory, ...], Array]:
        chances, kept = squad_chances(squad, step.view, memories)
        mixed = floored(chances[:, :, 0], step.view.avail[:, 0], floor)
        return kept, jnp.take_along_axis(mixed, step.actions[None, :, None], axis=-1)[..., 0]

    start = squad_memory(squad, games * agents, 1)
    done = jnp.swapaxes(jax.lax.scan(one, start, steps)[1], 0, 1).reshape(squad.size, slots, games, agents)
    played = batch.filled.T[..., None]
    logs = jnp.where(played, jnp.log(jnp.where(played, done, 1.0)), 0.0)
    return jnp.swapaxes(logs, 1, 2)[:, :, :-1]


def _last_actions(actions: Array) -> Array:
    """What was done in the step before: [B, T + 1, A] -> the same shape, -1 in the first slot."""
    return jnp.concatenate([jnp.full_like(actions[:, :1], -1), actions[:, :-1]], axis=1)


def seat_rows(obs: Array, state: Array, avail: Array, seats: Array, last_actions: Array) -> PlayerView:
    """The view of every seat of B games as a row of its own: N = B * A, each with one seat.

    Args:
        obs: [B, A, O].
        state: [B, S].
        avail: [B, A, U].
        seats: [B, A].
        last_actions: [B, A].
    """
    games, agents = seats.shape
    return PlayerView(
        obs=obs.reshape(games * agents, 1, -1),
        state=jnp.repeat(state, agents, axis=0),
        avail=avail.reshape(games * agents, 1, -1),
        seats=seats.reshape(-1, 1),
        last_actions=jnp.repeat(last_actions, agents, axis=0),
    )


def _of_slot(obs: Array, state: Array, avail: Array, actions: Array, last_actions: Array) -> _Step:
    """A slot of B games."""
    seats = jnp.broadcast_to(jnp.arange(actions.shape[1], dtype=jnp.int32), actions.shape)
    return _Step(seat_rows(obs, state, avail, seats, last_actions), actions.reshape(-1))
