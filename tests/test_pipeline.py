"""The pipeline: what a plan may say, what is done again when it changes, and one small experiment from end to end."""

from __future__ import annotations

import csv
import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from omg.cli import demo, main
from omg.config import read_yaml
from omg.errors import UserError
from omg.experiments import pipeline as module
from omg.experiments import runs
from omg.experiments.pipeline import PipelineResult, run_pipeline
from omg.experiments.plan import parse_plan, preset_names, preset_summary, read_plan
from omg.experiments.plan_check import check_plan, team_name
from omg.experiments.results import read_rows, report_files, table_files
from omg.experiments.stages import Ledger, Part
from omg.tracking import RunFolder
from tiny import GAME, SETTINGS

RUN = {**SETTINGS, "t_max": 300, "save_buffer": False}
PLAN: dict[str, Any] = {
    "name": "small",
    "game": {"env_config": "foraging", "env_args": GAME},
    "pool": {
        "training": {"d3qn": 1},
        "heldout": {"d3qn": 1},
        "scripted": {"nearest_food": "training", "random": "heldout"},
        "episodes": 8,
        **RUN,
    },
    "prior": {**RUN, "subgoal_dim": 4},
    "train": {**RUN, "seeds": 3, "subgoal_dim": 4, "am_hidden_dim": 8},
    "agents": {"d3qn": None, "omg": {"config": "d3qn_omg", "subgoal_mode": "conservative"}},
    "evaluation": {"episodes": 4, "crossplay_episodes": 4, "inference_episodes": 12},
    "report": {"metric": "own_return", "names": {"d3qn": "D3QN", "omg": "OMG"}},
}


def changed(*words: str) -> dict[str, Any]:
    """The small plan with some keys set."""
    values = json.loads(json.dumps(PLAN))
    for word in words:
        key, _, text = word.partition("=")
        *path, last = key.split(".")
        node = values
        for part in path:
            node = node.setdefault(part, {})
        node[last] = read_yaml(text)
    return values


def refusal(call: Callable[[], Any]) -> str:
    with pytest.raises(UserError) as refused:
        call()
    return str(refused.value)


# ------------------------------------------------------------------------------------------------------- plans


def test_presets_can_be_run_and_have_the_groups_of_their_games(tmp_path: Path) -> None:
    assert preset_names() == ["2c_vs_64zg", "3s_vs_5z", "8m", "foraging", "quick"]
    for name in preset_names():
        plan = read_plan(name)
        assert plan.name == name
        assert preset_summary(name)
        checked = check_plan(plan, tmp_path / name)
        assert parse_plan(plan.values()) == plan
        assert {config.seeds for config in checked.agents.values()} <= {4, 10}
    eight = check_plan(read_plan("8m"), tmp_path)
    assert {label: config.team for label, config in eight.agents.items()} == {
        "iql": "7pool1iql",
        "iql_all": "7pool1iql",
        "iql_am": "7pool1iql_am",
        "iql_liam": "7pool1iql_liam",
        "omg_optimistic": "7pool1iql_omg",
        "omg_conservative": "7pool1iql_omg",
        "omg_zero": "7pool1iql_omg",
    }
    assert eight.agents["iql_all"].obs_all_last_actions
    assert eight.agents["omg_zero"].omg_q_input == "zero"
    assert sum(read_plan("8m").pool.heldout.values()) == 30
    assert sum(read_plan("8m").pool.training.values()) == 10
    assert (eight.metric, eight.agent, eight.baselines[0]) == ("battle_won", "omg_optimistic", "iql")
    assert not (tmp_path / "8m").exists()


def test_words_and_files_change_a_plan(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(
        "name: mine\ngame: {env_config: foraging}\npool: {training: {iql: 1}, heldout: {iql: 1}}\nagents: {iql: }\n"
    )
    plan = read_plan(
        file, ["train.t_max=7", "agents.iql.lr=0.5", "evaluation.groups=[1_partner]", "agents.b.config=vdn"]
    )
    checked = check_plan(plan, tmp_path)
    assert [config.t_max for config in checked.agents.values()] == [7, 7]
    assert [config.lr for config in checked.agents.values()] == [0.5, 0.0005]
    assert checked.agents["b"].team == "1pool1vdn"
    assert (checked.agent, checked.baselines) == ("b", ("iql", "untrained"))
    assert checked.metric == "score"
    assert team_name("6pool1vdn1iql", 8) == "6pool1vdn1iql"


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("pol.x=1", "Unknown key 'pol' of a pipeline. Did you mean 'pool'? Allowed: name, game, pool, "),
        ("train.tmax=3", "Unknown key 'train.tmax' of a pipeline. Did you mean 'train.t_max'? "),
        (
            "evaluation.episode=3",
            "Unknown key 'evaluation.episode' of a pipeline. Did you mean 'evaluation.ep",
        ),
        (
            "agents.omg.subgoal_mod=next",
            "Unknown key 'agents.omg.subgoal_mod' of a pipeline. Did you mean 'agents",
        ),
        ("train.t_max=many", "agents.d3qn: t_max: got 'many' (text); expected a whole number >= 1."),
        ("agents.omg.subgoal_mode=opt", "agents.omg: Unknown subgoal_mode 'opt'. Allowed: conservative, "),
        ("agents.omg.config=d3qn_og", "Unknown algorithm (agents.omg.config) 'd3qn_og'. Did you mean 'd3qn_omg'? "),
        ("agents.new={}", "Unknown algorithm (agents.new.config) (the label, as it has no config) 'new'."),
        ("agents.random.config=iql", "agents.random: that is the name of a scripted player; choose another label."),
        ("agents.untrained.config=iql", "agents.untrained: that is the name of the agent before training; "),
        ("pool.training.iqll=3", "pool: Unknown algorithm (--config) 'iqll'. Did you mean 'iql'? "),
        ("pool.training.d3qn=0", "pool.training: got d3qn: 0, allowed: 1 or more."),
        ("pool.training=3", "pool.training: got 3. "),
        ("pool.scripted.stand=heldout", "pool.scripted: Script 'stand' plays sc2, but the game is foraging."),
        ("pool.seeds=3", "pool.seeds: cannot be set in a pipeline (the numbers of members say how many)."),
        ("train.name=x", "train.name: cannot be set in a pipeline (runs are named after their agents)."),
        (
            "train.init_param_path=x",
            "train.init_param_path: cannot be set in a pipeline (the pool is ",
        ),
        (
            "pool.obs_is_state=True",
            "agents.d3qn.obs_is_state: got False, but pool has True; all sections ",
        ),
        ("prior.subgoal_dim=8", "agents.omg.subgoal_dim: got 4, but the prior has 8; "),
        ("evaluation.episodes=0", "evaluation.episodes: got 0. "),
        ("evaluation.sets=[validation]", "evaluation.sets: got 'validation', but the pool has nobody in that set."),
        ("evaluation.groups=[7_homologue]", "Unknown group (evaluation.groups) of a game with 2 seats: '7_homologue'."),
        ("report.agent=og", "Unknown agent (report.agent) 'og'. Did you mean 'omg'? Allowed: d3qn, omg, untrained."),
        ("report.metric=scor", "Unknown metric (report.metric) 'scor'. Did you mean 'score'? "),
        ("report.baselines=[omg]", "report.baselines: got omg; expected one or more agents other than omg."),
        ("game.env_config=foragin", "game: Unknown environment configuration (--env-config) 'foragin'. Did you mean "),
        ("game.env_args.players=1", "game: foraging 4x4-1p-1f has one seat; team-mates need at least two."),
        ("name=a/b", "name: got 'a/b'; allowed: letters, digits and . + - _."),
        ("evaluation=3", "evaluation: got 3; expected a mapping."),
    ],
)
def test_a_plan_that_cannot_be_run_is_refused_before_anything_is_written(
    word: str, message: str, tmp_path: Path
) -> None:
    found = refusal(lambda: run_pipeline(parse_plan(changed(word)), tmp_path / "out", quiet=True))
    assert found.startswith(message)
    assert not (tmp_path / "out").exists()


def test_missing_sections_and_files_are_named(tmp_path: Path) -> None:
    plan = {key: value for key, value in PLAN.items() if key != "pool"}
    assert refusal(lambda: parse_plan(plan)).startswith("pool: missing.")
    assert refusal(lambda: read_plan("quik")).startswith(
        "Unknown pipeline (neither a file nor a preset) 'quik'. Did you mean 'quick'? Allowed: 2c_vs_64zg, "
    )
    (tmp_path / "list.yaml").write_text("- a\n")
    assert "expected a mapping of sections" in refusal(lambda: read_plan(tmp_path / "list.yaml"))
    (tmp_path / "broken.yaml").write_text("a: [\n")
    assert "is not YAML" in refusal(lambda: read_plan(tmp_path / "broken.yaml"))


# ---------------------------------------------------------------------------------- records: done, begun, made anew


def part(folder: Path, name: str, calls: list[str], *needs: Part, setting: int = 1, costly: bool = False) -> Part:
    def work() -> None:
        calls.append(name)
        (folder / name).write_text(str(setting))

    return Part(name, "", {"setting": setting}, (folder / name,), work, needs, costly)


def test_a_part_is_done_once_and_again_when_it_changes_or_what_it_needs(tmp_path: Path) -> None:
    calls: list[str] = []
    for setting, expected in ((1, ["a", "b"]), (1, []), (2, ["a", "b"])):
        calls.clear()
        ledger = Ledger(tmp_path)
        first = part(tmp_path, "a", calls, setting=setting, costly=True)
        second = part(tmp_path, "b", calls, first)
        assert [ledger.run(first), ledger.run(second)] == [bool(expected)] * 2
        assert calls == expected
    assert (tmp_path / "replaced" / "a-1").read_text() == "1"
    assert (tmp_path / "a").read_text() == "2"
    assert not (tmp_path / "replaced" / "b-1").exists()
    # A result that is gone is made again, and so is what was made from it.
    (tmp_path / "a").unlink()
    calls.clear()
    ledger = Ledger(tmp_path)
    ledger.run(first)
    ledger.run(second)
    assert calls == ["a", "b"]
    damaged = tmp_path / "stages" / "a.json"
    damaged.write_text("{")
    assert not Ledger(tmp_path).is_done(first)
    assert (
        refusal(lambda: Ledger(tmp_path).require(first, "Do it."))
        == f"{tmp_path}: the stage 'a' is not done yet. Do it."
    )


def test_a_part_that_was_interrupted_goes_on_and_its_time_adds_up(tmp_path: Path) -> None:
    def half() -> None:
        (tmp_path / "a").mkdir(exist_ok=True)
        (tmp_path / "a" / f"{len(list((tmp_path / 'a').iterdir()))}").touch()
        if len(list((tmp_path / "a").iterdir())) < 3:
            raise KeyboardInterrupt

    piece = Part("a", "", {}, (tmp_path / "a",), half, costly=True)
    said: list[str] = []
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            Ledger(tmp_path, said.append).run(piece)
        record = Ledger(tmp_path).record(piece)
        assert record is not None
        assert record.status == "begun"
    assert Ledger(tmp_path, said.append).run(piece)
    assert said == ["a: begun", "a: continued", "a: continued"]
    assert len(list((tmp_path / "a").iterdir())) == 3
    assert not (tmp_path / "replaced").exists()
    whole = Ledger(tmp_path).record(piece)
    assert whole is not None
    assert whole.seconds > record.seconds > 0


def test_a_stage_that_is_killed_leaves_nothing_half_written(tmp_path: Path) -> None:
    """The process dies while a table is on its way to the disk."""
    script = f"""
import os, signal
from pathlib import Path
from omg.experiments.results import write_rows
from omg.experiments.stages import Ledger, Part

folder = Path({str(tmp_path)!r})
table = folder / "scores.csv"

def work():
    os.fsync = lambda _: os.kill(os.getpid(), signal.SIGKILL)
    write_rows(table, [{{"mean": index}} for index in range(1000)], ("mean",))

Ledger(folder).run(Part("evaluate", "scores omg", {{}}, (table,), work))
"""
    killed = subprocess.run([sys.executable, "-c", script], timeout=120)
    assert killed.returncode == -signal.SIGKILL
    table = tmp_path / "scores.csv"
    assert not table.exists()
    calls: list[str] = []

    def work() -> None:
        calls.append("again")
        module.write_rows(table, [{"mean": 1.5}], ("mean",))

    again = Part("evaluate", "scores omg", {}, (table,), work)
    record = Ledger(tmp_path).record(again)
    assert record is not None
    assert record.status == "begun"
    assert Ledger(tmp_path).run(again)
    assert read_rows(table) == [{"mean": 1.5}]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["scores.csv", "stages"]


# ------------------------------------------------------------------------------ what depends on what, with fake work


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """All stages as files with nothing in them; `stop` names a run that is interrupted."""
    state = SimpleNamespace(stop=None)

    def make(*paths: Path) -> None:
        for path in paths:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()

    def finish(self: Any, where: Path, config: Any) -> None:
        if where.name == state.stop:
            raise KeyboardInterrupt
        make(where / "run" / "done")

    def prior(self: Any) -> None:
        make(self.checked.runs("prior") / "run", self.checked.pool / "prior" / "prior.json")

    fakes = {
        "_train_pool": lambda self: make(self.checked.pool / "pool.json"),
        "_train_prior": prior,
        "_finish": finish,
        "_write_scores": lambda self, label, file: make(file),
        "_cross_play": lambda self, file: make(file),
        "_write_diagnostics": lambda self, label, file: make(file),
        "_write_tables": lambda self: make(*table_files(self.checked)),
        "_write_report": lambda self, before: make(*report_files(self.checked)),
    }
    for name, work in fakes.items():
        monkeypatch.setattr(module._Pipeline, name, work)
    return state


def go(folder: Path, *words: str, **options: Any) -> list[str]:
    """Runs the small plan with some keys set; the parts that were done."""
    return list(run_pipeline(parse_plan(changed(*words)), folder, quiet=True, **options).done)


AFTER = ["evaluate tables", "report"]
OMG = ["train omg", "evaluate scores omg", "evaluate diagnostics omg", *AFTER]
SCORES = ["evaluate scores d3qn", "evaluate scores omg", "evaluate scores untrained"]
TRAINED = ["train d3qn", "train omg", *SCORES, "evaluate diagnostics omg", *AFTER]
ALL = ["pool", "prior", "train d3qn", "train omg", *SCORES, "evaluate cross-play", "evaluate diagnostics omg", *AFTER]


@pytest.mark.parametrize(
    ("word", "redone"),
    [
        ("game.env_args.rows=5", ALL),
        ("pool.t_max=400", ALL),
        ("pool.scripted.own_level=heldout", ALL),
        ("prior.t_max=400", ["prior", *OMG]),
        ("train.lr=0.01", TRAINED),
        ("agents.omg.subgoal_mode=random", OMG),
        ("agents.iql.config=iql", ["train iql", "evaluate scores iql", *AFTER]),
        ("evaluation.episodes=5", [*SCORES, *AFTER]),
        ("evaluation.seed=5", [*SCORES, "evaluate cross-play", "evaluate diagnostics omg", *AFTER]),
        ("evaluation.crossplay_episodes=5", ["evaluate cross-play", *AFTER]),
        ("evaluation.inference_episodes=5", ["evaluate diagnostics omg", *AFTER]),
        ("evaluation.scripted=[random]", ["evaluate scores random", *AFTER]),
        ("report.agent=d3qn", AFTER),
        ("report.title=x", ["report"]),
        ("train.use_tensorboard=True", []),
        ("name=other", []),
    ],
)
def test_what_has_changed_is_done_again_with_all_that_depends_on_it(
    word: str, redone: list[str], fake: SimpleNamespace, tmp_path: Path
) -> None:
    assert sorted(go(tmp_path)) == sorted(ALL)
    assert go(tmp_path) == []
    assert sorted(go(tmp_path, word)) == sorted(redone)
    assert go(tmp_path, word) == []
    old = {path.name for path in (tmp_path / "replaced").glob("*")}
    costly = {"pool": "pool-1", "prior": "runs-prior-1", "train d3qn": "runs-d3qn-1", "train omg": "runs-omg-1"}
    expected = {costly[title] for title in redone if title in costly}
    # The prior lies in the pool's folder and goes with it.
    assert old - {"pool-prior-1"} == expected
    assert ("pool-prior-1" in old) == ("prior" in redone and "pool" not in redone)


def test_an_interrupted_pipeline_goes_on_where_it_stopped(fake: SimpleNamespace, tmp_path: Path) -> None:
    fake.stop = "omg"
    with pytest.raises(KeyboardInterrupt):
        go(tmp_path)
    assert json.loads((tmp_path / "stages" / "train" / "omg.json").read_text())["status"] == "begun"
    fake.stop = None
    assert sorted(go(tmp_path)) == sorted(title for title in ALL if title not in ("pool", "prior", "train d3qn"))
    assert not (tmp_path / "replaced").exists()


def test_stages_can_be_chosen(fake: SimpleNamespace, tmp_path: Path) -> None:
    message = refusal(lambda: go(tmp_path, only="evaluate"))
    assert message == (
        f"{tmp_path}: the stage 'pool' is not done yet. Run the pipeline up to there first, e.g. with --only pool."
    )
    assert not (tmp_path / "pipeline.yaml").exists()
    assert go(tmp_path, only="pool") == ["pool"]
    assert go(tmp_path, only="prior") == ["prior"]
    assert "'train d3qn' is not done yet" in refusal(lambda: go(tmp_path, start="evaluate"))
    assert len(go(tmp_path)) == len(ALL) - 2
    assert go(tmp_path, only="train") == []
    assert go(tmp_path, start="report") == ["report"]
    assert sorted(go(tmp_path, start="train")) == sorted([*TRAINED, "evaluate cross-play"])
    message = refusal(lambda: go(tmp_path, "pool.t_max=400", start="train"))
    assert "the stage 'pool' was done with other settings" in message
    assert refusal(lambda: go(tmp_path, start="trian")).startswith(
        "Unknown stage (--from) 'trian'. Did you mean 'train'?"
    )
    assert refusal(lambda: go(tmp_path, start="pool", only="train")).startswith("--from, --only: got pool and train;")


def test_one_process_at_a_time(fake: SimpleNamespace, tmp_path: Path) -> None:
    with RunFolder(tmp_path).lock():
        assert "another process" in refusal(lambda: go(tmp_path))
    (tmp_path / "file").touch()
    assert refusal(lambda: go(tmp_path / "file")).startswith("--output: cannot make the folder")


@pytest.mark.parametrize(("status", "expected"), [("running", "resume"), ("finished", None), (None, "train")])
def test_a_run_is_begun_continued_or_left_alone(
    status: str | None, expected: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[Any] = []
    outcome = SimpleNamespace(status="finished", folder=tmp_path)

    def resume(path: Path, **_: Any) -> Any:
        calls.append(("resume", path))
        return outcome

    def train(config: Any, **_: Any) -> Any:
        calls.append(("train", config))
        return outcome

    monkeypatch.setattr(runs.api, "resume", resume)
    monkeypatch.setattr(runs.api, "train_config", train)
    monkeypatch.setattr(runs.RunFolder, "open", lambda path: RunFolder(path))
    config = SimpleNamespace(local_results_path=str(tmp_path / "runs"))
    if status is not None:
        folder = RunFolder(tmp_path / "runs" / "one")
        folder.path.mkdir(parents=True)
        folder.config_file.touch()
        folder.set_status(status)
    said: list[str] = []
    whole: Any = SimpleNamespace(screen=None, quiet=True, ledger=SimpleNamespace(say=said.append))
    module._Pipeline._finish(whole, tmp_path / "runs", lambda: config)
    wanted = {"resume": ("resume", tmp_path / "runs" / "one"), "train": ("train", config)}
    assert calls == ([wanted[expected]] if expected else [])
    if expected:
        outcome.status = "interrupted"
        with pytest.raises(KeyboardInterrupt):
            module._Pipeline._finish(whole, tmp_path / "runs", lambda: config)
        assert said == ["continue with the same command"]


# --------------------------------------------------------------------------------------------------- end to end


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> PipelineResult:
    """A pipeline of seconds, with everything in it."""
    return run_pipeline(parse_plan(PLAN), tmp_path_factory.mktemp("pipeline") / "small", quiet=True)


def test_everything_is_in_one_folder(finished: PipelineResult) -> None:
    folder = finished.folder
    assert list(finished.done) == [
        *("pool", "prior", "train d3qn", "train omg"),
        *(*SCORES, "evaluate cross-play", "evaluate diagnostics omg", *AFTER),
    ]
    for name in ("pool/pool.json", "pool/prior/prior.json", "report.md", "figures/scores.png", "figures/offsets.png"):
        assert (folder / name).is_file(), name
    assert parse_plan(read_yaml((folder / "pipeline.yaml").read_text())) == parse_plan(PLAN)
    assert [row["stage"] for row in read_rows(folder / "times.csv")] == ["pool", "prior", "train", "evaluate", "report"]
    assert all(seconds > 0 for seconds in finished.seconds.values())
    page = (folder / "report.html").read_text()
    assert finished.report == folder / "report.html"
    assert "Does modelling the others help here?" in page
    assert "policy gain" in page
    assert "300 steps, 3 seeds each" in page
    assert 'src="http' not in page
    config = RunFolder.open(next((folder / "runs" / "omg").iterdir())).config()
    assert (config.name, config.team, config.subgoal_mode) == ("omg", "1pool1d3qn_omg", "conservative")
    assert config.init_param_path == str((folder / "pool").resolve())


def test_the_tables_belong_together(finished: PipelineResult) -> None:
    folder = finished.folder / "evaluation"
    scores = read_rows(folder / "scores.csv")
    assert {(row["agent"], row["seed"]) for row in scores} == {
        (agent, seed) for agent in ("d3qn", "omg", "untrained") for seed in (1, 2, 3)
    }
    assert {(row["set"], row["group"], row["team"]) for row in scores} == {
        ("heldout", "1_partner", "1xd3qn_s2"),
        ("heldout", "1_partner", "1xrandom"),
    }
    own = [row["mean"] for row in scores if (row["agent"], row["metric"]) == ("omg", "own_return")]
    (row,) = [row for row in finished.summary if row["agent"] == "omg"]
    assert row["mean"] == pytest.approx(sum(own) / len(own))
    assert (row["seeds"], row["teams"], row["episodes"]) == (3, 2, 24)
    assert [row["baseline"] for row in finished.comparison] == ["d3qn", "untrained"]
    cells = {(row["agent"], row["mate"]) for row in read_rows(folder / "crossplay.csv")}
    mates = ("d3qn_s2", "random")
    assert cells == {(agent, mate) for agent in ("d3qn", "omg", "untrained", *mates) for mate in mates}
    measures = [row["measure"] for row in read_rows(folder / "diagnostics.csv")]
    assert measures[:3] == ["policy named by the subgoal", "policy named by the observation", "policy gain"]
    assert measures[-2:] == ["zero features", "shuffled features"]
    exported = json.loads((folder / "marl_eval.json").read_text())
    agents = exported["foraging"]["4x4-2p-1f_1_partner"]
    assert set(agents) == {"d3qn", "omg"}
    assert len(agents["omg"]["seed_1"]["absolute_metrics"]["own_return"]) == 2


def test_running_it_again_does_nothing_and_says_what_there_is(
    finished: PipelineResult, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    before = {path: path.stat().st_mtime_ns for path in finished.folder.rglob("*.*") if "stages" not in path.parts}
    assert main(["pipeline", str(finished.folder)]) == 0
    text = capsys.readouterr().out
    assert text.count(": done") == len(ALL)
    assert re.search(r"small: 1 partner", text)
    mean, difference = r"\d\.\d\d \[\d\.\d\d, \d\.\d\d\] +\d\.\d\d", r"[+\N{MINUS SIGN}]\d\.\d\d\d?"
    assert re.search(rf"OMG +{mean} +\n", text)
    compared = rf"{difference} \[{difference}, {difference}\] +(better|worse|not shown)"
    assert re.search(rf"untrained +{mean} +{compared}", text)
    assert "between OMG and D3QN is shown" in text or "OMG is" in text
    assert text.endswith(f"Report: {finished.folder / 'report.html'}\n")
    after = {path: path.stat().st_mtime_ns for path in finished.folder.rglob("*.*") if "stages" not in path.parts}
    assert {path.name for path in before if before[path] != after[path]} == {"pipeline.yaml", "times.csv", ".lock"}


def test_a_new_title_makes_a_new_report_and_nothing_else(finished: PipelineResult) -> None:
    again = run_pipeline(parse_plan(changed("report.title=Another title")), finished.folder, quiet=True)
    assert again.done == ("report",)
    assert "<h1>Another title</h1>" in (finished.folder / "report.html").read_text()
    assert run_pipeline(parse_plan(PLAN), finished.folder, quiet=True).done == ("report",)


# -------------------------------------------------------------------------------------------------- command line


def test_the_command_lists_presets_and_refuses_what_it_cannot_read(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["pipeline"]) == 0
    text = capsys.readouterr().out
    assert all(name in text for name in preset_names())
    for words, message in (
        (["quik"], "Unknown pipeline (neither a file nor a preset) 'quik'. Did you mean 'quick'?"),
        (["quick", "train.tmax=3"], "Unknown key 'train.tmax' of a pipeline. Did you mean 'train.t_max'?"),
        (["train.t_max=3"], "NAME: got 'train.t_max=3'; the preset or file comes first, then the settings."),
        (["quick", "--config=iql"], "--config: got 'iql', but a pipeline names its game and agents in its file."),
        (["quick", "--only", "al"], "Unknown stage (--only) 'al'."),
    ):
        assert main(["pipeline", *words, "--output", str(tmp_path / "out")]) == 2
        assert capsys.readouterr().err.startswith(f"error: {message}")
    assert not (tmp_path / "out").exists()


def test_the_demo_is_the_preset_quick(
    fake: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("summary", "comparison"):
        monkeypatch.setattr(PipelineResult, name, [])
    assert main(["demo", "--output", str(tmp_path / "out"), "--quiet"]) == 0
    assert f"Report: {tmp_path / 'out' / 'report.html'}" in capsys.readouterr().out
    assert read_plan(tmp_path / "out") == read_plan(demo.PRESET)
    with (tmp_path / "out" / "times.csv").open() as file:
        assert len(list(csv.reader(file))) == 6
