"""What commands print: the end of a run, who plays, tables in terminals and pipes, progress, names for the shell."""

from __future__ import annotations

import importlib
import io
import os
import pty
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Console

import omg
from helpers.tiny import metrics, run_folder, tiny_agent, tiny_config, tiny_pool
from omg.cli import command_names, main, progress
from omg.cli.lists import complete_algorithm, complete_env, page_of
from omg.cli.tables import print_table
from omg.config import algorithm_names, env_config_names
from omg.config.layers import summary
from omg.tracking import Table

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two seeds with a best and a last agent each."""
    names = ("test_return_mean", "test_score_mean", *(f"test_confusion_{number}" for number in range(70)))
    rows = [(seed, t_env, name, t_env / 1000) for seed in (1, 2) for t_env in (0, 900, 800) for name in names]
    folder = run_folder(tmp_path_factory.mktemp("runs") / "run", metrics(*rows), seeds=2)
    for seed in (1, 2):
        for which, t_env in (("best", 900), ("last", 1000 + seed)):
            tiny_agent(folder / "agents" / f"seed_{seed}" / which, tiny_config(folder), seed, t_env)
    return folder


def printed(words: list[str], capsys: pytest.CaptureFixture[str], code: int = 0) -> list[str]:
    assert main(words) == code
    return capsys.readouterr().out.splitlines()


# ------------------------------------------------------------------------------------------------ the end of a run


def test_a_run_ends_with_what_matters_and_what_to_type(
    run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("omg.api.resume", lambda folder, **_: omg.Run(run, "finished"))
    lines = printed(["resume", str(run)], capsys)
    table = [line.split()[0] for line in lines if line.strip().startswith("test_")]
    assert table == ["test_score_mean", "test_return_mean"], "the success metric first, no confusion"
    assert lines[-5:] == [
        f"70 more metrics of the tests: {run / 'metrics.csv'}",
        "Best test: test_score_mean 0.9000 (mean of 2 seeds) at t_env 900",
        f"Run folder: {run}",
        f"Evaluate: omg evaluate {run}",
        f"Draw: omg plot {run} --metric test_score_mean",
    ]
    monkeypatch.setattr("omg.api.resume", lambda folder, **_: omg.Run(run, "interrupted"))
    assert f"Continue: omg resume {run}" in printed(["resume", str(run)], capsys, code=130)


def test_what_to_type_fits_the_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = run_folder(tmp_path / "run", metrics((1, 5, "test_return_mean", 0.5)))
    (folder / "agents").mkdir()
    team = tiny_config(folder, "1pool1iql", init_param_path="POOL")
    hosted = tiny_config(folder).model_copy(update={"env": "gymma", "env_args": {"key": "own_game:Meeting"}})
    for config, command in ((team, f"Evaluate: omg evaluate {folder} --pool POOL"), (hosted, "")):
        run = SimpleNamespace(
            folder=folder, status="finished", metrics=[], best=Table([]), success_metric="", signal=None
        )
        run.config = config
        monkeypatch.setattr("omg.api.resume", lambda folder_, run=run, **_: run)
        lines = printed(["resume", str(folder)], capsys)
        assert lines[1:] == ([command] if command else []), "games on the host cannot be evaluated"


def test_few_metrics_are_all_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = run_folder(tmp_path / "run", metrics((1, 5, "test_prior_loss", 0.5), (1, 5, "test_return_std", 0.25)))
    monkeypatch.setattr("omg.api.resume", lambda folder_, **_: omg.Run(folder, "finished"))
    lines = printed(["resume", str(folder)], capsys)
    assert [line.split()[0] for line in lines if line.startswith("  test_")] == ["test_prior_loss", "test_return_std"]
    assert lines[-1] == f"Run folder: {folder}", "nobody was saved and nothing was best: there is nothing to type"


# ----------------------------------------------------------------------------------------------------- who plays


def test_evaluate_names_the_seed_and_the_agent(run: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    table = tmp_path / "table.csv"
    lines = printed(["evaluate", str(run), "--episodes", "4", "--csv", str(table)], capsys)
    titles = [line.rstrip() for line in lines if str(run) in line]
    assert titles == [
        f"{run}: seed {seed}, last agent (t_env 1,00{seed}), 4 episodes (games of --seed 0)" for seed in (1, 2)
    ]
    head, *rows = table.read_text().splitlines()
    assert head == "seed,metric,mean,std,low,high,episodes"
    assert {row.split(",")[0] for row in rows} == {"1", "2"}
    lines = printed(["evaluate", str(run), "--episodes", "4", "--which", "best", "--seed", "3"], capsys)
    assert f"{run}: seed 2, best agent (t_env 900), 4 episodes (games of --seed 3)" in [line.rstrip() for line in lines]
    agent = run / "agents" / "seed_2" / "last"
    lines = printed(["evaluate", str(agent), "--episodes", "4", "--csv", str(table)], capsys)
    assert lines[0].rstrip() == f"{agent}: seed 2 (t_env 1,002), 4 episodes (games of --seed 0)"
    assert table.read_text().startswith("metric,mean,")


def test_several_runs_are_evaluated_one_after_the_other(run: Path, tmp_path: Path) -> None:
    table, agent = tmp_path / "table.csv", run / "agents" / "seed_1" / "best"
    assert main(["evaluate", str(run / "agents" / "seed_2"), str(agent), "--episodes", "4", "--csv", str(table)]) == 0
    runs = [line.split(",")[0] for line in table.read_text().splitlines()]
    assert list(dict.fromkeys(runs)) == ["run", str(run / "agents" / "seed_2"), str(agent)]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--set", "heldout"], "--set: needs a pool whose players make the teams. Give --pool POOL."),
        (["--which", "bset"], "Unknown agent (--which) 'bset'. Did you mean 'best'? Allowed: best, last."),
    ],
)
def test_evaluate_ignores_nothing(
    run: Path, words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["evaluate", str(run), *words]) == 2
    assert capsys.readouterr().err == f"error: {message}\n"


def test_an_agent_leaves_nothing_to_choose(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    agent = run / "agents" / "seed_2" / "last"
    assert main(["evaluate", str(agent), "--which", "best"]) == 2
    expected = f"error: --which: got 'best', but {agent} is one agent and no run. Leave --which out.\n"
    assert capsys.readouterr().err == expected


def test_with_a_pool_it_is_the_same_rule(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "EVERY_SECONDS", 0.0)
    pool = tiny_pool(tmp_path / "pool")
    words = ["evaluate", str(run), "--pool", str(pool.path), "--set", "training", "--episodes", "4"]
    assert main([*words, "--group", "1_partner"]) == 0
    said = capsys.readouterr()
    assert said.out.splitlines()[-1] == "iql: seeds 1, 2, last agents (t_env 1,001 to 1,002)"
    assert "iql: 2 seed(s) with the set training, 2 of 2 teams done" in said.err.splitlines()
    assert main([*words, "--group", "1_partner", "--which", "best"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "iql: seeds 1, 2, best agents (t_env 900)"


# ---------------------------------------------------------------------------------------------- tables, progress


def test_no_line_is_cut_where_no_terminal_is(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    found = [line for line in printed(["config"], capsys) if "omg_action_dropout" in line]
    words = "Share of the others' last actions hidden from the inference model while it learns"
    assert [" ".join(line.split()) for line in found] == [f"omg_action_dropout 0.0 default.yaml {words}"]


def test_keys_stay_whole_in_a_terminal_of_80_columns() -> None:
    key = "env_args.a_key_that_is_rather_long_for_a_key"
    code = f"from omg.cli.tables import print_table; print_table('T', ('key', 'help'), [({key!r}, 'word ' * 30)])"
    ours, theirs = pty.openpty()
    environment = {**os.environ, "COLUMNS": "80", "TERM": "dumb", "NO_COLOR": "1"}
    subprocess.run([sys.executable, "-c", code], stdout=theirs, env=environment, check=True)
    os.close(theirs)
    text = os.read(ours, 1 << 16).decode()
    os.close(ours)
    lines = text.replace("\r", "").splitlines()
    assert sum(key in line for line in lines) == 1
    assert max(len(line) for line in lines) <= 80
    assert sum("word" in line for line in lines) > 3, "the help wraps"


def test_tables_without_rows_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    print_table("Nothing", ("name", "value"), [])
    assert "name" in capsys.readouterr().out


def test_progress_without_a_terminal_is_a_line_every_few_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter((0.0, 0.0, 1.0, 6.0, 6.0))
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    screen = io.StringIO()
    with progress.show_progress("loading", Console(file=screen)) as say:
        for number in range(3):
            say(f"{number} of 3 [teams] done")
    assert screen.getvalue() == "0 of 3 [teams] done\n2 of 3 [teams] done\n"
    terminal = io.StringIO()
    monkeypatch.undo()
    with progress.show_progress("loading", Console(file=terminal, force_terminal=True)) as say:
        say("1 of 3 teams")
    assert "1 of 3 teams" in terminal.getvalue()


# ------------------------------------------------------------------------------------------------ what there is


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(["--version"], capsys) == [f"omg {omg.__version__}"]


def test_the_shell_can_complete_names() -> None:
    assert complete_algorithm("") == algorithm_names()
    assert complete_env("") == env_config_names()
    assert complete_algorithm("qmix") == ["qmix", "qmix_beta"]
    code = "import sys; from omg.cli import main; main(); sys.exit('jax' in sys.modules)"
    words = {"COMP_WORDS": "omg train --config qm", "COMP_CWORD": "3", "_OMG_COMPLETE": "complete_bash"}
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **words}, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["qmix", "qmix_beta"]


@pytest.mark.parametrize("name", algorithm_names())
def test_an_algorithm_shows_its_settings_and_its_page(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(["algs", name], capsys)
    assert lines[0] == f"{name}: {summary(f'algs/{name}.yaml')}"
    shown = {line.split()[0] for line in lines if line.startswith("  ") and line.strip()}
    text = (ROOT / "src" / "omg" / "config" / "algs" / f"{name}.yaml").read_text()
    written = {line.split(":")[0] for line in text.splitlines() if line and not line.startswith(("#", " "))}
    assert shown == {"key", *written}
    assert f"Page: {page_of(name)}" in lines
    page = (ROOT / page_of(name)).read_text()
    assert name.removesuffix("_beta") in page


def test_an_algorithm_that_is_none_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["algs", "qmx"]) == 2
    assert capsys.readouterr().err.startswith("error: Unknown algorithm 'qmx'. Did you mean 'qmix'? Allowed: ")


def test_commands_that_show_what_there_is_load_no_jax(tmp_path: Path) -> None:
    pool = tiny_pool(tmp_path / "pool")
    lines = [
        ["--version"],
        ["--help"],
        *([name, "--help"] for name in command_names()),
        ["pool", "list", str(pool.path)],
        ["algs"],
        ["algs", "hop_plus"],
        ["envs"],
        *(["envs", name] for name in env_config_names()),
        *(["config", f"--env-config={name}"] for name in env_config_names()),
        ["config", "--yaml", "--config=qmix", "--env-config=sc2", "with", "env_args.map_name=3m"],
        ["runs", str(tmp_path)],
    ]
    code = (
        "import sys; from omg.cli import main\n"
        f"for words in {lines!r}:\n"
        "    assert main(words) == 0, words\n"
        "    assert 'jax' not in sys.modules, words\n"
        "print('none of them')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.splitlines()[-1:] == ["none of them"], done.stderr[-2000:]


def test_packages_import_what_they_offer_when_it_is_asked_for() -> None:
    from omg.envs import foraging

    assert foraging.Foraging is importlib.import_module("omg.envs.foraging.env").Foraging
    with pytest.raises(AttributeError, match=r"module 'omg.envs.foraging' has no attribute 'Forage'"):
        foraging.Forage  # noqa: B018
