"""The networks of a planning player: what it would do itself, and what each of the others will do."""

from omg.modules.planning.light import light_trunks, multiplies_bfloat16
from omg.modules.planning.networks import (
    CoPlayersNetwork,
    MapTrunk,
    PlanningSizes,
    PolicyValueNetwork,
    each,
    masked,
    on_cpu,
    redrawn,
)
from omg.modules.planning.spread import spread_trunks

__all__ = [
    "CoPlayersNetwork",
    "MapTrunk",
    "PlanningSizes",
    "PolicyValueNetwork",
    "each",
    "light_trunks",
    "masked",
    "multiplies_bfloat16",
    "on_cpu",
    "redrawn",
    "spread_trunks",
]
