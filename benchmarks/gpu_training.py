"""Whole training loops on 8m at the sizes a GPU shows itself with, and where the time of one of them goes.

    python benchmarks/gpu_training.py --output benchmarks/results/gpu_training.json
    python benchmarks/gpu_training.py --cases ippo_1024x10 --profile --output FILE     # the operations of one chunk
    python benchmarks/gpu_training.py --small --cases iql,iql_omg --profile            # a check that it runs, anywhere

A chunk is one round of play and the updates that follow it. With `--profile` one chunk is traced by JAX's profiler:
`busy` is the share of its time in which the device works at all, `operations` are the operations that take longest, by
their names in the compiled program, with how often each ran. On a GPU this wants
`XLA_FLAGS=--xla_gpu_enable_command_buffer=`, or most go by the name of what launches them. Agents with partners need
the kept pool (benchmarks/pools), unpacked, as `--pool`.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import jax

sys.path.insert(0, str(Path(__file__).resolve().parent))
from machine import machine
from running import Running

from omg.training.device import prepare
from omg.training.memory import peak_memory

OLD_BUDGET = 16_400_000
"""Env steps of one agent in the code this project stands in for, with an update of 256 episodes per 8."""


class Case(NamedTuple):
    """One run."""

    algorithm: str
    seeds: int
    settings: dict[str, Any]


def ppo(games: int, epochs: int, *, one_body: bool = False) -> Case:
    """IPPO with so many games a round and passes over it, with one body for actor and critic or one each."""
    sizes = {"batch_size_run": games, "batch_size": games, "buffer_size": games, "updates_per_episode": 1 / games}
    return Case("ippo", 1, {**sizes, "ppo_epochs": epochs, "ppo_shared_body": one_body})


def old_budget(algorithm: str, games: int) -> Case:
    """Ten seeds beside seven partners, with the updates of the old code."""
    # An update takes 32 episodes from each of the eight seats that the agent takes in turn: 256.
    sizes = {"batch_size_run": games, "batch_size": 32, "updates_per_episode": 0.125, "buffer_size": 5000}
    return Case(f"7pool1{algorithm}", 10, {**sizes, "team_draw": "varied"})


CASES = {
    "ippo_1024x10": ppo(1024, 10),
    "ippo_4096x4": ppo(4096, 4),
    "ippo_16384x1": ppo(16384, 1),
    "ippo_16384x1_one_body": ppo(16384, 1, one_body=True),
    "ippo_32768x1": ppo(32768, 1),
    "ippo_32768x1_one_body": ppo(32768, 1, one_body=True),
    "ippo_65536x1_one_body": ppo(65536, 1, one_body=True),
    "iql": old_budget("iql", 128),
    "iql_omg": old_budget("iql_omg", 128),
    "iql_omg_point": old_budget("iql_omg_point", 128),
    "iql_omg_512": old_budget("iql_omg", 512),
    "iql_omg_1024": old_budget("iql_omg", 1024),
}
SMALL = {"env_args.map_name": "3m", "batch_size_run": 8, "batch_size": 8, "buffer_size": 64}


def measure(name: str, args: argparse.Namespace, has_gpu: bool) -> dict[str, Any]:
    """One case: rates in turns and, if asked for, one chunk's operations."""
    algorithm, seeds, settings = CASES[name]
    settings = {"env_args.map_name": "8m", "log_interval": 1, **settings}
    if "omg" in algorithm:
        settings["diagnostics_interval"] = 10**9
    if "pool" in algorithm:
        settings["init_param_path"] = str(args.pool)
    if args.small:
        seeds, settings = 2, {**settings, **SMALL}
        settings |= {"updates_per_episode": 0.125}
        if "pool" in algorithm:
            settings["env_args.map_name"] = "8m"
    run = Running(algorithm, "sc2", settings, seeds, has_gpu)
    for _ in range(2):
        run.advance(0.0)
    rates = [run.advance(args.seconds) for _ in range(args.rounds)]
    pace = median(rate.steps_per_second for rate in rates)
    row: dict[str, Any] = {"case": name, "algorithm": algorithm, "seeds": seeds, "settings": settings}
    row |= {"steps_per_s": pace, "updates_per_s": median(rate.updates / rate.seconds for rate in rates)}
    row |= {"minutes_of_old_budget": OLD_BUDGET * seeds / pace / 60, "compile_s": run.compiled}
    row |= {"turns": [rate._asdict() for rate in rates], "peak_bytes": peak_memory()}
    print(f"{name}: {pace:,.0f} env steps/s, {row['updates_per_s']:,.0f} updates/s, compiled in {run.compiled:.0f} s")
    if args.profile:
        row["profile"] = profile(run, args.top)
        for operation in row["profile"]["operations"][: args.shown]:
            print(f"  {operation['share']:6.1%} {operation['calls']:>7} x {operation['name']}  {operation['source']}")
    return row


def profile(run: Running, top: int) -> dict[str, Any]:
    """The operations of one chunk that take longest, from a trace of it."""
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder, create_perfetto_trace=True):
            rate = run.advance(0.0)
        trace = next(Path(folder).rglob("perfetto_trace.json.gz"))
        events = json.loads(gzip.decompress(trace.read_bytes()))["traceEvents"]
    return summed(events, top) | {"chunk": rate._asdict()}


def summed(events: list[dict[str, Any]], top: int) -> dict[str, Any]:
    """Times by operation, and the share of the time in which any ran.

    Args:
        events: of a trace in Chrome's format.
        top: operations to keep.
    """
    processes = {
        event["pid"]: event["args"]["name"]
        for event in events
        if event.get("name") == "process_name" and "args" in event
    }
    device = {number for number, name in processes.items() if "device:GPU" in name}
    chosen = [
        event
        for event in events
        if event.get("ph") == "X" and (event["pid"] in device if device else "hlo_op" in event.get("args", {}))
    ]
    by_name: dict[str, list[float]] = defaultdict(lambda: [0.0, 0])
    sources: dict[str, str] = {}
    spans = []
    for event in chosen:
        told = event.get("args", {})
        if device and "hlo_op" not in told and "correlation_id" not in told:
            continue  # Lines that sum up others: modules, steps.
        name = str(told.get("hlo_op", event["name"]))
        by_name[name][0] += event["dur"]
        by_name[name][1] += 1
        sources.setdefault(name, source_of(told, event["name"]))
        spans.append((event["ts"], event["ts"] + event["dur"]))
    total = sum(took for took, _ in by_name.values()) or 1.0
    longest = sorted(by_name.items(), key=lambda entry: -entry[1][0])[:top]
    return {
        "busy": busy(spans),
        "device_us": total,
        "kernels": sum(int(count) for _, count in by_name.values()),
        "operations": [
            {"name": name, "share": took / total, "us": took, "calls": int(count), "source": sources[name]}
            for name, (took, count) in longest
        ],
    }


def source_of(told: dict[str, Any], kernel: str) -> str:
    """Where an operation comes from, in a few words."""
    path = re.sub(r"jit\([^)]*\)/|while/body/|closed_call/", "", str(told.get("tf_op", told.get("name", ""))))
    return f"{path[-90:]} [{kernel[:60]}]"


def busy(spans: list[tuple[float, float]]) -> float:
    """Share of the time from the first to the last moment that is covered."""
    covered, end = 0.0, float("-inf")
    for begins, ends in sorted(spans):
        covered += max(0.0, ends - max(begins, end))
        end = max(end, ends)
    return covered / (end - min(spans)[0]) if spans else 0.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--pool", type=Path, default=Path("results/8m"), help="the kept pool of 8m")
    parser.add_argument("--seconds", type=float, default=4.0, help="of a turn")
    parser.add_argument("--rounds", type=int, default=5, help="turns")
    parser.add_argument("--profile", action="store_true", help="trace one chunk of each")
    parser.add_argument("--top", type=int, default=60, help="operations kept of a trace")
    parser.add_argument("--shown", type=int, default=12, help="and printed")
    parser.add_argument("--small", action="store_true", help="tiny sizes")
    parser.add_argument("--output", type=Path)
    args = parser.parse_args()
    has_gpu = prepare(use_cuda=True)
    result: dict[str, Any] = {"command": sys.argv, "machine": machine(), "rows": []}
    for name in args.cases.split(","):
        result["rows"].append(measure(name, args, has_gpu))
        if args.output:
            args.output.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
