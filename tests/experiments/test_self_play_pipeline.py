"""Agents that learn in all seats: what a plan may say about them, their table, and one small pipeline."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from helpers.hunted import GAME
from helpers.plans import PLAN as SMALL
from helpers.plans import RUN, changed
from helpers.refusing import refusal
from omg.cli.experiments import print_verdict
from omg.evaluation.statistics import score_interval
from omg.experiments.adaptation import Meeting
from omg.experiments.adaptation.drawing import adaptation_chapter
from omg.experiments.pipeline import PipelineResult, run_pipeline
from omg.experiments.plan import Plan, parse_plan, read_plan
from omg.experiments.plan_check import CheckedPlan, check_plan
from omg.experiments.results import (
    adaptation_files,
    finished_run,
    read_rows,
    report_files,
    self_play_files,
    table_files,
)
from omg.experiments.stages import Workplace
from omg.experiments.stages.adapt import AdaptStage
from omg.experiments.stages.evaluate import EvaluateStage
from omg.experiments.stages.pool import PoolStage
from omg.experiments.stages.report import ReportStage
from omg.pools import load_agent
from omg.report.page import report_input, write_markdown, write_page
from omg.report.self_play import self_play_rows, self_play_summary, self_play_table
from omg.report.verdict import answers

PLAN: dict[str, Any] = {
    "name": "planned",
    "game": {"env_config": "stag_hunt", "env_args": GAME},
    "pool": {"scripted": {"nearest_hare": "heldout", "random": "heldout"}, "episodes": 4},
    "train": {"self_play": True, "seeds": 3},
    "agents": {"ppo": None, "other": {"config": "ppo", "seed": 11}},
    "evaluation": {"groups": [], "crossplay_episodes": 0},
    "adaptation": {"episodes": 4},
    "report": {"agent": "other", "names": {"ppo": "PPO"}},
}
PLAYED: dict[str, Any] = {
    **PLAN,
    "name": "alone",
    "game": SMALL["game"],
    "pool": {"scripted": {"random": "heldout"}, "episodes": 8},
    # The pool of the small plan learns by the same program, and so do both agents: one compilation serves all.
    "train": {**RUN, "self_play": True, "seeds": 2},
    "agents": {"d3qn": None, "other": {"config": "d3qn", "seed": 11}},
    "adaptation": {"episodes": 4, "games": 4, "frozen": True},
    "report": {"agent": "other"},
}


def plan_with(*words: str) -> Plan:
    """The plan with some keys set."""
    return parse_plan(changed(*words, plan=PLAN))


# ------------------------------------------------------------------------------------------------------- plans


def test_an_agent_in_all_seats_has_its_plain_configuration(tmp_path: Path) -> None:
    checked = check_plan(
        plan_with("agents.third={config: ps_ppo, self_play: false}", "pool.training={ppo: 1}"), tmp_path
    )
    assert checked.self_play == ("ppo", "other")
    for label in checked.self_play:
        config = checked.agents[label]
        assert (config.name, config.train_alg, config.team, config.mac) == (label, "ppo", None, "basic_mac")
        assert config.init_param_path is None
    assert checked.agents["third"].team == "2pool1ps_ppo"
    assert checked.agents["third"].init_param_path == str(checked.pool)
    assert checked.evaluated == ()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["agents.other.config=2pool1ppo"], "agents.other.config: got the team '2pool1ppo', but with self_play one "),
        (["agents.ppo.self_play=false"], "pool.training: missing. Give team-mates to train ppo with, "),
        (["prior.t_max=10"], "pool.training: missing. Give team-mates to train the prior with, "),
        (
            ["agents.omg={config: ippo_omg}", "prior.t_max=10", "pool.training={ppo: 1}"],
            "agents.omg.self_play: got True, but the section prior is about the pool's players",
        ),
        (["agents.other.am_model=identity_am"], "agents.other: am_model: identity_am names the players of a team"),
        (["agents.other.train_alg=iql"], "agents.other: Unknown train_alg for --config=ppo: 'iql'."),
        (["agents.lola={agent: idv_conv}"], "adaptation.lola: learner: got lola_learner in the team "),
        (["pool.scripted={}"], "pool: nobody is in it. Give co-players, e.g. heldout: {iql: 4}."),
        (["train.self_play=2"], "train.self_play: got 2. "),
        (["report.baselines=[untrained]"], "Unknown agent (report.baselines) 'untrained'. Allowed: other, ppo."),
        (
            ["agents.ppo.self_play=false", "pool.training={ppo: 1}", "adaptation.agents=[other]"],
            "evaluation.groups: got none, but nothing else compares other with ppo. Give groups, ",
        ),
    ],
)
def test_what_cannot_learn_in_all_seats_is_refused_before_anything_is_written(
    words: list[str], message: str, tmp_path: Path
) -> None:
    assert refusal(lambda: run_pipeline(plan_with(*words), tmp_path / "out", quiet=True)).startswith(message)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("name", "steps", "entropy", "scripts"),
    [
        ("stag_hunt", 200_000, 0.02, {"random", "nearest_stag", "nearest_hare"}),
        ("stag_hunt_4h2s", 300_000, 0.02, {"random", "nearest_stag", "nearest_hare"}),
        ("snowdrift", 110_000, 0.01, {"random", "nearest_drift", "never_shovels"}),
    ],
)
def test_the_presets_of_social_games(name: str, steps: int, entropy: float, scripts: set[str], tmp_path: Path) -> None:
    plan = read_plan(name)
    checked = check_plan(plan, tmp_path)
    assert checked.self_play == tuple(checked.agents) == ("hop", "hop_plus", "direct_om", "ppo", "ps_ppo")
    assert (checked.agent, checked.baselines) == ("hop", ("hop_plus", "direct_om", "ppo", "ps_ppo"))
    assert (checked.metric, checked.evaluated, checked.env.spec.n_agents) == ("reward_per_player", (), 4)
    for label, config in checked.agents.items():
        assert (config.seeds, config.batch_size_run, config.batch_size, config.buffer_size) == (5, 128, 128, 128)
        planner = label in ("hop", "hop_plus", "direct_om")
        assert (config.t_max, config.test_nepisode) == ((steps, 64) if planner else (700_000, 128))
        assert config.entropy_coef == (0.01 if planner else entropy)
    hop = checked.agents["hop"]
    searches = (hop.hop_simulations, hop.hop_samples, hop.hop_test_simulations, hop.hop_test_samples)
    assert searches == ((64, 2, 100, 5) if name == "snowdrift" else (32, 2, 100, 3))
    assert (plan.pool.heldout, set(plan.pool.scripted)) == ({"lola": 2, "ppo": 2, "ps_ppo": 2}, scripts)
    assert plan.adaptation is not None
    assert plan.adaptation.entrants(["hop"]) == {
        "hop": ("hop", {}, False),
        "hop_without_within": ("hop", {"hop_belief_within": False}, False),
        "hop_without_between": ("hop", {"hop_belief_between": False}, False),
    }


# ------------------------------------------------------------------------------------------------------- tables


def curves(label: str, *last: float) -> list[dict[str, Any]]:
    """Score rows of an agent whose seeds end with these values, from metrics that are not in order."""
    metrics = [
        {"seed": seed, "t_env": t_env, "name": name, "value": value}
        for seed, value in enumerate(last)
        for t_env, name, value in (
            (90, "test_score_mean", value),
            (10, "test_score_mean", 9.0),
            (95, "score_mean", 8.0),
        )
    ]
    return self_play_rows(label, metrics, "score", episodes=16)


def test_the_last_test_of_each_seed_counts() -> None:
    rows = [*curves("a", 1.0, 2.0, 6.0), *curves("b", 3.0, 4.0)]
    first, second = self_play_summary(rows)
    estimate = score_interval(np.asarray([[1.0], [2.0], [6.0]]))
    assert (first["agent"], first["seeds"], first["steps"], first["episodes"]) == ("a", 3, 90, 48)
    assert (first["mean"], first["low"], first["high"]) == tuple(estimate)
    assert first["low"] < 3.0 < first["high"]
    assert (first["lowest"], first["highest"]) == (1.0, 6.0)
    # Two seeds say too little about others.
    assert (second["mean"], second["lowest"], second["highest"]) == (3.5, 3.0, 4.0)
    assert math.isnan(second["low"])
    head, lines = self_play_table([first, second], {"b": "B"})
    assert head[1] == "score [95 %]"
    assert lines[0][:4] == ["a", f"3.00 [{estimate.low:.2f}, {estimate.high:.2f}]", "1.00", "6.00"]
    assert lines[1] == ["B", "3.50", "3.00", "4.00", "2", "90"]


def test_without_an_evaluation_the_verdict_is_about_self_play_and_first_episodes(tmp_path: Path) -> None:
    rows = [*curves("a", 1.0, 1.1, 1.2), *curves("b", 3.0, 3.1, 3.2), *curves("c", 1.0, 1.1, 1.2)]
    episodes = [
        {"agent": agent, "seed": seed, "co_player": f"p{mate}", "episode": episode, "reward": reward + 0.01 * seed}
        for agent, reward in (("random", 0.0), ("a", 2.0), ("b", 2.0))
        for seed in range(3)
        for mate in range(3)
        for episode in (1, 2)
    ]
    report = report_input("t", [], "score", "b", ["a", "c"], self_play=rows, adaptation=adaptation_chapter(episodes))
    assert [(row["baseline"], row["group"], row["verdict"]) for row in report.comparison] == [
        ("a", "self_play", "better"),
        ("a", "first_episodes", "no difference shown"),
        ("c", "self_play", "better"),
    ]
    first, second = answers(report.comparison, {"a": "A"})
    assert (first.word, second.word) == ("In part", "Yes")
    assert first.headline == (
        "b is better than A in self-play; no difference is shown in the first episodes with new co-players."
    )
    assert first.sentences[0].startswith("b scores 2.00 more than A in self-play (95 % interval ")
    assert first.sentences[0].endswith(
        "3 seeds each). A training of b does better than a training of A in 100 % of cases."
    )
    assert second.headline == "b is better than c."
    text = write_markdown(tmp_path / "r.md", report).read_text()
    assert "## Self-play\n\n| agent | score [95 %] | lowest | highest | seeds | steps |" in text
    assert "## Scores" not in text
    page = write_page(tmp_path / "r.html", report).read_text()
    assert ">Self-play</h2>" in page
    assert page.count("data-chart=") == 3
    worse = report_input("t", [], "score", "b", ["a"], lower_is_better=True, self_play=rows)
    assert [answer.word for answer in answers(worse.comparison)] == ["No"]


# -------------------------------------------------------------------------------- what depends on what, with fake work


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> None:
    """All work as files with nothing in them."""

    def make(*paths: Path) -> None:
        for path in paths:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()

    monkeypatch.setattr(Workplace, "finish", lambda place, where, config: make(where / "run" / "done"))
    monkeypatch.setattr(PoolStage, "train", lambda stage: make(stage.checked.pool / "pool.json"))
    monkeypatch.setattr(EvaluateStage, "write_scores", lambda stage, label, file: make(file))
    monkeypatch.setattr(EvaluateStage, "write_tables", lambda stage: make(*table_files(stage.checked)))
    monkeypatch.setattr(EvaluateStage, "write_self_play", lambda stage: make(*self_play_files(stage.checked)))
    monkeypatch.setattr(AdaptStage, "write_tables", lambda stage: make(*adaptation_files(stage.checked)))
    monkeypatch.setattr(AdaptStage, "agent_rows", lambda stage, label: [])
    stand_in: Any = SimpleNamespace(random_rows=list)
    monkeypatch.setattr(AdaptStage, "meeting", stand_in)
    monkeypatch.setattr(ReportStage, "write", lambda stage, before: make(*report_files(stage.checked)))


ADAPTED = ["adapt ppo", "adapt other", "adapt random", "adapt tables"]
ALL = ["pool", "train ppo", "train other", "evaluate self-play", *ADAPTED, "report"]
SCORED = ["evaluate scores ppo", "evaluate scores other", "evaluate scores untrained", "evaluate tables", "report"]


@pytest.mark.parametrize(
    ("word", "redone"),
    [
        ("pool.episodes=5", ["pool", *ADAPTED, "report"]),
        ("train.lr=0.1", [title for title in ALL if title not in ("pool", "adapt random")]),
        ("agents.other.lr=0.1", ["train other", "evaluate self-play", "adapt other", "adapt tables", "report"]),
        ("agents.ppo.self_play=true", []),
        ("evaluation.groups=[2_homologue]", SCORED),
        ("report.title=x", ["report"]),
    ],
)
def test_agents_in_all_seats_do_not_depend_on_the_pool(
    word: str, redone: list[str], fake: None, tmp_path: Path
) -> None:
    def go(*words: str) -> list[str]:
        return list(run_pipeline(plan_with(*words), tmp_path, quiet=True).done)

    assert go() == ALL
    assert go() == []
    assert sorted(go(word)) == sorted(redone)


# --------------------------------------------------------------------------------------------------- end to end


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> PipelineResult:
    """A pipeline of seconds; a random player earns nothing in it, as its games would have to be compiled."""

    def nothing(meeting: Meeting) -> list[dict[str, Any]]:
        return meeting._rows("random", np.zeros((len(meeting.team), meeting.rules.episodes)))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Meeting, "random_rows", nothing)
        return run_pipeline(parse_plan(PLAYED), tmp_path_factory.mktemp("pipeline") / "alone", quiet=True)


def last_tests(checked: CheckedPlan, label: str) -> list[float]:
    """The score that every seed found in its last test."""
    rows = [row for row in finished_run(checked.runs(label)).metrics() if row["name"] == "test_score_mean"]
    return [[float(row["value"]) for row in rows if row["seed"] == seed][-1] for seed in {row["seed"] for row in rows}]


def test_self_play_is_trained_tabled_and_shown(
    finished: PipelineResult, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    folder, checked = finished.folder, finished.checked
    assert list(finished.done) == [title.replace("ppo", "d3qn") for title in ALL]
    assert not (folder / "evaluation" / "scores.csv").exists()
    for row in read_rows(folder / "self_play.csv"):
        values = last_tests(checked, row["agent"])
        assert (row["metric"], row["seeds"], row["episodes"]) == ("score", 2, 8)
        assert row["mean"] == pytest.approx(np.mean(values))
        assert (row["lowest"], row["highest"]) == (min(values), max(values))
        assert row["steps"] >= 300
    assert [row["agent"] for row in finished.self_play] == ["d3qn", "other"]
    agent = load_agent(finished_run(checked.runs("other")).agent(11, "last"))
    assert (agent.card.algorithm, agent.config.name, agent.config.team) == ("d3qn", "other", None)
    page = (folder / "report.html").read_text()
    for words in (
        ">Self-play</h2>",
        "Tests during training, in all seats.",
        "The agents learned in all seats for 300",
    ):
        assert words in page
    for name in ("curves", "adaptation", "differences_score", "differences_own_return"):
        assert (folder / "figures" / f"{name}.png").is_file()
    assert {(row["baseline"], row["group"]) for row in finished.comparison} == {
        ("d3qn", "self_play"),
        ("d3qn", "first_episodes"),
    }
    assert {row["co_player"] for row in finished.adaptation} == {"all", "random"}
    print_verdict(finished)
    text = capsys.readouterr().out
    assert re.search(r"agent +score \[95 %\] +lowest +highest +seeds +steps", text)
    assert json.loads((folder / "stages" / "evaluate" / "self-play.json").read_text())["status"] == "done"


def test_agents_in_all_seats_can_be_evaluated_in_one(finished: PipelineResult) -> None:
    words = ("evaluation.groups=[1_partner]", "evaluation.episodes=2", "evaluation.untrained=false")
    again = run_pipeline(parse_plan(changed(*words, plan=PLAYED)), finished.folder, only="evaluate", quiet=True)
    assert list(again.done) == ["evaluate scores d3qn", "evaluate scores other", "evaluate tables"]
    scores = read_rows(finished.folder / "evaluation" / "scores.csv")
    assert {(row["agent"], row["seed"]) for row in scores} == {
        (agent, seed) for agent, first in (("d3qn", 1), ("other", 11)) for seed in (first, first + 1)
    }
    assert {row["team"] for row in scores} == {"1xrandom"}
    assert {row["group"] for row in again.comparison} == {"1_partner"}
