"""Training on games that are not JAX's, in worker processes: `lbforaging` 8x8, two players, three foods.

One update of 32 episodes for every 8 episodes played, 8 games side by side. EPyMARL trains this with 8 processes at
1,800 (IQL) and 2,500 (QMIX) env steps/s on two cores; the last column is relative to that.

    python benchmarks/host_speed.py --steps 60000 --output benchmarks/results/host_speed_cpu.md
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import tempfile
from pathlib import Path

import jax

from omg import api

ELSEWHERE = {"iql": 1800.0, "qmix": 2500.0}
SETTINGS = {
    "runner": "parallel",
    "batch_size_run": 8,
    "updates_per_episode": 0.125,
    "save_buffer": False,
    "use_tensorboard": False,
    "test_nepisode": 8,
    "env_args": {"key": "lbforaging:Foraging-8x8-2p-3f-v3", "time_limit": 50},
}


def speed(algorithm: str, workers: int, steps: int) -> float:
    """Env steps per second of a run, median over its log entries but the first, whose time compiles."""
    with tempfile.TemporaryDirectory() as folder:
        run = api.train(
            algorithm,
            "gymma",
            workers=workers,
            t_max=steps,
            test_interval=10 * steps,
            log_interval=max(steps // 12, 1),
            local_results_path=folder,
            **SETTINGS,
        )
        rows = (run.folder / "speed.csv").read_text().splitlines()[2:]
        return statistics.median(float(row.split(",")[1]) for row in rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=60_000, help="of each run")
    parser.add_argument("--workers", type=int, nargs="+", default=[8, 2])
    parser.add_argument("--output", type=Path)
    args = parser.parse_args()
    lines = [
        f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the start; Python {platform.python_version()}, "
        f"JAX {jax.__version__}; {args.steps:,} steps of each run.",
        "",
        "| algorithm | workers | env steps/s | relative to EPyMARL |",
        "|---|---|---|---|",
    ]
    for algorithm, other in ELSEWHERE.items():
        for workers in args.workers:
            rate = speed(algorithm, workers, args.steps)
            lines.append(f"| {algorithm} | {workers} | {rate:,.0f} | {rate / other:.1f} |")
            print(lines[-1], flush=True)
    if args.output:
        args.output.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
