"""The folder of a run: everything needed to understand, repeat and resume it."""

from __future__ import annotations

import platform
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import yaml

from omg.components.files import given_path, read_json, write_json, write_text
from omg.config import Config, parse_config, read_yaml, write_yaml
from omg.errors import UserError
from omg.tracking.table import Table, read_metrics
from omg.training.device import chosen_device

try:
    import fcntl
except ImportError:  # Windows: two processes in one run are not noticed there.
    fcntl = None  # type: ignore[assignment]

_PACKAGES = ("omg-marl", "jax", "jaxlib", "equinox", "optax", "numpy", "safetensors", "pydantic")


class RunFolder:
    """Paths inside a run's folder.

    config.yaml, versions.json, status.json, metrics.csv, speed.csv, console.log, tensorboard/, checkpoints/,
    agents/seed_N/best and agents/seed_N/last.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config_file = path / "config.yaml"
        self.metrics_file = path / "metrics.csv"
        self.speed_file = path / "speed.csv"
        self.console_file = path / "console.log"
        self.tensorboard = path / "tensorboard"
        self.checkpoints = path / "checkpoints"

    @staticmethod
    def create(config: Config, scenario: str) -> RunFolder:
        """Makes a new folder named after the run, its game, its seeds and the time."""
        root = Path(config.local_results_path)
        last = config.seed + config.seeds - 1
        seeds = f"seed{config.seed}" if config.seeds == 1 else f"seeds{config.seed}-{last}"
        stamp = datetime.now().strftime("%Y-%m-%d_%H-%M-%S")
        stem = f"{config.name}_{config.env}_{scenario}_{seeds}_{stamp}"
        for attempt in range(1000):
            path = root / (stem if attempt == 0 else f"{stem}_{attempt}")
            try:
                path.mkdir(parents=True)
            except FileExistsError:
                continue
            except OSError as error:
                raise UserError(f"local_results_path: cannot write to '{root}': {error.strerror}.") from None
            folder = RunFolder(path)
            write_text(folder.config_file, write_yaml(config.model_dump()))
            write_json(path / "versions.json", versions())
            return folder
        raise UserError(f"local_results_path: too many runs named '{stem}' in '{root}'.")

    @staticmethod
    def open(path: Path) -> RunFolder:
        """An existing run's folder."""
        folder = RunFolder(given_path(path))
        if not folder.config_file.is_file():
            reason = "it has no config.yaml" if path.is_dir() else "there is no such folder"
            raise UserError(f"{path} is not a run folder: {reason}.")
        return folder

    def config(self) -> Config:
        """The configuration the run was started with."""
        try:
            values = read_yaml(self.config_file.read_text(encoding="utf-8"))
        except (OSError, ValueError, yaml.YAMLError) as error:
            raise UserError(f"{self.config_file} cannot be read: {error}.") from None
        if not isinstance(values, dict):
            raise UserError(f"{self.config_file} is damaged: it holds no keys.")
        return parse_config(values)

    def agent(self, seed: int, which: str) -> Path:
        """Folder of the `best` or `last` agent of a seed."""
        return self.path / "agents" / f"seed_{seed}" / which

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Keeps the run to this process; the system lets go of it however the process ends.

        Raises:
            UserError: another process has it.
        """
        with (self.path / ".lock").open("w") as file:
            if fcntl is not None:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except OSError:
                    raise UserError(f"{self.path}: another process is training this run.") from None
            yield

    def set_status(self, status: str, **more: Any) -> None:
        """Records how far the run is: running, finished, stopped, interrupted or failed."""
        write_json(self.path / "status.json", {"status": status, **more})

    def status(self) -> str:
        """The recorded status; `running` also after a crash."""
        try:
            return str(read_json(self.path / "status.json")["status"])
        except (OSError, ValueError, KeyError, TypeError):
            return "running"

    def metrics(self) -> Table:
        """All metrics so far: seed, t_env, name, value."""
        return read_metrics(self.metrics_file)


def versions() -> dict[str, Any]:
    """What the numbers of a run depend on besides its configuration."""
    packages = {}
    for name in _PACKAGES:
        try:
            packages[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            packages[name] = "not installed as a package"
    device = chosen_device()
    return {
        "python": sys.version.split()[0],
        "platform": platform.platform(),
        "device": device.device_kind,
        "backend": device.platform,
        "packages": packages,
        "git": _git_revision(),
        "command": sys.argv,
    }


def _git_revision() -> str | None:
    here = Path(__file__).resolve().parent
    try:
        done = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=12"],
            cwd=here,
            capture_output=True,
            text=True,
            timeout=10,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None
