"""Whole runs of learners for social games: resumed bit for bit, several seeds at once, saved as members of a pool."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import load_file

from helpers.stopping import shared_programs, whole_and_resumed
from helpers.tiny import SETTINGS, result, tiny_agent
from omg.config import Config, adjust, resolve
from omg.envs import make_env
from omg.pools import Pool, load_agent
from omg.training.checkpoint import list_checkpoints
from omg.training.program import Program

GAME = {"size": 3, "players": 2, "hares": 1, "stags": 1, "blocks": 0, "episode_limit": 6}
SHORT: dict[str, Any] = {
    "t_max": 200,
    "test_interval": 60,
    "save_model_interval": 40,
    "critic_hidden_dim": 8,
    "rnn_hidden_dim": 8,
    "mlp_second_dim": 8,
    "ppo_epochs": 2,
    "ppo_minibatches": 1,
    "target_update_interval": 4,
}
RUNS: dict[str, dict[str, Any]] = {
    "si": {"seeds": 2, "influence_weight": 0.5},
    "pr2": {"updates_per_episode": 0.25, "batch_size": 4, "buffer_size": 16, "pr2_samples": 2},
}
LEARNED = {
    "si": ("extra.model.networks.fc1.weight", "critic.networks.networks.encoder.convolutions.0.weight"),
    "pr2": ("q.networks.fc1.weight", "others.networks.fc1.weight", "target_q.networks.fc1.weight"),
}


def run_config(results: Path, name: str, **changes: Any) -> Config:
    settings = {**SETTINGS, **SHORT, "env_args": GAME, "local_results_path": str(results), **changes}
    return adjust(resolve(name, "stag_hunt", settings, shared=settings).config, has_gpu=False)[0]


@pytest.mark.parametrize("name", RUNS)
def test_a_stopped_run_ends_as_if_it_had_not_been(name: str, results: Path, tmp_path: Path):
    settings = run_config(results, name, **RUNS[name])
    with shared_programs():
        whole, run = whole_and_resumed(settings, chunks=4)
    assert result(run.folder) == result(whole.folder)

    before, after = (load_file(path / "state.safetensors") for path in list_checkpoints(whole.folder / "checkpoints"))
    for part in ("mac.agent.seats.encoder.convolutions.0.weight", *LEARNED[name]):
        assert (before[f"learner.{part}"] != after[f"learner.{part}"]).any(), part
    weights = after["learner.mac.agent.seats.fc1.weight"]
    assert weights.shape[:2] == (RUNS[name].get("seeds", 1), 2)
    # Players, and seeds, went separate ways.
    networks = weights.reshape(-1, *weights.shape[2:])
    assert all(np.abs(networks[0] - other).max() > 1e-3 for other in networks[1:])

    folder = next((whole.folder / "agents").glob("*/last"))
    agent = load_agent(folder)
    pool = Pool.create(tmp_path / "pool", "stag_hunt", GAME, agent.spec)
    assert pool.add(folder, "training").algorithm == name
    assert agent.policy.selector == "multinomial"
    _, seen = agent.env.reset(np.array([0, 1], np.uint32), 5)
    actions, _ = agent.act(np.asarray(seen.obs), np.asarray(seen.avail))
    assert np.take_along_axis(np.asarray(seen.avail), actions[..., None], -1).all()


@pytest.mark.parametrize("name", ["ps_ppo", "si", "pr2"])
def test_one_of_them_learns_among_frozen_players(name: str, results: Path, tmp_path: Path):
    """Traces a chunk of a team; nothing is compiled."""
    pool = Pool.create(tmp_path / "pool", "stag_hunt", GAME, make_env("stag_hunt", **GAME).spec)
    pool.add(tiny_agent(tmp_path / "member", run_config(results, "ppo"), 3), "training")
    changes = RUNS.get(name, {}) | {"init_param_path": str(pool.path), "buffer_size": 16}
    program = Program(run_config(results, f"1pool1{name}", **changes))
    state = jax.eval_shape(program.init, jnp.arange(program.config.seeds, dtype=jnp.uint32))
    after, log = jax.eval_shape(program.chunk, state)
    assert jax.tree.structure(after) == jax.tree.structure(state)
    assert {"loss", "grad_norm", "entropy"} <= set(log.learner)
