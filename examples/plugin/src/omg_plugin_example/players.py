"""Players of `meeting` that follow fixed rules. They read the observation of their seat, see `meeting.Meeting`."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from omg.controllers.scripted.base import ScriptedPlayer
from omg_plugin_example.meeting import Meeting

WAVERS = 0.3
"""How often a player goes anywhere instead, so that one look does not tell what it is."""


class Visitor(ScriptedPlayer):
    """Goes to the place that a part of its observation points at; at times anywhere."""

    part: int = eqx.field(static=True)
    """Which K numbers of the observation: 0 its favourite, 2 where the other went last."""

    def choose(self, obs: Array, avail: Array, seats: Array, key: Array) -> Array:
        """See `ScriptedPlayer.choose`. Where the part is all zeros, in the first round, it goes to its favourite."""
        places = avail.shape[-1]
        wanted = self._wanted(obs, places)
        place_key, waver_key = jax.random.split(key)
        anywhere = jax.random.randint(place_key, wanted.shape, 0, places)
        return jnp.where(jax.random.bernoulli(waver_key, WAVERS, wanted.shape), anywhere, wanted)

    def probabilities(self, obs: Array, avail: Array, seats: Array) -> Array:
        """See `ScriptedPlayer.probabilities`: needed only because the player draws."""
        places = avail.shape[-1]
        return (1 - WAVERS) * jax.nn.one_hot(self._wanted(obs, places), places) + WAVERS / places

    def _wanted(self, obs: Array, places: int) -> Array:
        parts = obs[..., : 3 * places].reshape(*obs.shape[:-1], 3, places)
        pointed = parts[..., self.part, :]
        return jnp.where(pointed.any(axis=-1, keepdims=True), pointed, parts[..., 0, :]).argmax(axis=-1)


def stubborn(env: Meeting) -> Visitor:
    """Goes to its favourite, wherever the other goes."""
    return Visitor(0)


def yielding(env: Meeting) -> Visitor:
    """Goes where the other went last."""
    return Visitor(2)
