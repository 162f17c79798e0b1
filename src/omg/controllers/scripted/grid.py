"""Scripted players for the games on a board: `stag_hunt` and `snowdrift`. They see the map of their own seat.

They walk a shortest way around the obstacles. Where several steps lead closer, the first of up, down, left and right is
taken. Chance plays no part, except for those who only walk about.
"""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jax import Array

from omg.components.selectors import greedy, legal_chances, random_legal
from omg.controllers.scripted.base import ScriptedPlayer
from omg.envs.grid import MOVES, STAY, MapView
from omg.envs.grid.bits import apart, neighbours, one_step_short, overlap, pack
from omg.envs.snowdrift.env import SHOVEL
from omg.envs.stag_hunt.env import HUNT_HARE, HUNT_STAG

OTHERS = "others"
"""In the place of a piece: the other players."""
_ACT, _CLOSER, _WAIT, _NEVER = 3.0, 2.0, 1.0, 0.0
"""Scores of actions, the highest legal one is taken."""


class NearestScript(ScriptedPlayer):
    """Walks to the nearest piece of some kinds and acts on it; stays where it is when there is none left."""

    view: MapView = eqx.field(static=True)
    pieces: tuple[str, ...] = eqx.field(static=True)
    """What it walks to, of `view.pieces`, or `OTHERS`."""
    actions: tuple[int, ...] = eqx.field(static=True)
    """What it does there, whichever of these is legal."""
    region: tuple[bool, ...] | None = eqx.field(static=True, default=None)
    """[cells], where pieces count at all; None: everywhere."""

    def choose(self, obs: Array, avail: Array, seats: Array, key: Array) -> Array:
        """See `ScriptedPlayer.choose`; chance plays no part."""
        closer, arrived = ways(self.view, obs, self.pieces, self.region)
        scores = jnp.full(avail.shape, _NEVER).at[..., STAY].set(_WAIT)
        for action in self.actions:
            scores = scores.at[..., action].set(jnp.where(arrived, _ACT, _NEVER))
        for move in MOVES:
            scores = scores.at[..., move].set(jnp.where(closer[..., move], _CLOSER, _NEVER))
        return greedy(scores, avail)


class WithoutScript(ScriptedPlayer):
    """Any legal action but one, all equally likely."""

    action: int = eqx.field(static=True)
    """What it never does."""

    def choose(self, obs: Array, avail: Array, seats: Array, key: Array) -> Array:
        """See `ScriptedPlayer.choose`."""
        return random_legal(self._allowed(avail), key)

    def probabilities(self, obs: Array, avail: Array, seats: Array) -> Array:
        """See `ScriptedPlayer.probabilities`."""
        return legal_chances(self._allowed(avail))

    def _allowed(self, avail: Array) -> Array:
        return avail.at[..., self.action].set(False)


def ways(
    view: MapView, obs: Array, pieces: tuple[str, ...], region: tuple[bool, ...] | None = None
) -> tuple[Array, Array]:
    """Which steps begin a shortest way to the nearest piece, and whether one stands on it already.

    Args:
        view: the layout of the observation.
        obs: [..., O], of seats in any number of games.
        pieces: kinds that count, of `view.pieces` or `OTHERS`.
        region: [cells], where they count; None: everywhere.

    Returns:
        [..., 4] bool, in the order of `MOVES`: all false on such a piece, without any left, or out of the game; and
        [...] bool.
    """
    maps = view.maps(obs).reshape(*obs.shape[:-1], view.channels, -1) > 0
    counted = [
        channel
        for piece in pieces
        for channel in (range(1, view.players) if piece == OTHERS else [view.channel(piece)])
    ]
    wanted = jnp.any(maps[..., jnp.asarray(counted), :], axis=-2)
    if region is not None:
        wanted &= jnp.asarray(region)
    blocked = maps[..., view.channel("block"), :]
    own, blocks, goals = (apart(pack(cells)) for cells in (maps[..., 0, :], blocked, wanted))
    free = tuple(~word for word in blocks)
    nearer = one_step_short(view.board, own, goals, free)
    steps = jnp.stack([overlap(side, nearer) for side in neighbours(view.board, own)], axis=-1)
    arrived = overlap(own, goals)
    return steps & ~arrived[..., None], arrived


def nearest_stag(env: Any) -> NearestScript:
    """Walks to the nearest stag and hunts it, whoever else comes."""
    return NearestScript(env.map_view, ("stag",), (HUNT_STAG,))


def nearest_hare(env: Any) -> NearestScript:
    """Walks to the nearest hare and hunts it."""
    return NearestScript(env.map_view, ("hare",), (HUNT_HARE,))


def nearest_drift(env: Any) -> NearestScript:
    """Walks to the nearest drift and shovels: a cooperator."""
    return NearestScript(env.map_view, ("drift",), (SHOVEL,))


def never_shovels(env: Any) -> WithoutScript:
    """Walks about at random and leaves the work to others: a defector."""
    return WithoutScript(SHOVEL)
