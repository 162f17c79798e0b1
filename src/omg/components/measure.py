"""What a measure is: a number that is computed from what was seen of an agent, with a name and a meaning.

Tests during training (`learners.subgoal_measures`) and evaluations (`evaluation.subgoals`) have tables of them. A new
measure is a function and a line in one of the tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, NamedTuple, TypeVar

Evidence = TypeVar("Evidence")
"""What measures are computed from."""
Number = TypeVar("Number")
"""A float, or in compiled code a scalar array."""


class Measure(NamedTuple, Generic[Evidence, Number]):
    """One measure."""

    name: str
    meaning: str
    """One line for tables and the documentation; `{words}` in it are filled in by who shows it."""
    compute: Callable[[Evidence], Number]
    needs: Callable[[Evidence], bool]
    """Whether there is enough to compute it from."""
    chance: str = ""
    """What somebody who knows nothing reaches, in words."""


def always(evidence: object) -> bool:
    """Nothing more is needed."""
    return True


def take(measures: Iterable[Measure[Evidence, Number]], evidence: Evidence) -> dict[str, Number]:
    """Name -> value of all measures that can be computed, in their order."""
    return {measure.name: measure.compute(evidence) for measure in measures if measure.needs(evidence)}
