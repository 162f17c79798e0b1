"""Draws of partners, and agents after shares of their training."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.plans import RUN, changed
from helpers.refusing import refusal
from helpers.tiny import GAME
from omg.evaluation.budget import Marks, budget_rows
from omg.evaluation.rows import read_rows, write_rows
from omg.evaluation.suite_tables import BudgetRow, BudgetScoreRow
from omg.evaluation.tables import RoomRow
from omg.experiments.draws import KindsSection
from omg.experiments.pipeline import PipelineResult, run_pipeline
from omg.experiments.plan import parse_plan
from omg.experiments.plan_check import check_plan
from omg.experiments.runs import finished_run
from omg.pools import Pool

SCRIPTS = ["nearest_food", "highest_food", "own_level"]
PLAN: dict[str, Any] = {
    "name": "shares",
    "game": {"env_config": "foraging", "env_args": GAME},
    "pool": {
        "kinds": {"scripts": SCRIPTS, "training": 1, "validation": 1, "heldout": 1, "new": ["random"]},
        "draw": 2,
        "episodes": 8,
    },
    "train": {**RUN, "seeds": 3},
    "agents": {"d3qn": None, "other": {"config": "d3qn", "seed": 11}},
    "evaluation": {"episodes": 4, "at": [0.25, 1.0], "untrained": False, "crossplay_episodes": 0},
}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> PipelineResult:
    """The whole pipeline."""
    return run_pipeline(parse_plan(PLAN), tmp_path_factory.mktemp("budget"), quiet=True)


def test_a_draw_deals_the_kinds_to_the_sets_and_always_the_same_way() -> None:
    letters = list("abcdefgh")
    kinds = KindsSection(scripts=letters, training=3, validation=2, heldout=2, new=["x", "y", "z"], new_heldout=1)
    deals = [kinds.dealt(draw) for draw in range(1, 30)]
    for deal in deals:
        counts = {name: sum(one == name for one in deal.values()) for name in ("training", "validation", "heldout")}
        assert counts == {"training": 3, "validation": 2, "heldout": 3}
        assert {script for script in deal if script in "xyz"} <= {
            key for key, name in deal.items() if name == "heldout"
        }
    assert len({tuple(sorted(deal.items())) for deal in deals}) > 25
    # Neither the machine nor the order of the file has a say.
    backwards = KindsSection(
        scripts=letters[::-1], training=3, validation=2, heldout=2, new=["z", "y", "x"], new_heldout=1
    )
    assert backwards.dealt(3) == kinds.dealt(3)
    assert KindsSection(scripts=["b", "a"], training=2, new=["x"]).dealt(1) == {
        "a": "training",
        "b": "training",
        "x": "heldout",
    }


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("pool.kinds.training=3", "pool.kinds.scripts: got 3 scripts, but 5 of them are to be dealt."),
        ("pool.kinds.new_heldout=2", "pool.kinds.new: got 1 scripts, but 2 of them are to be dealt."),
        ("pool.kinds.new=[own_level]", "pool.kinds: got 'own_level' twice; name every script once."),
        ("pool.scripted.random=training", "pool.scripted: got 'random', which pool.kinds deals; name it in one of the"),
        ("pool.kinds.new=[stand]", "pool.kinds: Script 'stand' plays sc2, but the game is foraging."),
        ("pool.draw=0", "pool.draw: got 0. "),
        ("evaluation.at=[0.5, 0.2]", "evaluation.at: got [0.5, 0.2]. "),
        ("evaluation.at=[1.5]", "evaluation.at: got [1.5]. "),
        ("evaluation.which=best", "evaluation.at: got [0.25, 1.0] and which: best; "),
        ("train.save_agents_at=[3]", "train.save_agents_at: cannot be set in a pipeline (evaluation.at says it)."),
    ],
)
def test_what_cannot_be_dealt_or_kept_is_refused(word: str, message: str, tmp_path: Path) -> None:
    assert refusal(lambda: check_plan(parse_plan(changed(word, plan=PLAN)), tmp_path)).startswith(message)


def test_every_draw_trains_members_with_seeds_of_its_own(tmp_path: Path) -> None:
    learned = changed("pool.training.d3qn=1", plan=PLAN)
    first, other = (parse_plan(changed(f"pool.draw={draw}", plan=learned)).pool for draw in (1, 3))
    assert first.training_settings == first.settings
    assert other.training_settings == {**other.settings, "seed": 2001}
    # What was made before there were draws is still what the first one asks for.
    before = parse_plan(changed()).pool.fingerprinted()
    assert not {"kinds", "draw"} & before.keys()


def test_agents_are_evaluated_as_they_were_after_shares_of_their_training(finished: PipelineResult) -> None:
    folder = finished.folder
    dealt = KindsSection(**PLAN["pool"]["kinds"]).dealt(2)
    assert {member.name: member.set for member in Pool.open(folder / "pool")} == dealt
    scores = read_rows(folder / "evaluation" / "budget_scores.csv", BudgetScoreRow)
    run = finished_run(finished.checked.runs("other"))
    assert {"last", "step_75"} <= {path.name for path in run.agent(11, "last").parent.iterdir()}
    early = {row.seed: row.steps for row in scores if row.share == 0.25 and row.agent == "other"}
    assert set(early) == {11, 12, 13}
    assert all(75 <= steps < 200 for steps in early.values())
    assert all(row.steps >= 300 for row in scores if row.share == 1.0)
    late = [row for row in scores if row.share == 1.0]
    told = read_rows(folder / "evaluation" / "scores.csv")
    assert [row.mean for row in late] == [row["mean"] for row in told]
    summary = read_rows(folder / "evaluation" / "budget.csv", BudgetRow)
    assert [(row.agent, row.share) for row in summary] == [
        (agent, share) for agent in ("d3qn", "other") for share in (0.25, 1.0)
    ]
    assert all(np.isnan(row.closed) for row in summary)
    page = (folder / "report.html").read_text()
    assert ">How soon</h2>" in page
    assert "room closed" not in page
    assert (folder / "figures" / "how_soon.png").is_file()


def test_shares_of_the_room_are_counted_from_the_best_fixed_strategy() -> None:
    rows = [
        BudgetScoreRow(
            set="heldout", agent="a", seed=seed, group="1_partner", team=team, episodes=4, metric="return", mean=mean,
            share=share, steps=10 + seed,
        )
        for share, mean in ((0.5, 2.0), (1.0, 4.0))
        for seed in range(3)
        for team in ("p", "q")
    ]  # fmt: skip
    found = budget_rows(rows, "return", {"1_partner": Marks(0.0, 3.0, 5.0)})
    assert [(row.share, row.mean, row.closed, row.steps) for row in found] == [
        (0.5, 2.0, -0.5, 11),
        (1.0, 4.0, 0.5, 11),
    ]
    assert np.isnan(Marks(0.0, 3.0, 3.0).closed(4.0))
    assert Marks(0.0, 3.0, 5.0).room == 2.0


def test_the_answer_comes_first_on_the_screen_and_on_the_page(finished: PipelineResult, tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(finished.folder, folder)
    values = dict.fromkeys(RoomRow.names(), 0) | {"set": "heldout", "group": "1_partner", "metric": "score"}
    values |= {"best_fixed": 0.25, "ceiling": 1.0, "exact": 0.75}
    write_rows(folder / "pool" / "room" / "room.csv", [values], RoomRow.names())
    again = run_pipeline(parse_plan(PLAN), folder, start="evaluate", quiet=True)
    answer = str(again.shown[0])
    assert answer.startswith(
        "Of the room between the best fixed strategy (0.25) and a known partner (1.00), d3qn closes "
    )
    assert answer.endswith("; with a partner who is not known, 67 % (0.75) is the exact optimum.")
    page, text = ((folder / f"report.{kind}").read_text() for kind in ("html", "md"))
    assert page.index("Of the room between") < page.index("<h1>")
    assert text.startswith("**Of the room between")
    assert "room closed" in page
