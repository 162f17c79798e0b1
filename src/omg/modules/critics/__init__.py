"""Critics: networks that judge how well a game goes for each seat. They learn beside the players and are not saved.

A new value critic is a module class that satisfies `base.Critic` and is built as `Class(sizes: CriticSizes, key=key)`.
Add its line to CRITICS; its name is then a value of the configuration key `critic`. COMA's critic, which values every
action, is its own.
"""

from __future__ import annotations

from collections.abc import Callable

from omg.modules.critics.base import Critic, CriticSizes
from omg.modules.critics.coma import COMACritic
from omg.modules.critics.parts import PartsNetwork, SeatNetworks
from omg.modules.critics.value import ConvCritic, FeedForwardCritic, IndividualConvCritic, RecurrentCritic

__all__ = [
    "CRITICS",
    "COMACritic",
    "ConvCritic",
    "Critic",
    "CriticSizes",
    "FeedForwardCritic",
    "IndividualConvCritic",
    "PartsNetwork",
    "RecurrentCritic",
    "SeatNetworks",
]

CRITICS: dict[str, Callable[..., Critic]] = {
    "rnn": RecurrentCritic,
    "mlp": FeedForwardCritic,
    "conv": ConvCritic,
    "idv_conv": IndividualConvCritic,
}
