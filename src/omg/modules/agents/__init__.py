"""Agent networks: what turns the inputs of the seats into action values or logits.

A new one is a module class that satisfies `base.AgentNetwork` and is built as `Class(sizes: AgentSizes, key=key)`.
Add its line to AGENTS; its name is then a value of the configuration key `agent`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from omg.modules.agents.keys import AgentWidthKeys, SecondLayerKeys
from omg.registry import AgentTraits, Entry, Registry

if TYPE_CHECKING:
    from omg.modules.agents.base import AgentNetwork

_TWO_LAYERS = (AgentWidthKeys, SecondLayerKeys)

AGENTS: Registry[Callable[..., AgentNetwork], AgentTraits] = Registry(
    "agent",
    {
        "rnn": Entry(
            "omg.modules.agents.rnn:RNNAgent",
            AgentTraits(sections=(AgentWidthKeys,), recurrent=True, critic="rnn"),
            "recurrent, one network for all seats",
        ),
        "idv_rnn": Entry(
            "omg.modules.agents.individual:IndividualRNNAgent",
            AgentTraits(sections=(AgentWidthKeys,), recurrent=True, individual=True, critic="rnn"),
            "recurrent, a network for every seat",
        ),
        "mlp": Entry("omg.modules.agents.mlp:MLPAgent", AgentTraits(sections=_TWO_LAYERS), "feed-forward"),
        "dueling": Entry(
            "omg.modules.agents.dueling:DuelingAgent", AgentTraits(sections=_TWO_LAYERS), "feed-forward, dueling heads"
        ),
        "conv": Entry(
            "omg.modules.agents.conv:ConvAgent", AgentTraits(sections=_TWO_LAYERS, critic="conv"), "reads maps"
        ),
        "idv_conv": Entry(
            "omg.modules.agents.individual:IndividualConvAgent",
            AgentTraits(sections=_TWO_LAYERS, individual=True, critic="idv_conv"),
            "reads maps, a network for every seat",
        ),
    },
)
"""Word of the key `agent` -> what it means."""
