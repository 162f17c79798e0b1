"""The best settings of an agent's trials as an algorithm's file, which `--config` and plans take."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from omg.components.files import write_text
from omg.config import write_yaml
from omg.config.algorithms import algorithm_file
from omg.config.overrides import merge
from omg.config.sections import OUTWARD, RECORDS
from omg.experiments.trials import best_file, chosen_trial, drawn

if TYPE_CHECKING:
    from omg.experiments.plan_check import CheckedPlan

_OF_RUNS = (
    "seed",
    "seeds",
    "devices",
    "by_seed",
    "t_max",
    "use_cuda",
    "use_tensorboard",
    "tracker",
    *RECORDS,
    *OUTWARD,
)
"""Keys that say how a run is made rather than what learns in it."""


def best_values(checked: CheckedPlan, label: str) -> dict[str, object]:
    """All settings of an agent: those of its algorithm, of the plan, and of its best trial."""
    algorithm = checked.agents[label].train_alg or checked.plan.agents[label].config or label
    layers: list[Mapping[str, object]] = [
        algorithm_file(algorithm).values,
        checked.plan.train.settings,
        checked.plan.agents[label].settings,
        drawn(checked, label, chosen_trial(checked, label)),
    ]
    values: dict[str, object] = {}
    for layer in layers:
        values = merge(values, layer)
    return {key: value for key, value in values.items() if key not in _OF_RUNS}


def write_best(checked: CheckedPlan, label: str) -> None:
    """Writes them; the first line is what `omg algs` says of the algorithm."""
    assert checked.plan.tune is not None
    path, env = best_file(checked.folder, label), checked.env.spec
    trial, trials = chosen_trial(checked, label), checked.plan.tune.trials
    head = f"# {label}, tuned: trial {trial} of {trials} in {env.name} {env.scenario}, judged by validation partners"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, f"{' '.join(head.split())}\n\n{write_yaml(best_values(checked, label))}")
