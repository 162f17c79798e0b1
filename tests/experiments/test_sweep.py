"""Sweeps: the same outcome whoever does the trials, also when they are killed, and what is made of it."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from rich.console import Console

from helpers.plans import RUN, changed
from helpers.refusing import refusal
from helpers.tiny import GAME
from omg.cli import main
from omg.config import resolve
from omg.errors import UserError
from omg.evaluation.rows import read_rows
from omg.evaluation.suite_tables import ImportanceRow, SliceRow
from omg.experiments.ledger import LEASES, Ledger
from omg.experiments.pipeline import plan_tasks
from omg.experiments.plan import parse_plan
from omg.experiments.plan_check import check_plan
from omg.experiments.runs import finished_run
from omg.experiments.stages import Workplace
from omg.experiments.sweep import SweepResult, read_space, read_sweep, run_sweep, sweep_plan
from omg.experiments.trials import read_round, round_file, trial_run, trials_run
from omg.launchers import LauncherSettings
from omg.launchers.lease import look
from omg.pools import Pool

PLAN: dict[str, Any] = {
    "name": "swept",
    "game": {"env_config": "foraging", "env_args": GAME},
    "pool": {
        "scripted": {"nearest_food": "training", "own_level": "validation", "random": "heldout"},
        "episodes": 4,
    },
    "tune": {
        "trials": 20,
        "sampler": "tpe",
        "round": 10,
        "seeds": 1,
        "t_max": 200,
        "episodes": 8,
        "space": {"lr": {"low": 1e-4, "high": 0.1, "log": True}},
    },
    "train": {**RUN, "lr": 0.0005},
    "agents": {"d3qn": None, "other": {"config": "d3qn", "seed": 31}},
    "evaluation": {"episodes": 2, "untrained": False, "crossplay_episodes": 0},
    "report": {"metric": "own_return"},
}


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> SweepResult:
    """A sweep that nothing happened to, its trials one after the other."""
    return run_sweep(parse_plan(PLAN), tmp_path_factory.mktemp("calm"), quiet=True)


def found(folder: Path) -> dict[str, bytes]:
    """All that a sweep finds, byte by byte."""
    place = folder / "tune"
    files = [*place.glob("*.csv"), *place.glob("rounds/*"), *place.glob("parts/*"), *place.glob("best/*")]
    return {str(path.relative_to(place)): path.read_bytes() for path in files}


def kill(folder: Path, title: str, run: Path) -> None:
    """Ends the process that does a task, without grace, as soon as it trains."""
    name = title.replace(" ", "-")
    for _ in range(1200):
        holder = look(folder / LEASES, name).holder
        if holder is not None and any(run.glob("*/metrics.csv")):
            os.kill(holder.pid, signal.SIGKILL)
            return
        time.sleep(0.05)


def test_killed_workers_change_nothing(calm: SweepResult, tmp_path: Path) -> None:
    labels = ("d3qn", "other")
    killers = [
        threading.Thread(target=kill, args=(tmp_path, f"tune {label} run_0", trials_run(tmp_path, label, 0)))
        for label in labels
    ]
    for killer in killers:
        killer.start()
    with pytest.raises(UserError, match="the process was ended by signal 9"):
        run_sweep(parse_plan(PLAN), tmp_path, quiet=True, launcher=LauncherSettings(jobs=2))
    for killer in killers:
        killer.join()
    assert not (tmp_path / "tune" / "trials.csv").exists()
    again = run_sweep(read_sweep(tmp_path, {}), tmp_path, quiet=True)
    # Nothing was lost but what the killed ones were at, and it was done again.
    assert set(again.done) == set(calm.done) - {"pool", "tune d3qn ask_0", "tune other ask_0"}
    assert found(tmp_path) == found(calm.folder)
    assert len(again.rows) == 40
    assert run_sweep(read_sweep(tmp_path, {}), tmp_path, quiet=True).done == ()


def test_a_sweep_says_what_it_has_found(calm: SweepResult, capsys: pytest.CaptureFixture[str]) -> None:
    assert calm.done == (
        "pool",
        *(f"tune {label} ask_0" for label in ("d3qn", "other")),
        *(f"tune {label} run_0" for label in ("d3qn", "other")),
        *(f"tune {label} ask_1" for label in ("d3qn", "other")),
        *(f"tune {label} run_1" for label in ("d3qn", "other")),
        "tune tables",
    )
    own = [row for row in calm.rows if row.agent == "d3qn"]
    best = max(own, key=lambda row: row.mean)
    assert [row.trial for row in own if row.chosen == "yes"] == [best.trial]
    assert own[0].settings == "as in the plan"
    assert len({row.settings for row in own}) == 20
    slices = read_rows(calm.folder / "tune" / "slices.csv", SliceRow)
    assert [(row.key, row.mean) for row in slices[:20]] == [("lr", row.mean) for row in own]
    assert slices[0].place == 0.0005
    importance = read_rows(calm.folder / "tune" / "importance.csv", ImportanceRow)
    assert [(row.key, row.importance) for row in importance] == [("lr", 1.0)] * 2
    page = calm.page.read_text()
    assert ">Trials</h2>" in page
    assert ">What each setting is worth</h2>" in page
    assert "The held-out set was not touched." in page
    assert (calm.folder / "tune" / "d3qn.journal").is_file()
    # What is told on the screen, without doing anything again.
    assert main(["sweep", str(calm.folder), "--quiet"]) == 0
    said = capsys.readouterr().out
    assert "d3qn: best 12 of 20 trials" in said
    assert f"--config={calm.best['d3qn']}" in said


def test_the_best_is_a_configuration(calm: SweepResult, tmp_path: Path) -> None:
    path = calm.best["other"]
    assert path.read_text().startswith("# other, tuned: trial ")
    given = yaml.safe_load(path.read_text())
    assert not {"seed", "seeds", "t_max"} & set(given)
    number = next(row.trial for row in calm.rows if row.agent == "other" and row.chosen == "yes")
    checked = check_plan(parse_plan(PLAN), calm.folder)
    settings = read_round(checked, "other", number // 10).settings[number % 10]
    config = resolve(str(path), "foraging").config
    assert config.lr == settings.get("lr", 0.0005)
    assert (config.agent, config.rnn_hidden_dim) == ("dueling", 16)
    # The pipeline of the same folder trains with it.
    assert checked.trained_with("other").lr == config.lr


def tasks(folder: Path, *words: str) -> dict[str, str]:
    """Title -> fingerprint of all that a plan's trials take."""
    checked = check_plan(parse_plan(changed(*words, plan=PLAN)), folder)
    place = Workplace(checked, folder, Ledger(folder), Console(quiet=True), quiet=True)
    return {task.title: task.fingerprint for task in plan_tasks(place) if task.stage == "tune"}


def test_more_trials_go_on_and_other_ones_are_others(tmp_path: Path) -> None:
    before, more = tasks(tmp_path), tasks(tmp_path, "tune.trials=25")
    assert set(more) - set(before) == {f"tune {label} {kind}_2" for label in PLAN["agents"] for kind in ("ask", "run")}
    assert [title for title in before if before[title] != more[title]] == ["tune tables"]
    # A last round that was not full is proposed anew, and nothing before it.
    full = tasks(tmp_path, "tune.trials=30")
    assert {title for title in more if more[title] != full[title]} == {
        *(f"tune {label} {kind}_2" for label in PLAN["agents"] for kind in ("ask", "run")),
        "tune tables",
    }
    for word in ("tune.draw=2", "tune.sampler=random", "tune.space.lr.high=0.2", "report.lower_is_better=true"):
        other = tasks(tmp_path, word)
        assert all(before[title] != other.get(title) for title in before)


def test_trials_that_do_badly_end_early(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stop = "tune.stop={first: 0.5, factor: 2}"
    words = ["tune.trials=2", "tune.round=1", stop, "tune.sampler=random", "evaluation.untrained=true"]
    plan = parse_plan({**changed(*words, plan=PLAN), "agents": {"d3qn": None}})
    told = []

    def least(tests: list[list[tuple[int, float]]], factor: int) -> dict[int, float]:
        told.append((tests, factor))
        # More than the second trial can have.
        return {100: 5.0} if tests else {}

    monkeypatch.setattr("omg.experiments.stages.tune.least_to_go_on", least)
    result = run_sweep(plan, tmp_path, quiet=True)
    checked = check_plan(plan, tmp_path)
    assert [read_round(checked, "d3qn", number).stop for number in (0, 1)] == [{}, {"100": 5.0}]
    first, second = (finished_run(trial_run(tmp_path, "d3qn", number)) for number in (0, 1))
    rows = [row for row in first.metrics() if row.name == "test_own_return_mean" and row.t_env >= 100]
    assert told == [([], 2), ([[(100, rows[0].value)]], 2)]
    assert [(row.trial, row.chosen, row.steps) for row in result.rows] == [(0, "yes", 200), (1, "stopped", 100)]
    assert str(result.rows[1].mean) == "nan"
    assert (first.status(), second.status()) == ("finished", "stopped")
    assert "only runs with 5 go on from step 100" in (second.path / "console.log").read_text()
    assert "1 were stopped" in str(result.shown[-1])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"settings": [{"lr": 0.1}]}', "it has 1 trials, not 10"),
        (
            '{"settings": [' + ", ".join(['{"local_results_path": "/tmp"}'] * 10) + "]}",
            "local_results_path is not tried",
        ),
        ('{"settings": [' + ", ".join(["{}"] * 10) + '], "stop": {"soon": 1}}', "its steps are no numbers"),
        ("[1, 2]", "1 validation error for Round"),
        ("nothing", "Expecting value"),
    ],
)
def test_a_strangers_round_is_looked_at(text: str, message: str, tmp_path: Path) -> None:
    checked = check_plan(parse_plan(PLAN), tmp_path)
    path = round_file(tmp_path, "d3qn", 0)
    path.parent.mkdir(parents=True)
    path.write_text(text)
    said = refusal(lambda: read_round(checked, "d3qn", 0))
    assert said.startswith(f"{path} cannot be read: ")
    assert message in said


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("tune.space={lr: {low: 0.1}}", "tune.space.lr."),
        ("tune.space={lr: {low: -1, high: 0.1}}", "tune.space.lr: agents.d3qn: lr: got -1"),
        ("tune.space={lrr: [1, 2]}", "tune.space.lrr: agents.d3qn: "),
        ("tune.space={am_lr: [1, 2]}", "tune.space.am_lr: got 1, but "),
        ("agents.other.space={am_lr: [1, 2]}", "agents.other.space.am_lr: got 1, but "),
        ("tune.space={t_max: [1, 2]}", "tune.space.t_max: cannot be tried (the section tune says how long)."),
        (
            "tune.space={lr: [0.1, 0.2]}",
            "tune.trials: got 20, but the space of d3qn has 2 choices beside the plan's own",
        ),
        ("tune.sampler=cmaes", "tune.sampler: cmaes needs two ranges or more in the space; tpe takes any."),
        ("tune.sampler=best", "tune.sampler: got best."),
        (
            "tune.set=heldout",
            "tune.set: cannot be set in a pipeline (trials are judged by the validation set, never by",
        ),
        (
            "tune.early_stop_at=[5]",
            "tune.early_stop_at: cannot be set in a pipeline (stop says when trials are stopped).",
        ),
        ("tune.stop={factor: 1}", "tune.stop.factor: got 1."),
    ],
)
def test_sweeps_that_cannot_be_made_are_refused(word: str, message: str, tmp_path: Path) -> None:
    assert refusal(lambda: check_plan(parse_plan(changed(word, plan=PLAN)), tmp_path)).startswith(message)


def test_stops_are_refused_where_they_cannot_work(tmp_path: Path) -> None:
    def said(*words: str) -> str:
        return refusal(lambda: check_plan(parse_plan(changed("tune.stop={}", *words, plan=PLAN)), tmp_path))

    grid = ["tune.sampler=grid", "tune.space={lr: [0.1, 0.2]}", "tune.trials=2"]
    assert said(*grid).startswith("tune.stop: a grid has no rounds")
    assert said("report.lower_is_better=true").startswith("tune.stop: works with metrics that are better when higher")
    own = ["train.early_stop_metric=test_return_mean", "train.early_stop_value=1.0"]
    assert said(*own).startswith("tune.stop: agents.d3qn has an early_stop_metric of its own.")


def test_a_command_line_is_a_plan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    space = read_space(["lr=1e-4..1e-2,log", "batch_size=8..64,step=8", "double_q=true,false", "agent=[rnn, dueling]"])
    assert space == {
        "lr": {"low": 1e-4, "high": 1e-2, "log": True},
        "batch_size": {"low": 8, "high": 64, "step": 8},
        "double_q": [True, False],
        "agent": ["rnn", "dueling"],
    }
    pool = pool_of_scripts(tmp_path / "pool")
    plan = sweep_plan("d3qn", pool.path, {"trials": 5, "space": {"lr": [0.1]}}, ["t_max=300", "env_args.rows=4"])
    assert plan.agents["d3qn"].settings == {"t_max": 300}
    assert plan.game.env_args["rows"] == 4
    assert plan.evaluation.sets == ["validation"]
    words = ["sweep", "--config=d3qn", f"--pool={pool.path}", "--space", "lr=1e-4..1e-2"]
    for more, message in (
        (
            ["--set", "heldout"],
            "--set: got 'heldout'; settings are chosen with the validation set, never with partners ",
        ),
        (["--space", "lr=1..2"], "--space: lr is named twice."),
        (["--space", "gamma"], "--space: got 'gamma'; write KEY=LOW..HIGH"),
        (["--space", "gamma=0..1,logs"], "--space: got 'logs' in 'gamma=0..1,logs'; allowed behind a range: log, "),
        (["--sampler", "best"], "tune.sampler: got best."),
        (["quick"], "--config: got 'd3qn', but the plan 'quick' says it."),
        (["--launcher", "cloud"], "Unknown launcher (--launcher) 'cloud'"),
    ):
        assert main([*words, *more]) == 2
        assert capsys.readouterr().err.startswith(f"error: {message}")
    for given, message in (
        (["sweep", "--config=d3qn"], "--pool: missing. Give --config, --pool and --space, or a plan."),
        (["sweep", "quick"], "PLAN: 'quick' has no section tune, which says what is tried."),
    ):
        assert main(given) == 2
        assert capsys.readouterr().err.startswith(f"error: {message}")


def pool_of_scripts(folder: Path) -> Pool:
    """Partners to learn with and to judge."""
    checked = check_plan(parse_plan(PLAN), folder)
    pool = Pool.create(folder, "foraging", GAME, checked.env.spec)
    pool.add_scripted("nearest_food", "training")
    pool.add_scripted("own_level", "validation")
    return pool
