"""The networks of a planning player: what it would do itself, and what each of the others will do."""

from omg.modules.planning.networks import (
    CoPlayerNetwork,
    MapTrunk,
    PlanningSizes,
    PolicyValueNetwork,
    apart,
    co_player_logits,
    goal_logits,
    masked,
    stacked,
)

__all__ = [
    "CoPlayerNetwork",
    "MapTrunk",
    "PlanningSizes",
    "PolicyValueNetwork",
    "apart",
    "co_player_logits",
    "goal_logits",
    "masked",
    "stacked",
]
