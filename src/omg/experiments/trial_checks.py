"""Trials that could not work, refused before any of them is made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from omg.config import Config
from omg.config.reading import reads, unread_error
from omg.errors import UserError
from omg.experiments.search import GRID, edges

if TYPE_CHECKING:
    from omg.experiments.plan import Plan
    from omg.experiments.plan_check import CheckedPlan


def check_read(plan: Plan, configs: Mapping[str, Sequence[Config]]) -> None:
    """Refuses keys that make no difference to anybody who tries them.

    Args:
        plan: has a section `tune`.
        configs: label -> its own configuration and what its trials could be.
    """
    assert plan.tune is not None
    spaces = [("tune.space", plan.tune.space, list(configs))]
    spaces += [(f"agents.{label}.space", plan.agents[label].space, [label]) for label in configs]
    for where, space, labels in spaces:
        for key, values in space.items():
            tried_by = [config for label in labels for config in configs[label]]
            if not any(reads(config, key) for config in tried_by):
                raise UserError(f"{where}.{unread_error(key, next(iter(edges({key: values})))[key], tried_by)}")


def check_stop(checked: CheckedPlan) -> None:
    """Refuses stops that could not work."""
    section = checked.plan.tune
    if section is None or section.stop is None:
        return
    if section.sampler == GRID:
        raise UserError("tune.stop: a grid has no rounds to stop trials by. Give sampler: random, tpe or cmaes.")
    if checked.plan.report.lower_is_better:
        raise UserError(f"tune.stop: works with metrics that are better when higher; got {checked.metric}.")
    for label, config in checked.agents.items():
        if config.early_stop_metric is not None:
            raise UserError(f"tune.stop: agents.{label} has an early_stop_metric of its own. Leave out one of the two.")
