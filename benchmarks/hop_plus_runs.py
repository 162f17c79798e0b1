"""HOP+ in self-play in the three social games, all at once on one GPU, within a few minutes.

    python benchmarks/hop_plus_runs.py benchmarks/results/hop/hop_plus --seconds 470
    python benchmarks/hop_plus_runs.py OUT --games stag_hunt --agents hop_plus --seeds 1 --share 0.1 --cpu

Cells (`hop_plus`) and the published codes (`hop_plus_codes`), with the settings that `omg pipeline stag_hunt`,
`stag_hunt_4h2s` and `snowdrift` have for planners: 5 seeds of cells and all steps, 2 seeds of codes and half of them,
for codes are measured to see what they say, not what they earn. Every run is a process of its own; NVIDIA's
multi-process service lets them share the GPU, if it is there. Who is not done when the time is up is ended by a signal;
what it had tested is kept.

Writes into the folder, from whatever each run has: `tests.csv` (agent, game, seed, t_env, name, value: every test but
for the tables of single actions), `summary.csv` (agent, game, test, name, and over seeds: mean, lowest, highest,
seeds), `times.csv` (agent, game, seconds, status), `settings.yaml` (of all runs), `machine.json`; and one log each.
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


def settings_of(game: str, agent: str, seeds: int | None, share: float) -> dict[str, Any]:
    """What the game's preset has for a planner, as settings of `omg train`."""
    plan = read_yaml((PRESETS / f"{game}.yaml").read_text())
    train = {key: value for key, value in plan["train"].items() if key != "self_play"}
    found = {"env_args": plan["game"].get("env_args", {}), **train, **plan["agents"]["hop_plus"]}
    found |= {"save_model": False, "local_results_path": "runs"}
    if agent == "hop_plus_codes":
        found["seeds"], share = CODES_SEEDS, share * CODES_SHARE
    if seeds is not None:
        found["seeds"] = seeds
    found["t_max"] = round(found["t_max"] * share)
    # Tests at the start, halfway and in the end, and no others.
    found["test_interval"] = found["t_max"] // 2
    return found


def words(settings: dict[str, Any], prefix: str = "") -> list[str]:
    """Settings as words of the command line."""
    found: list[str] = []
    for key, value in settings.items():
        found += words(value, f"{prefix}{key}.") if isinstance(value, dict) else [f"{prefix}{key}={value}"]
    return found


def start(game: str, agent: str, settings: dict[str, Any], folder: Path, cpu: bool) -> subprocess.Popen[bytes]:
    """Starts one run; its files are in `folder`."""
    folder.mkdir(parents=True)
    env_config = read_yaml((PRESETS / f"{game}.yaml").read_text())["game"]["env_config"]
    given = {**settings, "local_results_path": str(folder), "use_cuda": not cpu}
    command = [sys.executable, str(ROOT / "main.py"), f"--config={agent}", f"--env-config={env_config}", "with"]
    environment = dict(os.environ)
    environment["PYTHONPATH"] = f"{ROOT / 'src'}:{os.environ.get('PYTHONPATH', '')}"
    with (folder / "console.txt").open("wb") as log:
        return subprocess.Popen([*command, *words(given)], stdout=log, stderr=subprocess.STDOUT, env=environment)


def tests_of(game: str, agent: str, folder: Path) -> list[dict[str, Any]]:
    """The tests that a run has written so far."""
    rows: list[dict[str, Any]] = []
    for metrics in sorted(folder.rglob("metrics.csv")):
        with metrics.open() as file:
            for row in csv.DictReader(file):
                if row["name"].startswith("test_") and not LEFT_OUT.match(row["name"]):
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
    if rows:
        with path.open("w", newline="") as file:
            table = csv.DictWriter(file, list(rows[0]))
            table.writeheader()
            table.writerows(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("output", type=Path)
    parser.add_argument("--seconds", type=float, default=470.0, help="after which runs are ended")
    parser.add_argument("--games", default=",".join(GAMES))
    parser.add_argument("--agents", default="hop_plus,hop_plus_codes")
    parser.add_argument("--seeds", type=int, help="of every run, in place of the preset's")
    parser.add_argument("--share", type=float, default=1.0, help="of the preset's steps")
    parser.add_argument("--cpu", action="store_true")
    args = parser.parse_args()
    os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
    args.output.mkdir(parents=True, exist_ok=True)
    work = args.output / "work"
    shutil.rmtree(work, ignore_errors=True)
    begun = time.monotonic()
    shared = None if args.cpu else shutil.which("nvidia-cuda-mps-control")
    if shared:
        subprocess.run([shared, "-d"], check=False)
    running: dict[tuple[str, str], subprocess.Popen[bytes]] = {}
    used: dict[str, dict[str, Any]] = {}
    for agent in args.agents.split(","):
        for game in args.games.split(","):
            settings = settings_of(game, agent, args.seeds, args.share)
            used[f"{agent}_{game}"] = settings
            running[agent, game] = start(game, agent, settings, work / f"{agent}_{game}", args.cpu)
    ended: dict[tuple[str, str], dict[str, Any]] = {}
    told_to_end: set[tuple[str, str]] = set()
    told = begun
    while len(ended) < len(running):
        time.sleep(1.0)
        now = time.monotonic()
        for (agent, game), process in running.items():
            if (agent, game) not in ended and process.poll() is not None:
                status = "finished" if process.returncode == 0 else f"exit {process.returncode}"
                ended[agent, game] = {"agent": agent, "game": game, "seconds": round(now - begun), "status": status}
                print(ended[agent, game], flush=True)
            elif (agent, game) not in ended and now - begun > args.seconds + 20:
                process.kill()
            elif process.poll() is None and now - begun > args.seconds and (agent, game) not in told_to_end:
                told_to_end.add((agent, game))
                process.send_signal(signal.SIGTERM)
        if now - told > 5:
            told = now
            going = [f"{agent}_{game}" for agent, game in running if (agent, game) not in ended]
            print(f"{now - begun:.0f} s", *(f"{name}: {newest(work / name)}" for name in going), sep="\n  ", flush=True)
    if shared:
        subprocess.run([shared], input=b"quit\n", check=False)
    rows = [row for agent, game in running for row in tests_of(game, agent, work / f"{agent}_{game}")]
    write(args.output / "tests.csv", rows)
    write(args.output / "summary.csv", summary(rows))
    write(args.output / "times.csv", list(ended.values()))
    (args.output / "settings.yaml").write_text(yaml.safe_dump(used, sort_keys=False))
    (args.output / "machine.json").write_text(json.dumps(machine() if not args.cpu else {"device": "cpu"}, indent=1))
    for agent, game in running:
        shutil.copy(work / f"{agent}_{game}" / "console.txt", args.output / f"{agent}_{game}.txt")
    shutil.rmtree(work)


def newest(folder: Path) -> str:
    """The last line that a run has printed."""
    lines = (folder / "console.txt").read_text(errors="replace").strip().splitlines()
    return lines[-1][:150] if lines else "starting"


if __name__ == "__main__":
    main()
