"""Whole runs of players that search with inferred subgoals, and of those that only act on them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import load_file

from helpers.stopping import shared_programs, whole_and_resumed
from helpers.tiny import result
from omg import api
from omg.components.files import name_leaves
from omg.config import Config, adjust, resolve
from omg.envs import make_env
from omg.errors import UserError
from omg.modules.opponent_models.prior import Prior
from omg.pools import Pool, PriorCard, load_agent, load_prior, save_prior
from omg.training.checkpoint import list_checkpoints
from omg.training.program import Program

GAME: dict[str, Any] = {"size": 3, "players": 2, "drifts": 2, "episode_limit": 5}
SPEC = make_env("snowdrift", **GAME).spec
SETTINGS: dict[str, Any] = {
    "t_max": 60,
    "test_interval": 20,
    "test_nepisode": 2,
    "log_interval": 20,
    "save_model_interval": 20,
    "batch_size_run": 2,
    "subgoal_dim": 2,
    "am_hidden_dim": 6,
    "omg_horizon": 2,
    "use_cuda": False,
    "use_tensorboard": False,
}
SEARCH: dict[str, Any] = {"hop_simulations": 3, "hop_samples": 2, "hop_hidden_dim": 8}


def small_config(results: Path, algorithm: str = "hop_plus_codes", **changes: Any) -> Config:
    overrides = {**SETTINGS, **SEARCH, "env_args": GAME, "local_results_path": str(results), **changes}
    return adjust(resolve(algorithm, "snowdrift", overrides, shared=overrides).config, has_gpu=False)[0]


def stored_prior(folder: Path, **changes: Any) -> Prior:
    """A prior of maps for the tiny game, with weights from NumPy."""
    sizes = {"env": SPEC.name, "scenario": SPEC.scenario, "obs_is_state": False, "features": SPEC.obs_dim}
    card = PriorCard(**{**sizes, "subgoal_dim": 2, "t_env": 0, "map_shape": SPEC.map_shape, **changes})
    shapes = jax.eval_shape(lambda: Prior(SPEC.obs_dim, 2, map_shape=SPEC.map_shape, key=jax.random.PRNGKey(0)))
    rng = np.random.default_rng(0)
    prior: Prior = jax.tree.map(lambda leaf: jnp.asarray(rng.normal(0, 0.3, leaf.shape), leaf.dtype), shapes)
    save_prior(folder, prior, card)
    return prior


@pytest.fixture(scope="module")
def runs(results: Path) -> tuple[api.Run, api.Run]:
    """One that was never stopped, and one that was."""
    with shared_programs():
        return whole_and_resumed(small_config(results), chunks=2)


@pytest.fixture(scope="module")
def run(runs: tuple[api.Run, api.Run]) -> api.Run:
    return runs[0]


def test_a_run_logs_what_is_inferred_and_what_is_understood(run: api.Run) -> None:
    assert run.status == "finished"
    logged = set(run.metrics.column("name"))
    assert {"loss", "policy_loss", "value_loss", "model_loss", "model_accuracy", "grad_norm"} <= logged
    assert {"am_loss", "am_kl", "am_reconstruction", "am_goal_distance", "omg_selected_share"} <= logged
    assert {"omg_offset_1", "omg_offset_2", "omg_offset_mean", "omg_value_spread"} <= logged
    assert {"prior_loss", "prior_reconstruction", "prior_kl"} <= logged
    assert {"test_subgoal_hit_ratio", "test_subgoal_future_distance", "test_action_accuracy"} <= logged


def test_a_stopped_run_ends_as_if_it_had_not_been(runs: tuple[api.Run, api.Run]) -> None:
    run, stopped = runs
    assert result(stopped.folder) == result(run.folder)
    states = [load_file(path / "state.safetensors") for path in list_checkpoints(run.folder / "checkpoints")]
    for part in ("minds.own.goal", "minds.subgoals.mean_head.weight", "minds.subgoals.maps.convolutions.0.weight"):
        before, after = (state[f"learner.mac.{part}"] for state in states[-2:])
        assert np.abs(after - before).max() > 1e-6, part
    name = "learner.mac.subgoal_prior.output.weight"
    assert np.abs(states[-1][name] - states[-2][name]).max() > 1e-6


def test_a_trained_player_is_saved_loaded_and_acts(run: api.Run) -> None:
    agent = run.agents[0]
    assert not agent.policy.explores
    world, seen = jax.jit(agent.env.reset, static_argnums=1)(jax.random.PRNGKey(0), 3)
    step = jax.jit(agent.env.step)
    twin = load_agent(next((run.folder / "agents").glob("*/last")))
    carry = twin_carry = None
    for _ in range(2):
        actions, carry = agent.act(seen.obs, seen.avail, carry, state=seen.state)
        again, twin_carry = twin.act(seen.obs, seen.avail, twin_carry, state=seen.state)
        np.testing.assert_array_equal(actions, again)
        assert np.take_along_axis(np.asarray(seen.avail), actions[..., None], axis=2).all()
        world, seen, _ = step(jax.random.PRNGKey(0), world, actions)
    assert np.abs(np.asarray(carry.seats.inferred.hidden)).max() > 0


def test_one_seat_learns_with_the_prior_of_the_pool(
    run: api.Run, results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = Pool.create(tmp_path / "pool", "snowdrift", GAME, SPEC)
    pool.add_scripted("never_shovels", "training")
    given = stored_prior(pool.path / "prior")
    rounds: list[int] = []
    config = small_config(results, "1pool1hop_plus_codes", init_param_path=str(pool.path))
    program = Program(config)
    play = program.collector._play
    counting = lambda *args, **named: rounds.append(args[3]) or play(*args, **named)  # noqa: E731
    monkeypatch.setattr(program.collector, "_play", counting)
    state = program.init(jnp.array([1], jnp.uint32))
    start = np.array(state.learner.mac.minds.subgoals.mean_head.weight)
    after, log = program.chunk(state)
    # The only games are those of the round, and their steps are all that is counted.
    assert rounds == [2]
    np.testing.assert_array_equal(after.t_env.numpy(), np.asarray(log.stats.lengths).sum(axis=(0, 2)))
    assert np.abs(np.asarray(after.learner.mac.minds.subgoals.mean_head.weight) - start).max() > 0
    assert np.isfinite(np.asarray(log.stats.metrics["own_return"])).all()
    kept = jax.tree.leaves(after.learner.mac.subgoal_prior)
    for leaf, value in zip(kept, jax.tree.leaves(given), strict=True):
        np.testing.assert_array_equal(leaf[0], value)
    # Beside it may sit a frozen player of its own kind.
    pool.add(next((run.folder / "agents").glob("*/last")), "training")
    with_member = Program(config)
    state = jax.eval_shape(with_member.init, jnp.array([1], jnp.uint32))
    assert any("subgoals.mean_head.weight" in name for name in name_leaves(state.squad))
    tests, _ = jax.eval_shape(with_member.test, state)
    assert tests.metrics["own_return"].shape == (1, 2)


def test_a_prior_of_maps_is_stored_and_refused_where_views_are_read_as_numbers(results: Path, tmp_path: Path) -> None:
    given = stored_prior(tmp_path / "prior")
    loaded, card = load_prior(tmp_path / "prior")
    assert tuple(card.map_shape or ()) == loaded.map_shape == SPEC.map_shape
    np.testing.assert_array_equal(loaded.maps.convolutions[1].weight, given.maps.convolutions[1].weight)
    config = small_config(results, "hop_plus_ppo", prior_path=str(tmp_path / "prior"), omg_maps=False)
    with pytest.raises(UserError, match=r"made with omg_maps=True .* but the run has omg_maps=False"):
        Program(config)


def test_without_search_policy_and_critic_read_maps_and_subgoals(results: Path) -> None:
    program = Program(small_config(results, "hop_plus_ppo", rnn_hidden_dim=16, critic_hidden_dim=16, seeds=2))
    assert program.learner.learns_prior  # type: ignore[attr-defined]
    state = jax.eval_shape(program.init, jnp.array([1, 2], jnp.uint32))
    mac = state.learner.mac
    model = mac.opponent_model
    assert model.prior.map_shape == model.sizes.map_shape == SPEC.map_shape
    # Convolutions of the agent, and those of the model that infers and of its prior; each agent is told the subgoal.
    assert mac.agent.seats.encoder.convolutions[0].weight.shape[-2] == SPEC.map_shape[0]
    after, log = jax.eval_shape(program.chunk, state)
    assert jax.tree.structure(after) == jax.tree.structure(state)
    assert {"policy_loss", "am_kl", "prior_reconstruction", "omg_offset_2"} <= set(log.learner)
    tests, examined, _ = jax.eval_shape(program.test, after)
    assert {"subgoal_hit_ratio", "subgoal_future_distance"} <= set(examined)
    assert tests.returns.shape == (2, 2)
