"""Updates of policies that look at a board, by how their convolutions are computed: `results/policy_speed_gpu.md`.

python benchmarks/policy_speed.py                  # on a GPU
python benchmarks/policy_speed.py --small          # a check that it runs, anywhere

On a CPU both ways are the same: XLA's own convolution.
"""

from __future__ import annotations

import argparse
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import jax.numpy as jnp
from machine import machine

from omg.components import replay
from omg.config import resolve
from omg.modules import convolutions
from omg.training.program import Program
from omg.training.state import SEEDS_AXIS

WAYS = {"one matrix over the board": convolutions._MANY_MAPS, "nine shifted maps": 10**9}
"""Name -> maps from which on the matrix is used."""


def lowered(algorithm: str, seeds: int, games: int, way: str) -> tuple[Any, tuple[Any, ...]]:
    """One update of all seeds from made-up episodes of full length, traced; and its arguments."""
    convolutions._MANY_MAPS = WAYS[way]
    settings = {"batch_size_run": games, "batch_size": games, "buffer_size": games, "ppo_minibatches": 4}
    config = resolve(
        algorithm, "stag_hunt", {**settings, "seeds": seeds, "updates_per_episode": 1 / games, "save_buffer": False}
    ).config
    program = Program(config)
    state = program.init(jnp.arange(seeds, dtype=jnp.uint32))
    key, seen = jax.random.key(0), state.storage
    storage = seen._replace(
        filled=jnp.ones_like(seen.filled),
        avail=jnp.ones_like(seen.avail),
        obs=(jax.random.uniform(key, seen.obs.shape) < 0.1).astype(seen.obs.dtype),
    )
    steps = seen.filled.shape[-1] - 1

    def update(learner: Any, storage: Any, key: jax.Array) -> Any:
        return program.learner.update(learner, replay.gather(storage, jnp.arange(games), steps), 0, 0, key)

    arguments = (state.learner, storage, jax.random.split(key, seeds))
    return jax.jit(jax.vmap(update, axis_name=SEEDS_AXIS)).lower(*arguments), arguments


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="tiny sizes")
    args = parser.parse_args()
    seeds, games = (1, 4) if args.small else (5, 128)
    print(machine())
    cases = [(algorithm, way) for algorithm in ("ppo", "lola")[: 1 if args.small else 2] for way in WAYS]
    traced = [lowered(algorithm, seeds, games, way) for algorithm, way in cases]
    with ThreadPoolExecutor(len(cases)) as pool:
        compiled = list(pool.map(lambda each: each[0].compile(), traced))
    for (algorithm, way), program, (_, arguments) in zip(cases, compiled, traced, strict=True):
        jax.block_until_ready(program(*arguments))
        started = time.perf_counter()
        for _ in range(3):
            result = program(*arguments)
        jax.block_until_ready(result)
        spent = (time.perf_counter() - started) / 3
        print(f"{algorithm}, {seeds} seed(s) x {games} games, {way}: {1e3 * spent:.0f} ms per update")


if __name__ == "__main__":
    main()
