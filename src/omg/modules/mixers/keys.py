"""Settings of mixers."""

from __future__ import annotations

from pydantic import Field

from omg.registry.keys import Keys
from omg.registry.kinds import Handful, Whole, Width


class MixingKeys(Keys):
    """The network that values the joint action."""

    mixing_embed_dim: Width = Field(32, ge=1, description="Width of mixing networks: QMIX, QPLEX, QTRAN")


class HypernetKeys(Keys):
    """QMIX's networks that generate the weights of its mixing layer from the state."""

    hypernet_layers: Whole = Field(2, ge=1, le=2, description="Layers of QMIX's weight generators")
    hypernet_embed: Width = Field(64, ge=1, description="Hidden width of QMIX's weight generators")


class QPlexKeys(Keys):
    """QPLEX's weights of the seats' advantages."""

    qplex_heads: Handful = Field(4, ge=1, description="QPLEX: heads that the weight of each seat's advantage sums up")


class MixerSections(QPlexKeys, HypernetKeys, MixingKeys):
    """All sections of mixers, as the configuration has them; the last is shown first."""
