"""Parts shared by all algorithms: episode data, replay, schedules, action selectors.

A new selector is a function `(values, avail, key, epsilon) -> actions` in `selectors.py`, a line in SELECTORS, and
one in SELECTOR_CHANCES for the probabilities it draws with; a new schedule is a function
`(t_env, start, finish, steps) -> value` in `counts.py` and a line in SCHEDULES. Both tables are in `choices.py`.

Modules are imported when they are asked for: whoever reads `files` does not wait for JAX.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from omg.registry.later import later

if TYPE_CHECKING:
    from omg.components import replay
    from omg.components.choices import SCHEDULES, SELECTOR_CHANCES, SELECTORS, Schedule, Selector, selector_name
    from omg.components.counts import Count, Number
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

__getattr__ = later(
    __name__,
    {
        "choices": ("SCHEDULES", "SELECTOR_CHANCES", "SELECTORS", "Schedule", "Selector", "selector_name"),
        "counts": ("Count", "Number"),
        "episode_batch": (
            "EpisodeBatch",
            "ended_by_limit",
            "keep_seats",
            "lengths",
            "loss_mask",
            "masked_mean",
            "take_seats",
            "truncate",
            "view_mask",
            "viewed_slots",
        ),
    },
)
