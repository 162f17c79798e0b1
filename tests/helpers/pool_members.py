"""Agents for pools of the tiny game, and a change to the index of such a pool."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from helpers.tiny import GAME, SETTINGS
from omg.config import Config, resolve
from omg.controllers import build_mac
from omg.envs import make_env
from omg.pools import AgentCard, save_agent
from omg.pools.index import Pool

ENV = make_env("foraging", **GAME)


def settings(algorithm: str = "iql", **changes: Any) -> Config:
    settings = {**SETTINGS, "env_args": GAME, **changes}
    return resolve(algorithm, "foraging", settings, shared=settings).config


def agent(folder: Path, config: Config | None = None, seed: int = 1, draw: int | None = None) -> Path:
    """An agent with weights drawn by NumPy; compiling their initialisation would take seconds."""
    config = config or settings()
    env = make_env(config.env, **config.env_args)
    shapes = jax.eval_shape(lambda: build_mac(config, env.spec, jax.random.PRNGKey(0)))
    rng = np.random.default_rng(seed if draw is None else draw)
    policy = jax.tree.map(lambda leaf: jnp.asarray(rng.normal(0, 0.5, leaf.shape), leaf.dtype), shapes)
    return save_agent(folder, policy, AgentCard(config.name, seed, 100 + seed, config.model_dump(), env.spec))


def change_index(pool: Pool, change: Callable[[dict[str, Any]], Any]) -> None:
    stored = json.loads((pool.path / "pool.json").read_text())
    change(stored)
    (pool.path / "pool.json").write_text(json.dumps(stored))
