"""A training run on disk, as the API hands it out."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from omg.config import Config
from omg.envs import make_stored_env
from omg.errors import UserError
from omg.pools import Agent
from omg.runners.vector import OWN_RETURN
from omg.tracking import RunFolder, Table, load_seeds
from omg.types import Tree


@dataclass(frozen=True)
class Run:
    """A training run on disk."""

    folder: Path
    status: str
    """finished, stopped (early stop) or interrupted (by a signal)."""
    signal: int | None = None
    """The signal that interrupted it, or came when it was about to end anyway."""

    def __repr__(self) -> str:
        try:
            return self._words()
        except UserError:  # Moved or damaged: it can still be named.
            return f"Run({self.status}; {self.folder})"

    def _words(self) -> str:
        config = self.config
        seeds = f"seed {config.seed}" + (f" to {config.seed + config.seeds - 1}" if config.seeds > 1 else "")
        tests = self.best
        best = f", best {self.success_metric} {sum(tests.column('value')) / len(tests):.4g}" if len(tests) else ""
        return f"Run({config.name} in {config.env}, {seeds}, {self.status}{best}; {self.folder})"

    @cached_property
    def config(self) -> Config:
        """The configuration it was started with."""
        return RunFolder.open(self.folder).config()

    @cached_property
    def metrics(self) -> Table:
        """Tidy metrics: seed, t_env, name, value."""
        return RunFolder.open(self.folder).metrics()

    @cached_property
    def agents(self) -> list[Agent]:
        """The last agent of every seed."""
        return load_seeds(self.folder)

    @cached_property
    def success_metric(self) -> str:
        """The metric of its tests that tells good from bad play; by it the best agents are chosen."""
        own = f"test_{OWN_RETURN}_mean"
        if any(row["name"] == own for row in self.metrics):  # A team, and everybody in it has a reward.
            return own
        folder, config = RunFolder.open(self.folder), self.config
        spec = folder.spec() or make_stored_env(folder.config_file, config.env, config.env_args).spec
        return f"test_{spec.success_metric}_mean"

    @property
    def best(self) -> Table:
        """The best test of every seed after the start: seed, t_env, name, value."""
        tests: dict[int, Tree] = {}
        for row in self.metrics.where(name=self.success_metric):
            if row["t_env"] > 0 and (row["seed"] not in tests or row["value"] > tests[row["seed"]]["value"]):
                tests[row["seed"]] = row
        return Table(list(tests.values()))
