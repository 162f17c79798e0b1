"""What a run on several devices comes to, beside the same run on one: 8 seeds of IQL, of OMG in a team, and of PPO.

Both train from the same seeds, round for round, in one process. Then everything that changes during a run is compared
number by number: networks, optimisers, replay buffers, random keys, counters, what the log said, and a test. `one` is
IQL with a single seed, whose games are shared out.

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
    "omg in a team": ("2pool1iql_omg", 8, REPLAY),
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


def trained(algorithm: str, seeds: int, settings: dict[str, Any], rounds: int, has_gpu: bool) -> dict[str, Any]:
    """Everything at the end of a run, and how long its last three quarters took."""
    given = {**SETTINGS, **settings, "seeds": seeds}
    program: Program = Program(adjust(resolve(algorithm, "sc2", given).config, has_gpu)[0])
    state = program.init(jnp.arange(1, seeds + 1, dtype=jnp.uint32))
    chunk = program.chunk.lower(state).compile()  # type: ignore[attr-defined]
    began, logs = 0.0, []
    for done in range(rounds):
        if done == rounds // 4:
            jax.block_until_ready(state)
            began = time.perf_counter()
        state, log = chunk(state)
        logs.append(log.stats)
    jax.block_until_ready(state)
    seconds = time.perf_counter() - began
    found = {"state": state._replace(tuned=None), "log": logs, "test": program.test(state)}
    return {"found": jax.device_get(found), "seconds": seconds, "steps": state.t_env.numpy().tolist()}


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
                trained(algorithm, seeds, {**settings, "devices": count}, args.rounds, has_gpu)
                for count in (1, args.devices)
            )
            row = {"case": case, "algorithm": algorithm, "seeds": seeds, "devices": args.devices, "rounds": args.rounds}
            row |= compared(one["found"], several["found"])
            row |= {"seconds": [one["seconds"], several["seconds"]], "steps": one["steps"]}
            rows.append(row)
            print(json.dumps(row), flush=True)
    if args.output:
        args.output.write_text(json.dumps({"machine": machine(), "settings": SETTINGS, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
