"""Controllers: who acts in which seat.

A new one satisfies `base.Policy` (it fills all seats) or `base.Player` (it fills some) and comes with a function
`(config, spec, key, partners) -> controller` that builds it. Add that function's line to CONTROLLERS; its name is then
a value of the configuration key `mac`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from jax import Array

from omg.config.sections import PLANNERS
from omg.controllers.base import Lineup, Player, PlayerView, Policy
from omg.controllers.basic import AllSeatsMemory, BasicMAC, build_basic_mac, model_class
from omg.controllers.draw import LEARNER, MANNERS, TeamDraw, TeamPart
from omg.controllers.hop import HOPMac, build_hop_mac
from omg.controllers.reading import Reading, SeatViews, candidates
from omg.controllers.team import Squad, TeamPolicy, build_squad
from omg.errors import unknown_name

if TYPE_CHECKING:
    from omg.config import Config
    from omg.envs.base import EnvSpec

__all__ = [
    "CONTROLLERS",
    "LEARNER",
    "MANNERS",
    "AllSeatsMemory",
    "BasicMAC",
    "HOPMac",
    "Lineup",
    "Player",
    "PlayerView",
    "Policy",
    "Reading",
    "SeatViews",
    "Squad",
    "TeamDraw",
    "TeamPart",
    "TeamPolicy",
    "build_mac",
    "build_squad",
    "candidates",
    "model_class",
]


def build_seated_mac(config: Config, spec: EnvSpec, key: Array, partners: int = 0) -> Any:
    """In a team the same players act, only in fewer seats: `TeamPolicy` seats them among the frozen ones."""
    build: Any = build_hop_mac if config.learner in PLANNERS else build_basic_mac
    return build(config, spec, key, partners)


CONTROLLERS: dict[str, Callable[[Config, EnvSpec, Array, int], Any]] = {
    "basic_mac": build_basic_mac,
    "multi_module_mac": build_seated_mac,
    "hop_mac": build_hop_mac,
}


def build_mac(config: Config, spec: EnvSpec, key: Array, partners: int = 0) -> Any:
    """Builds the networks of the controller that `config.mac` names, with newly drawn parameters.

    Args:
        config: Names the networks and their sizes.
        spec: The game.
        key: Consumed.
        partners: Number of different pool members in the other seats of a team.
    """
    if config.mac not in CONTROLLERS:
        raise unknown_name("mac", config.mac, CONTROLLERS)
    return CONTROLLERS[config.mac](config, spec, key, partners)
