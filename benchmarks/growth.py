"""What more of everything costs: games, seeds, units, simulations, episodes kept. Is there a cliff?

    python benchmarks/growth.py --output benchmarks/results/growth_cpu.json --figure docs/assets/growth.png
    python benchmarks/growth.py --curves games,units --seconds 0.5

Each curve changes one number and keeps everything else. Its measure is the time of a unit of work that ought to stay
the same or fall: an env step of a game (games), an env step for each pair of units, since all see all (units), an env
step trained (seeds, buffer), a simulation. `steepest` is the largest factor by which it rises from one point to the
next; where that is above 1.5, it is called a cliff.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path
from statistics import median
from types import MappingProxyType
from typing import Any, NamedTuple

import jax
from machine import machine
from planning_speed import play, player
from running import Running

from omg.envs import make_env
from omg.training.bench import bench_config, measure_play
from omg.training.device import prepare

CLIFF = 1.5


class Curve(NamedTuple):
    """One number that grows."""

    unit: str
    """Of the work whose time is measured."""
    values: tuple[Any, ...]
    seconds_of_a_unit: Callable[[Any, argparse.Namespace, bool], float]
    sizes: Mapping[Any, int] = MappingProxyType({})
    """The number behind each value, where it is not one."""


def of_games(games: int, args: argparse.Namespace, has_gpu: bool) -> float:
    """An env step of one of so many games of 8m, with GRU agents."""
    return _played("8m", games, args, has_gpu)


def of_units(map_name: str, args: argparse.Namespace, has_gpu: bool) -> float:
    """An env step of a map for each pair of its units."""
    return _played(map_name, 1024 if has_gpu else 64, args, has_gpu) / UNITS[map_name] ** 2


def _played(map_name: str, games: int, args: argparse.Namespace, has_gpu: bool) -> float:
    config = bench_config("iql", "sc2", {"map_name": map_name}, has_gpu)
    row = measure_play(make_env("sc2", map_name=map_name), config, games, args.seconds)
    return 1.0 / float(row["env_steps_per_s"])


def of_seeds(seeds: int, args: argparse.Namespace, has_gpu: bool) -> float:
    """An env step of IQL on 3m with so many seeds in one program."""
    return _trained({"buffer_size": 256}, seeds, args, has_gpu)


def of_buffer(episodes: int, args: argparse.Namespace, has_gpu: bool) -> float:
    """An env step of IQL on 3m with a buffer of so many episodes."""
    return _trained({"buffer_size": episodes}, 1, args, has_gpu)


def _trained(settings: dict[str, object], seeds: int, args: argparse.Namespace, has_gpu: bool) -> float:
    given = {"env_args.map_name": "3m", "updates_per_episode": 0.25, **settings}
    run = Running("iql", "sc2", given, seeds, has_gpu)
    run.advance(args.seconds)
    return median(1.0 / run.advance(args.seconds).steps_per_second for _ in range(args.rounds))


def of_simulations(simulations: int, args: argparse.Namespace, has_gpu: bool) -> float:
    """A simulation of HOP+'s search: four players, 8 games (200 on a GPU), three trees for each decision."""
    games, steps, samples = (200 if has_gpu else 8), 2, 3
    given = argparse.Namespace(config="hop_plus", size=6, samples=samples, bytes=2**34)
    env, policy = player(given, simulations)
    run = play(env, games, steps)
    jax.block_until_ready(run(policy, jax.random.key(0)))
    times = []
    for index in range(args.rounds):
        began = time.perf_counter()
        jax.block_until_ready(run(policy, jax.random.key(1 + index)))
        times.append(time.perf_counter() - began)
    return median(times) / (games * steps * env.spec.n_agents * samples * simulations)


UNITS = {"3m": 6, "8m": 16, "25m": 50, "27m_vs_30m": 57}
CURVES = {
    "games": Curve("env step of a game", (1, 4, 16, 64, 256, 1024, 4096), of_games),
    "units": Curve("env step and pair", tuple(UNITS), of_units, UNITS),
    "seeds": Curve("env step trained", (1, 2, 4, 8, 16), of_seeds),
    "buffer": Curve("env step trained", (100, 500, 1000, 5000), of_buffer),
    "simulations": Curve("simulation", (25, 50, 100, 200, 400, 800), of_simulations),
}


def measure(name: str, args: argparse.Namespace, has_gpu: bool) -> dict[str, Any]:
    """One curve; prints every point."""
    curve = CURVES[name]
    points = []
    for value in curve.values:
        seconds = curve.seconds_of_a_unit(value, args, has_gpu)
        points.append({"value": value, "size": curve.sizes.get(value, value), "microseconds": 1e6 * seconds})
        print(f"{name} {value}: {1e6 * seconds:,.3f} us per {curve.unit}", flush=True)
        jax.clear_caches()
    rises = [after["microseconds"] / before["microseconds"] for before, after in pairwise(points)]
    row = {"curve": name, "unit": curve.unit, "points": points, "steepest": max(rises)}
    verdict = "a cliff" if row["steepest"] > CLIFF else "no cliff"
    print(f"{name}: rises by {row['steepest']:.2f} at most, {verdict}", flush=True)
    return row


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    """All curves side by side, from zero, so that a rise looks as large as it is."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(rows), figsize=(3.1 * len(rows), 2.9), layout="constrained", squeeze=False)
    for axis, row in zip(axes[0], rows, strict=True):
        sizes = [point["size"] for point in row["points"]]
        axis.semilogx(sizes, [point["microseconds"] for point in row["points"]], "o-", color="#0072b2")
        axis.set(title=row["curve"], ylabel=f"µs per {row['unit']}")
        axis.set_xticks(sizes, [str(point["value"]) for point in row["points"]], rotation=45)
        axis.set_ylim(bottom=0)
        axis.minorticks_off()
        axis.grid(alpha=0.3)
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--curves", default=",".join(CURVES))
    parser.add_argument("--seconds", type=float, default=1.5, help="of a measurement")
    parser.add_argument("--rounds", type=int, default=3, help="measurements of a point, where it has several")
    parser.add_argument("--output", type=Path)
    parser.add_argument("--figure", type=Path)
    args = parser.parse_args()
    has_gpu = prepare(use_cuda=True)
    result: dict[str, Any] = {"command": sys.argv, "machine": machine(), "rows": []}
    for name in args.curves.split(","):
        result["rows"].append(measure(name, args, has_gpu))
        if args.output:
            args.output.write_text(json.dumps(result, indent=1) + "\n")
    if args.figure:
        draw(result["rows"], args.figure)


if __name__ == "__main__":
    main()
