"""Settings that compiled programs take as arguments: how long a run takes, and the factors of its learning.

As constants each of their values would be another program to compile; and seeds that learn at different rates could not
learn side by side. So trials of settings are seeds of one run (`by_seed`), and what is learned with the settings that
did best has been compiled already.

Letters in shapes: Z seeds.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from omg.components import Count
from omg.config import Config
from omg.config.reading import reads
from omg.errors import UserError, unknown_name
from omg.registry.kinds import PerSeed


class Tuned(NamedTuple):
    """These settings, for Z seeds or inside a program for one."""

    limit: Count
    """[Z], `t_max`."""
    rates: dict[str, Array]
    """Key -> [Z] float32."""


def rate_keys(config: Config) -> list[str]:
    """The keys of a configuration that are such factors and that its run reads."""
    fields = type(config).model_fields.items()
    marked = [key for key, field in fields if any(isinstance(mark, PerSeed) for mark in field.metadata)]
    return [key for key in marked if reads(config, key)]


def check_by_seed(config: Config) -> None:
    """Refuses `by_seed` where it names other keys, or not a value for every seed."""
    known = rate_keys(config)
    for key, values in config.by_seed.items():
        if key not in known:
            raise unknown_name("key (by_seed)", key, known)
        if len(values) != config.seeds:
            raise UserError(f"by_seed.{key}: got {len(values)} values, but seeds={config.seeds}; give one for each.")
        if min(values) < 0 or (min(values) == 0 and getattr(config, key) > 0 and key.endswith("lr")):
            raise UserError(f"by_seed.{key}: got {min(values):g}; learning rates are above 0, weights at least 0.")


def tuned_for(config: Config, seeds: int) -> Tuned:
    """What a program is given for so many seeds, or copies of one."""
    own = {key: config.by_seed.get(key, [getattr(config, key)] * seeds) for key in rate_keys(config)}
    rates = {key: jnp.asarray(np.asarray(values, np.float32)) for key, values in own.items()}
    return Tuned(Count.from_numpy(np.full(seeds, config.t_max)), rates)


def with_rates(config: Config, rates: dict[str, Array]) -> Config:
    """A configuration whose factors are arguments of the program that is being made; for learners alone."""
    return config.model_copy(update=dict(rates))
