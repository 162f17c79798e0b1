"""Aim: every seed of a run as a run there; a repository beside the run folders unless another one is given.

Nothing of the machine is recorded: no resources, no terminal, no environment.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from omg.config import Config
from omg.tracking.trackers.base import Exhibit, TrackerKind, alone, check_packages, seed_settings
from omg.training.summary import Row

if TYPE_CHECKING:
    from aim import Run

    from omg.tracking.folder import RunFolder

FOLDER, FILES = ".aim", "aimfiles"
"""Folders under `local_results_path`."""
_REMOTE = "aim://"


def check(config: Config) -> None:
    """See `TrackerKind.check`."""
    check_packages("aim", "aim")


def build(folder: RunFolder, config: Config) -> Mapping[str, AimTracker]:
    """See `TrackerKind.build`."""
    return {"aim": AimTracker(folder, config)}


class AimTracker:
    """Implements `Tracker` and `Exhibiting`."""

    def __init__(self, folder: RunFolder, config: Config) -> None:
        self.folder, self.config = folder, config
        self._runs: dict[int, Run] = {}

    def begin(self, past: list[Row]) -> None:
        """See `Tracker.begin`. A resumed run is a new entry that begins with the metrics of the one before."""
        from aim import Repo, Run

        # Beside the run's folder, as Sacred: not `local_results_path`, which of a stranger's run may be any folder.
        results = self.folder.path.parent.resolve()
        place = os.path.expandvars(self.config.aim_repo) if self.config.aim_repo else str(results)
        if not place.startswith(_REMOTE):
            # A new repository is made once, whoever comes first.
            with alone(results / f"{FOLDER}.lock"):
                Repo.from_path(place, init=True)
        for seed in range(self.config.seed, self.config.seed + self.config.seeds):
            run = Run(
                repo=place,
                experiment=self.config.aim_experiment,
                system_tracking_interval=None,
                log_system_params=False,
                capture_terminal_logs=False,
            )
            run.name = f"{self.folder.path.name}_seed{seed}"
            run["settings"] = seed_settings(self.config, seed)
            run["run_folder"], run["seed"], run["resumed"] = self.folder.path.name, seed, bool(past)
            run.set_artifacts_uri((results / FILES).as_uri())
            self._runs[seed] = run
        self.rows(past)

    def rows(self, rows: list[Row]) -> None:
        """See `Tracker.rows`."""
        for row in rows:
            self._runs[row.seed].track(row.value, name=row.name, step=row.t_env)

    def flush(self) -> None:
        """The library writes what it is given within a second."""

    def exhibit(self, exhibits: Sequence[Exhibit]) -> None:
        """See `Exhibiting`; pictures are shown by Aim, everything is an artifact."""
        from aim import Image

        for one in exhibits:
            for seed, run in self._runs.items():
                if one.seed not in (None, seed):
                    continue
                if one.kind == "picture":
                    run.track(Image(str(one.file)), name=one.name)
                run.log_artifact(str(one.file), name=one.file.name, block=True)

    def close(self, status: str, error: BaseException | None) -> None:
        """See `Tracker.close`."""
        for run in self._runs.values():
            run["status"] = status
            run.log_artifact(str(self.folder.console_file), name=self.folder.console_file.name, block=True)
            run.close()


KIND = TrackerKind(check, build)
"""The line of this tracker in the registry."""
