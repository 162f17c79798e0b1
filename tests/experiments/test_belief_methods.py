"""Methods that need no training, with a pool: who answers whom, that held-out players stay unknown, and the words."""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers.tiny import tiny_agent, tiny_config, tiny_pool
from omg.cli import main
from omg.controllers.belief import BELIEFS, BeliefPlayer
from omg.envs import make_env
from omg.errors import UserError
from omg.evaluation.rows import read_rows
from omg.evaluation.tables import ResponseRow, ScoreRow
from omg.experiments.beliefs import check_beliefs, find_answers
from omg.experiments.room import matrix
from omg.pools import Pool


@pytest.fixture(autouse=True)
def few_scripts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everybody who may answer is compiled by itself: two scripts will do."""
    monkeypatch.setattr(matrix, "scripted_names", lambda env: ["random", "highest_food"])


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Pool:
    """To train with: a network and a script that walks to food. Held out: another walker."""
    made = tiny_pool(tmp_path_factory.mktemp("beliefs") / "pool", (11,), "nearest_food")
    made.add_scripted("highest_food", "heldout")
    return Pool.open(made.path)


def test_everybody_is_answered_by_the_best_that_is_known(pool: Pool, tmp_path: Path):
    config = tiny_config(tmp_path)
    env = make_env(config.env, **config.env_args)
    answers = find_answers(pool, env, config)
    assert answers.names == ("iql_s11", "nearest_food")
    played = [row for file in (pool.path / "room" / "parts").glob("*.csv") for row in read_rows(file, ResponseRow)]
    # The held-out script is no candidate, though it plays the game; nobody but training players is played with.
    assert {row.responder for row in played} == {"iql_s11", "nearest_food", "random"}
    assert {row.partner for row in played} == {"1xiql_s11", "1xnearest_food"}
    for team, answer in zip(("1xiql_s11", "1xnearest_food"), answers.responders, strict=True):
        assert answer.name == max((row for row in played if row.partner == team), key=lambda row: row.mean).responder
    player = answers.player("belief_mixture")
    assert isinstance(player, BeliefPlayer)
    assert (player.plastic, player.mixture) == (False, True)


def test_methods_are_further_agents_of_an_evaluation(pool: Pool, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    run = tiny_agent(tmp_path / "agent", tiny_config(tmp_path), 3)
    words = ["--pool", str(pool.path), "--episodes", "8", "--belief", "plastic", "--csv", str(tmp_path / "a.csv")]
    assert main(["evaluate", str(run), *words]) == 0
    rows = read_rows(tmp_path / "a.csv", ScoreRow)
    assert {(row.agent, row.team, row.seed) for row in rows} == {
        ("agent", "1xhighest_food", 3),
        ("plastic", "1xhighest_food", -1),
    }
    assert "plastic" in capsys.readouterr().out.lower()


def test_words_that_are_no_methods_are_refused(pool: Pool, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(UserError, match=r"Unknown method \(--belief\) 'plastik'. Did you mean 'plastic'\?"):
        check_beliefs("--belief", ["plastik"])
    with pytest.raises(UserError, match=r"evaluation\.beliefs: got 'bayes' twice"):
        check_beliefs("evaluation.beliefs", ["bayes", "bayes"])
    assert set(BELIEFS) == {"plastic", "bayes", "belief_mixture"}
    run = str(tiny_agent(tmp_path / "agent", tiny_config(tmp_path), 3))
    for words, message in (
        (["--belief", "plastic"], "--belief: needs a pool"),
        (["--pool", str(pool.path), "--belief", "plastic,"], "Unknown method (--belief) ''"),
    ):
        assert main(["evaluate", run, *words]) == 2
        assert message in " ".join(capsys.readouterr().err.split())
