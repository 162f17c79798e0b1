"""The smallest run that has everything: logs, tests, checkpoints, updates, target copies, an exploration schedule.

Settings that are compiled into the program (`t_max`, `lr`, ...) are best left as they are: tests that keep them share
one compilation, which takes longer than all their runs together.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from safetensors.numpy import load_file

from omg.components.files import write_text
from omg.config import Config, adjust, resolve, write_yaml
from omg.controllers import build_mac
from omg.envs import EnvSpec, make_env
from omg.pools import AgentCard, Pool, save_agent

GAME: dict[str, Any] = {"rows": 4, "cols": 4, "players": 2, "max_food": 1, "max_player_level": 2, "episode_limit": 8}
SPEC = EnvSpec("foraging", "4x4", n_agents=2, n_actions=6, obs_dim=9, state_dim=18, episode_limit=8)
"""Its sizes, under a shorter name."""
SETTINGS: dict[str, Any] = {
    "t_max": 1000,
    "test_interval": 100,
    "test_nepisode": 4,
    "log_interval": 4,
    "save_model_interval": 100,
    "batch_size_run": 4,
    "batch_size": 8,
    "buffer_size": 32,
    "rnn_hidden_dim": 16,
    "epsilon_anneal_time": 600,
    "target_update_interval": 16,
    "use_cuda": False,
    "use_tensorboard": False,
}


def tiny_config(results: Path, algorithm: str = "iql", **changes: Any) -> Config:
    """IQL in a foraging game of 4x4 cells for 1000 steps, which is about forty chunks of one iteration."""
    overrides = {**SETTINGS, "env_args": GAME, "local_results_path": str(results), **changes}
    return adjust(resolve(algorithm, "foraging", overrides, shared=overrides).config, has_gpu=False)[0]


def result(folder: Path) -> tuple[bytes, dict[str, bytes]]:
    """What must not depend on how a run came to its end: metrics.csv and the files of all its agents, byte by byte."""
    agents = {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.glob("agents/*/*/*"))}
    return (folder / "metrics.csv").read_bytes(), agents


def weights(agent: Path) -> dict[str, np.ndarray]:
    """The arrays of an agent folder."""
    return load_file(agent / "weights.safetensors")


def tiny_agent(folder: Path, config: Config, seed: int, t_env: int = 100) -> Path:
    """An agent folder with weights drawn by NumPy: compiling their initialisation would take seconds."""
    env = make_env(config.env, **config.env_args)
    shapes = jax.eval_shape(lambda: build_mac(config, env.spec, jax.random.PRNGKey(0)))
    rng = np.random.default_rng(seed)
    policy = jax.tree.map(lambda leaf: jnp.asarray(rng.normal(0, 0.5, leaf.shape), leaf.dtype), shapes)
    return save_agent(folder, policy, AgentCard(config.name, seed, t_env, config.model_dump(), env.spec))


def tiny_pool(folder: Path, seeds: Sequence[int] = (11, 12), scripted: str | None = None, **changes: Any) -> Pool:
    """A pool of untrained IQL players for the game of `tiny_config`, two of them unless told otherwise."""
    config = tiny_config(folder, **changes)
    env = make_env(config.env, **config.env_args)
    pool = Pool.create(folder, config.env, config.env_args, env.spec)
    with TemporaryDirectory() as scratch:
        for seed in seeds:
            pool.add(tiny_agent(Path(scratch) / str(seed), config, seed), "training")
    if scripted is not None:
        pool.add_scripted(scripted, "training")
    return pool


def metrics(*rows: tuple[int, int, str, float]) -> str:
    """The text of a metrics.csv with these rows."""
    lines = [f"{seed},{t_env},{name},{value!r}\n" for seed, t_env, name, value in rows]
    return "".join(["seed,t_env,name,value\n", *lines])


def run_folder(folder: Path, text: str, seeds: int = 1, **changes: Any) -> Path:
    """A run folder as training leaves it, with made-up metrics."""
    folder.mkdir(parents=True)
    write_text(folder / "config.yaml", write_yaml(tiny_config(folder, seeds=seeds, **changes).model_dump()))
    write_text(folder / "metrics.csv", text)
    return folder
