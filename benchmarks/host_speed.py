"""Training on games that are not JAX's, in worker processes: `lbforaging` 8x8, two players, three foods.

One update of 32 episodes for every 8 episodes played. EPyMARL plays 8 games in 8 processes and so trains at 1,800 (IQL)
and 2,500 (QMIX) env steps/s on two cores; the last column is relative to that. 32 games a round are this project's
default. A rate is all steps over all seconds, after the first tenth of the run: acting, games, learning, logging.

    python benchmarks/host_speed.py
"""

from __future__ import annotations

import argparse
import os
import platform
import resource
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import jax

from omg.components.files import write_text
from omg.config import Config, adjust, resolve
from omg.tracking import RunFolder, RunReporter
from omg.training.device import prepare
from omg.training.loop import Speed, Trainer
from omg.training.program import build_program

ELSEWHERE = {"iql": 1800.0, "qmix": 2500.0}
CASES = ((8, 8), (8, 32), (2, 8), (2, 32))
"""Workers and games a round."""
OUTPUT = Path(__file__).parent / "results" / "host_speed_cpu.md"


class Measured(NamedTuple):
    """One run."""

    steps_per_second: float
    core_seconds: float
    """Of all processes, for 1,000 steps."""
    load: float
    """Load average over a minute, at the end."""


class _Clock(RunReporter):
    """Notes when each round was over."""

    def __init__(self, folder: RunFolder, config: Config) -> None:
        super().__init__(folder, config, quiet=True)
        self.rounds: list[tuple[int, float]] = []

    def speed(self, speed: Speed, headline: dict[str, float]) -> None:
        super().speed(speed, headline)
        self.rounds.append((speed.t_env, time.perf_counter()))


def measure(algorithm: str, workers: int, games: int, steps: int) -> Measured:
    """Trains for `steps` env steps."""
    before = _core_seconds()
    rounds = train(algorithm, workers, games, steps)
    used = _core_seconds() - before
    (first, began), (last, ended) = rounds[len(rounds) // 10], rounds[-1]
    return Measured((last - first) / (ended - began), used / last * 1000, os.getloadavg()[0])


def train(algorithm: str, workers: int, games: int, steps: int, has_gpu: bool = False) -> list[tuple[int, float]]:
    """Trains for `steps` env steps; returns after how many steps and at what second each round was over."""
    with tempfile.TemporaryDirectory() as results:
        settings = {
            "runner": "parallel",
            "workers": workers,
            "batch_size_run": games,
            "test_nepisode": games,
            "updates_per_episode": 0.125,
            "t_max": steps,
            "test_interval": 10 * steps,
            "save_model": False,
            "use_tensorboard": False,
            "local_results_path": results,
            "env_args": {"key": "lbforaging:Foraging-8x8-2p-3f-v3", "time_limit": 50},
        }
        config, _ = adjust(resolve(algorithm, "gymma", settings).config, has_gpu=has_gpu)
        program = build_program(config)
        folder = RunFolder.create(config, program.spec)
        clock = _Clock(folder, config)
        with clock:
            Trainer(program, folder.checkpoints, clock, lambda *_: None).run()
        return clock.rounds


def _core_seconds() -> float:
    """Of this process and of those that have ended; compiling included."""
    both = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in both)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=60_000, help="of each run")
    parser.add_argument("--repeats", type=int, default=3, help="runs of each case; their median counts")
    parser.add_argument("--output", type=Path, default=OUTPUT)
    args = parser.parse_args()
    prepare(use_cuda=False, on_host=True)
    started = time.perf_counter()
    lines = [
        "Training on `lbforaging` 8x8-2p-3f in worker processes, one update of 32 episodes for every 8 episodes: "
        f"`{' '.join(['python benchmarks/host_speed.py', *sys.argv[1:]])}`.",
        "",
        f"{os.cpu_count()} CPU cores, load {os.getloadavg()[0]:.1f} at the start; Python {platform.python_version()}, "
        f"JAX {jax.__version__}, lbforaging {version('lbforaging')}; {args.steps:,} steps of each run.",
        f"Median of {args.repeats} runs of each case, one after the other, and the slowest and fastest of them.",
        "Core seconds are those of all processes, starting and compiling included. EPyMARL: "
        + ", ".join(f"{name} {rate:,.0f} env steps/s" for name, rate in ELSEWHERE.items())
        + " with 8 processes and 8 games.",
        "",
        "| algorithm | workers | games a round | env steps/s | range | core seconds per 1,000 | load | over EPyMARL |",
        "|---|---|---|---|---|---|---|---|",
    ]
    print(*lines, sep="\n", flush=True)
    for algorithm, other in ELSEWHERE.items():
        for workers, games in CASES:
            found = sorted(measure(algorithm, workers, games, args.steps) for _ in range(args.repeats))
            middle, slowest, fastest = found[len(found) // 2], found[0], found[-1]
            lines.append(
                f"| {algorithm} | {workers} | {games} | {middle.steps_per_second:,.0f} "
                f"| {slowest.steps_per_second:,.0f} to {fastest.steps_per_second:,.0f} | {middle.core_seconds:.2f} "
                f"| {middle.load:.1f} | {middle.steps_per_second / other:.1f} |"
            )
            print(lines[-1], flush=True)
    write_text(args.output, "\n".join(lines) + "\n")
    print(f"{args.output} written after {time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main()
