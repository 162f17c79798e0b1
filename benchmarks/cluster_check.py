"""A plan on this machine, through Ray, and over three nodes of Ray of which one is killed: seconds, and equal tables?

    python benchmarks/cluster_check.py --output benchmarks/results/clusters_cpu.json

The nodes are processes of this machine (`ray.cluster_utils.Cluster`), the killed one that which trains when the first
agent's training has gone on for `--after` seconds. Tables are compared byte by byte; `times.csv` says how long parts
took, and differs.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from machine import machine

RUNNING = re.compile(r"^(train \S+): running on .*, process (\d+)")


def run(folder: Path, words: list[str], watch: Callable[[str], None] = lambda line: None) -> float:
    """Seconds of `omg pipeline` into a folder; `watch` gets every line that it prints."""
    command = [str(Path(sys.executable).with_name("omg")), "pipeline", *words, "--output", str(folder)]
    environment = {**os.environ, "OMG_CACHE": str(folder.parent / "cache"), "COLUMNS": "200"}
    began = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)
    assert process.stdout is not None
    for line in process.stdout:
        print(f"  {line}", end="", flush=True)
        watch(line)
    if process.wait():
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}")
    return time.perf_counter() - began


def tables(folder: Path) -> dict[str, bytes]:
    """The plan's tables by their places."""
    found = (path for path in folder.rglob("*.csv") if "runs" not in path.parts)
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


def main() -> None:
    """Runs the plan three times, prints and stores what came out."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--plan", default="quick")
    parser.add_argument("--after", type=float, default=5.0, help="seconds of training before the node is killed")
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    from ray.cluster_utils import Cluster

    with tempfile.TemporaryDirectory(prefix="omg-clusters-") as place:
        root = Path(place)
        warm = run(root / "warm", [arguments.plan, "--jobs", "2"])
        seconds = {
            "local": run(root / "local", [arguments.plan, "--jobs", "2"]),
            "ray": run(root / "ray", [arguments.plan, "--jobs", "2", "--launcher", "ray"]),
        }
        cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
        nodes = [cluster.add_node(num_cpus=1) for _ in range(2)]
        cluster.wait_for_nodes()
        killed: list[str] = []

        def kill(line: str) -> None:
            found = RUNNING.match(line)
            if found is None or killed:
                return
            time.sleep(arguments.after)
            above = parents(int(found[2]))
            node = next((one for one in nodes if raylet(one) in above), None)
            if node is not None:
                killed.append(found[1])
                cluster.remove_node(node, allow_graceful=False)

        try:
            seconds["three nodes, one killed"] = run(
                root / "nodes", [arguments.plan, "--launcher", "ray", "--address", cluster.address], kill
            )
        finally:
            cluster.shutdown()
        own = tables(root / "local")
        others = {name: tables(root / name) for name in ("ray", "nodes")}
    differing = {
        name: sorted(path for path in {*own, *found} if own.get(path) != found.get(path))
        for name, found in others.items()
    }
    result = {
        "machine": machine(),
        "plan": arguments.plan,
        "first_run_s": warm,
        "seconds": seconds,
        "ray_over_local": seconds["ray"] / seconds["local"],
        "killed_while": killed,
        "tables": sorted(own),
        "differing": differing,
    }
    print(json.dumps(result, indent=1))
    if arguments.output is not None:
        arguments.output.write_text(json.dumps(result, indent=1) + "\n")


def parents(pid: int) -> set[int]:
    """The processes above one, itself included."""
    above: set[int] = set()
    while pid > 1 and pid not in above:
        above.add(pid)
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return above


def raylet(node: object) -> int:
    """The process of a node that starts its workers."""
    return node.all_processes["raylet"][0].process.pid  # type: ignore[attr-defined]


if __name__ == "__main__":
    main()
