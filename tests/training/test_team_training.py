"""Training in teams: who changes and who does not, what is resumed, and what a run starts from."""

from __future__ import annotations

import functools
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import load_file

from helpers.counting import CountingEnv
from helpers.stopping import whole_and_stopped
from helpers.teams import stored_prior, team_config
from helpers.tiny import GAME, SETTINGS, result, tiny_agent, tiny_config, tiny_pool, weights
from omg import api
from omg.components.files import name_leaves
from omg.config import Config
from omg.envs import make_env
from omg.pools import Agent, Pool, load_agent
from omg.tracking import RunFolder
from omg.training import program
from omg.training.checkpoint import list_checkpoints
from omg.training.loop import Trainer
from omg.training.program import Program

TEAMS = ("1iql1iql_omg", "1iql1iql_am")


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Pool:
    """One member, so that a team from it is the same program as an untrained team."""
    return tiny_pool(tmp_path_factory.mktemp("pools") / "pool", seeds=(11,))


@pytest.fixture(scope="module")
def runs(results: Path, pool: Pool) -> tuple[api.Run, api.Run]:
    """A finished and a stopped run of a team whose frozen seat is filled from the pool."""
    return whole_and_stopped(team_config(results, TEAMS[0], init_param_path=str(pool.path)), chunks=17)


@pytest.fixture(scope="module")
def trained(results: Path, pool: Pool, runs: tuple[api.Run, api.Run]) -> Callable[[str], api.Run]:
    """Team -> its finished run, the frozen seat filled from the pool."""

    @functools.cache
    def train(team: str) -> api.Run:
        if team == TEAMS[0]:
            return runs[0]
        return api.train_config(team_config(results, team, init_param_path=str(pool.path)), quiet=True)

    return train


def states(run: api.Run) -> list[dict[str, np.ndarray]]:
    """All arrays of the last two checkpoints, older first."""
    return [load_file(path / "state.safetensors") for path in list_checkpoints(run.folder / "checkpoints")]


def part(state: dict[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    return {name.removeprefix(prefix): value for name, value in state.items() if name.startswith(prefix)}


def seated(config: Config) -> dict[str, np.ndarray]:
    """The arrays of the frozen players that a configuration begins with."""
    team = Program(config).team
    assert team is not None
    return {name: np.asarray(leaf) for name, leaf in name_leaves(team.squad).items()}


def same_bytes(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> bool:
    return one.keys() == other.keys() and all(one[name].tobytes() == other[name].tobytes() for name in one)


# ------------------------------------------------------------------------------------------------ who changes


def changed(old: dict[str, np.ndarray], new: dict[str, np.ndarray], prefix: str) -> bool:
    """Whether all weights under a name have changed."""
    before, after = part(old, prefix), part(new, prefix)
    names = [name for name in before if name.endswith("weight")]
    assert names
    return all((before[name] != after[name]).any() for name in names)


@pytest.mark.parametrize("team", TEAMS)
def test_not_a_byte_of_a_pool_member_changes(team: str, trained: Callable[[str], api.Run], pool: Pool):
    run = trained(team)
    earlier, after = states(run)
    frozen = part(after, "squad.")
    assert same_bytes(frozen, seated(RunFolder.open(run.folder).config()))
    stored = weights(pool.folder("iql_s11"))
    assert len(stored) == len(frozen)
    for name, value in frozen.items():
        assert value[0].tobytes() == stored[name.removeprefix("kinds.0.")].tobytes(), name
    # The same cannot be said of those that learn, even between the last two checkpoints.
    assert changed(earlier, after, "learner.mac.agent.")
    assert changed(earlier, after, "learner.mac.opponent_model.")


@pytest.mark.parametrize("team", [TEAMS[1], "1vdn1iql"])
def test_not_a_byte_of_an_untrained_player_changes(team: str, results: Path):
    """The last of these teams has no opponent model; how the others learn is in the runs with a pool."""
    made = Program(team_config(results, team))
    state = made.init(jnp.array([1], jnp.uint32))
    before = {name: np.asarray(leaf) for name, leaf in name_leaves(state).items()}
    chunk = made.chunk.lower(state).compile()
    for _ in range(8):
        state, log = chunk(state)
    after = {name: np.asarray(leaf) for name, leaf in name_leaves(state).items()}
    assert int(after["learner.updates"][0]) == 8 * 4 - 12
    assert np.isfinite(log.learner["loss"]).all()
    assert part(before, "squad.")
    assert same_bytes(part(before, "squad."), part(after, "squad."))
    assert changed(before, after, "learner.mac.agent.")
    assert team == "1vdn1iql" or changed(before, after, "learner.mac.opponent_model.")


def test_a_run_says_who_is_frozen(results: Path, trained: Callable[[str], api.Run]):
    log = (trained("1iql1iql_omg").folder / "console.log").read_text()
    assert "frozen players (1): iql_s11\n" in log
    assert "subgoal prior: none given, it is learned along with the agent" in log
    untrained = Trainer(Program(team_config(results, "1vdn1iql")), results, SimpleNamespace(), print)
    assert untrained._about_the_team() == [
        "frozen players (1): untrained_vdn",
        "init_param_path: no pool given, so the frozen seats play untrained networks",
        "one update sees batch_size 8 x 2 seats = 16 episodes, of each the seat that learns; t_max is not affected",
    ]


def test_the_saved_agent_is_the_one_that_learned(trained: Callable[[str], api.Run]):
    run = trained("1iql1iql_omg")
    (agent,) = run.agents
    assert (agent.card.algorithm, agent.card.partners) == ("iql_omg", 1)
    state = states(run)[-1]
    for name, value in weights(run.folder / "agents" / "seed_1" / "last").items():
        np.testing.assert_array_equal(value, state[f"learner.mac.{name}"][0])


# ------------------------------------------------------------------------------------------------ what is kept


def test_a_team_that_was_stopped_ends_the_same(results: Path, pool: Pool, runs: tuple[api.Run, api.Run]):
    """Even if other players have come into the pool meanwhile: the run's own are in its checkpoints."""
    whole, stopped = runs
    config = team_config(results, TEAMS[0], init_param_path=str(pool.path))
    aside = pool.path.rename(pool.path.with_name("aside"))
    tiny_pool(pool.path, seeds=(12,))
    assert not same_bytes(seated(config), part(states(stopped)[-1], "squad."))
    run = api.resume(stopped.folder, quiet=True)
    shutil.rmtree(pool.path)
    aside.rename(pool.path)
    assert run.status == "finished"
    assert result(run.folder) == result(whole.folder)
    assert same_bytes(states(run)[-1], states(whole)[-1])


# ------------------------------------------------------------------------------------------------ what numbers mean


@pytest.mark.parametrize("team", TEAMS)
def test_nothing_is_rescaled_by_the_number_of_seats(
    team: str, results: Path, pool: Pool, trained: Callable[[str], api.Run]
):
    run = trained(team)
    stored = RunFolder.open(run.folder).config()
    assert stored == team_config(results, team, init_param_path=str(pool.path))
    assert (stored.t_max, stored.batch_size) == (SETTINGS["t_max"], SETTINGS["batch_size"])
    one_round = SETTINGS["batch_size_run"] * GAME["episode_limit"]
    assert 1000 <= run.metrics[-1]["t_env"] < 1000 + one_round
    line = "one update sees batch_size 8 x 2 seats = 16 episodes, of each the seat that learns; t_max is not affected"
    assert line in (run.folder / "console.log").read_text()
    names = set(run.metrics.column("name"))
    assert {"loss", "own_return_mean", "test_own_return_mean", "test_zero_return_drop"} <= names
    episodes, updates = (run.metrics.where(name=name).column("value") for name in ("episode", "updates"))
    # Sixteen episodes are needed for the first update, and four come at a time; then one update for each.
    assert updates == [max(count - 12, 0) for count in episodes]


def test_without_a_shift_an_update_sees_batch_size_episodes(results: Path):
    fixed = Program(team_config(results, "1iql1iql_am", is_agent_shift=False))
    assert fixed.sequences == 8
    assert fixed.team is not None
    assert not fixed.team.draw.rotate
    assert Program(team_config(results, "1iql1iql_am")).sequences == 16


@pytest.mark.parametrize("team", TEAMS)
def test_the_opponent_model_is_not_started_anew_at_each_call(team: str, trained: Callable[[str], api.Run]):
    """Its loss falls and stays down; started anew it would come back to the first value at every log."""
    run = trained(team)
    # The distance to a prior that is learned along grows with what that learns, so there the prior's own loss is asked.
    name = "prior_loss" if team.endswith("omg") else "am_loss"
    losses = run.metrics.where(name=name).column("value")
    assert len(losses) > 20
    assert np.mean(losses[-5:]) < 0.7 * losses[0]
    assert max(losses[-10:]) < 0.9 * losses[0]
    rises = np.diff(losses)
    assert rises.max() < 0.5 * (losses[0] - min(losses))
    state = states(run)[-1]
    (count,) = (
        value for name, value in state.items() if name.startswith("learner.model_opt_state") and "count" in name
    )
    assert count.tolist() == [run.metrics.last(name="updates")] == state["learner.updates"].tolist()
    moments = part(state, "learner.model_opt_state.")
    assert any((value != 0).any() for name, value in moments.items() if "mu" in name)


@pytest.mark.parametrize("team", [*TEAMS, "1iql1iql_liam", "1vdn1iql"])
def test_learning_never_plays(team: str, results: Path, monkeypatch: pytest.MonkeyPatch):
    """All that learning sees is in the replay buffer: the model's data are the episodes that were played."""
    env = CountingEnv(make_env("foraging", **GAME))
    monkeypatch.setattr(program, "make_env", lambda *_, **__: env)
    made = Program(team_config(results, team))
    state = jax.eval_shape(made.init, jnp.array([1], jnp.uint32))
    after, log = jax.eval_shape(made.chunk, state)
    assert jax.tree.structure(after.learner) == jax.tree.structure(state.learner)
    assert "loss" in log.learner
    # Of the round: a start, a step for the shapes of the record, and one in the loop over the steps. None beside these.
    assert env.traces == 3


# ------------------------------------------------------------------------------------------------ what it starts from


def same_play(mac: Any, agent: Agent, steps: int = 6) -> None:
    """Both choose the same greedy actions in all seats along the same games."""
    world, seen = agent.env.reset(jax.random.PRNGKey(5), 6)
    memory, carry = mac.initial(6), None
    act, step = jax.jit(type(mac).act), jax.jit(agent.env.step)
    chosen = set()
    for _ in range(steps):
        actions, memory, _ = act(mac, seen, memory, jax.random.PRNGKey(0), 0.0)
        expected, carry = agent.act(seen.obs, seen.avail, carry, state=seen.state)
        np.testing.assert_array_equal(actions, expected)
        chosen |= set(expected.ravel().tolist())
        world, seen, _ = step(jax.random.PRNGKey(0), world, expected)
    assert len(chosen) > 1


@pytest.mark.parametrize(
    ("team", "changes"),
    [
        ("1iql1iql_omg", {}),
        ("1vdn1iql", {"obs_all_last_actions": True}),
        ("1iql1iql_idv", {"agent": "idv_rnn"}),
    ],
)
def test_a_run_starts_exactly_as_the_given_agent_plays(
    team: str, changes: dict[str, Any], results: Path, tmp_path: Path
):
    own = {"agent": "idv_rnn"} if team.endswith("idv") else {}
    given = tiny_agent(tmp_path / "agent", tiny_config(results, **own), seed=2)
    started = Program(team_config(results, team, init_from=str(given), **changes))
    state = started.init(jnp.array([1], jnp.uint32))
    learner = jax.tree.map(lambda leaf: leaf[0], state.learner)
    same_play(started.learner.tested(learner), load_agent(given))
    for name, value in name_leaves(learner.mac.agent).items():
        np.testing.assert_array_equal(value, name_leaves(learner.target_mac.agent)[name])
    width = learner.mac.agent.sizes.feature_dim
    rows = {name: value for name, value in name_leaves(learner.mac.agent).items() if name.endswith("fc1.weight")}
    stored = weights(given)
    for name, value in rows.items():
        old = stored[f"agent.{name}"]
        assert value.shape[-2] == old.shape[-2] + width
        assert not np.asarray(value)[..., old.shape[-2] :, :].any()


def test_each_seed_starts_from_another_member_of_a_pool(results: Path, tmp_path: Path):
    pool = tiny_pool(tmp_path / "pool", seeds=(21, 22), scripted="random")
    config = team_config(results, "1vdn1iql", init_from=str(pool.path), seeds=3)
    state = Program(config).init(jnp.array([1, 2, 3], jnp.uint32))
    found = name_leaves(state.learner.mac.agent)
    for index, member in enumerate(("iql_s21", "iql_s22", "iql_s21")):
        for name, value in weights(pool.folder(member)).items():
            np.testing.assert_array_equal(found[name.removeprefix("agent.")][index], value)


def test_a_given_prior_is_taken_from_the_pool_and_not_changed(results: Path, tmp_path: Path):
    pool = tiny_pool(tmp_path / "pool", seeds=(11,))
    prior = stored_prior(pool.path / "prior")
    made = Program(team_config(results, "1iql1iql_omg", init_param_path=str(pool.path)))
    assert made.prior is not None
    state = jax.eval_shape(made.init, jnp.array([1], jnp.uint32))
    for name, value in name_leaves(prior).items():
        np.testing.assert_array_equal(name_leaves(made.prior)[name], value)
    # What learning changes has a place in the optimiser; the prior has none.
    assert not any("prior" in name for name in name_leaves(state.learner.model_opt_state))
    learned_along = Program(team_config(results, "1iql1iql_omg"))
    state = jax.eval_shape(learned_along.init, jnp.array([1], jnp.uint32))
    assert any("prior" in name for name in name_leaves(state.learner.model_opt_state))
