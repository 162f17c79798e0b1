"""Several seeds in one program beside as many runs of one seed, alternated in one process.

Both do the same work: env steps, updates, batch and networks of each seed are those of the run of one. The ratio is
env steps per second of all seeds together by those of a single run, so that 1 says: as fast as one run after another.

    python benchmarks/seeds_speed.py --rounds 5 --output benchmarks/results/seeds_speed_cpu.json
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from statistics import median

from machine import machine
from running import Running

from omg.training import collecting
from omg.training.device import prepare
from omg.training.state import SeedMap

CASES = {
    "iql": {"env_args.map_name": "8m", "buffer_size": 256, "updates_per_episode": 0.125},
    "qmix": {"env_args.map_name": "8m", "buffer_size": 256, "updates_per_episode": 0.125},
    "iql_omg": {"env_args.map_name": "8m", "buffer_size": 256, "updates_per_episode": 0.125},
    "ippo": {"env_args.map_name": "8m"},
}
"""Algorithm -> settings; chunks are of one round each."""


def running(algorithm: str, seeds: int, axis: bool, has_gpu: bool) -> Running:
    """The run of so many seeds; `axis`: as an axis of all arrays, whatever the device."""
    chosen = collecting.seeds_on_device
    if axis:
        collecting.seeds_on_device = SeedMap
    try:
        return Running(algorithm, "sc2", CASES[algorithm], seeds, has_gpu)
    finally:
        collecting.seeds_on_device = chosen


def measure(algorithm: str, seeds: int, rounds: int, seconds: float, axis: bool, has_gpu: bool) -> dict[str, object]:
    one, several = (running(algorithm, many, axis, has_gpu) for many in (1, seeds))
    single, together = [], []
    for _ in range(rounds):
        single.append(one.advance(seconds))
        together.append(several.advance(seconds * 2))
    ratios = [b.steps_per_second / a.steps_per_second for a, b in zip(single, together, strict=True)]
    row: dict[str, object] = {"algorithm": algorithm, "seeds": seeds, "seeds_are": "an axis" if axis else "in turn"}
    row |= {"ratio": median(ratios), "ratios": ratios}
    row |= {"single": [rate._asdict() for rate in single], "together": [rate._asdict() for rate in together]}
    row |= {"compile_s": [one.compiled, several.compiled], "settings": CASES[algorithm]}
    print(f"{algorithm}: {seeds} seeds, {row['seeds_are']}: {row['ratio']:.2f} of {seeds} single runs", flush=True)
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--algorithms", default=",".join(CASES))
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0, help="of a single run in every round; twice that of all")
    parser.add_argument("--axis", action="store_true", help="on a CPU, too: seeds as an axis of all arrays")
    parser.add_argument("--output", type=Path)
    args = parser.parse_args()
    has_gpu = prepare(use_cuda=True)
    axis = args.axis or has_gpu
    rows = [measure(name, args.seeds, args.rounds, args.seconds, axis, has_gpu) for name in args.algorithms.split(",")]
    if args.output:
        args.output.write_text(json.dumps({"machine": machine(), "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
