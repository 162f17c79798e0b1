"""The same networks with their wide layer in bfloat16, for searches on CPUs that multiply such numbers twice as fast.

The wide layer has most of a network's weights and a third of its time. As on a GPU (`spread`), what a search looks up
are guesses, and it averages hundreds of them; learning uses the networks as they are.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TypeVar

import equinox as eqx
import jax.numpy as jnp

from omg.modules.planning.networks import MapTrunk, with_trunks

Module = TypeVar("Module")
_CPU_FLAGS = Path("/proc/cpuinfo")
_FAST = {"avx512_bf16", "amx_bf16"}


@cache
def multiplies_bfloat16() -> bool:
    """Whether this machine's CPU has instructions for products of bfloat16; where that is not known, it has not."""
    try:
        words = set(_CPU_FLAGS.read_text(encoding="utf-8", errors="replace").split())
    except OSError:
        return False
    return bool(words & _FAST)


def light_trunks(networks: Module) -> Module:
    """Some networks, with or without leading axes, with the wide layers of all their trunks in bfloat16."""

    def light(trunk: MapTrunk) -> MapTrunk:
        return eqx.tree_at(lambda each: each.dense.weight, trunk, trunk.dense.weight.astype(jnp.bfloat16))

    return with_trunks(networks, light)
