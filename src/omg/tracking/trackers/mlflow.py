"""MLflow: every seed of a run as a run there; a database file beside the run folders unless an address is given.

The library's usage reports are switched off, and a server that does not answer is given up soon.
"""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit

from omg.config import Config
from omg.errors import UserError
from omg.tracking.trackers.base import Exhibit, TrackerKind, alone, check_packages, seed_settings
from omg.training.summary import Row

if TYPE_CHECKING:
    from mlflow.tracking import MlflowClient

    from omg.tracking.folder import RunFolder

T = TypeVar("T")
DATABASE, FILES = "mlflow.db", "mlartifacts"
"""A file and a folder under `local_results_path`."""
_AT_ONCE = 1000
"""Metrics that MLflow takes in one call; 100 of settings."""
_LONGEST_VALUE = 500
_ENVIRONMENT = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
}
"""What the library is told unless the user has said otherwise."""
_STATUS = {"interrupted": "KILLED", "failed": "FAILED"}


def check(config: Config) -> None:
    """See `TrackerKind.check`."""
    check_packages("mlflow", "mlflow", "sqlalchemy", "alembic")
    if config.mlflow_uri is None:
        return
    try:
        password = urlsplit(config.mlflow_uri).password
    except ValueError:
        raise UserError(
            f"mlflow_uri: got '{config.mlflow_uri}'; expected an address such as https://server:5000."
        ) from None
    if password is not None and not password.startswith("$"):
        raise UserError(
            "mlflow_uri: has a password written out, which would be stored with the run. Name an environment variable "
            "instead (https://me:$PASSWORD@server), or set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD."
        )


def build(folder: RunFolder, config: Config) -> Mapping[str, MlflowTracker]:
    """See `TrackerKind.build`."""
    return {"mlflow": MlflowTracker(folder, config)}


class MlflowTracker:
    """Implements `Tracker` and `Exhibiting`."""

    def __init__(self, folder: RunFolder, config: Config) -> None:
        self.folder, self.config = folder, config
        self._runs: dict[int, str] = {}
        self._connected: MlflowClient | None = None

    @property
    def _client(self) -> MlflowClient:
        assert self._connected is not None, "begin comes first"
        return self._connected

    def begin(self, past: list[Row]) -> None:
        """See `Tracker.begin`. A resumed run is a new entry that begins with the metrics of the one before."""
        for name, value in _ENVIRONMENT.items():
            os.environ.setdefault(name, value)
        from mlflow.entities import Param
        from mlflow.tracking import MlflowClient

        # It tells at length how it makes a database, in the middle of our progress.
        logging.getLogger("mlflow.store.db.utils").setLevel(logging.WARNING)
        given = self.config.mlflow_uri or os.environ.get("MLFLOW_TRACKING_URI")
        # Beside the run's folder, as Sacred: not `local_results_path`, which of a stranger's run may be any folder.
        results = self.folder.path.parent.resolve()
        # The tables of a new database are made once, whoever comes first.
        with alone(None if given else results / f".{DATABASE}.lock"):
            self._connected = MlflowClient(os.path.expandvars(given) if given else f"sqlite:///{results / DATABASE}")
            experiment = self._experiment(None if given else (results / FILES).as_uri())
        for seed in range(self.config.seed, self.config.seed + self.config.seeds):
            name = f"{self.folder.path.name}_seed{seed}"
            tags = {"run_folder": self.folder.path.name, "seed": str(seed), "resumed": str(bool(past))}
            run = self._client.create_run(experiment, run_name=name, tags=tags)
            self._runs[seed] = run.info.run_id
            settings = [
                Param(key, _text(value)) for key, value in seed_settings(self.config, seed).items() if value is not None
            ]
            for some in _portions(settings, 100):
                self._client.log_batch(run.info.run_id, params=some)
        self.rows(past)

    def _experiment(self, files: str | None) -> str:
        """Number of the experiment, which is made if there is none; another process may do so at the same moment."""
        from mlflow.exceptions import MlflowException

        name = self.config.mlflow_experiment
        if (known := self._client.get_experiment_by_name(name)) is not None:
            return known.experiment_id
        try:
            return self._client.create_experiment(name, artifact_location=files)
        except MlflowException:
            if (made := self._client.get_experiment_by_name(name)) is None:
                raise
            return made.experiment_id

    def rows(self, rows: list[Row]) -> None:
        """See `Tracker.rows`."""
        from mlflow.entities import Metric

        now = int(time.time() * 1000)
        for seed, run in self._runs.items():
            values = (Metric(row.name, row.value, now, row.t_env) for row in rows if row.seed == seed)
            for some in _portions(values, _AT_ONCE):
                self._client.log_batch(run, metrics=some)

    def flush(self) -> None:
        """Nothing waits here."""

    def exhibit(self, exhibits: Sequence[Exhibit]) -> None:
        """See `Exhibiting`; a table is an artifact, as CSV."""
        for one in exhibits:
            for seed, run in self._runs.items():
                if one.seed in (None, seed):
                    self._client.log_artifact(run, str(one.file))

    def close(self, status: str, error: BaseException | None) -> None:
        """See `Tracker.close`."""
        if error is not None:
            status = "interrupted" if isinstance(error, KeyboardInterrupt) else "failed"
        for run in self._runs.values():
            self._client.log_artifact(run, str(self.folder.console_file))
            self._client.set_terminated(run, _STATUS.get(status, "FINISHED"))


def _portions(items: Iterable[T], size: int) -> Iterator[list[T]]:
    stream = iter(items)
    while some := list(islice(stream, size)):
        yield some


def _text(value: object) -> str:
    """A setting as MLflow keeps it: a text of bounded length."""
    return (value if isinstance(value, str) else json.dumps(value))[:_LONGEST_VALUE]


KIND = TrackerKind(check, build)
"""The line of this tracker in the registry."""
