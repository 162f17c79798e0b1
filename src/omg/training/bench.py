"""How fast this machine plays and learns: the figures of `omg bench`."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

import jax
import jax.numpy as jnp
from jax import Array

from omg.components.episode_batch import EpisodeBatch
from omg.config import Config, adjust, resolve
from omg.controllers.base import Policy
from omg.controllers.scripted.base import RandomPlayer
from omg.envs import Env, make_env
from omg.learners import build_learner
from omg.training.program import Program
from omg.types import PyTree, Row, Tree

T = TypeVar("T")

_SEGMENT = 20
"""Steps played from a fresh start; shorter than most battles, so nearly every counted game is still going on."""


def measure(seconds: float, env_name: str, env_args: Tree, say: Callable[[str], None]) -> list[Row]:
    """Measures playing, learning and whole training iterations.

    Args:
        seconds: time for all measurements together, compilation aside.
        env_name: environment.
        env_args: its arguments.
        say: receives progress messages.

    Returns:
        One row per measurement: what, env steps/s, updates/s, and the details it depends on.
    """
    on_gpu = jax.default_backend() == "gpu"
    config = bench_config("iql", env_name, env_args, on_gpu)
    env = make_env(config.env, **config.env_args)
    games, batch, length = (32768, 1024, 100) if on_gpu else (1024, 32, 60)
    each = seconds / 4
    say(f"playing {games} games")
    rows = [measure_play(env, None, games, each), measure_play(env, config, games, each)]
    say(f"learning on {batch} x {length} steps")
    rows.append(measure_learning(config, env, batch, length, each))
    say("training")
    rows.append(measure_training(config, 1, each))
    return rows


def bench_config(name: str, env_name: str, env_args: Tree, on_gpu: bool) -> Config:
    """An algorithm's own configuration with a small replay buffer."""
    overrides = {"env_args": env_args, "buffer_size": 1024}
    if not on_gpu:
        overrides["test_interval"] = 1  # chunks of one iteration: a CPU needs seconds for each
    return adjust(resolve(name, env_name, overrides).config, on_gpu)[0]


def _time(function: Callable[..., T], arguments: tuple[PyTree, ...], seconds: float) -> tuple[float, T]:
    """Seconds per call (after a warm-up call) and the last result."""
    result = jax.block_until_ready(function(*arguments))
    calls, started = 0, time.perf_counter()
    while time.perf_counter() - started < seconds or calls < 2:
        result = jax.block_until_ready(function(*arguments))
        calls += 1
    return (time.perf_counter() - started) / calls, result


def segment(env: Env, games: int) -> Callable[[Policy, Array], Array]:
    """A compiled function (policy, key) -> number of steps of games still going on, in a short stretch of play."""

    def run(policy: Policy, key: Array) -> Array:
        world, seen = env.reset(key, games)

        def body(carry: tuple, key: Array) -> tuple[tuple, Array]:
            world, seen, memory, alive = carry
            act_key, env_key = jax.random.split(key)
            actions, memory, _ = policy.act(seen, memory, act_key, jnp.float32(0.05))
            world, seen, outcome = env.step(env_key, world, actions)
            # Every output is used, so that none of the work can be left out.
            used = seen.obs.sum() + seen.state.sum() + seen.avail.sum() + outcome.reward.sum()
            played = alive.sum(dtype=jnp.float32) + 0.0 * used
            return (world, seen, memory, alive & ~(outcome.terminated | outcome.truncated)), played

        start = (world, seen, policy.initial(games, jax.random.PRNGKey(0)), jnp.ones(games, bool))
        return jax.lax.scan(body, start, jax.random.split(key, _SEGMENT))[1].sum()

    return jax.jit(run)


def measure_play(env: Env, config: Config | None, games: int, seconds: float) -> Row:
    """Env steps per second, observations and action masks included; random legal actions without a `config`."""
    policy = RandomPlayer() if config is None else _policy(config, env)
    per_call, steps = _time(segment(env, games), (policy, jax.random.PRNGKey(0)), seconds)
    player = "random legal actions" if config is None else f"GRU {config.rnn_hidden_dim} agent"
    return {"what": f"play, {player}", "setting": f"{games} games", "env_steps_per_s": float(steps) / per_call}


def _policy(config: Config, env: Env) -> Policy:
    learner = build_learner(config, env.spec)
    policy = learner.policy(learner.init(jax.random.PRNGKey(0)))
    assert policy is not None
    return policy


def measure_learning(config: Config, env: Env, batch: int, length: int, seconds: float) -> Row:
    """Gradient updates on random episodes that are all `length` steps long."""
    learner = build_learner(config, env.spec)
    state = learner.init(jax.random.PRNGKey(0))
    update = jax.jit(
        lambda state, episodes: learner.update(state, episodes, jnp.int32(1), jnp.int32(0), jax.random.PRNGKey(0))
    )
    per_call, _ = _time(update, (state, _episodes(env, batch, length)), seconds)
    return {
        "what": f"learn, {config.name}",
        "setting": f"{batch} episodes x {length} steps per update",
        "env_steps_per_s": batch * length / per_call,
        "updates_per_s": 1.0 / per_call,
    }


def _episodes(env: Env, batch: int, length: int) -> EpisodeBatch:
    spec, slots = env.spec, length + 1
    keys = jax.random.split(jax.random.PRNGKey(1), 3)
    team = (batch, slots) + ((spec.n_agents,) if spec.reward_per_agent else ())
    return EpisodeBatch(
        obs=jax.random.uniform(keys[0], (batch, slots, spec.n_agents, spec.obs_dim)),
        state=jax.random.uniform(keys[1], (batch, slots, spec.state_dim)),
        avail=jnp.ones((batch, slots, spec.n_agents, spec.n_actions), bool),
        actions=jax.random.randint(keys[2], (batch, slots, spec.n_agents), 0, spec.n_actions),
        reward=jnp.ones(team),
        terminated=jnp.zeros((batch, slots), bool),
        filled=jnp.ones((batch, slots), bool).at[:, -1].set(False),
        seat=None,
        records={},
    )


def measure_training(config: Config, seeds: int, seconds: float) -> Row:
    """Whole training iterations, and how their time divides into play, learning and the host's work.

    Args:
        config: what to train; its `test_interval` decides how many iterations a chunk has.
        seeds: number of seeds in the program.
        seconds: time to measure for; at least two chunks are run.
    """
    program: Program = Program(config)
    state = program.init(jnp.arange(seeds, dtype=jnp.uint32))
    played, updates, inside = 0, 0, 0.0
    compiled = program.chunk.lower(state).compile()  # type: ignore[attr-defined]
    state, log = compiled(state)
    jax.block_until_ready(log)
    began = time.perf_counter()
    chunks = 0
    while chunks < 2 or time.perf_counter() - began < seconds:
        before = int(state.t_env.numpy().sum())
        entered = time.perf_counter()
        state, log = compiled(state)
        log = jax.device_get(log)
        inside += time.perf_counter() - entered
        played += int(state.t_env.numpy().sum()) - before
        updates += int(log.updates.sum())
        chunks += 1
    total = time.perf_counter() - began
    play = _time(jax.jit(program.collector.collect), (state,), seconds / 4)[0] * program.iterations * chunks
    shares = {"play": play / total, "learn": (inside - play) / total, "host": (total - inside) / total}
    return {
        "what": f"train, {config.name}, {seeds} seed(s)",
        "setting": f"{config.batch_size_run} games, {config.updates_per_episode:g} update(s) of {config.batch_size} "
        f"episodes per episode; " + ", ".join(f"{name} {share:.0%}" for name, share in shares.items()),
        "env_steps_per_s": played / total,
        "updates_per_s": updates / total,
    }
