"""Kinds of numbers in a configuration, each with the range that its use allows."""

from __future__ import annotations

import math
import numbers
from typing import Annotated

from pydantic import BeforeValidator, Field


def _whole(value: object) -> object:
    """Lets 2e6 and NumPy integers pass for whole numbers; truth values and text stay what they are."""
    if isinstance(value, bool):
        return value
    if isinstance(value, numbers.Integral):
        return int(value)
    return int(float(value)) if isinstance(value, numbers.Real) and float(value).is_integer() else value


def _real(value: object) -> object:
    if not isinstance(value, numbers.Real) or isinstance(value, bool):
        return value
    try:
        return float(value)
    except OverflowError:  # Allowed nowhere; the message says what is.
        return math.inf


Whole = Annotated[int, BeforeValidator(_whole)]
Steps = Annotated[Whole, Field(le=2**53)]
"""Environment steps, or episodes between target updates: up to the last whole number that double precision, and so
JSON, has exactly. At a million steps a second that takes 285 years."""
Episodes = Annotated[Whole, Field(le=1_000_000)]
"""That are played, or learned from, at once."""
Width = Annotated[Whole, Field(le=16_384)]
"""Of a layer; a recurrent network as wide has 1.6 thousand million weights."""
Many = Annotated[Whole, Field(le=1_000_000)]
Few = Annotated[Whole, Field(le=10_000)]
Handful = Annotated[Whole, Field(le=1000)]
"""Repetitions; more than anybody has use for, and few enough to be counted in 32 bits together."""
Real = Annotated[float, BeforeValidator(_real)]


class PerSeed:
    """Marks a key whose value compiled programs take as an argument: another one needs no other compilation."""


Rate = Annotated[Real, PerSeed()]
"""A factor of learning, of which each seed of a run may have its own (`by_seed`)."""
