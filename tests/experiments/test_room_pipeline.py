"""A measured room wherever agents are scored: in a pipeline, its report, `omg evaluate` and `omg adapt`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from omg.cli import main
from omg.evaluation.rows import read_rows
from omg.evaluation.tables import ClosedRow, RoomRow
from omg.experiments.pipeline import PipelineResult, run_pipeline
from omg.experiments.plan import parse_plan
from omg.experiments.room import matrix
from omg.experiments.runs import finished_run
from omg.report.room import below_lines

PLAN = {
    "name": "tiny",
    "game": {"env_config": "rendezvous", "env_args": {"rounds": 2}},
    "pool": {"scripted": {"corner_nw": "training", "corner_se": "heldout", "corner_ne": "heldout"}},
    "room": {"episodes": 8, "seeds": 1, "steps": 0},
    "train": {
        "seeds": 2,
        "t_max": 64,
        "test_interval": 64,
        "test_nepisode": 2,
        "batch_size_run": 2,
        "batch_size": 2,
        "buffer_size": 4,
        "rnn_hidden_dim": 8,
        "use_tensorboard": False,
    },
    "agents": {"one": {"config": "iql"}, "other": {"config": "iql", "lr": 0.001}},
    "evaluation": {"episodes": 4, "untrained": False, "crossplay_episodes": 0},
}


@pytest.fixture(scope="module", autouse=True)
def few_scripts() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(matrix, "scripted_names", lambda game: ["random"])
        yield


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> PipelineResult:
    return run_pipeline(parse_plan(PLAN), tmp_path_factory.mktemp("room") / "out", quiet=True)


def test_the_room_is_measured_before_anything_is_trained(made: PipelineResult) -> None:
    stages = [title.split()[0] for title in made.done]
    assert stages.index("pool") < stages.index("room") < stages.index("train")
    (row,) = read_rows(made.folder / "pool" / "room" / "room.csv", RoomRow)
    # Nobody is trained, but each partner has its own kind for an answer.
    assert (row.best_fixed, row.ceiling, row.chosen_on) == (pytest.approx(0.0), pytest.approx(1.0), "training")
    again = run_pipeline(parse_plan(PLAN), made.folder, quiet=True)
    assert again.done == ()


def test_agents_are_seen_from_floor_to_ceiling(made: PipelineResult) -> None:
    rows = read_rows(made.folder / "evaluation" / "closed.csv", ClosedRow)
    assert [row.agent for row in rows] == ["one", "other"]
    for row in rows:
        assert row.closed == pytest.approx((row.mean - row.best_fixed) / (row.ceiling - row.best_fixed))
    page = (made.folder / "report.html").read_text()
    assert "What there is to gain" in page
    assert "There is room: 0.00 for the best fixed player, 1.00 for the best responders" in page
    assert "## What there is to gain" in (made.folder / "report.md").read_text()
    assert (made.folder / "figures" / "what_there_is_to_gain.png").stat().st_size > 1000
    titles = [item if isinstance(item, str) else item.title for item in made.shown]
    assert "Share of the room closed" in titles


def test_who_is_below_best_fixed_is_named_first() -> None:
    row = ClosedRow.of(
        {
            "agent": "iql",
            "group": "1_partner",
            "metric": "battle_won",
            "seeds": 3,
            "teams": 4,
            "mean": 0.4,
            "floor": 0.1,
            "best_fixed": 0.5,
            "ceiling": 0.9,
            "closed": -0.25,
            "closed_low": -0.4,
            "closed_high": -0.1,
            "standing": "below best fixed",
        }
    )
    assert below_lines([row]) == ["IQL ends below the best fixed player with these partners: 40.0 % against 50.0 %."]
    unsure = ClosedRow.of({**row, "standing": "below best fixed, not shown"})
    assert below_lines([unsure])[0].endswith("against 50.0 % (not shown to be more than chance).")
    assert below_lines([ClosedRow.of({**row, "standing": "above best fixed"})]) == []


def test_evaluate_shows_the_room_or_says_how_to_measure_it(
    made: PipelineResult, capsys: pytest.CaptureFixture[str]
) -> None:
    run, pool = finished_run(made.folder / "runs" / "one").path, made.folder / "pool"
    words = ["evaluate", str(run), "--pool", str(pool), "--episodes", "4"]
    assert main(words) == 0
    assert "Share of the room closed" in capsys.readouterr().out
    assert main([*words, "--metric", "return"]) == 0
    assert f"Room: not measured. `omg room {pool} --metric return` says" in capsys.readouterr().out
