"""Settings of agent networks."""

from __future__ import annotations

from pydantic import Field

from omg.registry.keys import Keys
from omg.registry.kinds import Width


class AgentWidthKeys(Keys):
    """The agent's network."""

    rnn_hidden_dim: Width = Field(
        64, ge=1, description="Width of the agent's recurrent state; of networks without one, of the first layer"
    )


class SecondLayerKeys(Keys):
    """Networks of two layers that remember nothing."""

    mlp_second_dim: Width | None = Field(
        None, ge=1, description="Width of the second layer of feed-forward agents and critics; None: as the first's"
    )


class AgentSections(SecondLayerKeys, AgentWidthKeys):
    """All sections of agent networks, as the configuration has them; the last is shown first."""
