"""Whole runs of learners of policies: resumed bit for bit, beside frozen players, and saved as such players."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import load_file

from helpers.stopping import whole_and_resumed
from helpers.tiny import GAME, result, tiny_config, tiny_pool, weights
from omg import api
from omg.components.files import name_leaves
from omg.config import Config
from omg.envs import make_env
from omg.pools import Pool, load_agent
from omg.training.checkpoint import list_checkpoints
from omg.training.program import Program

SHORT: dict[str, Any] = {"t_max": 400, "test_interval": 100, "save_model_interval": 60, "ppo_epochs": 2}
RUNS: dict[str, dict[str, Any]] = {
    "1pool1ippo": {"ppo_minibatches": 2, "prosocial": 0.2, "lr": 0.005},
    "coma": {"seeds": 2, "critic_hidden_dim": 8, "target_update_interval": 20},
}


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Pool:
    return tiny_pool(tmp_path_factory.mktemp("pools") / "pool")


def run_config(results: Path, pool: Pool, name: str) -> Config:
    changes = {"init_param_path": str(pool.path)} if "pool" in name else {}
    return tiny_config(results, name, **SHORT, **RUNS[name], **changes)


@pytest.mark.parametrize("name", RUNS)
def test_a_stopped_run_ends_as_if_it_had_not_been(name: str, results: Path, pool: Pool):
    settings = run_config(results, pool, name)
    assert settings.buffer_size == settings.batch_size == settings.batch_size_run == 4
    whole, run = whole_and_resumed(settings, chunks=5)
    assert result(run.folder) == result(whole.folder)
    logged = set(whole.metrics.column("name"))
    assert {"loss", "grad_norm", "critic_loss", "entropy", "updates"} <= logged

    states = [load_file(path / "state.safetensors") for path in list_checkpoints(whole.folder / "checkpoints")]
    for part in ("learner.mac.agent.fc1.weight", "learner.critic.fc1.weight"):
        assert (states[0][part] != states[1][part]).any()
    if name == "coma":
        # The seeds went separate ways, in one program.
        agent = states[1]["learner.mac.agent.fc1.weight"]
        assert agent.shape[0] == 2
        assert np.abs(agent[0] - agent[1]).max() > 1e-3
        return
    for member, seed in enumerate((11, 12)):
        for leaf, value in weights(pool.folder(f"iql_s{seed}")).items():
            assert states[1][f"squad.kinds.0.{leaf}"][member].tobytes() == value.tobytes(), leaf


def test_a_trained_policy_is_saved_at_its_best_and_plays_as_a_frozen_team_mate(results: Path, tmp_path: Path):
    settings = tiny_config(results, "mappo", **{**SHORT, "t_max": 60}, agent="mlp", mlp_second_dim=8)
    folder = next((api.train_config(settings, quiet=True).folder / "agents").glob("*/last"))
    agent = load_agent(folder)
    # The critic stays behind.
    assert not any("critic" in name for name in name_leaves(agent.policy))
    assert agent.policy.selector == "epsilon_greedy"
    rng = np.random.default_rng(0)
    obs, avail = rng.normal(size=(5, 2, agent.spec.obs_dim)), np.ones((5, 2, 6), bool)
    choices = [agent.act(obs, avail, key=jax.random.PRNGKey(seed))[0] for seed in range(4)]
    assert all((choice == choices[0]).all() for choice in choices)

    pool = Pool.create(tmp_path / "pool", "foraging", GAME, make_env("foraging", **GAME).spec)
    pool.add(folder, "training")
    program = Program(tiny_config(results, "1pool1ippo", **SHORT, init_param_path=str(pool.path)))
    state = program.init(jnp.array([1], jnp.uint32))
    before = {name: np.array(leaf) for name, leaf in name_leaves(state.squad).items()}
    start = np.array(state.learner.mac.agent.fc1.weight)
    after, log = program.chunk(state)
    assert int(log.updates.sum()) == program.iterations
    assert np.abs(np.asarray(after.learner.mac.agent.fc1.weight) - start).max() > 0
    for name, leaf in name_leaves(after.squad).items():
        assert np.asarray(leaf).tobytes() == before[name].tobytes(), name
