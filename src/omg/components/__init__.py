"""Parts shared by all algorithms: episode data, replay, schedules, action selectors.

A new selector is a function `(values, avail, key, epsilon) -> actions` in `selectors.py`, a line in SELECTORS, and
one in SELECTOR_CHANCES for the probabilities it draws with; a new schedule is a function
`(t_env, start, finish, steps) -> value` in `counts.py` and a line in SCHEDULES.
"""

from __future__ import annotations

from collections.abc import Callable

from jax import Array

from omg.components import replay, selectors
from omg.components.counts import Count, Number, exponential, linear
from omg.components.episode_batch import (
    EpisodeBatch,
    ended_by_limit,
    keep_seats,
    lengths,
    loss_mask,
    masked_mean,
    take_seats,
    truncate,
    view_mask,
    viewed_slots,
)

__all__ = [
    "SCHEDULES",
    "SELECTORS",
    "SELECTOR_CHANCES",
    "Count",
    "EpisodeBatch",
    "Number",
    "Schedule",
    "Selector",
    "ended_by_limit",
    "keep_seats",
    "lengths",
    "loss_mask",
    "masked_mean",
    "replay",
    "selector_name",
    "take_seats",
    "truncate",
    "view_mask",
    "viewed_slots",
]

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
