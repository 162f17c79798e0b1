"""Every column of a recording: its name, its axes, its number type and what it holds.

Letters of axes: T steps, T+1 moments (before the first step, after each step), P pieces, A seats, U actions, O one
seat's observation, S the global state; of a belief J others, G goals.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType

import numpy as np

TYPES: dict[str, np.dtype] = {"f4": np.dtype("<f4"), "i2": np.dtype("<i2"), "bit": np.dtype("bool")}
"""Number types by their name in a file; `bit`: eight truth values in a byte, the first in the highest bit."""


@dataclass(frozen=True)
class Series:
    """One column."""

    name: str
    axes: tuple[str, ...]
    type: str
    what: str
    needed: bool = True
    unknown: bool = False
    """Whether numbers may be NaN, for what is not known."""
    lowest: float = -np.inf
    highest: float = np.inf


_GONE = "NaN where that is not known"

GAME = (
    Series("x", ("T+1", "P"), "f4", "place of each piece, to the right"),
    Series("y", ("T+1", "P"), "f4", "the same, downwards"),
    Series("there", ("T+1", "P"), "bit", "whether the piece is in the game"),
    Series("health", ("T+1", "P"), "f4", "health, as a share of the whole", lowest=0, highest=1),
    Series("shield", ("T+1", "P"), "f4", "shield, as a share of the whole; 0 without one", lowest=0, highest=1),
    Series("cooldown", ("T+1", "P"), "f4", "game time until it can shoot again; 0: it can, or never shoots", lowest=0),
    Series("written", ("T+1", "P"), "f4", "number written on the piece; NaN: its own label", unknown=True),
    Series("actions", ("T", "A"), "i2", "what each seat did", lowest=0),
    Series("rewards", ("T", "R"), "f4", "of the step; R is 1 for a team's reward, A where every seat has its own"),
    Series("avail", ("T+1", "A", "U"), "bit", "whether the action is legal"),
    Series(
        "values",
        ("T+1", "A", "U"),
        "f4",
        "what each seat makes of each action, as `values` of the seat says; NaN where it says nothing",
        needed=False,
        unknown=True,
    ),
    Series("obs", ("T+1", "A", "O"), "f4", "what each seat sees", needed=False),
    Series("state", ("T+1", "S"), "f4", "the global state", needed=False),
)
"""Of the game."""

BELIEFS = {
    "places": (
        Series("x", ("T+1", "J"), "f4", f"where the piece is thought to be heading; {_GONE}", unknown=True),
        Series("y", ("T+1", "J"), "f4", "the same, downwards", unknown=True),
        Series("later_x", ("T+1", "J"), "f4", f"where it really was `horizon` steps later; {_GONE}", unknown=True),
        Series("later_y", ("T+1", "J"), "f4", "the same, downwards", unknown=True),
        Series(
            "distance",
            ("T+1",),
            "f4",
            "straight distance between the two, mean over the pieces of which both are known; NaN where there are none",
            unknown=True,
            lowest=0,
        ),
        Series(
            "stay_distance",
            ("T+1",),
            "f4",
            "the same of `they stay where they are`, over the same pieces",
            unknown=True,
            lowest=0,
        ),
    ),
    "actions": (
        Series(
            "chances",
            ("T+1", "J", "U"),
            "f4",
            f"how likely each seat does each action now; {_GONE}",
            unknown=True,
            lowest=0,
            highest=1,
        ),
    ),
    "goals": (
        Series(
            "chances",
            ("T+1", "J", "G"),
            "f4",
            f"how likely each seat is after each goal; {_GONE}",
            unknown=True,
            lowest=0,
            highest=1,
        ),
        Series("x", ("T+1", "G"), "f4", "place of the goal; NaN where it has none or is gone", unknown=True),
        Series("y", ("T+1", "G"), "f4", "the same, downwards", unknown=True),
    ),
    "search": (
        Series(
            "chances",
            ("T+1", "U"),
            "f4",
            "what the search recommends: how likely each action; NaN where nothing was searched",
            unknown=True,
            lowest=0,
            highest=1,
        ),
        Series(
            "visits",
            ("T+1", "U"),
            "f4",
            "share of the visits at the root, all trees together",
            needed=False,
            unknown=True,
            lowest=0,
            highest=1,
        ),
        Series(
            "values",
            ("T+1", "U"),
            "f4",
            "mean return from the root of each action (Q), all trees together; NaN where it was never tried",
            needed=False,
            unknown=True,
        ),
        Series("value", ("T+1",), "f4", "value of the root", needed=False, unknown=True),
    ),
}
"""Of one belief, by its kind; in a file belief number i has `beliefs.i.NAME`."""


@lru_cache(maxsize=16)
def columns_of(kinds: tuple[str, ...]) -> Mapping[str, Series]:
    """All columns that a recording with beliefs of these kinds may have, by their name in the file."""
    found = {column.name: column for column in GAME}
    for number, kind in enumerate(kinds):
        found |= {f"beliefs.{number}.{column.name}": column for column in BELIEFS[kind]}
    return MappingProxyType(found)
