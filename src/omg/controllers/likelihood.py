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
    # Players without arrays have nothing to be counted by: their numbers go with them.
    numbers = [jnp.arange(number) for number in squad.numbers]

    def first(player: Player, _: Array) -> Memory:
        return player.initial_seats(games * agents, 1)

    def one(memories: list[Memory], step: _Step) -> tuple[list[Memory], Array]:
        def ask(player: Player, part: tuple[Array, Memory]) -> tuple[Array, Memory]:
            return check_likely(player, "squad").chances(step.view, part[1])

        found, kept = [], []
        for kind, number, memory in zip(squad.kinds, numbers, memories, strict=True):
            chances, after = every_player(ask, kind, (number, memory))
            mixed = floored(chances[:, :, 0], step.view.avail[:, 0], floor)
            found.append(jnp.take_along_axis(mixed, step.actions[None, :, None], axis=-1)[..., 0])
            kept.append(after)
        return kept, jnp.concatenate(found)

    start = [every_player(first, kind, number) for kind, number in zip(squad.kinds, numbers, strict=True)]
    done = jnp.swapaxes(jax.lax.scan(one, start, steps)[1], 0, 1).reshape(squad.size, slots, games, agents)
    played = batch.filled.T[..., None]
    logs = jnp.where(played, jnp.log(jnp.where(played, done, 1.0)), 0.0)
    return jnp.swapaxes(logs, 1, 2)[:, :, :-1]


def _last_actions(actions: Array) -> Array:
    """What was done in the step before: [B, T + 1, A] -> the same shape, -1 in the first slot."""
    return jnp.concatenate([jnp.full_like(actions[:, :1], -1), actions[:, :-1]], axis=1)


def _of_slot(obs: Array, state: Array, avail: Array, actions: Array, last: Array) -> _Step:
    """A slot of B games, whose seats become rows: see `_Step`."""
    games, agents = actions.shape
    seats = jnp.broadcast_to(jnp.arange(agents, dtype=jnp.int32), (games, agents))
    view = PlayerView(
        obs=obs.reshape(games * agents, 1, -1),
        state=jnp.repeat(state, agents, axis=0),
        avail=avail.reshape(games * agents, 1, -1),
        seats=seats.reshape(-1, 1),
        last_actions=jnp.repeat(last, agents, axis=0),
    )
    return _Step(view, actions.reshape(-1))
