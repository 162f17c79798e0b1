"""Seconds that planning players need for 1500 environment steps, and simulations per second.

Four players of `--config` (HOP+ unless told otherwise) play stag_hunt on 6x6 cells, every one with networks of its own,
`--samples` trees of `--simulations` simulations for each of its decisions. Everything counts: rules, views, what the
others want, search, choice of actions. Games run side by side; a step of a game that is still going on is one step.

    python benchmarks/planning_speed.py --output benchmarks/results/planning_speed_gpu.json
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from machine import machine

from omg.config import resolve
from omg.envs import make_env
from omg.learners import build_learner

STEPS = 1500


def player(args: argparse.Namespace, simulations: int) -> tuple[Any, Any]:
    """The game and a player with newly drawn networks in all seats."""
    settings = {
        "env_args": {"size": args.size, "blocks": 0},
        "hop_simulations": simulations,
        "hop_samples": args.samples,
        "hop_search_bytes": args.bytes,
    }
    config = resolve(args.config, "stag_hunt", settings).config
    env = make_env(config.env, **config.env_args)
    learner = build_learner(config, env.spec)
    return env, learner.policy(jax.jit(learner.init)(jax.random.key(0)))


def play(env: Any, games: int, steps: int) -> Callable[[Any, Array], Array]:
    """A compiled function (player, key) -> steps of games that were still going on."""

    @jax.jit
    def run(policy: Any, key: Array) -> Array:
        world, seen = env.reset(key, games)

        def body(carry: tuple, key: Array) -> tuple[tuple, Array]:
            world, seen, memory, alive = carry
            act_key, env_key = jax.random.split(key)
            actions, memory, _ = policy.act(seen, memory, act_key, 0.0)
            world, seen, outcome = env.step(env_key, world, actions)
            return (world, seen, memory, alive & ~(outcome.terminated | outcome.truncated)), alive.sum()

        start = (world, seen, policy.initial(games), jnp.ones(games, bool))
        return jax.lax.scan(body, start, jax.random.split(key, steps))[1].sum()

    return run


def measure(args: argparse.Namespace, games: int, steps: int, simulations: int) -> dict[str, Any]:
    """Compiles, then times `--rounds` calls and keeps the fastest."""
    env, policy = player(args, simulations)
    run = play(env, games, steps)
    began = time.perf_counter()
    jax.block_until_ready(run(policy, jax.random.key(0)))
    first = time.perf_counter() - began
    times, played = [], 0
    for index in range(args.rounds):
        began = time.perf_counter()
        played = int(run(policy, jax.random.key(1 + index)))
        times.append(time.perf_counter() - began)
    best = min(times)
    searched = games * steps * env.spec.n_agents * args.samples * simulations
    row = {
        "games": games,
        "steps": steps,
        "simulations": simulations,
        "seconds": round(best, 3),
        "slowest": round(max(times), 3),
        "first_call": round(first, 1),
        "steps_played": played,
        f"seconds_for_{STEPS}_steps": round(best * STEPS / played, 3),
        "simulations_per_second": round(searched / best),
    }
    print(json.dumps(row), flush=True)
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", default="hop_plus", help="hop_plus, hop or direct_om")
    parser.add_argument("--size", type=int, default=6)
    parser.add_argument("--simulations", type=int, default=200)
    parser.add_argument("--samples", type=int, default=3)
    parser.add_argument("--games", type=int, default=50, help=f"games at once for the {STEPS} steps")
    parser.add_argument("--batches", type=int, nargs="*", default=[1, 8, 200, 800], help="other numbers of games")
    parser.add_argument("--counts", type=int, nargs="*", default=[50, 100, 400], help="other numbers of simulations")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--bytes", type=int, default=2**34, help="memory that the trees may take")
    parser.add_argument("--output", type=Path)
    args = parser.parse_args()

    steps = -(-STEPS // args.games)
    wanted = [(args.games, steps, args.simulations)]
    wanted += [(games, 3, args.simulations) for games in args.batches]
    wanted += [(args.games, 3, count) for count in args.counts]
    game = f"stag_hunt {args.size}x{args.size}, 4 players"
    rows: list[dict[str, Any]] = []
    for games, steps, simulations in wanted:
        rows.append(measure(args, games, steps, simulations))
        result = {"config": args.config, "game": game, "samples": args.samples, "rows": rows, **machine()}
        # After every row: compiling takes most of the time, and a run may be cut short.
        if args.output:
            args.output.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
