"""The command line: what it refuses and how, what it prints, and what it hands to the Python API."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import omg
from omg.cli import command_names, main
from omg.cli.runs import final_tests
from omg.cli.tables import shown
from omg.config import algorithm_names, parse_config, read_yaml, resolve
from omg.errors import UserError
from omg.tracking.table import Table

ROOT = Path(__file__).parents[2]
COMMANDS = command_names()
POOL_COMMANDS = ("pool train", "pool list", "pool show")
SC2 = ("--env-config=sc2",)


@pytest.fixture(autouse=True)
def wide_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "dumb")


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Stands in for `omg.api` and notes the calls."""
    calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []
    metrics = [
        {"seed": 1, "t_env": 10, "name": "test_return_mean", "value": 1.0},
        {"seed": 1, "t_env": 20, "name": "test_return_mean", "value": 3.0},
        {"seed": 2, "t_env": 20, "name": "test_return_mean", "value": 4.0},
        {"seed": 1, "t_env": 20, "name": "loss", "value": 9.0},
    ]

    def note(name: str, result: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            calls.append((name, args, kwargs))
            return result

        return call

    run = SimpleNamespace(folder=Path("some_run"), status="finished", metrics=metrics, signal=None)
    run.best, run.success_metric = Table(metrics[1:3]), "test_return_mean"
    module = ModuleType("omg.api")
    rows = Table(
        [{"metric": "return", "mean": 0.25, "episodes": 5}, {"metric": "battle_won", "mean": 0.5, "episodes": 5}]
    )
    agents = [SimpleNamespace(card=SimpleNamespace(seed=seed, t_env=1000 * seed)) for seed in (3, 4)]
    speeds = [{"steps_per_s": 7}]
    results = {"train_config": run, "resume": run, "evaluate": rows, "load_seeds": agents, "bench": speeds}
    for name, result in results.items():
        setattr(module, name, note(name, result))
    monkeypatch.setitem(sys.modules, "omg.api", module)
    monkeypatch.setattr(omg, "api", module, raising=False)
    return SimpleNamespace(module=module, calls=calls, run=run)


# ------------------------------------------------------------------------------------------------ bad input

ALGORITHMS = ", ".join(algorithm_names())
BAD_INPUT: list[tuple[list[str], str]] = [
    # unknown algorithm, environment, map
    (["--config=qmx", *SC2], f"Unknown algorithm (--config) 'qmx'. Did you mean 'qmix'? Allowed: {ALGORITHMS}."),
    (
        ["--config=iql", "--env-config=sc3"],
        "Unknown environment configuration (--env-config) 'sc3'. Did you mean 'sc2'",
    ),
    (["--config=iql", "env=sc3"], "Unknown environment configuration (--env-config) 'sc3'. Did you mean 'sc2'? "),
    (
        ["--config=iql", *SC2, "env_args.map_name=9m"],
        "Unknown map (env_args.map_name) '9m'. Did you mean '8m'? Allowed: 10m_vs_11m, ",
    ),
    # unknown key
    (["--config=iql", "leaning_rate=1"], "Unknown key 'leaning_rate'."),
    (["--config=iql", "batchsize=1"], "Unknown key 'batchsize'. Did you mean 'batch_size'? `omg config` lists all"),
    (["--config=iql", "--batch_sise=1"], "Unknown key 'batch_sise'. Did you mean 'batch_size'?"),
    (["--config=iql", "map_name=8m"], "Unknown key 'map_name'. Did you mean 'env_args.map_name'?"),
    (
        ["--config=iql", *SC2, "env_args.mapname=8m"],
        "Unknown option of sc2 'env_args.mapname'. Did you mean 'env_args.map_name'? Allowed: ",
    ),
    # unknown names
    (["--config=iql", "mixer=qmx"], "Unknown mixer 'qmx'. Did you mean 'qmix'? Allowed: None, qmix, qplex, vdn."),
    (["--config=iql", "learner=q_lerner"], "Unknown learner 'q_lerner'. Did you mean 'q_learner'? Allowed: "),
    (["--config=iql", "mac=basic"], "Unknown mac 'basic'. Did you mean 'basic_mac'? Allowed: "),
    (["--config=iql", "am_model=none"], "Unknown am_model 'none'. Did you mean 'none_am'? Allowed: "),
    (["--config=iql", "action_selector=greedy"], "Unknown action_selector 'greedy'. Did you mean 'epsilon_greedy'? "),
    # wrong type or range
    (["--config=iql", "lr=abc"], "lr: got 'abc' (text); expected a number > 0. Learning rate of the agent."),
    (["--config=iql", "--lr"], "lr: got True (a truth value); expected a number > 0."),
    (["--config=iql", "t_max=1.5"], "t_max: got 1.5 (a number); expected a whole number >= 1 and <= 9007199254740992."),
    (["--config=iql", "double_q=maybe"], "double_q: got 'maybe' (text); expected True or False."),
    (["--config=iql", "lr.x=1"], "lr: got {'x': 1} (a dict); expected a number > 0."),
    (["--config=iql", *SC2, "env_args.step_mul=fast"], "env_args.step_mul: got 'fast'."),
    (["--config=iql", "lr=[1"], "lr: cannot read the value '[1' as YAML; put it in quotes."),
    # teams
    (["--config=4iql3qmix2vdn", *SC2], "Team name '4iql3qmix2vdn' has 9 seats (4+3+2), but sc2 8m has 8: "),
    (["--config=2iql", *SC2, "env_args.map_name=3m"], "Team name '2iql' has 2 seats (2), but sc2 3m has 3: "),
    (["--config=4iql4qmx", *SC2], "Unknown algorithm in the team name '4iql4qmx': 'qmx'. Did you mean 'qmix'? "),
    (["--config=8pool", *SC2], "Team name '8pool': nobody in it learns. Give one algorithm a seat, e.g. 7pool1iql."),
    (
        ["--config=4iql3qmix1iql", *SC2],
        "train_alg: team '4iql3qmix1iql' does not say which algorithm learns. Write train_alg=ALG with one of: iql, ",
    ),
    (
        ["--config=4iql4qmix", *SC2, "--mac=basic_mac"],
        "mac: got basic_mac, but the team '4iql4qmix' implies multi_module_mac; leave mac out.",
    ),
    # words
    ([], f"config: missing. Write --config=ALG with one of: {ALGORITHMS}."),
    (["iql"], "Cannot read the argument 'iql'. Write key=value, --key=value or --key value."),
    (["--config"], "Option '--config' requires an argument."),
]


@pytest.mark.parametrize(("words", "message"), BAD_INPUT, ids=[" ".join(words) or "nothing" for words, _ in BAD_INPUT])
def test_bad_input_ends_with_one_line_and_code_2(
    words: list[str], message: str, api: SimpleNamespace, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", *words]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith(f"error: {message}")
    assert captured.err.count("\n") == 1
    assert captured.err.endswith("\n")
    assert captured.out == ""
    assert api.calls == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["trian"], "Unknown command 'trian'. Did you mean 'train'? Allowed: adapt, algs, bench, "),
        (["pol"], "Unknown command 'pol'. Did you mean 'pool'? Allowed: adapt, algs, bench, "),
        (["pool", "trian", "POOL"], "No such command 'trian'."),
        (["pool", "show", "POOL"], "Missing argument 'MEMBER'. See `omg pool show --help`."),
        (["toy", "--seeds", "0"], "Invalid value for '--seeds': "),
        (["envs", "sc3"], "Unknown environment 'sc3'. Did you mean 'sc2'? Allowed: "),
        (["resume"], "Missing argument 'RUN'. See `omg resume --help`."),
        (["evaluate", "run", "--episodes", "many"], "Invalid value for '--episodes': "),
        (["evaluate", "run", "--episodes", "0"], "Invalid value for '--episodes': "),
        (["evaluate", "run", "--episdes=3"], "No such option: --episdes"),
        (
            ["evaluate", "run", "--group", "7_homologue"],
            "--group: needs a pool whose players make the teams. Give --po",
        ),
        (
            ["evaluate", "run", "--metric", "score"],
            "--metric: needs a pool whose players make the teams. Give --pool P",
        ),
        (["evaluate", "run", "--pool", "POOL", "--explore"], "--explore: with --pool agents play their best actions."),
        (["evaluate", "run", "--pool", "NO"], "NO is not a pool: there is no such folder. `omg pool train` makes one."),
        (
            ["evaluate", "run", "--pool", "NO", "--which", "bset"],
            "Unknown agent (--which) 'bset'. Did you mean 'best'? ",
        ),
        (["config", "--config=qmx"], "Unknown algorithm (--config) 'qmx'. Did you mean 'qmix'? "),
        (["bench", "3m"], "Cannot read the argument '3m'. Write key=value, "),
    ],
)
def test_other_commands_refuse_in_the_same_way(
    words: list[str], message: str, api: SimpleNamespace, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith(f"error: {message}")
    assert captured.err.count("\n") == 1
    assert api.calls == []


@pytest.mark.parametrize("words", [["export", "a\0b", "--to", "onnx"], ["train", "--config=\0"], ["\0"]])
def test_nul_bytes_are_refused_before_anybody_looks_for_such_a_file(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.splitlines()) == 1
    assert "\\0" in err
    assert "no NUL bytes" in err


def test_errors_of_the_api_are_one_line_too(
    api: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def damaged(*args: Any, **kwargs: Any) -> None:
        raise UserError("checkpoint 'x':\n  damaged")

    monkeypatch.setattr(api.module, "resume", damaged)
    assert main(["resume", "x"]) == 2
    assert capsys.readouterr().err == "error: checkpoint 'x': damaged\n"


def test_interrupt_ends_with_130(
    api: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*args: Any, **kwargs: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(api.module, "train_config", interrupted)
    assert main(["train", "--config=iql"]) == 130
    assert "Traceback" not in capsys.readouterr().err


def test_run_that_was_interrupted_and_saved_ends_with_130(
    api: SimpleNamespace, capsys: pytest.CaptureFixture[str]
) -> None:
    api.run.status = "interrupted"
    assert main(["resume", "results/a"]) == 130
    assert "Run folder: some_run" in capsys.readouterr().out


# ------------------------------------------------------------------------------------------------ what is printed


def test_all_commands_are_there() -> None:
    everyday = {
        "train",
        "resume",
        "evaluate",
        "pool",
        "pretrain",
        "plot",
        "envs",
        "algs",
        "config",
        "bench",
        "demo",
        "toy",
    }
    assert everyday <= set(COMMANDS)


@pytest.mark.parametrize("command", [*COMMANDS, *POOL_COMMANDS])
def test_help_contains_an_example(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*command.split(), "--help"]) == 0
    text = capsys.readouterr().out
    assert f"Example: omg {command}" in text
    assert f"Usage: omg {command}" in text


@pytest.mark.parametrize("words", [[], ["--help"]])
def test_help_lists_the_commands(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 0
    text = capsys.readouterr().out
    assert all(command in text for command in COMMANDS)


def test_config_shows_key_value_source_and_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "--config=qmix", *SC2, "with", "lr=0.001"]) == 0
    rows = {line.split()[0]: line.split(maxsplit=3) for line in capsys.readouterr().out.splitlines() if line.strip()}
    assert " ".join(" ".join(rows["lr"]).split()) == "lr 0.001 command line Learning rate of the agent"
    assert rows["mixer"][1:3] == ["'qmix'", "algs/qmix.yaml"]
    assert rows["env_args.map_name"][1:3] == ["'8m'", "envs/sc2.yaml"]
    assert rows["gamma"][1:3] == ["0.99", "default.yaml"]


def test_config_yaml_reads_back_as_the_same_configuration(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "--yaml", "--config=qmix", *SC2, "lr=1e-5", "env_args.map_name=3m"]) == 0
    expected = resolve("qmix", "sc2", ["lr=1e-5", "env_args.map_name=3m"]).config
    assert parse_config(read_yaml(capsys.readouterr().out)) == expected


def test_config_shows_the_members_of_a_team(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "--config=4iql3qmix1vdn", *SC2]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["4", "iql", "frozen", "mixer=None"] in lines
    assert ["3", "qmix", "frozen", "mixer='qmix'"] in lines
    assert ["1", "vdn", "learns"] in lines
    assert main(["config", "--config=7pool1iql_omg", *SC2]) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "7 pool frozen players of the pool init_param_path" in lines
    assert "1 iql_omg learns" in lines
    assert main(["config", "--yaml", "--config=4iql3qmix1vdn", *SC2]) == 0
    document = read_yaml(capsys.readouterr().out)
    assert document["train_alg"] == "vdn"
    assert document["team"][1] == {"seats": 3, "algorithm": "qmix"}
    assert parse_config(document["members"]["qmix"]).mixer == "qmix"


def test_lists_describe_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["algs"]) == 0
    text = capsys.readouterr().out
    assert "QMIX: the team's value grows with every seat's value" in text
    assert all(name in text for name in algorithm_names())
    assert main(["envs"]) == 0
    text = capsys.readouterr().out
    assert "built-in simulator" in text
    assert "10 million steps" in text
    assert main(["envs", "sc2"]) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "step_mul a whole number >= 1 and <= 64 8 game ticks per step" in lines


# ------------------------------------------------------------------------------------- what the API is asked for


@pytest.mark.parametrize(
    "words",
    [
        "--config=qmix --env-config=sc2 with env_args.map_name=3m lr=0.001 --seed=3 --obs_is_state",
        "lr=0.001 --obs_is_state=True --env_config sc2 --seed 3 config=qmix env_args.map_name=3m",
        "--obs_is_state --config qmix --lr 1e-3 --env-config sc2 with --env_args.map_name=3m seed=3",
    ],
)
def test_train_hands_over_the_resolved_configuration(
    words: str, api: SimpleNamespace, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", *words.split()]) == 0
    ((name, (config,), options),) = api.calls
    assert name == "train_config"
    assert options["quiet"] is False
    overrides = {"env_args.map_name": "3m", "lr": 0.001, "seed": 3, "obs_is_state": True}
    assert config == resolve("qmix", "sc2", overrides).config
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["test_return_mean", "20", "3.5000", "3", "4"] in lines
    assert ["Run", "folder:", "some_run"] in lines


def test_resume_evaluate_and_bench_call_the_api(
    api: SimpleNamespace, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["resume", "results/a"]) == 0
    table = tmp_path / "table.csv"
    assert main(["evaluate", "results/a", "--episodes=5", "--seed=2", "--explore", "--csv", str(table)]) == 0
    assert main(["bench", "--seconds=0.5", "map_name=3m", "env_args.step_mul=4"]) == 0
    assert [call[0] for call in api.calls] == ["resume", "load_seeds", "evaluate", "evaluate", "bench"]
    assert api.calls[0][1] == (Path("results/a"),)
    assert api.calls[1][1] == (Path("results/a"), "last")
    assert [call[1][0].card.seed for call in api.calls[2:4]] == [3, 4]
    assert api.calls[2][2] == {"episodes": 5, "seed": 2, "greedy": False}
    assert api.calls[4][2] == {"seconds": 0.5, "env": "sc2", "env_args": {"map_name": "3m", "step_mul": 4}}
    assert table.read_text().splitlines()[:2] == ["seed,metric,mean,episodes", "3,return,0.25,5"]
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["return", "0.2500", "5"] in lines
    title = "results/a: seed 4, last agent (t_env 4,000), 5 episodes (games of --seed 2)"
    assert title.split() in lines
    assert ["7"] in lines


def test_csv_that_cannot_be_written_is_refused_and_leaves_nothing(
    api: SimpleNamespace, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    taken = tmp_path / "taken"
    taken.mkdir()
    for target in (taken, tmp_path / "missing" / "table.csv"):
        assert main(["evaluate", "results/a", "--csv", str(target)]) == 2
        assert capsys.readouterr().err.startswith(f"error: --csv: cannot write '{target}' (")
    assert list(tmp_path.iterdir()) == [taken]


def test_final_tests_take_the_last_test_of_every_seed() -> None:
    rows = [
        {"seed": seed, "t_env": t_env, "name": name, "value": value}
        for seed, t_env, name, value in [
            (1, 10, "test_won", 0.0),
            (2, 20, "test_won", 0.5),
            (1, 20, "test_won", 1.0),
            (1, 20, "won", 9.0),
        ]
    ]
    assert final_tests(rows) == [("test_won", 20, 0.75, 0.5, 1.0)]


def test_numbers_are_shown_short() -> None:
    assert [shown(value) for value in (0.25, 2.0, 1e-5, 12, 1234567.8, True, "a")] == [
        "0.2500",
        "2",
        "1e-05",
        "12",
        "1.235e+06",
        "True",
        "a",
    ]


# ------------------------------------------------------------------------------------------------ the real program


def test_main_py_takes_the_arguments_of_train() -> None:
    words = ["--config=qmx", "--env-config=sc2", "with", "env_args.map_name=8m"]
    done = subprocess.run([sys.executable, str(ROOT / "main.py"), *words], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == f"error: Unknown algorithm (--config) 'qmx'. Did you mean 'qmix'? Allowed: {ALGORITHMS}.\n"


def test_help_does_not_load_jax() -> None:
    code = "import sys; from omg.cli import main; main(['train', '--help']); sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode == 0
