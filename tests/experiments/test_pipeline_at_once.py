"""A pipeline whose runs, evaluations and adaptations are done at once, in processes of their own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from helpers.plans import PLAN as SMALL
from helpers.plans import RUN
from omg.cli import main
from omg.experiments.pipeline import PipelineResult, run_pipeline
from omg.experiments.plan import parse_plan
from omg.experiments.results import adaptation_files, self_play_files, table_files
from omg.experiments.runs import finished_run

PLAN: dict[str, Any] = {
    "name": "beside",
    "game": SMALL["game"],
    "pool": {"scripted": {"random": "heldout"}, "episodes": 8},
    # Both agents learn by the same program: one compilation serves all processes.
    "train": {**RUN, "self_play": True, "seeds": 2},
    "agents": {"d3qn": None, "other": {"config": "d3qn", "seed": 11}},
    "evaluation": {"groups": ["1_partner"], "episodes": 2, "untrained": False, "crossplay_episodes": 0},
    "adaptation": {"episodes": 4, "games": 4, "frozen": True, "agents": ["other"]},
    "report": {"agent": "other"},
}
APART = ["evaluate scores d3qn", "evaluate scores other", "adapt other", "adapt random"]
TOGETHER = ["evaluate tables", "evaluate self-play", "adapt tables", "report"]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> PipelineResult:
    """All parts one after the other, in this process."""
    return run_pipeline(parse_plan(PLAN), tmp_path_factory.mktemp("pipeline") / "beside", quiet=True)


def tables(result: PipelineResult) -> dict[str, bytes]:
    """All tables, as they are on disk."""
    checked = result.checked
    files = (*table_files(checked), *self_play_files(checked), *adaptation_files(checked))
    return {str(path.relative_to(checked.folder)): path.read_bytes() for path in files}


def records(folder: Path) -> dict[str, dict[str, Any]]:
    """Title -> record of every part."""
    place = folder / "stages"
    return {
        " ".join(path.relative_to(place).with_suffix("").parts): json.loads(path.read_text())
        for path in place.rglob("*.json")
    }


def test_at_once_everything_is_as_it_is_one_after_the_other(
    finished: PipelineResult, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = tables(finished)
    # A path as a user would write it.
    monkeypatch.chdir(finished.folder.parent)
    again = run_pipeline(parse_plan(PLAN), finished.folder.name, start="train", quiet=True, jobs=2)
    assert sorted(again.done) == sorted(["train d3qn", "train other", *APART, *TOGETHER])
    assert tables(again) == before
    known = records(finished.folder)
    assert {record["status"] for record in known.values()} == {"done"}
    assert all(record["seconds"] > 0 for record in known.values())
    logs = sorted(path.name for path in (finished.folder / "logs").iterdir())
    # Whoever has trained an agent also evaluates it.
    assert logs == sorted(f"{title.replace(' ', '-')}.log" for title in ("train d3qn", "train other", "adapt random"))
    assert "steps/s" in (finished.folder / "logs" / "train-other.log").read_text()
    assert run_pipeline(parse_plan(PLAN), finished.folder.name, quiet=True, jobs=2).done == ()


def test_a_part_that_fails_takes_nothing_with_it(finished: PipelineResult, capsys: pytest.CaptureFixture[str]) -> None:
    weights = finished_run(finished.checked.runs("d3qn")).agent(1, "last") / "weights.safetensors"
    weights.rename(weights.with_suffix(".away"))
    words = ["pipeline", str(finished.folder), "--quiet", "--jobs", "2"]
    assert main([*words, "--from", "evaluate"]) == 2
    message = capsys.readouterr().err
    assert message.startswith("error: evaluate scores d3qn: ")
    assert message.count("\n") == 1
    assert str(weights.parent) in message
    status = {title: record["status"] for title, record in records(finished.folder).items()}
    assert {title: status.get(title) for title in (*APART, *TOGETHER)} == {
        **dict.fromkeys(APART, "done"),
        "evaluate scores d3qn": "begun",
        **dict.fromkeys(TOGETHER),
    }
    weights.with_suffix(".away").rename(weights)
    again = run_pipeline(parse_plan(PLAN), finished.folder, quiet=True, jobs=2)
    assert sorted(again.done) == sorted(["evaluate scores d3qn", *TOGETHER])
