"""Controllers: who acts in which seat.

A new one satisfies `base.Policy` and comes with a function `(config, spec, key) -> controller` that builds it.
Add that function's line to CONTROLLERS; its name is then a value of the configuration key `mac`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from jax import Array

from omg.controllers.base import Policy
from omg.controllers.basic import BasicMAC, Carry, build_basic_mac
from omg.controllers.random import RandomPolicy
from omg.errors import unknown_name

if TYPE_CHECKING:
    from omg.config import Config
    from omg.envs.base import EnvSpec

__all__ = ["CONTROLLERS", "BasicMAC", "Carry", "Policy", "RandomPolicy", "build_mac"]

CONTROLLERS: dict[str, Callable[[Config, EnvSpec, Array], BasicMAC]] = {
    "basic_mac": build_basic_mac,
}


def build_mac(config: Config, spec: EnvSpec, key: Array) -> BasicMAC:
    """Builds the controller that `config.mac` names, with newly drawn parameters."""
    if config.mac not in CONTROLLERS:
        raise unknown_name("mac", config.mac, CONTROLLERS)
    return CONTROLLERS[config.mac](config, spec, key)
