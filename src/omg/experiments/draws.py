"""Draws of partners: which kinds of players an experiment trains with, is tuned with and is judged by.

The same kinds dealt again are another pool of the same game. A draw is a number, and everything follows from it.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence

from pydantic import Field

from omg.errors import UserError
from omg.experiments.stages.base import Section
from omg.pools.members import SetName

SEEDS_OF_A_DRAW = 1000
"""Seeds that one draw of a pool's training may have; the next draw begins behind them."""


class KindsSection(Section):
    """Scripts that are dealt to the sets of a pool by the number of its draw."""

    scripts: list[str] = Field(min_length=1, description="Scripts that any set may get")
    training: int = Field(ge=1, description="How many of them agents are trained with")
    validation: int = Field(0, ge=0, description="How many of them are for tuning")
    heldout: int = Field(0, ge=0, description="How many of them no agent meets in training")
    new: list[str] = Field([], description="Scripts that are only ever held out")
    new_heldout: int | None = Field(None, ge=0, description="How many of these; all unless given")

    def dealt(self, draw: int) -> dict[str, SetName]:
        """Script -> set.

        Args:
            draw: which of the possible deals; the same number always gives the same one.

        Raises:
            UserError: a script is named twice, or there are fewer than are to be dealt.
        """
        twice = [script for script, number in Counter([*self.scripts, *self.new]).items() if number > 1]
        if twice:
            raise UserError(f"pool.kinds: got '{twice[0]}' twice; name every script once.")
        fresh = len(self.new) if self.new_heldout is None else self.new_heldout
        for key, names, wanted in (
            ("scripts", self.scripts, self.training + self.validation + self.heldout),
            ("new", self.new, fresh),
        ):
            if wanted > len(names):
                raise UserError(f"pool.kinds.{key}: got {len(names)} scripts, but {wanted} of them are to be dealt.")
        order = shuffled(self.scripts, draw)
        sizes: Mapping[SetName, int] = {
            "training": self.training,
            "validation": self.validation,
            "heldout": self.heldout,
        }
        sets: dict[str, SetName] = {}
        for name, number in sizes.items():
            sets |= dict.fromkeys(order[len(sets) : len(sets) + number], name)
        return sets | dict.fromkeys(shuffled(self.new, draw)[:fresh], "heldout")


def shuffled(names: Sequence[str], draw: int) -> list[str]:
    """Names in the order of a draw, whatever order they were given in and whatever the machine."""
    return sorted(names, key=lambda name: hashlib.sha256(f"{draw}/{name}".encode()).digest())


def first_seed(seed: int, draw: int) -> int:
    """The first seed of a draw's training: that of the settings for draw 1, others for every further one."""
    return seed + SEEDS_OF_A_DRAW * (draw - 1)
