"""The real StarCraft II behind SMAC, as far as it can be tested without it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import omg
from helpers.host_games import worker_processes
from omg.envs import make_env
from omg.envs.adapters.host import HostGame
from omg.envs.adapters.smac import RealBattle
from omg.envs.battle import Battle
from omg.errors import UserError


def opened(name: str, **env_args: Any) -> HostGame:
    env: Any = make_env(name, **env_args)
    return env.open()


@pytest.fixture
def starcraft(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of a game that stands in for StarCraft II."""
    folder = tmp_path / "StarCraftII"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "stand_ins"))
    monkeypatch.setenv("SC2PATH", str(folder))
    yield folder
    for name in [name for name in sys.modules if name.partition(".")[0] == "smac"]:
        del sys.modules[name]


def test_the_real_game_has_smacs_numbers(starcraft: Path) -> None:
    env = make_env("sc2", map_name="3m", backend="starcraft", obs_last_action=True, difficulty="A")
    assert isinstance(env, RealBattle)
    simulated = make_env("sc2", map_name="3m", backend="sim").spec
    assert env.spec == simulated
    game = env.open()
    seen = game.reset(77)
    smac = game._env
    assert (smac.given_seed, smac.options["difficulty"], smac.options["obs_last_action"]) == (77, "A", True)
    assert "heuristic_ai" not in smac.options, "older releases do not know it"
    assert seen.avail[0].tolist() == [False, True, False, False, False, False, True, True, True]
    rewards = []
    for _ in range(4):
        step = game.step(np.where(seen.avail[:, 6], 6, 0))
        rewards.append(step.reward)
        seen = step.seen
    assert rewards == [3.0, 3.0, 3.0, 2.0], "seat 0 is dead in the fourth step"
    step = game.step(np.array([0, 6, 6]))
    assert (step.terminated, step.truncated, step.metrics) == (True, False, [1.0, 1.0, 1.0])
    seen = game.reset(5)
    assert smac.given_seed == 77, "one process of the game for all episodes"
    for time in range(1, 61):
        step = game.step(np.array([0 if time > 3 else 1, 1, 1]))
        assert (step.terminated, step.truncated) == (False, time == 60)
    process = smac.game
    game.close()
    assert process.poll() is not None


def test_auto_takes_the_game_where_it_is(starcraft: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(make_env("sc2", map_name="3m"), RealBattle)
    assert isinstance(make_env("sc2", map_name="3m", backend="sim"), Battle)
    monkeypatch.setenv("SC2PATH", str(starcraft / "elsewhere"))
    assert isinstance(make_env("sc2", map_name="3m"), Battle)


def test_the_real_game_is_refused_with_instructions(starcraft: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(**env_args: Any) -> str:
        with pytest.raises(UserError) as error:
            make_env("sc2", **{"map_name": "3m", "backend": "starcraft", **env_args})
        return str(error.value)

    assert "env_args.start: got 'random'" in refused(start="random")
    assert "env_args.episode_limit: got 61" in refused(episode_limit=61)
    assert "Unknown map (env_args.map_name) '3n'" in refused(map_name="3n")
    monkeypatch.setenv("SC2PATH", str(starcraft / "elsewhere"))
    message = refused()
    assert "StarCraft II is not in" in message
    assert "Maps/SMAC_Maps" in message
    with monkeypatch.context() as patch:
        patch.delattr(sys.modules["smac.env"], "StarCraft2Env")
        assert "another one of that name" in refused()


def test_without_smac_the_extra_is_named() -> None:
    with pytest.raises(UserError, match=r"env_args\.backend: got 'starcraft'.*pip install 'omg-marl\[sc2\]'.*sim"):
        make_env("sc2", map_name="3m", backend="starcraft")


def test_training_in_the_real_game(starcraft: Path) -> None:
    """A battle crashes, its episode is dropped, and the run goes on; replays are written after tests."""
    (starcraft / "crash").touch()
    run = omg.train(
        "iql",
        "sc2",
        **{"map_name": "3m", "backend": "starcraft", "replay_dir": str(starcraft / "replays"), "episode_limit": 16},
        **{"t_max": 60, "test_interval": 60, "test_nepisode": 4, "batch_size_run": 4, "batch_size": 4},
        **{"buffer_size": 8, "workers": 2, "log_interval": 1, "rnn_hidden_dim": 16, "use_tensorboard": False},
        local_results_path=str(starcraft / "results"),
        save_replay=True,
    )
    assert run.status == "finished"
    log = (run.folder / "console.log").read_text()
    assert "runner: vector -> parallel, as sc2 is no JAX program" in log
    assert f"sc2: the real StarCraft II in {starcraft}" in log
    assert "StarCraft II crashed" in log
    dropped = [row["value"] for row in run.metrics.where(name="episodes_dropped")]
    assert dropped[-1] >= 1
    assert {row["name"] for row in run.metrics} >= {"battle_won_mean", "test_battle_won_mean", "dead_allies_mean"}
    assert len(list((starcraft / "replays").iterdir())) >= 4
    assert worker_processes() == []
