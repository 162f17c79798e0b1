"""A plan of plans: parts in folders of their own, done once, and one answer."""

from __future__ import annotations

import itertools
import shutil
from pathlib import Path
from typing import Any

import pytest

from helpers.plans import RUN
from helpers.refusing import refusal
from helpers.tiny import GAME
from omg.cli import main
from omg.config import write_yaml
from omg.evaluation.rows import read_rows, write_rows
from omg.evaluation.suite_tables import SuiteDifferenceRow, SuiteGameRow, SuiteRow
from omg.evaluation.tables import RoomRow
from omg.experiments import suite as suite_module
from omg.experiments.plan import read_plan
from omg.experiments.reports import read_report
from omg.experiments.suite import ReadSuite, SuiteResult, read_suite, run_suite

KINDS = {"scripts": ["nearest_food", "highest_food", "own_level"], "training": 1, "validation": 1, "heldout": 1}
COMMON: dict[str, Any] = {
    "train": {**RUN, "seeds": 2},
    "agents": {"gru": {"config": "d3qn"}, "other": {"config": "d3qn", "seed": 11}},
    "evaluation": {
        "episodes": 2,
        "at": [0.5, 1.0],
        "sets": ["heldout", "validation"],
        "untrained": False,
        "crossplay_episodes": 0,
        "scripted": ["random"],
    },
}


def plans(folder: Path) -> list[str]:
    """Two small plans that lack what is common to them."""
    files = []
    for name in ("one", "two"):
        plan = {
            "name": name,
            "game": {"env_config": "foraging", "env_args": GAME},
            "pool": {"kinds": KINDS, "episodes": 4},
        }
        files.append(folder / f"{name}.yaml")
        files[-1].write_text(write_yaml(plan))
    return [str(file) for file in files]


def suite_file(folder: Path, **more: Any) -> Path:
    verdict = {"same_information": "gru", "modelling": ["other"], "subgoals": ["other"], "against": ["gru"]}
    values = {"name": "small", "plans": plans(folder), "draws": [1], "common": COMMON, "verdict": verdict, **more}
    file = folder / "small.yaml"
    file.write_text(write_yaml(values))
    return file


@pytest.fixture(scope="module")
def read(tmp_path_factory: pytest.TempPathFactory) -> ReadSuite:
    """The small suite."""
    return read_suite(suite_file(tmp_path_factory.mktemp("plans")))


@pytest.fixture(scope="module")
def finished(read: ReadSuite, tmp_path_factory: pytest.TempPathFactory) -> SuiteResult:
    """All of it, in this process."""
    return run_suite(read, tmp_path_factory.mktemp("suite"), quiet=True)


def test_every_game_with_every_draw_is_a_pipeline_in_a_folder_of_its_own(finished: SuiteResult) -> None:
    assert finished.done == ("part one 1", "part two 1", "report")
    for name in ("one", "two"):
        assert (finished.folder / name / "draw_1" / "report.html").is_file()
    games = read_rows(finished.folder / "suite" / "games.csv", SuiteGameRow)
    assert [(row.game, row.draw) for row in games] == [("one", "1"), ("one", "all"), ("two", "1"), ("two", "all")]
    agents = read_rows(finished.folder / "suite" / "agents.csv", SuiteRow)
    expected = itertools.product(("one", "two"), ("gru", "other", "random"), (0.5, 1.0))
    assert [(row.game, row.agent, row.share) for row in agents] == list(expected)
    assert read_rows(finished.folder / "suite" / "differences.csv", SuiteDifferenceRow)
    assert "<h1>Does it pay to know the others?</h1>" in finished.report.read_text()


def test_what_is_done_is_skipped_and_a_room_that_is_measured_is_counted_by(
    read: ReadSuite, finished: SuiteResult, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_suite(read, finished.folder, quiet=True, jobs=2).done == ()
    for name in ("one", "two"):
        pool = finished.folder / name / "draw_1" / "pool"
        values = dict.fromkeys(RoomRow.names(), 0) | {"set": "heldout", "group": "1_partner", "metric": "score"}
        write_rows(pool / "room" / "room.csv", [{**values, "best_fixed": 0.25, "ceiling": 1.0}], RoomRow.names())
    (finished.folder / "report.html").unlink()
    # The folder says what it is about.
    assert main(["pipeline", str(finished.folder), "--quiet"]) == 0
    assert "one: Of the room " in capsys.readouterr().out
    games = read_rows(finished.folder / "suite" / "games.csv", SuiteGameRow)
    assert {row.room for row in games} == {0.75}


def test_a_suite_that_was_interrupted_has_a_page_of_what_is_done(
    read: ReadSuite, finished: SuiteResult, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "cut"
    shutil.copytree(finished.folder, folder, ignore=shutil.ignore_patterns("runs", "report.*", "suite"))
    for name in ("one", "two"):
        shutil.copy(finished.folder / name / "draw_1" / "report.html", folder / name / "draw_1")
    (folder / "stages" / "part" / "two" / "1.json").unlink()

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(suite_module, "_do_part", stop)
    with pytest.raises(KeyboardInterrupt):
        run_suite(read, folder, quiet=True)
    assert {row.game for row in read_rows(folder / "suite" / "games.csv", SuiteGameRow)} == {"one"}
    for page in ("report.html", "report.md"):
        assert "Not complete. Still to come: two 1." in (folder / page).read_text()
    # After an end without a word, too.
    (folder / "report.html").unlink()
    assert main(["report", str(folder)]) == 0
    assert "Still to come: two 1." in (folder / "report.html").read_text()
    (folder / "stages" / "part" / "one" / "1.json").unlink()
    assert refusal(lambda: read_report([folder])).startswith(f"{folder}: no part of this suite is done yet.")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["draw=[1]"], "Unknown key of a plan of plans 'draw'. Did you mean 'draws'?"),
        (["draws=[1, 1]"], "draws: got something twice: [1, 1]."),
        (["draws=[one]"], "draws.0: got 'one'. "),
        (["common.train.tmax=3"], "{one}: Unknown key 'train.tmax' of a pipeline. Did you mean 'train.t_max'?"),
        (["plans=[quik]"], "Unknown pipeline (neither a file nor a preset) 'quik'. Did you mean 'quick'?"),
        (["common.pool.path=x"], "{one}: pool.path: "),
    ],
)
def test_what_cannot_be_run_is_refused(words: list[str], message: str, tmp_path: Path) -> None:
    file = suite_file(tmp_path)
    assert refusal(lambda: read_suite(file, words)).startswith(message.format(one=tmp_path / "one.yaml"))


def test_a_plan_of_plans_is_no_plan_and_has_no_stages(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = suite_file(tmp_path)
    assert refusal(lambda: read_plan(file)).startswith("Unknown key 'plans' of a pipeline.")
    assert refusal(lambda: read_suite(suite_file(tmp_path, plans=[str(file)]))).startswith("plans: got '")
    assert main(["pipeline", str(file), "--from", "train"]) == 2
    assert "lists plans. Give it with one of their folders." in capsys.readouterr().err


def test_some_of_the_methods_may_be_left_out(tmp_path: Path) -> None:
    report = {"agent": "other", "baselines": ["gru"], "title": "T"}
    read = read_suite(suite_file(tmp_path, common={**COMMON, "report": report}, methods=["gru"]))
    assert {label for part in read.parts for label in part.plan.agents} == {"gru"}
    assert {(part.plan.report.agent, part.plan.report.baselines) for part in read.parts} == {(None, None)}


def test_a_plan_may_build_on_a_preset(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("base: quick\nname: mine\ntrain: {t_max: 7}\n")
    mine, quick = read_plan(file), read_plan("quick")
    assert mine.train.settings == {**quick.train.settings, "t_max": 7}
    assert mine.agents == quick.agents
    file.write_text("base: quik\nname: mine\n")
    assert refusal(lambda: read_plan(file)).startswith(f"Unknown preset ({file}: base) 'quik'. Did you mean 'quick'?")
