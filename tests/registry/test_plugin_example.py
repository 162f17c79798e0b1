"""The example package, installed: its own tests, runs with its parts, and what becomes of them without it."""

from __future__ import annotations

import json
import re
import runpy
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import omg
from helpers.plugged import EXAMPLE, build_example, installed
from helpers.tiny import SETTINGS
from omg.cli import main
from omg.config import resolve
from omg.controllers.scripted import build_scripted, scripted_names
from omg.experiments import train_pool
from omg.learners import build_learner
from omg.modules.mixers.base import Choices, MixerSizes
from omg.registry import registry
from omg.registry.plugins import look_again

TINY = {**SETTINGS, "t_max": 200, "test_nepisode": 8, "rnn_hidden_dim": 8}
GAME = {"rounds": 4}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_example(tmp_path_factory.mktemp("example"))


@pytest.fixture(scope="module", autouse=True)
def example(site: Path) -> Iterator[None]:
    with installed(site):
        yield


def own_tests() -> list[tuple[str, str]]:
    """File and name of every test in the package."""
    files = sorted((EXAMPLE / "tests").glob("test_*.py"))
    return [(file.name, name) for file in files for name in re.findall(r"^def (test_\w+)", file.read_text(), re.M)]


LOADED: dict[str, dict[str, Callable[[], None]]] = {}


@pytest.mark.parametrize(("file", "name"), own_tests())
def test_of_the_package(file: str, name: str) -> None:
    if file not in LOADED:
        LOADED[file] = runpy.run_path(str(EXAMPLE / "tests" / file))
    LOADED[file][name]()


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Both scripted players, measured in a few games."""
    folder = tmp_path_factory.mktemp("pools") / "pool"
    scripts = {"stubborn": "training", "yielding": "training"}
    train_pool(folder, {}, "meeting", {"env_args": GAME, "use_cuda": False}, scripted=scripts, episodes=8, quiet=True)
    return folder


@pytest.fixture(scope="module")
def run(pool: Path, tmp_path_factory: pytest.TempPathFactory) -> omg.Run:
    """IQL that counts beside the scripted players, with the package's measure and tracker."""
    results = str(tmp_path_factory.mktemp("results"))
    parts = {"measure": "belief_probe", "tracker": "jsonl", "counts_pseudo": 3}
    settings = {**TINY, "updates_per_episode": 0.25, "init_param_path": str(pool), "local_results_path": results}
    return omg.train("1pool1iql_counts", "meeting", **settings, **parts, env_args=GAME)


def test_iql_with_counts_trains_and_is_measured(run: omg.Run) -> None:
    assert run.status == "finished"
    names = {row["name"] for row in run.metrics}
    assert {"am_loss", "am_action_accuracy"} <= names
    assert {"test_belief_probe", "test_belief_probe_view", "test_belief_probe_chance", "test_met_mean"} <= names
    assert {"test_zero_return_drop", "test_shuffled_return_drop"} <= names
    for name in ("am_loss", "test_belief_probe"):
        assert np.isfinite(run.metrics.where(name=name).column("value")).all()
    lines = [json.loads(line) for line in (run.folder / "metrics.jsonl").read_text().splitlines()]
    assert lines[-1] == {"status": "finished"}
    written = [(line["seed"], line["t_env"], line["name"]) for line in lines[:-1]]
    assert written == [(row["seed"], row["t_env"], row["name"]) for row in run.metrics]


def test_a_saved_agent_is_loaded_and_evaluated(run: omg.Run, pool: Path) -> None:
    agent = omg.load(run.folder)
    model = agent.policy.opponent_model
    assert type(model).__name__ == "CountingModel"
    assert model.feature_dim == model.sizes.n_actions + 1
    assert model.sizes.own[-1].counts_pseudo == 3
    rows = omg.evaluate(agent, episodes=8).where(metric="met")
    assert 0 <= rows[0]["mean"] <= 1
    table = omg.evaluate(run.folder, pool=str(pool), pool_set="training", episodes=4)
    assert {row["metric"] for row in table} >= {"met"}


def test_without_the_package_one_line_says_what_is_missing(
    run: omg.Run, pool: Path, site: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(sys, "path", [path for path in sys.path if path != str(site)])
        look_again()
        resume = ["resume", str(run.folder), "t_max=400"]
        for words in (["evaluate", str(run.folder)], resume, ["pool", "list", str(pool)]):
            assert main(words) == 2
            line = capsys.readouterr().err.strip()
            assert line.endswith("is a part of the package omg-plugin-example, which is not installed here.")
            assert "\n" not in line
    look_again()


def test_ppo_with_counts_trains(tmp_path: Path) -> None:
    settings = {**TINY, "batch_size": 4, "buffer_size": 4, "updates_per_episode": 0.25, "ppo_epochs": 2}
    del settings["epsilon_anneal_time"], settings["target_update_interval"]
    run = omg.train("ippo_counts", "meeting", **settings, env_args=GAME, local_results_path=str(tmp_path))
    losses = run.metrics.where(name="am_loss").column("value")
    assert len(losses) > 3
    assert np.isfinite(losses).all()


def test_players_and_mixer_are_built() -> None:
    env = omg.make("meeting", **GAME)
    assert {"random", "stubborn", "yielding"} == set(scripted_names("meeting"))
    assert type(build_scripted("stubborn", env)).__name__ == "Visitor"
    with pytest.raises(omg.UserError, match=r"Script 'stubborn' plays meeting, but the game is foraging\."):
        build_scripted("stubborn", omg.make("foraging"))
    config = resolve("vdn", "meeting", {"mixer": "weighted_sum", "env_args": GAME}).config
    learner: Any = build_learner(config, env.spec)
    state = jax.eval_shape(learner.init, jax.random.key(0))
    assert type(state.mixer).__name__ == "WeightedSum"
    mixer = registry("mixer")["weighted_sum"].build(MixerSizes(2, 13), key=jax.random.key(0))  # type: ignore[operator]
    qs = jnp.array([[1.0, 2.0]])
    choices = Choices(jnp.zeros((1, 2), int), qs)
    np.testing.assert_allclose(mixer(qs, jnp.zeros((1, 13)), choices), [3.0], rtol=1e-6)
