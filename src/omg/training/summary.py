"""Episode and learner statistics between two logs, per seed, under the names PyMARL's users know."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jax import Array

from omg.envs import EnvSpec
from omg.runners.vector import OWN_RETURN, EpisodeStats
from omg.training.state import IterationLog
from omg.types import Tree


class Row(NamedTuple):
    """One measured number: the tidy form in which all metrics are stored."""

    seed: int
    t_env: int
    name: str
    value: float


class Summary:
    """Sums since the last log, and totals of the run. Plain numbers, so that they survive a checkpoint exactly."""

    def __init__(self, spec: EnvSpec, seeds: int, stored: Tree) -> None:
        self.spec = spec
        self.sums: list[dict[str, float]] = stored.get("sums") or [{} for _ in range(seeds)]
        self.totals: list[dict[str, int]] = stored.get("totals") or [{"episode": 0, "updates": 0} for _ in range(seeds)]

    def dump(self) -> Tree:
        """For the checkpoint."""
        return {"sums": [dict(sums) for sums in self.sums], "totals": [dict(totals) for totals in self.totals]}

    def clear(self) -> None:
        """Starts the next interval."""
        self.sums = [{} for _ in self.sums]

    def add(self, log: IterationLog) -> None:
        """Adds a chunk; arrays are [I, Z, ...]. Iterations of seeds that already finished do not count."""
        for index, (sums, totals) in enumerate(zip(self.sums, self.totals, strict=True)):
            on = log.active[:, index]
            if not on.any():
                continue
            returns = log.stats.returns[on, index].astype(np.float64)
            _add(sums, "episodes", returns.size)
            _add(sums, "return", returns.sum())
            _add(sums, "return_squared", np.square(returns).sum())
            _add(sums, "ep_length", log.stats.lengths[on, index].sum(dtype=np.float64))
            for name, values in log.stats.metrics.items():
                _add(sums, name, values[on, index].sum(dtype=np.float64))
            updates = log.updates[on, index].astype(np.float64)
            _add(sums, "updates", updates.sum())
            for name, values in log.learner.items():
                _add(sums, f"learner.{name}", (values[on, index].astype(np.float64) * updates).sum())
            sums["epsilon"] = float(log.epsilon[on, index][-1])
            totals["episode"] += returns.size
            totals["updates"] += int(updates.sum())
            if log.dropped is not None:
                totals["episodes_dropped"] = totals.get("episodes_dropped", 0) + int(log.dropped[on, index].sum())

    def rows(self, seeds: list[int], t_env: np.ndarray) -> list[Row]:
        """Tidy rows (seed, t_env, name, value) of the interval; none for seeds that did not train in it.

        `episode`, `updates` and `episodes_dropped` count from the start of the run.
        """
        rows = []
        for index, (seed, sums) in enumerate(zip(seeds, self.sums, strict=True)):
            if sums:
                # Sorted, because a checkpoint's JSON does not keep the order in which they were first counted.
                values = {**self._values(sums), **dict(sorted(self.totals[index].items()))}
                rows += [Row(seed, int(t_env[index]), name, float(value)) for name, value in values.items()]
        return rows

    def _values(self, sums: dict[str, float]) -> dict[str, float]:
        count = sums["episodes"]
        mean = sums["return"] / count
        values = {
            "return_mean": mean,
            "return_std": float(np.sqrt(max(sums["return_squared"] / count - mean**2, 0.0))),
            "ep_length_mean": sums["ep_length"] / count,
            "epsilon": sums["epsilon"],
        }
        values |= {f"{name}_mean": sums[name] / count for name in (*self.spec.metrics, OWN_RETURN) if name in sums}
        updates = sums["updates"]
        if updates:
            prefix = "learner."
            values |= {
                name.removeprefix(prefix): total / updates for name, total in sums.items() if name.startswith(prefix)
            }
        return values


def _add(sums: dict[str, float], name: str, value: float | np.number | Array) -> None:
    sums[name] = sums.get(name, 0.0) + float(value)


def episode_rows(stats: EpisodeStats, index: int, prefix: str = "") -> dict[str, float]:
    """Means over the episodes of seed `index` of statistics [Z, E]: `test_return_mean`, `test_battle_won_mean`, ..."""
    returns = np.asarray(stats.returns[index], np.float64)
    values = {
        "return_mean": float(returns.mean()),
        "return_std": float(returns.std()),
        "ep_length_mean": float(np.mean(stats.lengths[index])),
    }
    values |= {f"{name}_mean": float(np.mean(metric[index])) for name, metric in stats.metrics.items()}
    return {prefix + name: value for name, value in values.items()}
