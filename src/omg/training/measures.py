"""Measures that other packages take of test episodes, by the key `measure`. Those of ours belong to their learners.

A measure is a function `ExaminedEpisodes -> {name: value}`, compiled with the test and taken for every seed: float32
scalars, of the same names at every call. They stand beside the other metrics of the test, as `test_NAME`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from omg.errors import UserError
from omg.registry import Registry, Traits

if TYPE_CHECKING:
    from jax import Array

    from omg.components import EpisodeBatch
    from omg.envs import EnvSpec
    from omg.types import PyTree

    Measure = Callable[["ExaminedEpisodes"], dict[str, Array]]


class ExaminedEpisodes(NamedTuple):
    """What a measure is given: episodes that were never trained on. B episodes, m seats of the player."""

    batch: EpisodeBatch
    """With everything in them."""
    player: PyTree
    """Who played them, as it is tested and saved; see `omg.controllers`."""
    seats: Array | None
    """[B, m], where it sat; None: in all seats."""
    partners: int
    """Number of different players in the other seats; `batch.players` says who they are."""
    spec: EnvSpec


def take_measures(measures: Mapping[str, Measure], examined: ExaminedEpisodes) -> dict[str, Array]:
    """What all measures say.

    Raises:
        UserError: two of them have a metric of the same name.
    """
    found: dict[str, Array] = {}
    for name, measure in measures.items():
        metrics = measure(examined)
        if twice := sorted(found.keys() & metrics.keys()):
            raise UserError(f"measure: '{name}' has the metric {twice[0]}, and so has another one of {list(measures)}.")
        found |= metrics
    return found


MEASURES: Registry[Measure, Traits] = Registry("measure", {})
"""Word of the key `measure` -> what it means."""
