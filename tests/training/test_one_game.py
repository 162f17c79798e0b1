"""A run builds its game once; whoever needs it is handed that one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from omg.cli import main
from omg.config import adjust, resolve
from omg.envs import plays_on_host
from omg.envs.toy_grid import ToyGrid
from omg.errors import UserError

WORDS = [
    *("--config=iql", "--env-config=toy_grid", "t_max=8", "test_nepisode=2", "batch_size_run=2", "batch_size=2"),
    *("buffer_size=4", "rnn_hidden_dim=8", "use_cuda=False", "use_tensorboard=False", "save_model=False"),
]


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """All toy grids that are built."""
    games: list[Any] = []
    build = ToyGrid.__init__

    def counting(self: ToyGrid, *args: Any, **named: Any) -> None:
        games.append(self)
        build(self, *args, **named)

    monkeypatch.setattr(ToyGrid, "__init__", counting)
    return games


def test_a_run_builds_its_game_once(built: list[Any], tmp_path: Path) -> None:
    assert main(["train", *WORDS, f"local_results_path={tmp_path}", "--quiet"]) == 0
    assert len(built) == 1


def test_the_game_that_was_checked_is_handed_on(built: list[Any]) -> None:
    resolved = resolve("iql", "toy_grid")
    assert built == [resolved.env]
    adjust(resolved.config, has_gpu=False)
    # A team of one algorithm is resolved as that algorithm, and an old word in two steps.
    assert resolve("2iql", "toy_grid").env is built[-1]
    assert resolve("ippo", "toy_grid", {"epochs": 3}).env is built[-1]
    assert len(built) == 3


def test_what_only_the_game_can_refuse_is_refused_at_once() -> None:
    with pytest.raises(UserError, match=r"Unknown map .*'8n'"):
        resolve("iql", "sc2", {"env_args.map_name": "8n"})


def test_options_say_whether_a_game_is_played_on_the_host() -> None:
    assert plays_on_host("sc2", {"backend": "starcraft"})
    assert not plays_on_host("sc2", {"backend": "sim"})
    assert not plays_on_host("toy_grid", {})
    assert plays_on_host("gymma", {})
