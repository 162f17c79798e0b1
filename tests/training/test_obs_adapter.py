"""`obs_adapter: learn`: players and priors of `obs_is_state` that estimate the state from observations.

In the tiny game every seat sees everything, in an order of its own: the state is a linear function of what a seat sees.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import omg
from helpers.plans import changed
from helpers.refusing import refusal
from helpers.teams import stored_prior, team_config
from helpers.tiny import GAME, tiny_agent, tiny_config, tiny_pool
from omg import api
from omg.cli import main
from omg.controllers.adapted import AdaptedMAC, ObsAdapter
from omg.controllers.team import build_squad
from omg.envs import Env, make_env
from omg.experiments.evaluation import evaluate_runs
from omg.experiments.plan import parse_plan
from omg.pools import Pool, load_agent, load_prior
from omg.runners.vector import play_episodes
from omg.tracking import RunFolder
from omg.training import adapting, obs_adapter
from omg.training.adapting import adapt_prior, squad_policy
from omg.training.loop import Trainer
from omg.training.obs_adapter import Fitted, StatePairs, load_map, save_maps
from omg.training.program import Program


@pytest.fixture(scope="module")
def env() -> Env:
    return make_env("foraging", **GAME)


@pytest.fixture(scope="module")
def seeing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An agent that sees the state."""
    folder = tmp_path_factory.mktemp("agents")
    return tiny_agent(folder / "seeing", tiny_config(folder, obs_is_state=True), seed=3)


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Pool:
    """Two players that see the state, and one that needs no map."""
    folder = tmp_path_factory.mktemp("pools") / "pool"
    return tiny_pool(folder, scripted="nearest_food", obs_is_state=True)


@pytest.fixture(scope="module")
def adapted(seeing: Path) -> tuple[Any, list[str]]:
    said: list[str] = []
    return omg.load(seeing, obs_adapter="learn", say=said.append), said


@eqx.filter_jit
def games(env: Env, policy: Any) -> Any:
    return play_episodes(env, policy, jax.random.PRNGKey(5), 16, 0.0).batch


# -------------------------------------------------------------------------------------------------------------- agents


def test_without_the_state_an_agent_acts_as_with_it(env: Env, seeing: Path, adapted: tuple[Any, list[str]]) -> None:
    agent, (line,) = adapted
    assert line.startswith("obs adapter: explains 100.0% of the variance in games it was not fitted on (RMSE ")
    assert line.endswith(f" for 9 numbers); fitted on 128 games of the agent in all seats; kept in {seeing}")
    assert isinstance(agent.policy, AdaptedMAC)
    assert not agent.config.obs_is_state
    assert agent.card.config["obs_is_state"]
    known, batch = load_agent(seeing), games(env, load_agent(seeing).policy)
    carry = kept = None
    for step in range(4):
        seen = {"obs": np.asarray(batch.obs[:, step]), "avail": np.asarray(batch.avail[:, step])}
        expected, carry = known.act(**seen, carry=carry, state=np.asarray(batch.state[:, step]))
        actions, kept = agent.act(**seen, carry=kept)
        np.testing.assert_array_equal(actions, expected)
    assert 'omg.load(path, obs_adapter="learn")' in refusal(lambda: known.act(**seen))


def test_a_map_is_kept_and_checked(
    seeing: Path, adapted: tuple[Any, list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adapting, "fit_obs_adapter", lambda *given: pytest.fail("fitted twice"))
    said: list[str] = []
    again = omg.load(seeing, obs_adapter="learn", say=said.append)
    assert said[0].endswith(f"; from {seeing}")
    np.testing.assert_array_equal(again.policy.adapter.weight, adapted[0].policy.adapter.weight)
    fitted = load_map(seeing, "agent", again.spec)
    assert fitted is not None
    assert fitted.card.explained > 1 - 1e-6
    assert fitted.card.rmse["numbers"] < 1e-4

    def copy(name: str) -> Path:
        (tmp_path / name).mkdir()
        save_maps(tmp_path / name, {"agent": fitted})
        return tmp_path / name

    def change(folder: Path, **values: Any) -> Path:
        stored = json.loads((folder / "obs_adapter.json").read_text())
        stored["maps"]["agent"] |= values
        (folder / "obs_adapter.json").write_text(json.dumps(stored))
        return folder

    larger = make_env("foraging", **{**GAME, "players": 3}).spec
    cut = copy("cut")
    (cut / "obs_adapter.safetensors").write_bytes(b"x")
    wrong = copy("wrong")
    save_maps(wrong, {"agent": Fitted(ObsAdapter(*map(jnp.zeros, ((2, 8, 9), (2, 9)))), fitted.card)})
    nan = copy("nan")
    save_maps(nan, {"agent": Fitted(ObsAdapter(*(jnp.full(s, jnp.nan) for s in ((2, 9, 9), (2, 9)))), fitted.card)})
    for folder, spec, message in (
        (cut, again.spec, "obs_adapter.safetensors is damaged: its header claims"),
        (change(copy("text"), explained="much"), again.spec, "obs_adapter.json is damaged: ValidationError."),
        (change(copy("game"), scenario="9x9"), again.spec, "for foraging 9x9, but foraging 4x4-2p-1f needs"),
        (wrong, again.spec, "a map of shape (2, 8, 9)"),
        (nan, again.spec, "needs finite numbers"),
        (copy("larger"), larger, "a map of shape (2, 9, 9)"),
    ):
        assert message in refusal(lambda folder=folder, spec=spec: load_map(folder, "agent", spec))
    assert load_map(tmp_path, "agent", again.spec) is None


def test_nothing_to_adapt_is_refused(tmp_path: Path, adapted: tuple[Any, list[str]], seeing: Path) -> None:
    plain = tiny_agent(tmp_path / "plain", tiny_config(tmp_path), seed=4)
    nobody = "obs_adapter: got learn, but nobody here was trained with obs_is_state=True. Allowed: none."
    assert refusal(lambda: omg.load(plain, obs_adapter="learn")) == nobody
    assert refusal(lambda: omg.evaluate(plain, obs_adapter="learn")) == nobody
    assert "Did you mean 'learn'?" in refusal(lambda: omg.load(plain, obs_adapter="learnt"))
    assert "give the agent's folder" in refusal(lambda: omg.evaluate(load_agent(seeing), obs_adapter="learn"))
    assert "cannot be set in a pipeline" in refusal(lambda: parse_plan(changed("train.obs_adapter=learn")))
    assert not (plain / "obs_adapter.json").exists()


# --------------------------------------------------------------------------------------------------------- evaluation


def test_everybody_plays_from_observations_on_request(
    pool: Pool, seeing: Path, adapted: tuple[Any, list[str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plain = tiny_agent(tmp_path / "plain", tiny_config(tmp_path), seed=4)
    said: list[str] = []
    given = {"pool_set": "training", "groups": ["1_partner"], "episodes": 4}
    hint = "or let them estimate the state from observations: obs_adapter=learn."
    assert refusal(lambda: evaluate_runs({"plain": plain}, pool.path, **given)).endswith(hint)
    runs = {"plain": plain, "seeing": seeing}
    found = evaluate_runs(runs, pool.path, **given, obs_adapter="learn", note=said.append)
    assert [line.partition(":")[0] for line in said] == ["obs adapter", f"obs adapter of {pool.path}"]
    # The state is a linear function of what each seat sees, so that nothing changes for those who saw it.
    true = evaluate_runs({"seeing": seeing}, pool.path, **given)
    assert [row for row in found if row["agent"] == "seeing"] == list(true)
    assert main(["evaluate", str(seeing), "--episodes", "4", "--obs-adapter", "learn"]) == 0
    assert "obs adapter: explains 100.0% of the variance" in capsys.readouterr().out.replace("\n", " ")
    assert main(["evaluate", str(seeing), "--obs-adapter", "yes"]) == 2
    assert main(["evaluate", str(plain), "--obs-adapter", "learn"]) == 2, "there is nothing to adapt"


# ----------------------------------------------------------------------------------------------------------- training


def test_a_team_of_players_that_estimate_the_state(
    env: Env, pool: Pool, results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def config(**changes: Any) -> Any:
        return team_config(results, "1pool1iql", init_param_path=str(pool.path), **changes)

    assert "obs_adapter=learn" in refusal(lambda: Program(config()))
    begun: list[Trainer] = []

    def run(trainer: Trainer) -> None:
        begun.append(trainer)
        raise KeyboardInterrupt

    # What a run does before its first chunk; the chunk itself is traced below, not compiled.
    monkeypatch.setattr(Trainer, "run", run)
    with pytest.raises(KeyboardInterrupt):
        api.train_config(config(obs_adapter="learn"), quiet=True)
    (trainer,) = begun
    (line,) = [line for line in trainer._about_the_team() if line.startswith("obs adapter (players): explains 100.0%")]
    assert line.endswith("fitted on 128 games of the 3 players")
    program = trainer.program
    state = jax.eval_shape(program.init, jnp.asarray([1], jnp.uint32))
    assert jax.tree.structure(jax.eval_shape(program.chunk, state)[0]) == jax.tree.structure(state)
    folder = trainer.checkpoints.parent
    assert RunFolder.open(folder).config().obs_adapter == "learn"
    fitted = load_map(folder, "players", env.spec)
    assert fitted is not None
    # The frozen players play as if they saw the state.
    raw = [agent.policy if hasattr(agent := pool.load(member.name), "policy") else agent for member in pool]
    mapped = [
        player if index == 2 else adapting.adapt_mac(player, fitted.obs_adapter) for index, player in enumerate(raw)
    ]
    first, second = (games(env, squad_policy(build_squad(players)[0], 2)) for players in (raw, mapped))
    np.testing.assert_array_equal(first.actions, second.actions)


def test_a_run_without_anybody_who_reads_the_state_is_refused(pool: Pool, results: Path) -> None:
    nobody = "obs_adapter: got learn, but neither a frozen player nor the prior of this run was trained with "
    for settings in ({}, {"obs_is_state": True, "init_param_path": str(pool.path)}):
        team = "1pool1iql" if settings else "iql"
        config = team_config(results, team, obs_adapter="learn", **settings)
        assert refusal(lambda config=config: Program(config)).startswith(nobody)


def test_a_prior_over_states_becomes_one_over_observations(env: Env, results: Path, tmp_path: Path) -> None:
    stored_prior(tmp_path / "prior", obs_is_state=True)
    prior, card = load_prior(tmp_path / "prior")
    changed_prior, known, maps = adapt_prior(prior, card, env, None)
    assert (known.obs_is_state, known.features, known.results) == (False, 9, {})
    assert maps["prior"].card.players == "random players"
    assert 0.3 < maps["prior"].card.explained < 0.9
    rng = np.random.default_rng(0)
    seen, subgoal = jnp.asarray(rng.normal(2, 1, (5, 3, 9)), jnp.float32), jnp.asarray(rng.normal(size=(5, 4)))
    seats = jnp.zeros((5, 3), int)
    there, back = maps["prior"].obs_adapter, maps["prior_back"].obs_adapter
    expected = (*prior.encode(there(seen, seats)), back.everywhere(prior.decode(subgoal)))
    for one, other in zip((*changed_prior.encode(seen), changed_prior.decode(subgoal)), expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-3, atol=2e-3)
    program = Program(team_config(results, "iql_omg", prior_path=str(tmp_path / "prior"), obs_adapter="learn"))
    assert set(program.obs_adapters) == {"prior", "prior_back"}
    assert not program.learner.learns_prior
    np.testing.assert_array_equal(program.prior.encoder[0].weight, changed_prior.encoder[0].weight)


# --------------------------------------------------------------------------------------------------------------- maps


def test_the_error_is_that_of_games_it_was_not_fitted_on() -> None:
    rng = np.random.default_rng(0)

    def pairs(rows: int, noise: float = 1.0) -> StatePairs:
        given = rng.normal(3, 2, (rows, 2, 4))
        state = np.stack([given[:, 0, 0], (given[:, 0, 1] > 3).astype(float), np.full(rows, 7.0)], axis=-1)
        wanted = np.repeat(state[:, None], 2, axis=1)
        given[:, 1, 0] = state[:, 0] + noise * rng.normal(size=rows)
        return StatePairs(given, wanted)

    card = obs_adapter._fit(make_env("foraging", **GAME).spec, "nobody", (pairs(4000), pairs(500), pairs(500))).card
    assert card.features == {"numbers": 1, "flags": 1, "constants": 1}
    # Seat 0 sees the number itself, seat 1 with a noise of deviation 1, of which a fifth of the variance is left.
    assert card.rmse["numbers"] == pytest.approx(np.sqrt(0.8 / 2), abs=0.03)
    assert card.rmse["constants"] < 1e-5
    assert "for 1 numbers, " in card.summary


def test_rare_features_are_not_taken_for_signs() -> None:
    rng = np.random.default_rng(0)

    def pairs(rows: int) -> StatePairs:
        rare = (rng.random((rows, 1, 40)) < 1.0 / 400).astype(float)
        return StatePairs(rare, rng.normal(size=(rows, 1, 1)))

    fitted = obs_adapter._fit(make_env("foraging", **GAME).spec, "nobody", (pairs(400), pairs(400), pairs(400)))
    assert fitted.card.explained > -0.5


def test_a_map_of_all_seats_is_the_same_in_every_seat() -> None:
    rng = np.random.default_rng(0)
    obs = jnp.asarray(rng.normal(size=(4, 3, 5)), jnp.float32)
    seats = jnp.broadcast_to(jnp.arange(3), (4, 3))
    for first in (3, 1):
        adapter = ObsAdapter(*(jnp.asarray(rng.normal(size=s), jnp.float32) for s in ((first, 5, 2), (first, 2))))
        everywhere = adapter.everywhere(obs)
        assert everywhere.shape == (4, 3, 2)
        np.testing.assert_allclose(adapter(obs, seats), everywhere, atol=1e-5)
        turned = adapter(obs[:, ::-1], seats[:, ::-1])[:, ::-1]
        np.testing.assert_allclose(turned, everywhere, atol=1e-5)
