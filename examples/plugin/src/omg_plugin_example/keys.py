"""The settings of the parts in this package. They are keys of the configuration like any other."""

from __future__ import annotations

from pydantic import Field

from omg.registry.keys import Keys
from omg.registry.kinds import Handful, Real


class CountsKeys(Keys):
    """The opponent model that counts."""

    counts_memory: Real = Field(0.95, gt=0, le=1, description="Share of counted actions that is left a step later")
    counts_pseudo: Handful = Field(2, ge=1, description="How many actions the learned base rates weigh as much as")
