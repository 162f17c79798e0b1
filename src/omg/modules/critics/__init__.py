"""Critics: networks that judge how well a game goes for each seat. They learn beside the players and are not saved.

A new value critic is a module class that satisfies `base.Critic` and is built as `Class(sizes: CriticSizes, key=key)`.
Add its line to CRITICS; its name is then a value of the configuration key `critic`. COMA's critic, which values every
action, is its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from omg.modules.agents.keys import SecondLayerKeys
from omg.registry import Entry, Registry, Traits

if TYPE_CHECKING:
    from omg.modules.critics.base import Critic

_TWO_LAYERS = Traits(sections=(SecondLayerKeys,))

CRITICS: Registry[Callable[..., Critic], Traits] = Registry(
    "critic",
    {
        "rnn": Entry("omg.modules.critics.value:RecurrentCritic", Traits(), "recurrent"),
        "mlp": Entry("omg.modules.critics.value:FeedForwardCritic", _TWO_LAYERS, "feed-forward"),
        "conv": Entry("omg.modules.critics.value:ConvCritic", _TWO_LAYERS, "reads maps"),
        "idv_conv": Entry(
            "omg.modules.critics.value:IndividualConvCritic", _TWO_LAYERS, "reads maps, a network for every seat"
        ),
    },
)
"""Word of the key `critic` -> what it means."""
