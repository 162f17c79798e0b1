"""Env steps per second of the sc2 simulator and of JaxMARL's SMAX on the same map, in one process.

Both play random legal actions and produce observations, action masks and the global state at every step. SMAX
restarts finished battles by itself; ours is restarted after every segment, and only steps of battles still going on
are counted. Rounds alternate so that other load on the machine hits both.

    pip install jaxmarl
    python benchmarks/simulator_speed.py --map 8m --envs 1024 --output benchmarks/results/simulator_speed.json
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import jax
import jax.numpy as jnp
from machine import machine

from omg.components.selectors import random_legal
from omg.controllers.scripted.base import RandomPlayer
from omg.envs import make_env
from omg.training.bench import segment


def smax(map_name: str, envs: int, steps: int) -> Callable[[jax.Array], jax.Array]:
    from jaxmarl import make
    from jaxmarl.environments.smax import map_name_to_scenario

    env = make("HeuristicEnemySMAX", scenario=map_name_to_scenario(map_name))

    def run(key: jax.Array) -> jax.Array:
        key, reset_key = jax.random.split(key)
        obs, state = jax.vmap(env.reset)(jax.random.split(reset_key, envs))

        def body(carry: tuple, key: jax.Array) -> tuple:
            obs, state = carry
            act_key, env_key = jax.random.split(key)
            avail = jax.vmap(env.get_avail_actions)(state)
            stacked = jnp.stack([avail[agent] for agent in env.agents], axis=1)
            chosen = random_legal(stacked.astype(bool), act_key)
            actions = {agent: chosen[:, index] for index, agent in enumerate(env.agents)}
            step_keys = jax.random.split(env_key, envs)
            obs, state, reward, _, _ = jax.vmap(env.step)(step_keys, state, actions)
            used = sum(value.sum() for value in obs.values()) + sum(value.sum() for value in reward.values())
            return (obs, state), used

        return jax.lax.scan(body, (obs, state), jax.random.split(key, steps))[1].sum()

    return jax.jit(run)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--map", default="8m")
    parser.add_argument("--envs", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--output", type=Path)
    args = parser.parse_args()
    segments, steps = 10, 20
    play, theirs = segment(make_env("sc2", map_name=args.map), args.envs), smax(args.map, args.envs, steps)
    keys = jax.random.split(jax.random.PRNGKey(0), args.rounds + 1)
    jax.block_until_ready(play(RandomPlayer(), keys[0]))
    jax.block_until_ready(theirs(keys[0]))
    rates: dict[str, list[float]] = {"omg": [], "smax": []}
    for key in keys[1:]:
        started = time.perf_counter()
        played = [float(play(RandomPlayer(), segment_key)) for segment_key in jax.random.split(key, segments)]
        rates["omg"].append(sum(played) / (time.perf_counter() - started))
        started = time.perf_counter()
        jax.block_until_ready(theirs(key))
        rates["smax"].append(args.envs * steps / (time.perf_counter() - started))
    medians = {name: statistics.median(values) for name, values in rates.items()}
    result = {
        "map": args.map,
        "envs": args.envs,
        "env_steps_per_second": {name: round(value) for name, value in medians.items()},
        "lowest_and_highest": {name: [round(min(v)), round(max(v))] for name, v in rates.items()},
        "ratio": round(medians["omg"] / medians["smax"], 1),
        **machine(),
        "jaxmarl": metadata.version("jaxmarl"),
    }
    print(json.dumps(result, indent=2))
    if args.output:
        args.output.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
