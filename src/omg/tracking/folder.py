"""The folder of a run: everything needed to understand, repeat and resume it."""

from __future__ import annotations

import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from datetime import datetime
from importlib import metadata
from pathlib import Path
from typing import IO

from pydantic import TypeAdapter, ValidationError

from omg.components.files import digest_of, given_path, read_json, write_json, write_text
from omg.components.headers import DamagedFileError
from omg.config import Config, write_yaml
from omg.envs import EnvSpec
from omg.errors import UserError
from omg.evaluation.tables import MetricRow
from omg.names import LONGEST_FILE, check_links, file_name
from omg.tracking.table import Table, read_metrics
from omg.training.device import chosen_device
from omg.training.saved import CHECKPOINTS, CONFIG, run_config
from omg.types import Tree

try:
    import fcntl
except ImportError:  # Windows: two processes in one run are not noticed there.
    fcntl = None  # type: ignore[assignment]

_GAME = "game.json"
_AGAIN = (0.01, 0.05, 0.2)
"""Seconds between tries to take a lock."""
_PACKAGES = ("omg-marl", "jax", "jaxlib", "equinox", "optax", "numpy", "safetensors", "pydantic")


class RunFolder:
    """Paths inside a run's folder.

    config.yaml, game.json, versions.json, status.json, progress.json, metrics.csv, speed.csv, console.log,
    tensorboard/, checkpoints/, agents/seed_N/best and agents/seed_N/last.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config_file = path / CONFIG
        self.metrics_file = path / "metrics.csv"
        self.speed_file = path / "speed.csv"
        self.console_file = path / "console.log"
        self.progress_file = path / "progress.json"
        self.tensorboard = path / "tensorboard"
        self.checkpoints = path / CHECKPOINTS

    @staticmethod
    def create(config: Config, spec: EnvSpec) -> RunFolder:
        """Makes a new folder named after the run, its game, its seeds and the time."""
        root = Path(config.local_results_path)
        last = config.seed + config.seeds - 1
        seeds = f"seed{config.seed}" if config.seeds == 1 else f"seeds{config.seed}-{last}"
        stamp = datetime.now().strftime("%Y-%m-%d_%H-%M-%S")
        label = f"_{config.label}" if config.label else ""
        stem = f"{config.name}_{config.env}_{spec.scenario}_{seeds}{label}_{stamp}"
        file_name(f"name, env and scenario ({config.name}, {config.env}, {spec.scenario})", stem, LONGEST_FILE)
        for attempt in range(1000):
            path = root / (stem if attempt == 0 else f"{stem}_{attempt}")
            try:
                path.mkdir(parents=True)
            except FileExistsError:
                continue
            except OSError as error:
                raise UserError(f"local_results_path: cannot write to '{root}': {error.strerror}.") from None
            folder = RunFolder(path)
            try:
                folder.write_config(config)
                write_json(path / _GAME, asdict(spec))
                write_json(path / "versions.json", versions())
            except OSError as error:
                # Half of a folder would look like a run.
                shutil.rmtree(path, ignore_errors=True)
                raise UserError(f"local_results_path: cannot write to '{path}': {error.strerror}.") from None
            return folder
        raise UserError(f"local_results_path: too many runs named '{stem}' in '{root}'.")

    @staticmethod
    def open(path: Path) -> RunFolder:
        """An existing run's folder.

        Raises:
            UserError: there is none, or it has links that lead out of it.
        """
        folder = RunFolder(given_path(path))
        if not folder.config_file.is_file():
            reason = "it has no config.yaml" if path.is_dir() else "there is no such folder"
            raise UserError(f"{path} is not a run folder: {reason}.")
        check_links(path)
        return folder

    def config(self) -> Config:
        """The configuration the run was started with."""
        return run_config(self.path)

    def write_config(self, config: Config) -> None:
        """Stores the configuration."""
        write_text(self.config_file, write_yaml(config.model_dump()))

    def spec(self) -> EnvSpec | None:
        """The sizes of its game, as the run has noted them; None of runs of earlier versions, which did not."""
        try:
            return TypeAdapter(EnvSpec).validate_python(read_json(self.path / _GAME))
        except (OSError, DamagedFileError, ValidationError):
            return None

    def where(self) -> str:
        """The game in words, `sc2 8m`, for tables and figures; opens no game."""
        if (spec := self.spec()) is not None:
            return f"{spec.name} {spec.scenario}"
        # Its options tell its game from others, though not in the game's own words.
        config = self.config()
        return f"{config.env} {config.env_args.get('map_name') or digest_of(config.env_args)[:6]}"

    def agent(self, seed: int, which: str) -> Path:
        """Folder of the `best` or `last` agent of a seed."""
        return self.path / "agents" / f"seed_{seed}" / file_name("which", which)

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Keeps the run to this process; the system lets go of it however the process ends.

        Raises:
            UserError: another process has it.
        """
        with (self.path / ".lock").open("w") as file:
            if fcntl is not None:
                try:
                    _take(file)
                except OSError:
                    raise UserError(f"{self.path}: another process is training this run.") from None
            yield

    def set_status(self, status: str, **more: object) -> None:
        """Records how far the run is: running, finished, stopped, interrupted or failed."""
        write_json(self.path / "status.json", {"status": status, **more})

    def set_doing(self, what: str) -> None:
        """Notes what a running run is at, for `omg runs`; a disk that does not take it does not end the run."""
        with suppress(OSError):
            write_json(self.progress_file, {"doing": what}, durable=False)

    def status(self) -> str:
        """The recorded status; `running` also after a crash."""
        try:
            return str(read_json(self.path / "status.json")["status"])
        except (OSError, DamagedFileError, KeyError, TypeError):
            return "running"

    def metrics(self) -> Table[MetricRow]:
        """All metrics so far."""
        return read_metrics(self.metrics_file)


def _take(file: IO[str]) -> None:
    """Takes the lock of a run; who only looks whether somebody has it holds it for a moment, so it is tried again."""
    for seconds in _AGAIN:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except OSError:
            time.sleep(seconds)
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def versions() -> Tree:
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
