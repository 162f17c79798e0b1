"""Environment steps per second of foraging, beside Jumanji's LevelBasedForaging and the original `lbforaging`.

All play the same game with uniformly random actions in one process. The actions are drawn before the clock starts, so
that games are measured and not the random number generator; starting new games is always part of the measurement:

- ours: whole episodes side by side, reset and then `episode_limit` steps; steps after the end of a game do not count;
- jumanji: the same way, and also with its `VmapAutoResetWrapper`, which starts each game anew when it ends;
- lbforaging: one game after the other, in plain Python.

Rounds of all contestants alternate, and the median round counts, so that other work on the machine hits all alike.

    python benchmarks/foraging_speed.py --batch 2048 --rounds 15

Rows of packages that are not installed are left out.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import platform
import statistics
import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from omg.envs.foraging import Foraging, ForagingArgs

Round = Callable[[int], int]
"""Seed -> number of environment steps played."""


def ours(options: argparse.Namespace) -> Round:
    env = Foraging(
        ForagingArgs(
            rows=options.size,
            cols=options.size,
            players=options.players,
            max_food=options.foods,
            max_player_level=options.max_player_level,
            episode_limit=options.limit,
        )
    )

    @jax.jit
    def episodes(key: jax.Array, actions: jax.Array) -> Any:
        state, observation = env.reset(key, options.batch)

        def step(carry: Any, action: jax.Array) -> tuple[Any, None]:
            state, _, alive, steps, _ = carry
            state, observation, outcome = env.step(key, state, action)
            steps = steps + jnp.sum(alive)
            return (state, observation, alive & ~outcome.terminated, steps, outcome), None

        # Observation and outcome travel in the carry: the compiler must produce them at every step, as for a policy.
        alive = jnp.ones(options.batch, bool)
        _, _, outcome = jax.eval_shape(env.step, key, state, actions[0])
        nothing = jax.tree.map(lambda array: jnp.zeros(array.shape, array.dtype), outcome)
        return jax.lax.scan(step, (state, observation, alive, jnp.int32(0), nothing), actions)[0]

    actions = draw_actions(options)
    return lambda seed: int(jax.block_until_ready(episodes(jax.random.key(seed), actions))[3])


def jumanji_game(options: argparse.Namespace) -> Any:
    from jumanji.environments import LevelBasedForaging
    from jumanji.environments.routing.lbf.generator import RandomGenerator

    generator = RandomGenerator(
        grid_size=options.size,
        num_agents=options.players,
        num_food=options.foods,
        fov=options.size,
        max_agent_level=options.max_player_level,
    )
    return LevelBasedForaging(generator, time_limit=options.limit)


def jumanji_whole_episodes(options: argparse.Namespace) -> Round:
    from jumanji.wrappers import VmapWrapper

    env = VmapWrapper(jumanji_game(options))

    @jax.jit
    def episodes(key: jax.Array, actions: jax.Array) -> Any:
        state, timestep = env.reset(jax.random.split(key, options.batch))

        def step(carry: Any, action: jax.Array) -> tuple[Any, None]:
            state, _, alive, steps = carry
            state, timestep = env.step(state, action)
            return (state, timestep, alive & ~timestep.last(), steps + jnp.sum(alive)), None

        alive = jnp.ones(options.batch, bool)
        return jax.lax.scan(step, (state, timestep, alive, jnp.int32(0)), actions)[0]

    actions = draw_actions(options)
    return lambda seed: int(jax.block_until_ready(episodes(jax.random.key(seed), actions))[3])


def jumanji_auto_reset(options: argparse.Namespace) -> Round:
    from jumanji.wrappers import VmapAutoResetWrapper

    env = VmapAutoResetWrapper(jumanji_game(options))

    @jax.jit
    def steps(key: jax.Array, actions: jax.Array) -> Any:
        start = env.reset(jax.random.split(key, options.batch))
        return jax.lax.scan(lambda carry, action: (env.step(carry[0], action), None), start, actions)[0]

    actions = draw_actions(options)

    def play(seed: int) -> int:
        jax.block_until_ready(steps(jax.random.key(seed), actions))
        return options.batch * options.limit

    return play


def lbforaging_plain(options: argparse.Namespace) -> Round:
    from lbforaging.foraging.environment import ForagingEnv

    env = ForagingEnv(
        players=options.players,
        min_player_level=1,
        max_player_level=options.max_player_level,
        min_food_level=1,
        max_food_level=None,
        field_size=(options.size, options.size),
        max_num_food=options.foods,
        sight=options.size,
        max_episode_steps=options.limit,
        force_coop=False,
    )
    actions = np.random.default_rng(0).integers(0, 6, (options.limit, options.players))

    def play(seed: int) -> int:
        env.reset(seed=seed)
        over = False
        while not over:
            over = env.step(actions[env.current_step])[2]
        return env.current_step

    return play


def draw_actions(options: argparse.Namespace) -> jax.Array:
    """Actions [T, B, A], uniform over all six: each game treats illegal ones as staying."""
    return jax.random.randint(jax.random.key(1), (options.limit, options.batch, options.players), 0, 6)


CONTESTANTS: list[tuple[str, str, Callable[[argparse.Namespace], Round]]] = [
    ("omg, whole episodes", "jax", ours),
    ("jumanji, whole episodes", "jumanji", jumanji_whole_episodes),
    ("jumanji, auto-reset", "jumanji", jumanji_auto_reset),
    ("lbforaging, one game", "lbforaging", lbforaging_plain),
]


def measure(options: argparse.Namespace) -> dict[str, list[float]]:
    """Steps per second of every round by contestant."""
    rounds: dict[str, Round] = {}
    for name, package, build in CONTESTANTS:
        if importlib.util.find_spec(package) is None:
            print(f"{name}: package {package} is not installed, left out")
            continue
        rounds[name] = build(options)
        rounds[name](0)
    speeds: dict[str, list[float]] = {name: [] for name in rounds}
    for seed in range(1, options.rounds + 1):
        for name, play in rounds.items():
            start = time.perf_counter()
            steps = play(seed)
            speeds[name].append(steps / (time.perf_counter() - start))
    return speeds


def versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for package in ("jax", "jaxlib", "jumanji", "lbforaging"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "absent"
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--batch", type=int, default=2048, help="games side by side")
    parser.add_argument("--rounds", type=int, default=15, help="measured rounds of one episode per game")
    parser.add_argument("--size", type=int, default=8, help="rows and columns")
    parser.add_argument("--players", type=int, default=2)
    parser.add_argument("--foods", type=int, default=3)
    parser.add_argument("--max-player-level", type=int, default=2)
    parser.add_argument("--limit", type=int, default=50, help="steps until a game is cut")
    parser.add_argument("--platform", default="cpu", help="JAX platform: cpu, cuda")
    parser.add_argument("--output", type=Path, help="also write the figures to this JSON file")
    options = parser.parse_args()
    jax.config.update("jax_platforms", options.platform)

    speeds = {name: statistics.median(values) for name, values in measure(options).items()}
    reference = speeds["omg, whole episodes"]
    game = f"{options.size}x{options.size}-{options.players}p-{options.foods}f"
    device = jax.devices()[0].device_kind
    print(f"\n{game}, batch {options.batch}, {options.rounds} rounds, {device}, {os.cpu_count()} CPU cores")
    print(", ".join(f"{name} {number}" for name, number in versions().items()))
    print(f"\n{'':26}{'env steps/s':>14}{'omg is':>12}")
    for name, speed in speeds.items():
        print(f"{name:26}{speed:14,.0f}{reference / speed:11.1f}x")
    if options.output:
        settings = {key: value for key, value in vars(options).items() if key != "output"}
        result = {"settings": settings, "device": device, "versions": versions(), "steps_per_second": speeds}
        options.output.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
