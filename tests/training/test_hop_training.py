"""Whole runs of planning players: self-play resumed bit for bit, pool members, one seat among frozen players."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import load_file

from helpers.stopping import shared_programs, whole_and_resumed
from helpers.tiny import result, weights
from omg import api
from omg.components.files import name_leaves
from omg.config import Config, adjust, resolve
from omg.envs import make_env
from omg.errors import UserError
from omg.pools import Pool, load_agent
from omg.training.checkpoint import list_checkpoints
from omg.training.program import Program

GAME: dict[str, Any] = {"size": 3, "players": 2, "drifts": 2, "episode_limit": 5}
SETTINGS: dict[str, Any] = {
    "t_max": 60,
    "test_interval": 20,
    "test_nepisode": 2,
    "log_interval": 20,
    "save_model_interval": 20,
    "batch_size_run": 2,
    "hop_simulations": 3,
    "hop_samples": 2,
    "hop_hidden_dim": 8,
    "use_cuda": False,
    "use_tensorboard": False,
}


def small_config(results: Path, algorithm: str = "hop", **changes: Any) -> Config:
    overrides = {**SETTINGS, "env_args": GAME, "local_results_path": str(results), **changes}
    return adjust(resolve(algorithm, "snowdrift", overrides, shared=overrides).config, has_gpu=False)[0]


@pytest.fixture(scope="module")
def runs(results: Path) -> tuple[api.Run, api.Run]:
    """One that was never stopped, and one that was."""
    with shared_programs():
        return whole_and_resumed(small_config(results), chunks=3)


@pytest.fixture(scope="module")
def run(runs: tuple[api.Run, api.Run]) -> api.Run:
    return runs[0]


def test_a_run_logs_what_the_player_understands(run: api.Run) -> None:
    assert run.status == "finished"
    logged = set(run.metrics.column("name"))
    assert {"loss", "policy_loss", "value_loss", "model_loss", "model_accuracy", "grad_norm", "outcome_2"} <= logged
    assert {"test_belief_early", "test_belief_late", "test_action_accuracy", "test_precision_shovel"} <= logged
    assert {"test_recall_stay", "test_confusion_shovel_as_stay", "test_reward_per_player_mean"} <= logged


def test_a_stopped_run_ends_as_if_it_had_not_been(runs: tuple[api.Run, api.Run]) -> None:
    run, stopped = runs
    assert result(stopped.folder) == result(run.folder)
    states = [load_file(path / "state.safetensors") for path in list_checkpoints(run.folder / "checkpoints")]
    for part in ("own.trunk.kernels.0", "others.trunk.kernels.0", "others.goal"):
        before, after = (state[f"learner.mac.minds.{part}"] for state in states[-2:])
        assert np.abs(after - before).max() > 1e-5, part
    # Of both seats, and the prior counts along.
    assert states[-1]["learner.mac.prior"].shape == (1, 2, 1, 3)
    assert np.abs(states[-1]["learner.mac.prior"] - 1 / 3).max() > 0.01


def test_a_trained_player_is_saved_loaded_and_acts(run: api.Run) -> None:
    agent = run.agents[0]
    assert not agent.policy.explores
    world, seen = jax.jit(agent.env.reset, static_argnums=1)(jax.random.PRNGKey(0), 3)
    step = jax.jit(agent.env.step)
    with pytest.raises(UserError, match="state: this agent reads the game off the global state"):
        agent.act(seen.obs, seen.avail)
    twin = load_agent(next((run.folder / "agents").glob("*/last")))
    carry = twin_carry = None
    for _ in range(2):
        actions, carry = agent.act(seen.obs, seen.avail, carry, state=seen.state)
        again, twin_carry = twin.act(seen.obs, seen.avail, twin_carry, state=seen.state)
        np.testing.assert_array_equal(actions, again)
        assert np.take_along_axis(np.asarray(seen.avail), actions[..., None], axis=2).all()
        world, seen, _ = step(jax.random.PRNGKey(0), world, actions)


def test_one_seat_learns_beside_planning_and_scripted_players(run: api.Run, results: Path, tmp_path: Path) -> None:
    pool = Pool.create(tmp_path / "pool", "snowdrift", GAME, make_env("snowdrift", **GAME).spec)
    pool.add(next((run.folder / "agents").glob("*/last")), "training")
    pool.add_scripted("never_shovels", "training")
    program = Program(small_config(results, "1pool1hop", init_param_path=str(pool.path), seeds=2))
    state = program.init(jnp.array([1, 2], jnp.uint32))
    assert state.learner.mac.prior.shape == (2, 1, 1, 3)
    before = {name: np.array(leaf) for name, leaf in name_leaves(state.squad).items()}
    start = np.array(state.learner.mac.minds.own.policy.weight)
    after, log = program.chunk(state)
    assert (np.asarray(log.updates).sum(axis=0) == program.iterations).all()
    moved = np.abs(np.asarray(after.learner.mac.minds.own.policy.weight) - start)
    assert (moved.max(axis=(1, 2, 3)) > 0).all()
    assert np.isfinite(np.asarray(log.stats.metrics["own_return"])).all()
    for name, leaf in name_leaves(after.squad).items():
        assert np.asarray(leaf).tobytes() == before[name].tobytes(), name
    for leaf, value in weights(pool.folder(pool.members("training")[0].name)).items():
        assert before[f"squad.kinds.0.{leaf}".removeprefix("squad.")].tobytes() == value.tobytes(), leaf
