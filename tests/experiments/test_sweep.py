"""Sweeps: the same outcome whoever does the trials, also when they are killed, and what is made of it."""

from __future__ import annotations

import math
import os
import signal
import sys
import threading
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from rich.console import Console

from helpers.plans import RUN, changed
from helpers.quick_trials import TOO_LARGE, quick
from helpers.refusing import refusal
from helpers.tiny import GAME
from omg.cli import main
from omg.config import resolve
from omg.config.algorithms import remove_algorithm
from omg.errors import UserError
from omg.evaluation.rows import read_rows
from omg.evaluation.suite_tables import SliceRow
from omg.experiments.ahead import _reads, run_ahead
from omg.experiments.ledger import LEASES, Ledger
from omg.experiments.pipeline import plan_tasks
from omg.experiments.plan import parse_plan
from omg.experiments.plan_check import check_plan
from omg.experiments.stages import Workplace
from omg.experiments.stages.tune import TuneStage
from omg.experiments.sweep import SweepResult, read_space, read_sweep, run_sweep, sweep_plan
from omg.experiments.trials import read_round, round_file, trial_run
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
        "trials": 3,
        "sampler": "tpe",
        "round": 3,
        "seeds": 1,
        "t_max": 200,
        "episodes": 8,
        "space": {"lr": {"low": 1e-4, "high": 0.1, "log": True}},
    },
    "train": {**RUN, "lr": 0.0005},
    "agents": {"d3qn": None},
    "evaluation": {"episodes": 2, "crossplay_episodes": 0},
    "report": {"metric": "own_return"},
}
TWENTY = [
    "tune.trials=20",
    "tune.round=5",
    "tune.t_max=300",
    "tune.space.gamma={low: 0.5, high: 0.99}",
    "report.metric=return",
]
"""Trials of which each is a run of its own."""


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> SweepResult:
    """A small sweep of real runs, one after the other."""
    return run_sweep(parse_plan(PLAN), tmp_path_factory.mktemp("calm"), quiet=True)


def found(folder: Path) -> dict[str, bytes]:
    """All that a sweep finds, byte by byte."""
    place = folder / "tune"
    files = [*place.glob("*.csv"), *place.glob("rounds/*"), *place.glob("parts/*"), *place.glob("best/*")]
    return {str(path.relative_to(place)): path.read_bytes() for path in files}


def kill(folder: Path, number: int) -> None:
    """Ends the process that does a trial, without grace, as soon as its run is there."""
    for _ in range(2400):
        holder = look(folder / LEASES, f"tune-d3qn-{number}").holder
        if holder is not None and any(trial_run(folder, "d3qn", number).glob("*/config.yaml")):
            os.kill(holder.pid, signal.SIGKILL)
            return
        time.sleep(0.05)


@pytest.mark.parametrize(("sampler", "stop"), [("tpe", "{first: 0.33, factor: 3}"), ("cmaes", "null")])
def test_the_same_is_found_after_any_interruption(
    sampler: str, stop: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick(monkeypatch)
    plan = parse_plan(changed(*TWENTY, f"tune.sampler={sampler}", f"tune.stop={stop}", plan=PLAN))
    whole = run_sweep(plan, tmp_path / "whole", quiet=True)
    assert len(whole.rows) == 20
    stopped = [row for row in whole.rows if row.chosen == "stopped"]
    assert (stop == "null") == (not stopped)
    assert all(str(row.mean) == "nan" and row.trial >= 5 for row in stopped)
    assert any(row.chosen == "diverged" for row in whole.rows)
    best = max((row for row in whole.rows if str(row.mean) != "nan"), key=lambda row: row.mean)
    assert [row.trial for row in whole.rows if row.chosen == "yes"] == [best.trial]
    assert best.mean > whole.rows[0].mean
    # Ctrl-C after every few trials; each time the command is given again.
    done, write = [], TuneStage._write

    def interrupted(stage: TuneStage, label: str, number: int, *given: Any) -> None:
        if len(done) % 4 == 3:
            done.append(-1)
            raise KeyboardInterrupt
        done.append(number)
        write(stage, label, number, *given)

    monkeypatch.setattr(TuneStage, "_write", interrupted)
    tries = 0
    while not (tmp_path / "again" / "tune" / "trials.csv").exists():
        tries += 1
        with suppress(KeyboardInterrupt):
            run_sweep(plan, tmp_path / "again", quiet=True)
    assert tries > 5
    assert sorted(number for number in done if number >= 0) == list(range(20))
    assert found(tmp_path / "again") == found(tmp_path / "whole")


def test_killed_workers_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = parse_plan(changed(*TWENTY, "tune.round=2", plan=PLAN))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("omg.experiments.pipeline.run_ahead", partial(run_ahead, module="helpers.quick_trials"))
        patch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
        killers = [threading.Thread(target=kill, args=(tmp_path / "killed", number)) for number in (0, 1)]
        for killer in killers:
            killer.start()
        with pytest.raises(UserError, match="the process was ended by signal 9"):
            run_sweep(plan, tmp_path / "killed", quiet=True, launcher=LauncherSettings(jobs=2))
        for killer in killers:
            killer.join()
    assert not list((tmp_path / "killed" / "tune").glob("parts/*"))
    quick(monkeypatch)
    again = run_sweep(read_sweep(tmp_path / "killed", {}), tmp_path / "killed", quiet=True)
    assert {f"tune d3qn {number}" for number in range(20)} <= set(again.done)
    run_sweep(plan, tmp_path / "whole", quiet=True)
    assert found(tmp_path / "killed") == found(tmp_path / "whole")
    assert run_sweep(read_sweep(tmp_path / "killed", {}), tmp_path / "killed", quiet=True).done == ()


def test_jobs_of_slurm_find_what_one_process_finds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("submitit")
    plan = parse_plan(changed(*TWENTY, "tune.trials=2", "tune.round=2", plan=PLAN))
    monkeypatch.setattr("omg.experiments.pipeline.run_ahead", partial(run_ahead, module="helpers.quick_trials"))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    monkeypatch.setenv("TRIAL_SECONDS", "0")
    through = LauncherSettings(launcher="slurm", executor="local", jobs=2)
    done = run_sweep(plan, tmp_path / "slurm", quiet=True, launcher=through).done
    assert {"tune d3qn 0", "tune d3qn 1"} <= set(done)
    logs = {path.name for path in (tmp_path / "slurm" / "logs").glob("tune*.log")}
    assert logs == {"tune-d3qn-0.log", "tune-d3qn-1.log"}, "done by jobs of their own"
    quick(monkeypatch)
    run_sweep(plan, tmp_path / "here", quiet=True)
    assert found(tmp_path / "slurm") == found(tmp_path / "here")


def test_trials_that_diverge_take_nobody_with_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    quick(monkeypatch)
    words = ["tune.sampler=random", "tune.trials=20", "tune.round=10", "tune.seeds=2", "report.metric=return"]
    result = run_sweep(parse_plan(changed(*words, plan=PLAN)), tmp_path, quiet=True)
    rates = {row.trial: float(row.settings.partition("=")[2]) for row in result.rows[1:]}
    large = {number for number, rate in rates.items() if rate > TOO_LARGE}
    assert large
    assert {row.trial for row in result.rows if row.chosen == "diverged"} == large
    assert {row.trial for row in result.rows if str(row.mean) == "nan"} == large
    assert all(row.steps == (42 if row.trial in large else 200) for row in result.rows)
    best = next(row for row in result.rows if row.chosen == "yes")
    assert abs(math.log10(rates[best.trial]) + 2) == min(abs(math.log10(rate) + 2) for rate in rates.values())


def test_a_sweep_says_what_it_has_found(calm: SweepResult, capsys: pytest.CaptureFixture[str]) -> None:
    rounds = ["tune d3qn ask_0", "tune d3qn run_0"]
    assert calm.done == ("pool", *rounds, "tune tables")
    assert [row.agent for row in calm.rows] == ["d3qn"] * 3
    best = max(calm.rows, key=lambda row: row.mean)
    assert [row.trial for row in calm.rows if row.chosen == "yes"] == [best.trial]
    assert calm.rows[0].settings == "as in the plan"
    assert len({row.settings for row in calm.rows}) == 3
    slices = read_rows(calm.folder / "tune" / "slices.csv", SliceRow)
    assert [(row.key, row.mean) for row in slices] == [("lr", row.mean) for row in calm.rows]
    assert slices[0].place == 0.0005
    page = calm.page.read_text()
    assert ">Trials</h2>" in page
    assert ">What each setting is worth</h2>" in page
    assert "The held-out set was not touched." in page
    assert (calm.folder / "tune" / "d3qn.journal").is_file()
    # What is told on the screen, without doing anything again.
    assert main(["sweep", str(calm.folder), "--quiet"]) == 0
    said = capsys.readouterr().out
    assert "d3qn: best 3 of 3 trials" in said
    assert f"--config={calm.best['d3qn']}" in said


def test_the_best_is_a_configuration(calm: SweepResult, tmp_path: Path) -> None:
    path = calm.best["d3qn"]
    assert path.read_text().startswith("# d3qn, tuned: trial ")
    given = yaml.safe_load(path.read_text())
    assert not {"seed", "seeds", "t_max"} & set(given)
    number = next(row.trial for row in calm.rows if row.chosen == "yes")
    checked = check_plan(parse_plan(PLAN), calm.folder)
    settings = read_round(checked, "d3qn", 0).settings[number]
    config = resolve(str(path), "foraging").config
    remove_algorithm(path.stem)
    assert config.lr == settings.get("lr", 0.0005)
    assert (config.agent, config.rnn_hidden_dim) == ("dueling", 16)
    # The pipeline of the same folder trains with it.
    assert checked.trained_with("d3qn").lr == config.lr


def tasks(folder: Path, *words: str) -> dict[str, str]:
    """Title -> fingerprint of all that a plan's trials take."""
    checked = check_plan(parse_plan(changed(*words, plan=PLAN)), folder)
    place = Workplace(checked, folder, Ledger(folder), Console(quiet=True), quiet=True)
    return {task.title: task.fingerprint for task in plan_tasks(place) if task.stage == "tune"}


def test_more_trials_go_on_and_other_ones_are_others(tmp_path: Path) -> None:
    before, more = tasks(tmp_path), tasks(tmp_path, "tune.trials=4")
    assert set(more) - set(before) == {f"tune {label} {kind}_1" for label in PLAN["agents"] for kind in ("ask", "run")}
    assert [title for title in before if before[title] != more[title]] == ["tune tables"]
    # A last round that was not full is proposed anew, and nothing before it.
    full = tasks(tmp_path, "tune.trials=6")
    assert {title for title in more if more[title] != full[title]} == {
        *(f"tune {label} {kind}_1" for label in PLAN["agents"] for kind in ("ask", "run")),
        "tune tables",
    }
    assert len(tasks(tmp_path, "tune.trials=1000", "tune.round=1")) == 2001
    for word in ("tune.draw=2", "tune.sampler=random", "tune.space.lr.high=0.2", "report.lower_is_better=true"):
        other = tasks(tmp_path, word)
        assert all(before[title] != other.get(title) for title in before)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"settings": [{"lr": 0.1}]}', "it has 1 trials, not 3"),
        (
            '{"settings": [' + ", ".join(['{"local_results_path": "/tmp"}'] * 3) + "]}",
            "local_results_path is not tried",
        ),
        ('{"settings": [' + ", ".join(["{}"] * 3) + '], "stop": {"soon": 1}}', "its steps are no numbers"),
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
        ("tune.space={lrr: [1, 2, 3]}", "tune.space.lrr: agents.d3qn: "),
        ("tune.space={am_lr: [1, 2, 3]}", "tune.space.am_lr: got 1, but "),
        ("agents.d3qn.space={lr: {low: 2, high: 1}}", "tune.space.lr: got 2 to 1; expected two numbers, the lower"),
        ("agents.d3qn.space={am_lr: [1, 2, 3]}", "agents.d3qn.space.am_lr: got 1, but "),
        ("tune.space={t_max: [1, 2, 3]}", "tune.space.t_max: cannot be tried (the section tune says how long)."),
        (
            "tune.space={lr: [0.1]}",
            "tune.trials: got 3, but the space of d3qn has 1 choices beside the plan's own",
        ),
        ("tune.sampler=cmaes", "tune.sampler: cmaes needs two ranges or more in the space; tpe takes any."),
        ("tune.sampler=best", "tune.sampler: got 'best'."),
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
    plan = sweep_plan("d3qn", pool.path, {"space": {"lr": [0.1]}}, ["t_max=300", "env_args.rows=4"])
    assert plan.tune is not None
    assert (plan.tune.trials, plan.tune.sampler, plan.tune.stop) == (20, "tpe", None)
    assert plan.agents["d3qn"].settings == {"t_max": 300}
    assert plan.game.env_args["rows"] == 4
    assert plan.evaluation.sets == ["validation"]
    quick = read_sweep("quick", {"space": {"lr": [0.1]}, "trials": 2}, ["train.t_max=300"], "return").values()
    assert (quick["tune"]["trials"], quick["tune"]["sampler"], quick["report"]["metric"]) == (2, "tpe", "return")  # type: ignore[index]
    words = ["sweep", "--config=d3qn", f"--pool={pool.path}", "--space", "lr=1e-4..1e-2"]
    for more, message in (
        (
            ["--set", "heldout"],
            "--set: got 'heldout'; settings are chosen with the validation set, never with partners ",
        ),
        (["--space", "lr=1..2"], "--space: lr is named twice."),
        (["--space", "gamma"], "--space: got 'gamma'; write KEY=LOW..HIGH"),
        (["--space", "gamma=0..1,logs"], "--space: got 'logs' in 'gamma=0..1,logs'; allowed behind a range: log, "),
        (["--sampler", "best"], "tune.sampler: got 'best'."),
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


def test_a_trial_elsewhere_is_given_its_round_and_not_what_it_was_made_from(tmp_path: Path) -> None:
    words = [*TWENTY, "tune.round=10", "pool.episodes=8"]
    checked = check_plan(parse_plan(changed(*words, plan=PLAN)), tmp_path)
    place = Workplace(checked, tmp_path, Ledger(tmp_path), Console(quiet=True), quiet=True)
    trial = next(task for task in plan_tasks(place) if task.title == "tune d3qn 19")
    assert _reads(tmp_path, [trial]) == ("pipeline.yaml", "stages", "tune/rounds/d3qn-1.json", "pool")
