"""EPyMARL trains in our games: `python benchmarks/clients/with_epymarl.py FOLDER`, FOLDER being a checkout of EPyMARL.

EPyMARL's own `run` is called with its own defaults and algorithm files; only the length of the run is set here. What is
ours is one line: the game in EPyMARL's registry. EPyMARL imports `smaclite` whether it is used or not; where that
package is missing, an empty module stands in for it.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import logging
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import torch
import yaml

import omg

RUNS = (
    ("qmix", "episode", "sc2", {"map_name": "3m"}, {}),
    ("qmix", "episode", "foraging", {}, {"reward_scalarisation": "mean"}),
    ("iql", "parallel", "foraging", {}, {"common_reward": False, "batch_size_run": 2}),
)
"""Algorithm, runner, game, its options, and EPyMARL's settings."""
SHOWN = ("t_env", "loss", "grad_norm", "return_mean", "total_return_mean", "ep_length_mean", "episode_limit_mean")
"""What is printed of EPyMARL's statistics."""


class LastStats(logging.Handler):
    """Keeps what EPyMARL says last about its training."""

    text = ""

    def emit(self, record: logging.LogRecord) -> None:
        if "Recent Stats" in record.getMessage():
            self.text = " ".join(record.getMessage().split())


def train(folder: Path, number: int, t_max: int) -> str:
    """One of `RUNS`, in this process; returns EPyMARL's last words about it."""
    sys.path.insert(0, str(folder / "src"))
    if importlib.util.find_spec("smaclite") is None:
        sys.modules["smaclite"] = ModuleType("smaclite")
    torch.set_num_threads(1)  # As EPyMARL's main.py does.
    importlib.import_module("envs").REGISTRY["omg"] = make_game
    algorithm, runner, game, options, settings = RUNS[number]
    config: dict[str, Any] = {}
    for name in ("default", f"algs/{algorithm}"):
        config |= yaml.safe_load((folder / "src" / "config" / f"{name}.yaml").read_text())
    config |= {"runner": runner, "t_max": t_max, "test_interval": t_max // 2, "test_nepisode": 4, "use_cuda": False}
    config |= {"batch_size": 8, "log_interval": t_max // 2, "runner_log_interval": t_max // 4}
    config |= {"learner_log_interval": t_max // 4, "env": "omg", "seed": 1, **settings}
    config["env_args"] = {"key": game, "seed": 1, **options}
    log, heard = logging.getLogger("epymarl"), LastStats()
    log.setLevel(logging.INFO)
    log.addHandler(heard)
    importlib.import_module("run").run(SimpleNamespace(info={}, log_scalar=lambda *_: None), config, log)
    stats = dict(re.findall(r"(\w+): +([-\d.]+)", heard.text))
    if "loss" not in stats:
        raise SystemExit(f"{algorithm} in {game}: EPyMARL made no update.")
    return f"{algorithm}, {runner} runner, {game}: " + ", ".join(f"{key} {stats[key]}" for key in SHOWN if key in stats)


def make_game(key: str, **options: Any) -> Any:
    """The line that EPyMARL's registry of games needs."""
    return omg.make(key, api="epymarl", **options)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--t_max", type=int, default=1000)
    parser.add_argument("--run", type=int, choices=range(len(RUNS)), help="only this one, in this process")
    given = parser.parse_args()
    if given.run is not None:
        print("RESULT", train(given.folder, given.run, given.t_max))
        return
    # A process each: the parallel runner forks, which JAX does not survive once it has run.
    for number in range(len(RUNS)):
        command = [sys.executable, __file__, str(given.folder), "--t_max", str(given.t_max), "--run", str(number)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
        if done.returncode:
            raise SystemExit(done.stderr[-2000:])
        print(done.stdout.partition("RESULT ")[2].strip(), flush=True)


if __name__ == "__main__":
    main()
