"""Words of selectors and schedules, and the functions that they mean."""

from __future__ import annotations

from collections.abc import Callable

from jax import Array

from omg.components import selectors
from omg.components.counts import Number, exponential, linear

Selector = Callable[[Array, Array, Array, "Array | float"], Array]
Schedule = Callable[[Number, float, float, int], Array]

SELECTORS: dict[str, Selector] = {
    "epsilon_greedy": selectors.epsilon_greedy,
    "multinomial": selectors.multinomial,
    "multinomial_late_mask": selectors.multinomial_late_mask,
    "softmax": selectors.softmax,
}

SELECTOR_CHANCES: dict[str, Callable[[Array, Array], Array]] = {
    "epsilon_greedy": selectors.greedy_chances,
    "multinomial": selectors.legal_softmax,
    "multinomial_late_mask": selectors.late_mask_chances,
    "softmax": selectors.legal_softmax,
}
"""Selector -> the probabilities it draws with where epsilon is 0: values [..., U] and avail -> [..., U] float32."""


def selector_name(action_selector: str, mask_before_softmax: bool) -> str:
    """The key of `SELECTORS` that two keys of the configuration mean."""
    late = action_selector == "multinomial" and not mask_before_softmax
    return "multinomial_late_mask" if late else action_selector


SCHEDULES: dict[str, Schedule] = {
    "linear": linear,
    "exp": exponential,
}
