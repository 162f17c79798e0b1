"""Weights & Biases: every seed of a run as a run there, in one group; without a key in files, to be sent later.

The library starts a process of its own (`wandb-core`, which ends with ours) and may reach for the network. So it is
imported when a run begins that asks for it, and goes online only where the user has given it a key. It is told nothing
but metrics, the configuration and what a run has left to look at: it does not catch the output, read the machine's
load, or look for code and git.
"""

from __future__ import annotations

import csv
import netrc
import os
import shutil
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from omg.config import Config
from omg.errors import UserError
from omg.tracking.trackers.base import Exhibit, TrackerKind, check_packages, seed_settings
from omg.training.summary import Row
from omg.types import Json

if TYPE_CHECKING:
    from wandb import Run

    from omg.tracking.folder import RunFolder

STEP = "t_env"
_KEY = "WANDB_API_KEY"
_INIT_SECONDS, _FINISH_SECONDS = 30, 120
"""A server that does not answer holds the run up no longer than this, at its start and at its end."""


def check(config: Config) -> None:
    """See `TrackerKind.check`."""
    check_packages("wandb", "wandb")
    if config.wandb_mode == "online" and not _has_key():
        raise UserError(
            f"wandb_mode: got online, but no key is known. Set {_KEY} or call `wandb login` first; with "
            "wandb_mode=offline files are written, which `wandb sync` sends later."
        )


def build(folder: RunFolder, config: Config) -> Mapping[str, WandbTracker]:
    """See `TrackerKind.build`."""
    return {"wandb": WandbTracker(folder, config)}


def mode(config: Config) -> str:
    """`online`, `offline` or what WANDB_MODE says; `auto` follows WANDB_MODE and then whether there is a key."""
    if config.wandb_mode != "auto":
        return config.wandb_mode
    asked = os.environ.get("WANDB_MODE", "")
    if asked in ("offline", "online", "disabled"):
        return asked
    return "online" if _has_key() else "offline"


def _has_key() -> bool:
    """Whether the library would find a key; the key itself is not looked at."""
    if os.environ.get(_KEY):
        return True
    host = urlsplit(os.environ.get("WANDB_BASE_URL", "https://api.wandb.ai")).hostname or ""
    for file in filter(None, (os.environ.get("NETRC"), "~/.netrc", "~/_netrc")):
        try:
            if netrc.netrc(Path(file).expanduser()).authenticators(host) is not None:
                return True
        except (OSError, netrc.NetrcParseError, RuntimeError):
            continue
    return False


class WandbTracker:
    """Implements `Tracker` and `Exhibiting`."""

    def __init__(self, folder: RunFolder, config: Config) -> None:
        self.folder, self.config = folder, config
        self._runs: dict[int, Run] = {}

    def begin(self, past: list[Row]) -> None:
        """See `Tracker.begin`. A resumed run is a new entry that begins with the metrics of the one before."""
        # Read when the library is imported: its makers need not know what goes wrong here.
        os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
        import wandb

        # Beside the run's folder, as Sacred: not `local_results_path`, which of a stranger's run may be any folder.
        results = self.folder.path.parent
        settings = wandb.Settings(
            mode=mode(self.config),
            console="off",
            silent=True,
            save_code=False,
            symlink=False,
            disable_git=True,
            x_disable_stats=True,
            x_disable_machine_info=True,
            x_save_requirements=False,
            init_timeout=_INIT_SECONDS,
            finish_timeout=_FINISH_SECONDS,
        )
        for seed in range(self.config.seed, self.config.seed + self.config.seeds):
            run = wandb.init(
                project=self.config.wandb_project,
                entity=self.config.wandb_entity,
                dir=str(results),
                group=self.folder.path.name,
                name=f"{self.folder.path.name}_seed{seed}",
                job_type="resumed" if past else "train",
                config={**seed_settings(self.config, seed), "run_folder": self.folder.path.name},
                reinit="create_new",
                settings=settings,
            )
            run.define_metric(STEP, hidden=True)
            run.define_metric("*", step_metric=STEP)
            self._runs[seed] = run
        self.rows(past)

    def rows(self, rows: list[Row]) -> None:
        """See `Tracker.rows`."""
        for (seed, t_env), values in groupby(rows, key=lambda row: (row.seed, row.t_env)):
            self._runs[seed].log({STEP: t_env, **{row.name: row.value for row in values}})

    def flush(self) -> None:
        """The library writes what it is given in a process of its own."""

    def exhibit(self, exhibits: Sequence[Exhibit]) -> None:
        """See `Exhibiting`."""
        import wandb

        for one in exhibits:
            for seed, run in self._runs.items():
                if one.seed not in (None, seed):
                    continue
                if one.kind == "picture":
                    run.log({one.name: wandb.Image(str(one.file))})
                elif one.kind == "page":
                    # Our pages allow nothing but their own script; a style of others would not be applied.
                    run.log({one.name: wandb.Html(str(one.file), inject=False)})
                else:
                    columns, rows = _table(one.file)
                    run.log({one.name: wandb.Table(columns=[*columns], data=rows)})

    def close(self, status: str, error: BaseException | None) -> None:
        """See `Tracker.close`."""
        failed = error is not None and not isinstance(error, KeyboardInterrupt)
        for run in self._runs.values():
            run.summary["status"] = status
            copy = shutil.copy(self.folder.console_file, run.dir)
            run.save(copy, base_path=run.dir, policy="now")
            run.finish(exit_code=1 if failed else 0)


def _table(file: Path) -> tuple[list[str], list[list[Json]]]:
    """Columns and rows of a CSV file; cells that are numbers become numbers."""
    with file.open(encoding="utf-8", newline="") as stream:
        columns, *rows = csv.reader(stream)
    return columns, [[_number(cell) for cell in row] for row in rows]


def _number(cell: str) -> Json:
    try:
        return float(cell)
    except ValueError:
        return cell


KIND = TrackerKind(check, build)
"""The line of this tracker in the registry."""
