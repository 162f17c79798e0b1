"""Data sets for offline learning, opened by Minari itself."""

from __future__ import annotations

import builtins
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import omg
from omg.cli import main
from omg.errors import UserError
from omg.recordings.dataset import write_dataset

GAME: dict[str, Any] = {"rows": 4, "cols": 4, "players": 2, "max_food": 1, "episode_limit": 6}


def games(env: str = "foraging", views: bool = True, **options: Any) -> list[omg.Recording]:
    return omg.record("random", env=env, env_args=options or GAME, episodes=3, seed=1, views=views)


def test_minari_opens_what_is_written(tmp_path: Path) -> None:
    minari = pytest.importorskip("minari", reason="minari is not installed")
    pytest.importorskip("h5py", reason="h5py is not installed")
    played = games()
    data = minari.MinariDataset(write_dataset(tmp_path / "data", played))
    assert data.total_episodes == 3
    assert data.total_steps == sum(game.steps for game in played)
    assert data.action_space.nvec.tolist() == [6, 6]
    for game, episode in zip(played, data.iterate_episodes(), strict=True):
        for name in ("obs", "state", "avail"):
            np.testing.assert_array_equal(episode.observations[name], game[name])
        np.testing.assert_array_equal(episode.actions, game["actions"])
        np.testing.assert_allclose(episode.rewards, game["rewards"].sum(axis=1), atol=1e-6)
        np.testing.assert_array_equal(episode.infos["seat_rewards"][1:], game["rewards"])
        assert not episode.terminations[:-1].any()
        assert bool(episode.terminations[-1]) == (game.header["ended"] == "terminated")
        assert bool(episode.truncations[-1]) == (game.header["ended"] == "truncated")
        assert all(data.observation_space.contains({k: v[0] for k, v in episode.observations.items()}) for _ in "x")
    (labels,) = data.storage.get_episode_metadata([1])
    assert list(labels["seat_labels"]) == ["random", "random"]
    assert list(labels["seat_learns"]) == [False, False]
    assert labels["number"] == 2
    assert labels["fact_return"] == pytest.approx(played[1].header["facts"]["return"])


def test_a_teams_reward_is_given_to_every_seat(tmp_path: Path) -> None:
    minari = pytest.importorskip("minari", reason="minari is not installed")
    pytest.importorskip("h5py", reason="h5py is not installed")
    (first, *_) = played = games("rendezvous", rounds=2)
    data = minari.MinariDataset(write_dataset(tmp_path / "data", played))
    episode = next(data.iterate_episodes())
    np.testing.assert_allclose(episode.rewards, first["rewards"][:, 0])
    assert episode.infos["seat_rewards"].shape == (first.steps + 1, 2)


def test_what_makes_no_data_set_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("minari", reason="minari is not installed")
    pytest.importorskip("h5py", reason="h5py is not installed")
    for played, said in (
        ([], "at least one"),
        (games(views=False), "has no views"),
        ([*games(), *games("toy_grid", views=True, size=5)], "another game"),
    ):
        with pytest.raises(UserError, match=said):
            write_dataset(tmp_path / "data", played)
        assert not (tmp_path / "data").exists()
    with pytest.raises(UserError, match="there already"):
        write_dataset(tmp_path, games())


def test_without_minari_one_sentence_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any, **more: Any) -> Any:
        if name.split(".")[0] in ("minari", "h5py"):
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    words = ["record", "random", "--env-config=foraging", "--dataset", str(tmp_path / "data")]
    assert main(words) == 2
    assert "pip install 'omg-marl[minari]'" in capsys.readouterr().err


def test_the_command_writes_recordings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["env_args.rows=4", "env_args.cols=4", "env_args.max_food=1", "env_args.episode_limit=6"]
    command = ["record", "random", "--env-config=foraging", *words, "--episodes", "2", "-o", str(tmp_path)]
    assert main(command) == 0
    files = sorted(path.name for path in tmp_path.iterdir())
    assert files == ["seed_0_game_01.omgrec", "seed_0_game_02.omgrec"]
    assert omg.Recording.read(tmp_path / files[1]).header["number"] == 2
    assert "seed_0_game_01.omgrec" in capsys.readouterr().out
    for wrong, said in ((["lr=3"], "only options of the game"), (["--which", "worst"], "worst")):
        assert main([*command, *wrong]) == 2
        assert said in capsys.readouterr().err
