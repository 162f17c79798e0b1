"""Partners of `stag_hunt` and `snowdrift` who do one thing or another, by what they see: the time, the others, the map.

Each is put together from the plain players of `grid`. What they look at is in the view of every step, so that they need
no memory, and whoever sees the same can tell what they will do.
"""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import Array

from omg.controllers.scripted.base import ScriptedPlayer
from omg.controllers.scripted.composing import EitherScript
from omg.controllers.scripted.grid import (
    OTHERS,
    NearestScript,
    nearest_drift,
    nearest_hare,
    nearest_stag,
    never_shovels,
)
from omg.envs.grid import STAY, MapView
from omg.envs.snowdrift.env import SHOVEL
from omg.envs.stag_hunt.env import HUNT_HARE, HUNT_STAG

_NEAR = 2
"""Steps within which another player is near."""
_PARTS = 3
"""A game's time has this many parts, and those who wait or change do it after the first."""


class StayScript(ScriptedPlayer):
    """Stays where it is."""

    def choose(self, obs: Array, avail: Array, seats: Array, key: Array) -> Array:
        """See `ScriptedPlayer.choose`; chance plays no part."""
        return jnp.full(avail.shape[:-1], STAY, jnp.int32)


class AfterScript(EitherScript):
    """It holds from some step of the game on."""

    view: MapView = eqx.field(static=True)
    steps: int = eqx.field(static=True)
    """Steps before it holds."""
    limit: int = eqx.field(static=True)
    """Steps of a whole game."""

    def holds(self, obs: Array) -> Array:
        """See `EitherScript.holds`."""
        return jnp.round(self.view.time(obs)[..., 0] * self.limit) >= self.steps


class NearScript(EitherScript):
    """It holds while another player is within two steps, as if there were no obstacles."""

    view: MapView = eqx.field(static=True)

    def holds(self, obs: Array) -> Array:
        """See `EitherScript.holds`."""
        view = self.view
        players = view.maps(obs)[..., : view.players, :, :].reshape(*obs.shape[:-1], view.players, -1) > 0
        row, col = np.divmod(np.arange(view.board.cells), view.width)
        close = np.abs(row[:, None] - row) + np.abs(col[:, None] - col) <= _NEAR
        around = jnp.any(players[..., 0, :, None] & close, axis=-2)
        return jnp.any(players[..., 1:, :] & around[..., None, :], axis=(-2, -1))


class BegunScript(EitherScript):
    """It holds once a piece of one kind is gone."""

    view: MapView = eqx.field(static=True)
    piece: str = eqx.field(static=True)
    count: int = eqx.field(static=True)
    """How many there are at the start."""

    def holds(self, obs: Array) -> Array:
        """See `EitherScript.holds`."""
        left = self.view.maps(obs)[..., self.view.channel(self.piece), :, :]
        return jnp.sum(left > 0, axis=(-2, -1)) < self.count


def _after(env: Any, later: ScriptedPlayer, before: ScriptedPlayer) -> AfterScript:
    """`before` in the first third of the game, rounded down but a step at least, and `later` from then on."""
    limit = env.args.episode_limit
    return AfterScript(later, before, env.map_view, max(1, limit // _PARTS), limit)


def nearest_prey(env: Any) -> NearestScript:
    """Walks to the nearest prey, stag or hare, and hunts it."""
    return NearestScript(env.map_view, ("stag", "hare"), (HUNT_STAG, HUNT_HARE))


def stag_in_company(env: Any) -> NearScript:
    """Hunts stags while another player is near, and hares while none is."""
    return NearScript(nearest_stag(env), nearest_hare(env), env.map_view)


def joins_other(env: Any) -> NearestScript:
    """Walks to the nearest player, and where both stand on a stag it hunts."""
    return NearestScript(env.map_view, (OTHERS,), (HUNT_STAG,))


def hare_after_waiting(env: Any) -> AfterScript:
    """Stays for the first third of the game, then hunts hares."""
    return _after(env, nearest_hare(env), StayScript())


def stag_after_waiting(env: Any) -> AfterScript:
    """Stays for the first third of the game, then hunts stags."""
    return _after(env, nearest_stag(env), StayScript())


def stag_then_hare(env: Any) -> AfterScript:
    """Hunts stags for the first third of the game, then hares."""
    return _after(env, nearest_hare(env), nearest_stag(env))


def drift_after_waiting(env: Any) -> AfterScript:
    """Stays for the first third of the game, then shovels."""
    return _after(env, nearest_drift(env), StayScript())


def drift_then_never(env: Any) -> AfterScript:
    """Shovels for the first third of the game, then leaves the work to others."""
    return _after(env, never_shovels(env), nearest_drift(env))


def never_then_drift(env: Any) -> AfterScript:
    """Leaves the work to others for the first third of the game, then shovels."""
    return _after(env, nearest_drift(env), never_shovels(env))


def drift_in_return(env: Any) -> BegunScript:
    """Stays until somebody has shovelled a drift away, then shovels, too."""
    return BegunScript(nearest_drift(env), StayScript(), env.map_view, "drift", env.args.drifts)


def drift_in_company(env: Any) -> NearScript:
    """Shovels while another player is near, and walks about while none is."""
    return NearScript(nearest_drift(env), never_shovels(env), env.map_view)


def north_drift(env: Any) -> NearestScript:
    """Shovels in the upper half of the board only; the middle row belongs to both halves."""
    return _drift_in(env, 2 * _rows(env) < env.board.height)


def south_drift(env: Any) -> NearestScript:
    """Shovels in the lower half of the board only; the middle row belongs to both halves."""
    return _drift_in(env, 2 * (env.board.height - 1 - _rows(env)) < env.board.height)


def west_drift(env: Any) -> NearestScript:
    """Shovels in the left half of the board only; the middle column belongs to both halves."""
    return _drift_in(env, 2 * _cols(env) < env.board.width)


def east_drift(env: Any) -> NearestScript:
    """Shovels in the right half of the board only; the middle column belongs to both halves."""
    return _drift_in(env, 2 * (env.board.width - 1 - _cols(env)) < env.board.width)


def _rows(env: Any) -> np.ndarray:
    """[cells]."""
    return np.arange(env.board.cells) // env.board.width


def _cols(env: Any) -> np.ndarray:
    """[cells]."""
    return np.arange(env.board.cells) % env.board.width


def _drift_in(env: Any, region: np.ndarray) -> NearestScript:
    """Walks to the nearest drift in a part of the board, [cells] bool, and shovels there."""
    return NearestScript(env.map_view, ("drift",), (SHOVEL,), tuple(bool(inside) for inside in region))
