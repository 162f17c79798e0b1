"""The same number of trials for every agent, judged by the validation partners."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from helpers.plans import RUN, changed
from helpers.refusing import refusal
from helpers.tiny import GAME
from omg.evaluation.rows import read_rows, write_rows
from omg.evaluation.suite_tables import TrialRow
from omg.experiments.ledger import Ledger
from omg.experiments.pipeline import PipelineResult, plan_tasks, run_pipeline
from omg.experiments.plan import parse_plan
from omg.experiments.plan_check import CheckedPlan, check_plan
from omg.experiments.runs import finished_run
from omg.experiments.stages import Workplace
from omg.experiments.trials import chosen_trial, trial_file, trial_settings

PLAN: dict[str, Any] = {
    "name": "tuned",
    "game": {"env_config": "foraging", "env_args": GAME},
    "pool": {
        "scripted": {"nearest_food": "training", "own_level": "validation", "random": "heldout"},
        "episodes": 4,
    },
    "tune": {"trials": 2, "seeds": 1, "t_max": 200, "episodes": 4, "space": {"lr": [0.0005, 0.01]}},
    "train": {**RUN, "seeds": 2, "lr": 0.0005},
    "agents": {"d3qn": None, "other": {"config": "d3qn", "seed": 11}},
    "evaluation": {"episodes": 2, "untrained": False, "crossplay_episodes": 0},
}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> PipelineResult:
    """The whole pipeline."""
    return run_pipeline(parse_plan(PLAN), tmp_path_factory.mktemp("tuned"), quiet=True)


def checked(tmp_path: Path, *words: str) -> CheckedPlan:
    return check_plan(parse_plan(changed(*words, plan=PLAN)), tmp_path)


def test_all_agents_have_the_same_choices_and_the_plans_own_comes_first(tmp_path: Path) -> None:
    words = ["tune.trials=5", "tune.space={lr: [0.1, 0.2, 0.0005], gamma: [0.9, 0.99]}"]
    plan = checked(tmp_path, *words)
    first, other = (trial_settings(plan.plan, label, plan.agents[label]) for label in ("d3qn", "other"))
    assert first == other
    assert first[0] == {}
    assert len({str(choice) for choice in first}) == len(first) == 5
    # The plan's own settings are not tried twice.
    assert {"lr": plan.agents["d3qn"].lr, "gamma": plan.agents["d3qn"].gamma} not in first
    assert trial_settings(checked(tmp_path, *words, "tune.draw=2").plan, "d3qn", plan.agents["d3qn"]) != first
    own = checked(tmp_path, *words, "agents.other.space={double_q: [true, false]}")
    assert set(trial_settings(own.plan, "other", own.agents["other"])[1]) == {"lr", "gamma", "double_q"}
    trial = plan.trial("other", 2)
    assert (trial.seeds, trial.t_max, trial.seed) == (1, 200, 11)
    assert (trial.lr, trial.gamma) == (first[2]["lr"], first[2]["gamma"])


def test_every_trial_is_kept_and_the_winner_is_trained_with(finished: PipelineResult) -> None:
    tune = [title for title in finished.done if title.startswith("tune")]
    # Trials that differ in learning rates alone are the seeds of one run.
    assert tune == ["tune d3qn", "tune other", "tune tables"]
    assert not any("trial_" in str(path) for path in (finished.folder / "tune" / "runs").rglob("*"))
    rows = read_rows(finished.folder / "tune" / "trials.csv", TrialRow)
    assert [(row.agent, row.trial, row.settings) for row in rows] == [
        ("d3qn", 0, "as in the plan"),
        ("d3qn", 1, "lr=0.01"),
        ("other", 0, "as in the plan"),
        ("other", 1, "lr=0.01"),
    ]
    for label in ("d3qn", "other"):
        own = [row for row in rows if row.agent == label]
        best = max(own, key=lambda row: row.mean)
        assert [row.chosen for row in own] == ["yes" if row is best else "no" for row in own]
        trained = finished_run(finished.checked.runs(label)).config()
        assert (trained.lr, trained.t_max, trained.seeds) == ([0.0005, 0.01][best.trial], 300, 2)
    assert ">Trials</h2>" in (finished.folder / "report.html").read_text()


def test_trials_are_seeds_of_one_run_where_they_are_one_program(tmp_path: Path) -> None:
    words = ["tune.trials=3", "tune.seeds=2", "tune.space={lr: [0.1, 0.2, 0.0005]}"]
    plan = checked(tmp_path, *words)
    together = plan.trials("other")
    assert together is not None
    drawn = [trial.get("lr", plan.agents["other"].lr) for trial in trial_settings(plan.plan, "other", plan.agents["other"])]  # fmt: skip # noqa: E501
    assert (together.seed, together.seeds, together.t_max) == (11, 6, 200)
    assert together.by_seed == {"lr": [rate for rate in drawn for _ in range(2)]}
    other = checked(tmp_path, *words, "agents.other.space={double_q: [true, false]}", "tune.trials=2")
    assert other.trials("other") is None
    assert other.trials("d3qn") is not None


def test_trials_of_other_programs_have_runs_of_their_own(tmp_path: Path) -> None:
    words = ["tune.space={gamma: [0.9]}", "agents.other.config=iql"]
    done = run_pipeline(parse_plan(changed(*words, plan=PLAN)), tmp_path, quiet=True, only="pool").done
    done += run_pipeline(parse_plan(changed(*words, plan=PLAN)), tmp_path, quiet=True, only="tune").done
    assert done == ("pool", "tune d3qn 0", "tune d3qn 1", "tune other 0", "tune other 1", "tune tables")
    rows = read_rows(tmp_path / "tune" / "trials.csv", TrialRow)
    assert [row.settings for row in rows] == ["as in the plan", "gamma=0.9"] * 2


def test_agents_in_all_seats_are_trained_with_their_best_trial_too(tmp_path: Path) -> None:
    plan = checked(tmp_path, "agents.other.self_play=true", "evaluation.untrained=true")
    place = Workplace(plan, tmp_path, Ledger(tmp_path), Console(quiet=True), quiet=True)
    needs = {task.title: {need.title for need in task.needs} for task in plan_tasks(place)}
    assert needs["train other"] == {"tune other"}
    assert needs["train d3qn"] == {"pool", "tune d3qn"}
    assert needs["tune other"] == {"pool"}


def test_the_best_trial_is_the_largest_or_the_smallest(tmp_path: Path) -> None:
    for lower, best in (("false", 1), ("true", 0)):
        plan = checked(tmp_path, f"report.lower_is_better={lower}", "report.metric=ep_length")
        for number, mean in enumerate((1.0, 2.0)):
            row = TrialRow(agent="d3qn", trial=number, settings="", metric="ep_length", seeds=1, steps=1, mean=mean, chosen="")  # fmt: skip # noqa: E501
            write_rows(trial_file(plan.folder, "d3qn", number), [row], TrialRow.names())
        assert chosen_trial(plan, "d3qn") == best


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("tune.trials=3", "tune.trials: got 3, but the space of d3qn has 1 choices beside the plan's own settings; "),
        ("tune.space={seed: [1, 2]}", "tune.space.seed: cannot be tried (the seeds of trials follow from the plan's)."),
        ("tune.space={lr: []}", "tune.space.lr: got nothing to choose from."),
        ("tune.space={lr: [much]}", "tune, trial 1: agents.d3qn: lr: got 'much' (text); expected "),
        ("tune.space={lrr: [1, 2]}", "tune, trial 1: agents.d3qn: "),
        ("pool.scripted.own_level=heldout", "tune: the pool has nobody in the set validation, by which trials are"),
        ("tune.trial=3", "Unknown key 'tune.trial' of a pipeline. Did you mean 'tune.trials'?"),
    ],
)
def test_trials_that_cannot_be_made_are_refused(word: str, message: str, tmp_path: Path) -> None:
    assert refusal(lambda: checked(tmp_path, word)).startswith(message)
