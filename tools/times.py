"""How long two trees of the code take for the same training: start with compilation, and pace, in turns.

    python tools/times.py OLD_TREE NEW_TREE --repeats 5 --chunks 100 --cores 0,1

*Start* is a run of a few steps from the first line to its end, in a process of its own without a compilation cache:
mostly tracing and compiling. First the one tree, then the other, then in the opposite order.

*Pace* is that of the compiled chunk, in which a run spends all but a thousandth of its time. Each tree has a process,
both begin with the same state, and they take turns chunk by chunk, so that whatever else the machine does meets both
alike. At the end a digest says whether both hold the same parameters, that is, whether the work was equal.

Printed are the medians of both trees, the median of the ratios of neighbouring measurements (new over old; of times, so
that 0.9 means a tenth less time) with its quartiles, and for the pace the ratio of all the time together.

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
from collections.abc import Sequence
from pathlib import Path

COMMON = ["use_tensorboard=False", "use_cuda=False", "save_model=False", "test_interval=10000000", "test_nepisode=1"]
BATTLE = ["--env-config=sc2", "env_args.map_name=3m", "seed=1", "log_interval=500"]
FOUR = ["batch_size_run=4", "batch_size=4", "buffer_size=4", "updates_per_episode=0.25"]
CODES = [  # What older trees have by the name of `hop_plus`.
    "omg_inference=cvae",
    "omg_q_input=mix",
    "omg_reconstruct=input",
    "subgoal_mode=conservative",
    "subgoal_dim=16",
    "am_lr=0.003",
    "prior_kl_weight=0.0002",
]
SEARCH = ["hop_simulations=16", "hop_samples=2", "hop_hidden_dim=32"]
Q = ["batch_size_run=8", "batch_size=32", "buffer_size=64"]
ROUND = ["batch_size_run=16", "batch_size=16", "buffer_size=16", "updates_per_episode=0.0625"]
RUNS: dict[str, list[str]] = {
    "qmix": ["--config=qmix", *BATTLE, *Q],
    "iql_omg": ["--config=iql_omg", *BATTLE, *Q],
    "ippo_omg": ["--config=ippo_omg", *BATTLE, *ROUND],
    "hop_plus": [
        "--config=hop_plus",
        "--env-config=stag_hunt",
        "seed=1",
        "log_interval=60",
        *FOUR,
        *CODES,
        *SEARCH,
    ],
}
"""Name -> words of `omg train`."""


PROGRAM = """
import jax.numpy as jnp
from omg.cli.lists import read_words
from omg.config import resolve
from omg.config.overrides import assignments, nested
from omg.training.program import Program
line = read_words(None, None, sys.argv[1:])
program = Program(resolve(line.config, line.env_config, nested(assignments(line.overrides))).config)
chunk = program._compiled_chunk if hasattr(program, "_compiled_chunk") else program.chunk
state = program.init(jnp.asarray([1], jnp.uint32))
compiled = chunk.lower(state).compile()
"""
"""Builds the compiled chunk and the first state of a run, in whichever tree is on the path."""

DIGEST = f"""
import collections, hashlib, re, sys
{PROGRAM}
kinds = collections.Counter(re.findall(r"= (\\S+) (\\w[\\w-]*)\\(", compiled.as_text()))
digest = hashlib.sha256(repr(sorted(kinds.items())).encode()).hexdigest()[:16]
print(sum(kinds.values()), int(compiled.cost_analysis()["flops"]), digest)
"""
"""Prints how many instructions the chunk of a run has, its floating-point operations, and the digest."""

PACE = f"""
import hashlib, os, sys, time
out = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
import jax
import numpy as np
{PROGRAM}
print("ready", file=out, flush=True)
for _ in sys.stdin:
    begin = time.perf_counter()
    state, log = compiled(state)
    jax.block_until_ready((state, log))
    print(time.perf_counter() - begin, file=out, flush=True)
leaves = b"".join(np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(state.learner))
print(hashlib.sha256(leaves).hexdigest()[:16], file=out, flush=True)
"""
"""Does a chunk for every line that it is sent and says how long it took; at the end the digest of what was learned."""


def environment(tree: Path) -> dict[str, str]:
    """Of a process that uses one tree's code, on a CPU and without a compilation cache."""
    path = f"{tree.resolve() / 'src'}:{os.environ.get('PYTHONPATH', '')}"
    return {**os.environ, "PYTHONPATH": path, "OMG_CACHE": "", "JAX_PLATFORMS": "cpu"}


def digest(tree: Path, words: list[str]) -> str:
    """What the compiled program of a run consists of."""
    line = [sys.executable, "-c", DIGEST, *words, *COMMON]
    return subprocess.run(line, env=environment(tree), capture_output=True, check=True, text=True).stdout.strip()


def start(tree: Path, words: list[str]) -> float:
    """Seconds of a run that ends after its first chunk."""
    with tempfile.TemporaryDirectory() as folder:
        code = "import sys; from omg.cli import main; sys.exit(main())"
        line = ["train", *words, *COMMON, "t_max=1", f"local_results_path={folder}"]
        begin = time.perf_counter()
        subprocess.run([sys.executable, "-c", code, *line], env=environment(tree), capture_output=True, check=True)
        return time.perf_counter() - begin


class Pacer:
    """A process that holds a run of one tree between its chunks."""

    def __init__(self, tree: Path, words: list[str]) -> None:
        line = [sys.executable, "-c", PACE, *words, *COMMON]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            line, env=environment(tree), stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True
        )

    def answer(self) -> str:
        """The next line that it prints."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline().strip()
        if not line:
            raise SystemExit(
                f"The process ended with {self._process.wait()}; see what `omg train` says to these words."
            )
        return line

    def chunk(self) -> float:
        """Seconds of the next chunk."""
        assert self._process.stdin is not None
        self._process.stdin.write("chunk\n")
        self._process.stdin.flush()
        return float(self.answer())

    def end(self) -> str:
        """The digest of what it has learned."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        return self.answer()


def starts(trees: Sequence[Path], words: list[str], repeats: int) -> dict[str, object]:
    """Whole short runs of both trees in turns."""
    seconds: list[list[float]] = [[], []]
    for repeat in range(repeats):
        for side in (0, 1) if repeat % 2 == 0 else (1, 0):
            seconds[side].append(start(trees[side], words))
    return summary(seconds)


def paces(trees: Sequence[Path], words: list[str], chunks: int, limit: float) -> dict[str, object]:
    """Chunks of both trees in turns, for so many seconds at most. The first fifth is not counted: buffers fill."""
    pacers = [Pacer(tree, words) for tree in trees]
    for pacer in pacers:
        pacer.answer()
    seconds: list[list[float]] = [[], []]
    begin = time.perf_counter()
    for turn in range(chunks):
        if time.perf_counter() - begin > limit:
            break
        for side in (0, 1) if turn % 2 == 0 else (1, 0):
            seconds[side].append(pacers[side].chunk())
    old, new = (pacer.end() for pacer in pacers)
    counted = [side[len(side) // 5 :] for side in seconds]
    return {**summary(counted), "together": round(sum(counted[1]) / sum(counted[0]), 4), "same_learned": old == new}


def summary(seconds: Sequence[Sequence[float]]) -> dict[str, object]:
    """Medians of both sides; median and quartiles of the ratios of neighbours."""
    old, new = seconds
    ratios = sorted(after / before for before, after in zip(old, new, strict=True))
    quarter = len(ratios) // 4
    return {
        "measured": len(ratios),
        "old_s": round(statistics.median(old), 4),
        "new_s": round(statistics.median(new), 4),
        "new_over_old": round(statistics.median(ratios), 4),
        "quartiles": [round(ratios[quarter], 4), round(ratios[-1 - quarter], 4)],
    }


def main() -> None:
    """Prints a JSON object for each run."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("run", nargs="*", help="some runs only")
    parser.add_argument("--repeats", type=int, default=5, help="starts of each tree")
    parser.add_argument("--chunks", type=int, default=100, help="chunks of each tree")
    parser.add_argument("--seconds", type=float, default=600.0, help="most that the chunks of a run may take")
    parser.add_argument("--cores", default="", help="processor cores to stay on, e.g. 2,3")
    parser.add_argument("--programs", action="store_true", help="compare the compiled programs and time nothing")
    arguments = parser.parse_args()
    if arguments.cores:
        os.sched_setaffinity(0, {int(core) for core in arguments.cores.split(",")})
    trees = [arguments.old, arguments.new]
    for name in arguments.run or RUNS:
        words = RUNS[name]
        if arguments.programs:
            old, new = (digest(tree, words) for tree in trees)
            print(json.dumps({"run": name, "old": old, "new": new, "equal": old == new}), flush=True)
            continue
        if arguments.chunks:
            pace = paces(trees, words, arguments.chunks, arguments.seconds)
            print(json.dumps({"run": name, "pace": pace}), flush=True)
        if arguments.repeats:
            print(json.dumps({"run": name, "start": starts(trees, words, arguments.repeats)}), flush=True)


if __name__ == "__main__":
    main()
