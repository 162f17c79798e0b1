"""How long two trees of the code take for the same training: start with compilation, and pace, in turns.

    python tools/times.py OLD_TREE NEW_TREE --repeats 5 --cores 0,1

Every run is a process of its own without a compilation cache: first the one tree, then the other, then in the opposite
order. *Start* is a run of a few steps from the first line to its end, which is mostly tracing and compiling; *pace* is
the environment steps per second of a longer run's second half, as the run itself records them. Printed are the medians
of both trees and the median of the ratios of neighbouring runs with its range.
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
RUNS: dict[str, tuple[list[str], int]] = {
    "qmix": (["--config=qmix", *BATTLE, *Q], 12_000),
    "iql_omg": (["--config=iql_omg", *BATTLE, *Q], 8_000),
    "ippo_omg": (["--config=ippo_omg", *BATTLE, "batch_size_run=16"], 12_000),
    "hop_plus": (
        ["--config=hop_plus", "--env-config=stag_hunt", "seed=1", "log_interval=60", "batch_size_run=4", *SEARCH],
        1_200,
    ),
}
"""Name -> words of `omg train` and the steps of the longer run."""


def train(tree: Path, words: list[str], steps: int) -> tuple[float, float]:
    """Seconds that `steps` steps take, and steps per second in the second half."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "PYTHONPATH": f"{tree / 'src'}:{os.environ.get('PYTHONPATH', '')}"}
        environment |= {"OMG_CACHE": "", "JAX_PLATFORMS": "cpu"}
        code = "import sys; from omg.cli import main; sys.exit(main())"
        line = ["train", *words, *COMMON, f"t_max={steps}", f"local_results_path={folder}"]
        begin = time.perf_counter()
        subprocess.run([sys.executable, "-c", code, *line], env=environment, capture_output=True, check=True)
        seconds = time.perf_counter() - begin
        [file] = Path(folder).rglob("speed.csv")
        paces = [float(row.split(",")[1]) for row in file.read_text().splitlines()[1:]]
    return seconds, statistics.median(paces[len(paces) // 2 :])


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
    arguments = parser.parse_args()
    if arguments.cores:
        os.sched_setaffinity(0, {int(core) for core in arguments.cores.split(",")})
    for name in arguments.run or RUNS:
        words, steps = RUNS[name]
        found = compare([arguments.old, arguments.new], words, steps, arguments.repeats)
        print(json.dumps({"run": name, **found}), flush=True)


if __name__ == "__main__":
    main()
