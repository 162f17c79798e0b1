"""The example scripts run as they are written, with settings that are small enough for a test."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
TINY = {"t_max": 200, "batch_size_run": 4, "batch_size": 4, "buffer_size": 16, "test_nepisode": 4, "test_interval": 100}
"""A few rounds of play; with `episode_limit` 16 there is only one length to compile for."""


def example(name: str) -> Callable[..., Any]:
    """The function `main` of an example."""
    return runpy.run_path(str(EXAMPLES / f"{name}.py"))["main"]


def test_every_example_is_short_and_tested_here() -> None:
    scripts = {path.stem: path.read_text() for path in EXAMPLES.glob("*.py")}
    short = {"play_random", "train_and_load", "pettingzoo_loop", "many_seeds", "own_game"}
    assert set(scripts) == {*short, "omg_in_one_file"}  # The last has tests of its own, `test_one_file.py`.
    for name, text in scripts.items():
        assert text.count("\n") < (40 if name in short else 301)
        assert f"python examples/{name}.py" in text


def test_play_random_ends_all_games_and_seldom_wins(capsys: pytest.CaptureFixture[str]) -> None:
    result = example("play_random")(games=32)
    assert result["unfinished"] == 0
    assert 0 < result["return"] < 20
    assert result["won"] < 0.5
    assert "n_agents=3" in capsys.readouterr().out


def test_train_and_load_plays_a_battle(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    total = example("train_and_load")(**TINY, episode_limit=16, local_results_path=str(tmp_path))
    assert 0 <= total <= 20
    text = capsys.readouterr().out
    assert "0 steps: 0% of the battles won" in text
    assert "vdn for sc2 3m, trained for " in text


def test_pettingzoo_loop_plays_whole_episodes(capsys: pytest.CaptureFixture[str]) -> None:
    totals = example("pettingzoo_loop")(episodes=2, episode_limit=20)
    assert len(totals) == 2
    assert all(0 <= total <= 1 for total in totals)
    assert "'foods_left': " in capsys.readouterr().out


def test_many_seeds_draws_one_figure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    figure = example("many_seeds")(seeds=2, **TINY, episode_limit=16, local_results_path=str(tmp_path))
    assert figure.read_bytes().startswith(b"\x89PNG")
    text = capsys.readouterr().out
    assert "seed 1: score " in text
    assert "seed 2: score " in text


def test_own_game_trains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    # As when the script is run: its folder is where modules are looked for first, by the workers too.
    monkeypatch.syspath_prepend(str(EXAMPLES))
    score = example("own_game")(**TINY, workers=2, local_results_path=str(tmp_path))
    assert -4 <= score <= 2
    assert f"return {score:.2f}, the best is 2; run folder: {tmp_path}" in capsys.readouterr().out
