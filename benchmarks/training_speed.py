"""Training speed on this machine at the update ratios of other code bases.

Every row is a whole training loop: play, store, learn. Network sizes and updates per env step stand beside each rate,
because a rate means nothing without them.

    python benchmarks/training_speed.py --seconds 20 --output benchmarks/results/training_speed_cpu.md
"""

from __future__ import annotations

import argparse
import os
import platform
from pathlib import Path
from typing import Any

import jax

from omg.config import adjust, resolve
from omg.training.bench import measure_training
from omg.training.device import prepare

CASES: list[tuple[str, str, str, dict[str, Any]]] = [
    ("1 update per episode", "iql", "sc2", {"env_args": {"map_name": "8m"}}),
    ("1 update per 8 episodes", "iql", "sc2", {"env_args": {"map_name": "8m"}, "updates_per_episode": 0.125}),
    ("1 update per 8 episodes", "qmix", "sc2", {"env_args": {"map_name": "8m"}, "updates_per_episode": 0.125}),
    ("1 update per episode", "iql", "foraging", {}),
    ("1 update per episode", "qmix", "foraging", {}),
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--output", type=Path)
    args = parser.parse_args()
    has_gpu = prepare(use_cuda=True)
    lines = [
        f"Device: {jax.devices()[0].device_kind}, {os.cpu_count()} cores; Python {platform.python_version()}, "
        f"JAX {jax.__version__}. GRU 64, update of 32 episodes, 32 games side by side.",
        "",
        "| game | algorithm | learning | env steps/s | updates/s | updates per 1000 env steps |",
        "|---|---|---|---|---|---|",
    ]
    for ratio, algorithm, env, changes in CASES:
        overrides = {**changes, "buffer_size": 512, "test_interval": 1}
        config, _ = adjust(resolve(algorithm, env, overrides).config, has_gpu)
        row = measure_training(config, 1, args.seconds)
        steps, updates = row["env_steps_per_s"], row["updates_per_s"]
        game = config.env_args.get("map_name", "8x8-2p-3f")
        line = (
            f"| {env} {game} | {algorithm} | {ratio} | {steps:,.0f} | {updates:,.1f} | {1000 * updates / steps:.2f} |"
        )
        print(line, flush=True)
        lines.append(line)
    if args.output:
        args.output.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
