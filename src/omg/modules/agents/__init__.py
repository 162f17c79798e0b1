"""Agent networks: what turns the inputs of the seats into action values or logits.

A new one is a module class that satisfies `base.Agent` and is built as `Class(sizes: AgentSizes, key=key)`.
Add its line to AGENTS; its name is then a value of the configuration key `agent`.
"""

from __future__ import annotations

from collections.abc import Callable

from omg.modules.agents.base import Agent, AgentSizes
from omg.modules.agents.conv import ConvAgent
from omg.modules.agents.dueling import DuelingAgent
from omg.modules.agents.individual import IndividualAgent, IndividualConvAgent, IndividualRNNAgent
from omg.modules.agents.inputs import as_one_hot
from omg.modules.agents.mlp import MLPAgent
from omg.modules.agents.rnn import RNNAgent

__all__ = [
    "AGENTS",
    "Agent",
    "AgentSizes",
    "ConvAgent",
    "DuelingAgent",
    "IndividualAgent",
    "IndividualConvAgent",
    "IndividualRNNAgent",
    "MLPAgent",
    "RNNAgent",
    "as_one_hot",
]

AGENTS: dict[str, Callable[..., Agent]] = {
    "rnn": RNNAgent,
    "idv_rnn": IndividualRNNAgent,
    "mlp": MLPAgent,
    "dueling": DuelingAgent,
    "conv": ConvAgent,
    "idv_conv": IndividualConvAgent,
}
