"""The Python API as a newcomer meets it: what objects say about themselves, and what calls say about mistakes."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import omg
from helpers.tiny import GAME, metrics, run_folder, tiny_agent, tiny_config
from omg.envs import make_env
from omg.tracking import Table


@pytest.fixture
def run(tmp_path: Path) -> omg.Run:
    """Two seeds; the better test of the first is not its last, and the one before training is no test of training."""
    text = metrics(
        (1, 0, "test_score_mean", 9.0),
        (1, 100, "test_score_mean", 2.0),
        (2, 110, "test_score_mean", 1.0),
        (1, 200, "test_score_mean", 1.5),
        (2, 210, "test_score_mean", 1.0),
        (1, 200, "test_return_mean", 0.5),
        (2, 210, "test_return_mean", 0.25),
    )
    folder = run_folder(tmp_path / "run", text, seeds=2)
    for seed in (1, 2):
        for which, t_env in (("best", 100 + 10 * (seed - 1)), ("last", 200 + 10 * (seed - 1))):
            tiny_agent(folder / "agents" / f"seed_{seed}" / which, tiny_config(folder), seed, t_env)
    return omg.Run(folder, "finished")


# ------------------------------------------------------------------------------------------------ what objects say


def test_a_run_names_its_best_tests(run: omg.Run) -> None:
    assert run.success_metric == "test_score_mean"
    assert [(row["seed"], row["t_env"], row["value"]) for row in run.best] == [(1, 100, 2.0), (2, 110, 1.0)]
    assert repr(run) == (f"Run(iql in foraging, seed 1 to 2, finished, best test_score_mean 1.5; {run.folder})")


def test_in_a_team_of_a_general_sum_game_the_own_return_counts(tmp_path: Path) -> None:
    text = metrics((1, 5, "test_score_mean", 3.0), (1, 5, "test_own_return_mean", 0.5))
    run = omg.Run(run_folder(tmp_path / "run", text), "stopped")
    assert run.success_metric == "test_own_return_mean"
    assert run.best.column("value") == [0.5]


def test_a_run_without_tests_has_no_best_one(tmp_path: Path) -> None:
    run = omg.Run(run_folder(tmp_path / "run", metrics((1, 4, "loss", 1.0))), "interrupted")
    assert len(run.best) == 0
    assert repr(run) == f"Run(iql in foraging, seed 1, interrupted; {run.folder})"


def test_a_run_whose_folder_is_gone_can_be_named(tmp_path: Path) -> None:
    assert repr(omg.Run(tmp_path / "gone", "finished")) == f"Run(finished; {tmp_path / 'gone'})"


def test_an_agent_says_what_it_is(run: omg.Run) -> None:
    assert [repr(agent) for agent in run.agents] == [
        "Agent(iql for foraging 4x4-2p-1f: 2 seats, seed 1, t_env 200)",
        "Agent(iql for foraging 4x4-2p-1f: 2 seats, seed 2, t_env 210)",
    ]
    assert all(isinstance(agent, omg.Agent) for agent in run.agents)


def test_a_table_shows_its_first_rows() -> None:
    table = omg.Table([{"seed": seed, "name": "loss", "value": seed / 3} for seed in range(7)])
    assert repr(table).splitlines() == [
        "Table(7 rows: seed, name, value)",
        "seed  name  value",
        "0     loss  0",
        "1     loss  0.3333",
        "2     loss  0.6667",
        "3     loss  1",
        "4     loss  1.333",
        "...",
    ]
    assert repr(table[:1]) == "[{'seed': 0, 'name': 'loss', 'value': 0.0}]"
    assert repr(table.where(seed=9)) == "Table(0 rows: )"
    assert repr(table.where(seed=3)).startswith("Table(1 row: ")


def test_a_table_becomes_a_data_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    pandas = pytest.importorskip("pandas")
    table = Table([{"seed": 1, "value": 0.5}, {"seed": 2, "value": 1.5}])
    frame = table.to_pandas()
    assert isinstance(frame, pandas.DataFrame)
    assert frame["value"].mean() == 1.0
    assert list(frame.columns) == ["seed", "value"]
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(omg.UserError, match=r"to_pandas: needs the package pandas, .* pip install pandas\."):
        table.to_pandas()


# ---------------------------------------------------------------------------------------------- what calls refuse


def test_evaluate_says_what_it_takes() -> None:
    with pytest.raises(TypeError, match=r"^agent: got a function, expected an agent .*examples/play_random\.py"):
        omg.evaluate(lambda seen: 0)  # type: ignore[arg-type]


def test_train_says_what_it_takes() -> None:
    env = make_env("foraging", **GAME)
    with pytest.raises(TypeError, match=r"^env: got a Foraging, .*omg\.train\('vdn', 'foraging', \.\.\.\)"):
        omg.train("vdn", env)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"^env: got a object, .*env='gymma' with key='MODULE:CLASS'"):
        omg.train("vdn", object())  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"^config: got a Foraging, expected the name of an algorithm"):
        omg.train(env, "foraging")  # type: ignore[arg-type]


# --------------------------------------------------------------------------------------- which agent of a run plays


def test_one_rule_says_which_agent_of_a_run_plays(run: omg.Run) -> None:
    from omg.api import load_seeds

    assert [agent.card.t_env for agent in load_seeds(run.folder)] == [200, 210]
    assert [agent.card.t_env for agent in load_seeds(run.folder, "best")] == [100, 110]
    assert [agent.card.t_env for agent in load_seeds(run.folder / "agents" / "seed_2", "best")] == [110]
    assert [agent.card.t_env for agent in load_seeds(run.folder / "agents" / "seed_2" / "last")] == [210]
    with pytest.raises(omg.UserError, match=r"Unknown agent \(which\) 'bst'. Did you mean 'best'\?"):
        load_seeds(run.folder, "bst")


def test_evaluate_follows_the_rule_and_ignores_no_word(run: omg.Run) -> None:
    other = tiny_agent(run.folder / "agents" / "seed_1" / "best", tiny_config(run.folder), seed=7)
    last, first = list(omg.evaluate(run, episodes=32)), run.agents[0]
    assert last == list(omg.evaluate(first, episodes=32)) == list(omg.evaluate(run.folder, episodes=32))
    best = list(omg.evaluate(run, episodes=32, which="best"))
    assert best == list(omg.evaluate(other, episodes=32)) != last
    for agent in (first, other):
        with pytest.raises(omg.UserError, match=r"^which: got 'best', but .* is one agent and no run\."):
            omg.evaluate(agent, which="best")


# ------------------------------------------------------------------------------------------------------- figures


def test_plot_takes_runs_and_folders_of_runs(run: omg.Run, tmp_path: Path) -> None:
    target = tmp_path / "new" / "folder" / "curves.png"
    assert omg.plot(run, "test_score_mean", target) == target
    assert target.read_bytes().startswith(b"\x89PNG")
    assert omg.plot([run.folder.parent], "test_score_mean", tmp_path / "all.svg").is_file()
    with pytest.raises(omg.UserError, match=r"new is not a run folder: .* and there is no run in it"):
        omg.plot(tmp_path / "new")
