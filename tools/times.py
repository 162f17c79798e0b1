"""How long two trees of the code take for the same training: start with compilation, and pace, in turns.

    python tools/times.py OLD_TREE NEW_TREE --repeats 5 --cores 0,1

Every run is a process of its own without a compilation cache: first the one tree, then the other, then in the opposite
order. *Start* is a run of a few steps from the first line to its end, which is mostly tracing and compiling; *pace* is
the environment steps per second of a longer run's second half, as the run itself records them. Printed are the medians
of both trees and the median of the ratios of neighbouring runs with its range.

With `--programs` nothing is timed: the compiled program of one chunk of each tree is summed up in a digest of its
instructions (opcode, type and shape of each, in any order). Equal digests are the same work, whatever a noisy machine
says about its pace.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

COMMON = ["use_tensorboard=False", "use_cuda=False", "save_model=False", "test_interval=10000000", "test_nepisode=1"]
BATTLE = ["--env-config=sc2", "env_args.map_name=3m", "seed=1", "log_interval=500"]
SEARCH = ["hop_simulations=16", "hop_samples=2", "hop_hidden_dim=32"]
Q = ["batch_size_run=8", "batch_size=32", "buffer_size=64"]
ROUND = ["batch_size_run=16", "batch_size=16", "buffer_size=16", "updates_per_episode=0.0625"]
RUNS: dict[str, tuple[list[str], int]] = {
    "qmix": (["--config=qmix", *BATTLE, *Q], 30_000),
    "iql_omg": (["--config=iql_omg", *BATTLE, *Q], 24_000),
    "ippo_omg": (["--config=ippo_omg", *BATTLE, *ROUND], 30_000),
    "hop_plus": (
        ["--config=hop_plus", "--env-config=stag_hunt", "seed=1", "log_interval=60", "batch_size_run=4", *SEARCH],
        1_200,
    ),
}
"""Name -> words of `omg train` and the steps of the longer run."""


DIGEST = """
import collections, hashlib, re, sys
import jax.numpy as jnp
from omg.cli.lists import read_words
from omg.config import resolve
from omg.config.overrides import assignments, nested
from omg.training.program import Program
line = read_words(None, None, sys.argv[1:])
program = Program(resolve(line.config, line.env_config, nested(assignments(line.overrides))).config)
chunk = program._compiled_chunk if hasattr(program, "_compiled_chunk") else program.chunk
compiled = chunk.lower(program.init(jnp.asarray([1], jnp.uint32))).compile()
kinds = collections.Counter(re.findall(r"= (\\S+) (\\w[\\w-]*)\\(", compiled.as_text()))
digest = hashlib.sha256(repr(sorted(kinds.items())).encode()).hexdigest()[:16]
print(sum(kinds.values()), int(compiled.cost_analysis()["flops"]), digest)
"""
"""Prints how many instructions the chunk of a run has, its floating-point operations, and the digest."""


def environment(tree: Path) -> dict[str, str]:
    """Of a process that uses one tree's code, on a CPU and without a compilation cache."""
    path = f"{tree.resolve() / 'src'}:{os.environ.get('PYTHONPATH', '')}"
    return {**os.environ, "PYTHONPATH": path, "OMG_CACHE": "", "JAX_PLATFORMS": "cpu"}


def digest(tree: Path, words: list[str]) -> str:
    """What the compiled program of a run consists of."""
    line = [sys.executable, "-c", DIGEST, *words, *COMMON]
    return subprocess.run(line, env=environment(tree), capture_output=True, check=True, text=True).stdout.strip()


def train(tree: Path, words: list[str], steps: int) -> tuple[float, float]:
    """Seconds that `steps` steps take, and steps per second in the second half."""
    with tempfile.TemporaryDirectory() as folder:
        code = "import sys; from omg.cli import main; sys.exit(main())"
        line = ["train", *words, *COMMON, f"t_max={steps}", f"local_results_path={folder}"]
        begin = time.perf_counter()
        subprocess.run([sys.executable, "-c", code, *line], env=environment(tree), capture_output=True, check=True)
        seconds = time.perf_counter() - begin
        [file] = Path(folder).rglob("speed.csv")
        rows = [row.split(",") for row in file.read_text().splitlines()[1:]]
    # A row holds the mean rate since the start, so the time up to it is its steps over that rate.
    (middle, then), (end, now) = (
        (int(row[0]), int(row[0]) / float(row[1])) for row in (rows[len(rows) // 2], rows[-1])
    )
    return seconds, (end - middle) / (now - then) if end > middle else 0.0


def compare(trees: list[Path], words: list[str], steps: int, repeats: int) -> dict[str, object]:
    """Both trees in turns."""
    starts: list[list[float]] = [[], []]
    paces: list[list[float]] = [[], []]
    for repeat in range(repeats):
        for side in (0, 1) if repeat % 2 == 0 else (1, 0):
            starts[side].append(train(trees[side], words, 1)[0])
            paces[side].append(train(trees[side], words, steps)[1])
    result: dict[str, object] = {}
    for name, (old, new) in {"start_s": starts, "steps_per_s": paces}.items():
        ratios = sorted(after / before for before, after in zip(old, new, strict=True))
        result[name] = {
            "old": round(statistics.median(old), 2),
            "new": round(statistics.median(new), 2),
            "new_over_old": round(statistics.median(ratios), 3),
            "lowest": round(ratios[0], 3),
            "highest": round(ratios[-1], 3),
        }
    return result


def main() -> None:
    """Prints a JSON object for each run."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("run", nargs="*", help="some runs only")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--cores", default="", help="processor cores to stay on, e.g. 2,3")
    parser.add_argument("--programs", action="store_true", help="compare the compiled programs and time nothing")
    arguments = parser.parse_args()
    if arguments.cores:
        os.sched_setaffinity(0, {int(core) for core in arguments.cores.split(",")})
    for name in arguments.run or RUNS:
        words, steps = RUNS[name]
        trees = [arguments.old, arguments.new]
        if arguments.programs:
            old, new = (digest(tree, words) for tree in trees)
            print(json.dumps({"run": name, "old": old, "new": new, "equal": old == new}), flush=True)
            continue
        print(json.dumps({"run": name, **compare(trees, words, steps, arguments.repeats)}), flush=True)


if __name__ == "__main__":
    main()
