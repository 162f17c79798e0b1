"""`vdn`: the team's value is the sum of the seats' values (value decomposition networks)."""

from __future__ import annotations

import equinox as eqx
from jax import Array

from omg.modules.mixers.base import Choices, MixerSizes


class VDNMixer(eqx.Module):
    """A sum; it has no parameters."""

    def __init__(self, sizes: MixerSizes, *, key: Array):
        del sizes, key

    def __call__(self, qs: Array, state: Array, choices: Choices | None = None) -> Array:
        """[..., A], [..., S] -> [...]; only the values are used."""
        del state, choices
        return qs.sum(axis=-1)
