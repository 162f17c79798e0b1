"""Pre-training the prior of a pool: what is trained, what is printed and written, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.plans import PLAYERS
from helpers.tiny import GAME, SETTINGS, tiny_config, tiny_pool
from omg import api
from omg.cli import main
from omg.components.files import name_leaves
from omg.config import Config, resolve, translate
from omg.errors import UserError
from omg.experiments import pretrain, prior_config
from omg.pools import Pool, PriorCard, load_prior, pool_prior
from omg.tracking import RunFolder
from omg.training.program import Program
from omg.training.start import about_prior

QUICK = {key: value for key, value in SETTINGS.items() if key not in PLAYERS} | {"t_max": 300, "subgoal_dim": 4}


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Pool:
    """Two learned members and a scripted one."""
    return tiny_pool(tmp_path_factory.mktemp("pools") / "pool", scripted="nearest_food")


@pytest.fixture(scope="module")
def run(pool: Pool, results: Path) -> api.Run:
    return pretrain(pool.path, {**QUICK, "local_results_path": str(results)}, quiet=True)


def test_the_prior_is_written_to_the_run_and_to_the_pool(run: api.Run, pool: Pool):
    assert run.status == "finished"
    assert run.folder.name.startswith("prior_foraging_4x4-2p-1f_seed1_")
    (seed,) = (run.folder / "agents").iterdir()
    # Tests measure the frozen players, so that there is no best prior.
    assert [folder.name for folder in seed.iterdir()] == ["last"]
    for name in ("weights.safetensors", "prior.json"):
        assert (seed / "last" / name).read_bytes() == (pool.path / "prior" / name).read_bytes()
    assert pool_prior(pool.path) == str(pool.path / "prior")
    card = json.loads((pool.path / "prior" / "prior.json").read_text())
    assert (card["env"], card["scenario"], card["obs_is_state"]) == ("foraging", "4x4-2p-1f", False)
    assert (card["features"], card["subgoal_dim"]) == (9, 4)
    assert sorted(card["players"]) == ["iql_s11", "iql_s12", "nearest_food"]
    assert card["t_env"] == run.metrics[-1]["t_env"] >= 300
    tests = {row["name"]: row["value"] for row in run.metrics if row["name"].startswith("test_prior_")}
    assert {name: card["results"][name] for name in tests} == tests


def test_the_prior_learns_and_the_players_do_not(run: api.Run, pool: Pool):
    losses = run.metrics.where(name="test_prior_loss").column("value")
    assert losses[-1] < 0.8 * losses[0]
    explained = run.metrics.where(name="test_prior_explained").column("value")
    assert explained[-1] > max(explained[0], 0.1)
    assert 0 < run.metrics.last(name="test_prior_active") <= 4
    Pool.open(pool.path).check()


def test_training_with_the_pool_takes_its_prior(run: api.Run, pool: Pool, results: Path):
    settings = {"init_param_path": str(pool.path), "subgoal_dim": 4, "am_hidden_dim": 8}
    program = Program(tiny_config(results, "1iql1iql_omg", **settings))
    stored, _ = load_prior(run.folder)
    assert program.prior is not None
    for name, value in name_leaves(stored).items():
        np.testing.assert_array_equal(name_leaves(program.prior)[name], value)


def test_the_words_of_train_train_the_same_prior(run: api.Run, pool: Pool, results: Path):
    """Byte for byte, when the settings are the same ones."""
    words = (
        f"--config=iql --env-config=foraging --mac=basic_mac --am_model=omg_am --learner=am_learner "
        f"--init_param_path={pool.path} team_draw=varied name=prior updates_per_episode=1"
    )
    line = translate([*words.split(), *(f"env_args.{key}={value}" for key, value in GAME.items())])
    own = [f"{key}={value}" for key, value in {**QUICK, "local_results_path": results}.items()]
    config = resolve(line.config, line.env_config, [*line.overrides, *own]).config
    assert config == prior_config(pool.path, {**QUICK, "local_results_path": str(results)})
    before = (pool.path / "prior" / "weights.safetensors").read_bytes()
    again = api.train_config(config, quiet=True)
    assert (pool.path / "prior" / "weights.safetensors").read_bytes() == before
    assert (again.folder / "metrics.csv").read_bytes() == (run.folder / "metrics.csv").read_bytes()


def test_defaults_suit_a_prior_and_can_be_changed(pool: Pool):
    config = prior_config(pool.path)
    assert (config.name, config.learner, config.am_model) == ("prior", "am_learner", "omg_am")
    assert (config.t_max, config.test_interval, config.batch_size) == (100_000, 10_000, 32)
    assert (config.updates_per_episode, config.team_draw, config.obs_is_state) == (1.0, "varied", False)
    assert (config.env, config.env_args, config.init_param_path) == ("foraging", pool.env_args, str(pool.path))
    changed = prior_config(pool.path, ["t_max=7", "team_draw=mixed", "subgoal_dim=3", "name=mine"])
    assert (changed.t_max, changed.team_draw, changed.subgoal_dim, changed.name) == (7, "mixed", 3, "mine")


def test_the_view_is_that_of_the_members(tmp_path: Path):
    pool = tiny_pool(tmp_path / "pool", seeds=(1,), obs_is_state=True)
    assert prior_config(pool.path).obs_is_state is True
    assert prior_config(pool.path, {"obs_is_state": False}).obs_is_state is False
    scripted = tiny_pool(tmp_path / "scripted", seeds=(), scripted="random")
    assert prior_config(scripted.path).obs_is_state is False


def test_the_command_prints_the_measures_and_where_the_prior_is(
    run: api.Run, pool: Pool, results: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    seen: list[Config] = []
    monkeypatch.setattr(api, "train_config", lambda config, **_: seen.append(config) or run)
    monkeypatch.setenv("COLUMNS", "300")
    assert main(["pretrain", str(pool.path), "subgoal_dim=4", "--t_max=300", "with", "am_lr=0.1", "--quiet"]) == 0
    assert seen == [prior_config(pool.path, {"subgoal_dim": 4, "t_max": 300, "am_lr": 0.1})]
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    rmse = run.metrics.last(name="test_prior_rmse")
    assert f"prior_rmse {rmse:.4f} error of the decoded view, original units" in lines
    active = run.metrics.last(name="test_prior_active")
    assert f"prior_active {active:.0f} of 4 subgoal features in use" in lines
    assert any(line.startswith(f"prior_loss {run.metrics.last(name='test_prior_loss'):.4f} ") for line in lines)
    assert any(line.startswith("prior_explained 0.") for line in lines)
    assert f"Prior: {pool.path / 'prior'}" in lines
    assert f"and {RunFolder(run.folder).agent(1, 'last')}" in lines
    assert f"Run folder: {run.folder}" in lines
    monkeypatch.setattr(api, "train_config", lambda config, **_: api.Run(run.folder, "interrupted"))
    assert main(["pretrain", str(pool.path)]) == 130


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["{pool}/no"], "{pool}/no is not a pool: there is no such folder. `omg pool train` makes one."),
        (["t_max=3"], "POOL: got 't_max=3'; the folder of the pool comes first, then the settings."),
        ([], "Missing argument 'POOL'. See `omg pretrain --help`."),
        (["{pool}", "tmax=3"], "Unknown key 'tmax'. Did you mean 't_max'?"),
        (["{pool}", "seeds=3"], "seeds: cannot be set for the prior of a pool (a pool has one prior)."),
        (["{pool}", "learner=q_learner"], "learner: cannot be set for the prior of a pool (a prior is trained by am_"),
        (
            ["{pool}", "env_args.rows=9"],
            "env_args.rows: cannot be set for the prior of a pool (the game is the pool's).",
        ),
        (["{pool}", "--config=iql"], "--config: got 'iql', but a prior has no algorithm and its game is the pool's."),
        (
            ["{pool}", "--env-config=sc2"],
            "--env-config: got 'sc2', but a prior has no algorithm and its game is the po",
        ),
        (
            ["{pool}", "pool_set=heldout"],
            "pool_set: got heldout, but a prior must not know the players that agents are",
        ),
        (
            ["{pool}", "pool_set=validation"],
            "{pool}: the pool has no members in the set 'validation'. It has: training",
        ),
        (
            ["{pool}", "obs_is_state=True"],
            "obs_is_state: the run has True (9 input features), but 'iql_s11' in {pool} ",
        ),
    ],
)
def test_bad_input_ends_with_one_line(
    words: list[str], message: str, pool: Pool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    given = [word.format(pool=pool.path) for word in words]
    where = [f"local_results_path={tmp_path / 'results'}"] if len(words) > 1 else []
    assert main(["pretrain", *given, *where]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith(f"error: {message.format(pool=pool.path)}")
    assert captured.err.count("\n") == 1
    assert not (tmp_path / "results").exists()


def test_nobody_to_learn_from_is_refused(tmp_path: Path):
    config: dict[str, Any] = {"local_results_path": str(tmp_path / "results")}
    empty = tiny_pool(tmp_path / "pool", seeds=())
    with pytest.raises(UserError, match=r"the pool has no members in the set 'training'\. It has: nobody"):
        pretrain(empty.path, config, quiet=True)
    assert not (tmp_path / "results").exists()


def test_a_run_says_how_good_its_prior_is() -> None:
    def said(explained: float | None, map_shape: tuple[int, ...] | None = None) -> str:
        results = {} if explained is None else {"test_prior_explained": explained}
        return about_prior(PriorCard("sc2", "8m", False, 80, 64, 60_906, results=results, map_shape=map_shape))

    assert about_prior(None) == "none given, it is learned along with the agent"
    assert said(0.98) == "pre-trained on 60,906 steps, explains 98% of what seats see"
    assert said(0.78).startswith("pre-trained on 60,906 steps, explains 78% of what seats see; with so little, ")
    assert said(None) == said(0.2, (7, 8, 8)) == "pre-trained on 60,906 steps"
