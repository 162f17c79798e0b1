"""What a run on several devices comes to, beside the same run on one: 8 seeds of IQL, of OMG in a team, and of PPO.

Both train from the same seeds, round for round, in one process. After each round everything that changes during a run
is compared number by number: networks, optimisers, replay buffers, random keys, counters, what the log says; at the end
a test as well. `one` is IQL with a single seed, whose games are shared out.

On a CPU, devices are simulated and share its cores, so that times say nothing; on GPUs they do::

    export XLA_FLAGS=--xla_force_host_platform_device_count=2
    python benchmarks/devices_check.py --output benchmarks/results/devices_cpu.json
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from machine import machine

from omg.components.files import name_leaves
from omg.config import adjust, resolve
from omg.envs import make_env
from omg.pools import Pool
from omg.training.device import prepare
from omg.training.program import Program

SETTINGS: dict[str, Any] = {"env_args.map_name": "3m", "batch_size_run": 8, "test_nepisode": 16, "test_interval": 1}
REPLAY = {"updates_per_episode": 0.25, "buffer_size": 64, "batch_size": 16}
CASES: dict[str, tuple[str, int, dict[str, Any]]] = {
    "iql": ("iql", 8, REPLAY),
    "omg in a team": ("2pool1iql_omg", 8, {**REPLAY, "batch_size": 4, "updates_per_episode": 0.125}),
    "ppo": ("ippo", 8, {}),
    "one": ("iql", 1, REPLAY),
}
"""Name -> algorithm, seeds, settings; a chunk is one round of play and the updates that follow it."""


def scripted_pool(folder: Path) -> Path:
    """A pool of scripted players for the team."""
    env = make_env("sc2", map_name="3m")
    pool = Pool.create(folder, "sc2", {"map_name": "3m"}, env.spec)
    for name in ("attack_nearest", "attack_weakest", "random"):
        pool.add_scripted(name, "training")
    return folder


class Run:
    """A run, round by round."""

    def __init__(self, algorithm: str, seeds: int, settings: dict[str, Any], has_gpu: bool) -> None:
        given = {**SETTINGS, **settings, "seeds": seeds}
        self.program: Program = Program(adjust(resolve(algorithm, "sc2", given).config, has_gpu)[0])
        self.state = self.program.init(jnp.arange(1, seeds + 1, dtype=jnp.uint32))
        self.chunk = self.program.chunk.lower(self.state).compile()  # type: ignore[attr-defined]
        self.seconds = 0.0

    def advance(self) -> Any:
        """One round; returns what changed during it."""
        began = time.perf_counter()
        self.state, log = jax.block_until_ready(self.chunk(self.state))
        self.seconds += time.perf_counter() - began
        return jax.device_get({"state": self.state._replace(tuned=None), "log": log})


def compared(one: Any, several: Any) -> dict[str, Any]:
    """How far two runs are apart."""
    first, second = name_leaves(one), name_leaves(several)
    assert first.keys() == second.keys()
    worst, name, numbers, different = 0.0, None, 0, 0
    for leaf, left, right in ((leaf, np.asarray(first[leaf]), np.asarray(second[leaf])) for leaf in first):
        numbers += left.size
        different += int((left != right).sum())
        apart = np.abs(left.astype(np.float64) - right.astype(np.float64)).max(initial=0.0)
        if apart > worst:
            worst, name = float(apart), leaf
    return {"numbers": numbers, "different": different, "largest_difference": worst, "where": name}


def same_games(one: Any, several: Any) -> bool:
    """Whether the games of a round had the same lengths and returns."""
    both = (run["log"].stats for run in (one, several))
    (lengths, returns), (others, theirs) = ((stats.lengths, stats.returns) for stats in both)
    return np.array_equal(lengths, others) and np.array_equal(returns, theirs)


def lockstep(one: Run, several: Run, rounds: int) -> dict[str, Any]:
    """What comes of so many rounds: all numbers at the end, and how it came to it."""
    row: dict[str, Any] = {"rounds": rounds, "first_difference": None, "rounds_of_same_games": 0}
    for number in range(1, rounds + 1):
        left, right = one.advance(), several.advance()
        row["end"] = compared(left, right)
        if row["end"]["different"] and row["first_difference"] is None:
            row["first_difference"] = {"round": number, **compared(left["state"].learner, right["state"].learner)}
        if row["rounds_of_same_games"] == number - 1 and same_games(left, right):
            row["rounds_of_same_games"] = number
    row["test"] = compared(*(jax.device_get(run.program.test(run.state)) for run in (one, several)))
    return row | {"seconds": [one.seconds, several.seconds], "steps": one.state.t_env.numpy().tolist()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", nargs="+", choices=list(CASES), default=list(CASES))
    parser.add_argument("--devices", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--output", type=Path)
    args = parser.parse_args()
    has_gpu = prepare(use_cuda=True)
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        pool = scripted_pool(Path(scratch) / "pool")
        for case in args.cases:
            algorithm, seeds, settings = CASES[case]
            if "pool" in algorithm:
                settings = {**settings, "init_param_path": str(pool)}
            one, several = (
                Run(algorithm, seeds, {**settings, "devices": count}, has_gpu) for count in (1, args.devices)
            )
            row = {"case": case, "algorithm": algorithm, "seeds": seeds, "devices": args.devices}
            row |= {"settings": {key: value for key, value in settings.items() if key != "init_param_path"}}
            row |= lockstep(one, several, args.rounds)
            rows.append(row)
            print(json.dumps(row), flush=True)
    if args.output:
        args.output.write_text(json.dumps({"machine": machine(), "settings": SETTINGS, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
