"""HOP+ in self-play in the three social games, all at once on one GPU; goes on where it was stopped.

    python benchmarks/hop_plus_runs.py benchmarks/results/hop/hop_plus --seconds 1500
    python benchmarks/hop_plus_runs.py OUT --games stag_hunt --seeds 1 --share 0.1 --cpu --words hop_hidden_dim=64

HOP+ with the settings that `omg pipeline stag_hunt`, `stag_hunt_4h2s` and `snowdrift` have for planners, 5 seeds.
(`--agents hop_plus,hop_plus_codes`: the published codes besides, 2 seeds and half of the steps, for they are measured
to see what they say, not what they earn.) Every run is a process of its own; NVIDIA's multi-process service lets them
share the GPU, if it is there. Who is not done when the time is up is ended by a signal, which saves it: the same
command goes on with whatever is left in `--work` (results/hop_plus_runs; a few gigabytes). `--fresh` begins anew.

Writes into the folder, anew every half a minute, from whatever each run has: `tests.csv` (agent, game, seed, t_env,
name, value: every test but for the tables of single actions), `summary.csv` (agent, game, test, name, and over seeds:
mean, lowest, highest, seeds), `times.csv` (agent, game, seconds of this call, steps, status), `settings.yaml` (of all
runs), `machine.json`, and one log each. `hop_plus_report.py` turns them into the tables of the page.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from machine import machine

from omg.config import read_yaml

ROOT = Path(__file__).parents[1]
PRESETS = ROOT / "src/omg/experiments/presets"
GAMES = ("stag_hunt_4h2s", "stag_hunt", "snowdrift")
"""Presets, the longest first."""
LEFT_OUT = re.compile(r"test_(confusion|precision|recall)_")
CODES_SEEDS, CODES_SHARE = 2, 0.5
"""Of `hop_plus_codes`: seeds, and share of the steps."""
TESTS = 4
"""In the course of a run, besides the one at its start."""
SAVING = 90.0
"""Seconds that a run has for saving once it was told to end."""


@dataclass
class Run:
    """One agent in one game."""

    agent: str
    game: str
    folder: Path
    process: subprocess.Popen[bytes]
    begun: float
    told: bool = field(default=False)
    """Whether it was told to end."""
    ended: dict[str, Any] | None = field(default=None)

    @property
    def name(self) -> str:
        return f"{self.agent}_{self.game}"

    def row(self) -> dict[str, Any]:
        """Of `times.csv`."""
        if self.ended is not None:
            return self.ended
        seconds = round(time.monotonic() - self.begun)
        return {"agent": self.agent, "game": self.game, "seconds": seconds, "steps": steps_of(self.folder)} | {
            "status": "running"
        }

    def look(self) -> None:
        """Notes whether it is over."""
        if self.ended is None and (code := self.process.poll()) is not None:
            self.ended = self.row() | {"status": "finished" if code == 0 else f"exit {code}"}
            print(self.ended, flush=True)


def settings_of(game: str, agent: str, seeds: int | None, share: float) -> dict[str, Any]:
    """What the game's preset has for a planner, as settings of `omg train`."""
    plan = read_yaml((PRESETS / f"{game}.yaml").read_text())
    train = {key: value for key, value in plan["train"].items() if key != "self_play"}
    found = {"env_args": plan["game"].get("env_args", {}), **train, **plan["agents"]["hop_plus"]}
    if agent == "hop_plus_codes":
        found["seeds"], share = CODES_SEEDS, share * CODES_SHARE
    if seeds is not None:
        found["seeds"] = seeds
    found["t_max"] = round(found["t_max"] * share)
    found["test_interval"] = found["t_max"] // TESTS
    # Short chunks, so that a run ends soon after it is told to, and what it has reached is not lost if it is killed.
    found |= {"log_interval": 5_000, "save_model_interval": 50_000, "keep_checkpoints": 2}
    return found


def words(settings: dict[str, Any], prefix: str = "") -> list[str]:
    """Settings as words of the command line."""
    found: list[str] = []
    for key, value in settings.items():
        found += words(value, f"{prefix}{key}.") if isinstance(value, dict) else [f"{prefix}{key}={value}"]
    return found


def start(game: str, agent: str, args: argparse.Namespace, settings: dict[str, Any], folder: Path) -> Run | None:
    """Starts one run, or goes on with it; its files are in `folder`. None where it is done."""
    folder.mkdir(parents=True, exist_ok=True)
    begun = sorted(folder.glob("*/status.json"))
    if begun and json.loads(begun[-1].read_text()).get("status") == "finished":
        return None
    if begun:
        command = [sys.executable, "-c", "import sys; from omg.cli import main; sys.exit(main(sys.argv[1:]))"]
        command += ["resume", str(begun[-1].parent)]
    else:
        env_config = read_yaml((PRESETS / f"{game}.yaml").read_text())["game"]["env_config"]
        given = {**settings, "local_results_path": str(folder), "use_cuda": not args.cpu}
        command = [sys.executable, str(ROOT / "main.py"), f"--config={agent}", f"--env-config={env_config}", "with"]
        command += [*words(given), *args.words]
    environment = dict(os.environ)
    environment["PYTHONPATH"] = f"{ROOT / 'src'}:{os.environ.get('PYTHONPATH', '')}"
    with (folder / "console.txt").open("ab") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=environment)
    return Run(agent, game, folder, process, time.monotonic())


def steps_of(folder: Path) -> int:
    """How far a run has come, by the last test or log of its slowest seed."""
    reached: dict[str, int] = {}
    for metrics in folder.glob("*/metrics.csv"):
        with metrics.open() as file:
            for row in csv.DictReader(file):
                if (row.get("t_env") or "").isdigit():
                    reached[row["seed"]] = max(reached.get(row["seed"], 0), int(row["t_env"]))
    return min(reached.values(), default=0)


def tests_of(game: str, agent: str, folder: Path) -> list[dict[str, Any]]:
    """The tests that a run has written so far."""
    rows: list[dict[str, Any]] = []
    for metrics in sorted(folder.glob("*/metrics.csv")):
        with metrics.open() as file:
            for row in csv.DictReader(file):
                # The last line may be half written.
                whole = None not in row.values() and row["value"]
                if whole and row["name"].startswith("test_") and not LEFT_OUT.match(row["name"]):
                    rows.append({"agent": agent, "game": game, **row})
    return rows


def summary(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Over seeds, of every test."""
    groups: dict[tuple[str, str, int, str], list[float]] = {}
    order: dict[tuple[str, str, str], list[int]] = {}
    for row in rows:
        steps = order.setdefault((row["agent"], row["game"], row["seed"]), [])
        if int(row["t_env"]) not in steps:
            steps.append(int(row["t_env"]))
        # Seeds do not stop at the same step; their first, second and third tests belong together.
        which = steps.index(int(row["t_env"]))
        groups.setdefault((row["agent"], row["game"], which, row["name"]), []).append(float(row["value"]))
    return [
        {
            "agent": agent,
            "game": game,
            "test": which,
            "name": name,
            "mean": round(sum(values) / len(values), 5),
            "lowest": min(values),
            "highest": max(values),
            "seeds": len(values),
        }
        for (agent, game, which, name), values in groups.items()
    ]


def write(path: Path, rows: list[dict[str, Any]]) -> None:
    """A table, whole or not at all."""
    if rows:
        new = path.with_suffix(".new")
        with new.open("w", newline="") as file:
            table = csv.DictWriter(file, list(rows[0]))
            table.writeheader()
            table.writerows(rows)
        new.replace(path)


def keep(output: Path, runs: list[Run], done: list[tuple[str, str, Path]]) -> None:
    """Writes the tables and logs of all runs, those of earlier calls among them."""
    everybody = [*done, *((run.agent, run.game, run.folder) for run in runs)]
    rows = [row for agent, game, folder in everybody for row in tests_of(game, agent, folder)]
    write(output / "tests.csv", rows)
    write(output / "summary.csv", summary(rows))
    over = [
        {"agent": agent, "game": game, "seconds": 0, "steps": steps_of(folder), "status": "finished before"}
        for agent, game, folder in done
    ]
    write(output / "times.csv", [*over, *(run.row() for run in runs)])
    for agent, game, folder in everybody:
        shutil.copy(folder / "console.txt", output / f"{agent}_{game}.txt")


def wait(runs: list[Run], seconds: float, see: Any) -> None:
    """Until all are over; who is not by then is told to end, and killed if it does not."""
    begun = told = kept = time.monotonic()
    while True:
        for run in runs:
            run.look()
        going = [run for run in runs if run.ended is None]
        if not going:
            return
        now = time.monotonic()
        for run in going:
            if now - begun > seconds + SAVING:
                run.process.kill()
            elif now - begun > seconds and not run.told:
                run.told = True
                run.process.send_signal(signal.SIGTERM)
        if now - told > 5:
            told = now
            print(
                f"{now - begun:.0f} s", *(f"{run.name}: {newest(run.folder)}" for run in going), sep="\n  ", flush=True
            )
        if now - kept > 30:
            kept = now
            see()
        time.sleep(1.0)


def newest(folder: Path) -> str:
    """The last line that a run has printed."""
    lines = (folder / "console.txt").read_text(errors="replace").strip().splitlines()
    return lines[-1][:150] if lines else "starting"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("output", type=Path)
    parser.add_argument("--work", type=Path, default=ROOT / "results/hop_plus_runs", help="where the runs stay")
    parser.add_argument("--fresh", action="store_true", help="begin anew")
    parser.add_argument("--seconds", type=float, default=470.0, help="after which runs are saved and ended")
    parser.add_argument("--games", default=",".join(GAMES))
    parser.add_argument("--agents", default="hop_plus")
    parser.add_argument("--seeds", type=int, help="of every run, in place of the preset's")
    parser.add_argument("--share", type=float, default=1.0, help="of the preset's steps")
    parser.add_argument("--words", nargs="*", default=[], help="further settings, KEY=VALUE")
    parser.add_argument("--cpu", action="store_true")
    args = parser.parse_args()
    os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
    args.output.mkdir(parents=True, exist_ok=True)
    if args.fresh:
        shutil.rmtree(args.work, ignore_errors=True)
    shared = None if args.cpu else shutil.which("nvidia-cuda-mps-control")
    if shared:
        subprocess.run([shared, "-d"], check=False)
    runs: list[Run] = []
    done: list[tuple[str, str, Path]] = []
    used: dict[str, dict[str, Any]] = {}
    for agent in args.agents.split(","):
        for game in args.games.split(","):
            settings = settings_of(game, agent, args.seeds, args.share)
            used[f"{agent}_{game}"] = settings | {"words": " ".join(args.words)}
            folder = args.work / f"{agent}_{game}"
            run = start(game, agent, args, settings, folder)
            if run is None:
                done.append((agent, game, folder))
            else:
                runs.append(run)
    (args.output / "settings.yaml").write_text(yaml.safe_dump(used, sort_keys=False))
    wait(runs, args.seconds, lambda: keep(args.output, runs, done))
    if shared:
        subprocess.run([shared], input=b"quit\n", check=False)
    keep(args.output, runs, done)
    (args.output / "machine.json").write_text(json.dumps(machine() if not args.cpu else {"device": "cpu"}, indent=1))


if __name__ == "__main__":
    main()
