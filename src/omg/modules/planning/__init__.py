"""The networks of a planning player: what it would do itself, and what each of the others will do."""

from omg.modules.planning.networks import (
    CoPlayerNetwork,
    MapTrunk,
    PlanningSizes,
    PolicyValueNetwork,
    co_player_logits,
    each,
    goal_logits,
    masked,
    on_cpu,
    redrawn,
    stacked,
)

__all__ = [
    "CoPlayerNetwork",
    "MapTrunk",
    "PlanningSizes",
    "PolicyValueNetwork",
    "co_player_logits",
    "each",
    "goal_logits",
    "masked",
    "on_cpu",
    "redrawn",
    "stacked",
]
