"""Whether two trees of the code train the same weights: tiny runs, and hashes of all they leave.

    python tools/same_bytes.py write reference.json    # in the old tree
    python tools/same_bytes.py check reference.json    # in the new one; names of runs may follow

Each run is a process of its own on the CPU. Hashed are the learner's arrays in the last checkpoint, the saved agents
and the metrics except times; arrays under the names that the files give them. Equal only on the same machine with the
same versions.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

SOURCE = Path(__file__).resolve().parent.parent / "src"
COMMON = ["use_tensorboard=False", "use_cuda=False", "test_nepisode=2", "test_interval=20", "log_interval=1", "seed=3"]
REPLAY = ["t_max=60", "batch_size_run=2", "batch_size=4", "buffer_size=8"]
ROUNDS = ["t_max=60", "batch_size_run=4"]
SEARCH = ["t_max=24", "batch_size_run=2", "hop_simulations=4", "hop_samples=2", "hop_hidden_dim=16"]
TOY, HUNT, DRIFT = "--env-config=toy_grid", "--env-config=stag_hunt", "--env-config=snowdrift"
FORAGING = ["--env-config=foraging", "env_args.episode_limit=12"]
BATTLE = ["--env-config=sc2", "env_args.map_name=3m"]
RUNS: dict[str, list[str]] = {
    "iql": ["--config=iql", *BATTLE, *REPLAY],
    "iql_seeds": ["--config=iql", TOY, *REPLAY, "seeds=2"],
    "vdn": ["--config=vdn", *FORAGING, *REPLAY],
    "qmix": ["--config=qmix", *BATTLE, *REPLAY],
    "qtran": ["--config=qtran", *FORAGING, *REPLAY],
    "d3qn_omg": ["--config=d3qn_omg", TOY, *REPLAY],
    "iql_liam": ["--config=iql_liam", *FORAGING, *REPLAY],
    "iql_am": ["--config=iql_am", *FORAGING, *REPLAY],
    "iql_omg": ["--config=iql_omg", *FORAGING, *REPLAY],
    "iql_omg_point": [
        *("--config=iql_omg", *FORAGING, *REPLAY, "omg_inference=mlp", "omg_actions=counts", "omg_bootstrap=next"),
        *("omg_action_dropout=0.2", "subgoal_mode=conservative", "omg_value=max", "obs_all_last_actions=True"),
    ],
    "iql_omg_view": ["--config=iql_omg", *FORAGING, *REPLAY, "omg_feature=view", "omg_residual=True"],
    "coma": ["--config=coma", *FORAGING, *ROUNDS],
    "ippo": ["--config=ippo", *BATTLE, *ROUNDS],
    "mappo": ["--config=mappo", *FORAGING, *ROUNDS, "ppo_minibatches=2"],
    "ippo_omg": ["--config=ippo_omg", *FORAGING, *ROUNDS],
    "ippo_omg_all": ["--config=ippo_omg", *FORAGING, *ROUNDS, "obs_all_last_actions=True"],
    "ippo_liam": ["--config=ippo_liam", *FORAGING, *ROUNDS],
    "si": ["--config=si", HUNT, *ROUNDS],
    "lola": ["--config=lola", HUNT, *ROUNDS],
    "pr2": ["--config=pr2", HUNT, *REPLAY],
    "hop": ["--config=hop", HUNT, *SEARCH],
    "hop_drift": ["--config=hop", DRIFT, *SEARCH],
    "direct_om": ["--config=direct_om", DRIFT, *SEARCH],
    "hop_plus": ["--config=hop_plus", HUNT, *SEARCH],
    "hop_plus_ppo": ["--config=hop_plus_ppo", HUNT, *ROUNDS],
    "parallel": ["--config=iql", *FORAGING, *REPLAY, "runner=parallel"],
    "episode": ["--config=qmix", *FORAGING, *REPLAY, "runner=episode", "batch_size_run=1"],
    "team": ["--config=1pool1iql_omg", *FORAGING, "env_args.players=2", *REPLAY, "init_param_path=POOL"],
    "team_oracle": [
        *("--config=1pool1iql_omg", *FORAGING, "env_args.players=2", *REPLAY, "init_param_path=POOL"),
        "omg_q_input=oracle",
    ],
    "team_identity": [
        *("--config=1pool1ippo", *FORAGING, "env_args.players=2", *ROUNDS, "init_param_path=POOL"),
        "am_model=identity_am",
    ],
}
"""Name -> words of `omg train`. POOL stands for a small pool that is trained first."""
POOL_WORDS = [
    *("--env-config=foraging", "--training=iql=2,vdn=1", "--episodes=4", "env_args.players=2"),
    *("env_args.episode_limit=12", *REPLAY, *COMMON),
]


def train(words: list[str], folder: Path) -> None:
    """Runs `omg` with `words` in a process of its own; results go into `folder`."""
    paths = f"{SOURCE}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    environment = {**os.environ, "PYTHONPATH": paths, "JAX_PLATFORMS": "cpu"}
    code = "import sys; from omg.cli import main; sys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-c", code, *words], env=environment, cwd=folder, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(words)}\n{done.stdout[-1500:]}{done.stderr[-1500:]}")


def hashes(folder: Path) -> dict[str, str]:
    """Hash of each file that a run's numbers are in, by kind."""
    from safetensors import safe_open

    found: dict[str, str] = {}
    for path in sorted(folder.rglob("*.safetensors")):
        digest = hashlib.sha256()
        with safe_open(path, "numpy") as file:
            for name in sorted(file.keys()):
                array = file.get_tensor(name)
                digest.update(f"{name} {array.dtype} {array.shape}".encode() + array.tobytes())
        found[_place(path, folder)] = digest.hexdigest()[:16]
    for path in sorted(folder.rglob("metrics.csv")):
        found[_place(path, folder)] = hashlib.sha256(_without_times(path).encode()).hexdigest()[:16]
    return found


def _place(path: Path, folder: Path) -> str:
    """Where a file lies in its run; the run's own folder has the time in its name."""
    return "/".join(path.relative_to(folder).parts[-3:]) if len(path.relative_to(folder).parts) > 3 else path.name


def _without_times(path: Path) -> str:
    rows = [line.split(",") for line in path.read_text().splitlines()]
    slow = ("second", "time", "per_s", "share", "rate", "memory", "bytes")
    kept = [row for row in rows if not any(word in cell for cell in row for word in slow)]
    return "\n".join(",".join(row) for row in kept)


def measure(names: list[str], jobs: int) -> dict[str, dict[str, str]]:
    """Trains the named runs, some at a time."""
    with tempfile.TemporaryDirectory() as scratch:
        pool = Path(scratch) / "pool"
        if any("POOL" in word for name in names for word in RUNS[name]):
            train(["pool", "train", str(pool), *POOL_WORDS], Path(scratch))

        def one(name: str) -> dict[str, str]:
            folder = Path(scratch) / name
            folder.mkdir()
            words = [word.replace("POOL", str(pool)) for word in RUNS[name]]
            train(["train", *words, *COMMON, f"local_results_path={folder}"], folder)
            print(name, flush=True)
            return hashes(folder)

        with ThreadPoolExecutor(jobs) as crew:
            return dict(zip(names, crew.map(one, names), strict=True))


def main() -> int:
    """0: all equal, or written; 1: something differs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("action", choices=["write", "check"])
    parser.add_argument("file", type=Path)
    parser.add_argument("run", nargs="*", help="some runs only")
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time")
    arguments = parser.parse_args()
    unknown = set(arguments.run) - set(RUNS)
    if unknown:
        parser.error(f"no such run: {', '.join(sorted(unknown))}. There are: {', '.join(RUNS)}")
    measured = measure(arguments.run or list(RUNS), arguments.jobs)
    if arguments.action == "write":
        arguments.file.write_text(json.dumps(measured, indent=1) + "\n")
        return 0
    reference = json.loads(arguments.file.read_text())
    differing = [name for name, found in measured.items() if found != reference[name]]
    for name in differing:
        places = sorted({*measured[name], *reference[name]})
        print(f"{name} DIFFERS: ", [each for each in places if measured[name].get(each) != reference[name].get(each)])
    print(f"{len(measured) - len(differing)} of {len(measured)} runs are equal byte for byte.")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
