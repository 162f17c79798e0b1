"""Playing and learning on 8m at several sizes, and the recurrent loop alone: the figures of `results/gpu_speed.md`.

python benchmarks/gpu_speed.py                     # on a GPU
python benchmarks/gpu_speed.py --small             # a check that it runs, anywhere
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from omg.envs import make_env
from omg.modules import gru_kernel, recurrent
from omg.training.bench import bench_config, measure_learning, measure_play
from omg.training.device import prepare

WIDTHS = (64, 96)
"""Hidden features: of the agents, and of the opponent models."""


def milliseconds(function: Callable[..., Any], *arguments: jax.Array, calls: int = 30) -> float:
    """Time per call of calls that follow each other without waiting, after two warm-up calls."""
    compiled = jax.jit(jax.vmap(function))
    for _ in range(2):
        jax.block_until_ready(compiled(*arguments))
    started = time.perf_counter()
    for _ in range(calls):
        result = compiled(*arguments)
    jax.block_until_ready(result)
    return 1e3 * (time.perf_counter() - started) / calls


def recurrent_loop(seeds: int, rows: int, steps: int, hidden: int) -> None:
    """Forward and backward loops of the GRU as a scan and, on a GPU, as a kernel."""
    keys = jax.random.split(jax.random.PRNGKey(0), 3)
    gates = jax.random.normal(keys[0], (seeds, rows, steps, 1, 3 * hidden))
    weight = 0.1 * jax.random.normal(keys[1], (seeds, hidden, 3 * hidden))
    start, bias = jnp.zeros((seeds, rows, 1, hidden)), jnp.zeros((seeds, 3 * hidden))
    values = jax.random.normal(keys[2], (seeds, rows, steps, 1, hidden))
    forms: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
        "scan": (recurrent._forward_scan, recurrent._backward_scan)
    }
    if jax.default_backend() == "gpu" and gru_kernel.usable(hidden):
        forms["kernel"] = (gru_kernel.forward_loop, gru_kernel.backward_loop)
    for name, (forward, backward) in forms.items():
        ahead = milliseconds(forward, gates, start, weight, bias)
        back = milliseconds(lambda v, h, w, f=backward: f(v, h, (v, v, v, v), v, w), values, start, weight)
        sizes = f"{hidden} wide, {seeds} seed(s), {rows} rows, {steps} steps"
        print(f"GRU {name}, {sizes}: {ahead:.3f} ms forward, {back:.3f} ms backward")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="tiny sizes")
    parser.add_argument("--seconds", type=float, default=1.5, help="per measurement")
    args = parser.parse_args()
    has_gpu = prepare(use_cuda=True)
    print(f"{jax.devices()[0].device_kind}, JAX {jax.__version__}")
    env = make_env("sc2", map_name="8m")
    config = bench_config("iql", "sc2", {"map_name": "8m"}, has_gpu)
    for batch, length in ((4, 8),) if args.small else ((1024, 100), (32, 60)):
        print(measure_learning(config, env, batch, length, args.seconds))
    for games in (64,) if args.small else (8192, 32768, 131072):
        print(measure_play(env, config, games, args.seconds))
        print(measure_play(env, None, games, args.seconds))
    for seeds in (1,) if args.small else (1, 10):
        for hidden in WIDTHS:
            recurrent_loop(seeds, 16 if args.small else 256, 10 if args.small else 120, hidden)


if __name__ == "__main__":
    main()
