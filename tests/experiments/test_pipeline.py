"""The pipeline: what is done again when a plan changes, and one small experiment from end to end."""

from __future__ import annotations

import csv
import json
import re
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from helpers.plans import PLAN, changed
from helpers.pool_members import ENV, agent
from helpers.refusing import refusal
from helpers.tiny import GAME
from omg.cli import demo, main
from omg.config import read_yaml, write_yaml
from omg.experiments import pipeline as module
from omg.experiments import runs, shown
from omg.experiments.pipeline import PipelineResult, run_pipeline
from omg.experiments.plan import parse_plan, read_plan
from omg.experiments.results import read_rows, report_files, table_files
from omg.experiments.stages import Workplace
from omg.experiments.stages.evaluate import EvaluateStage
from omg.experiments.stages.pool import PoolStage
from omg.experiments.stages.prior import PriorStage
from omg.experiments.stages.report import ReportStage
from omg.experiments.stages.room import TABLE_FILES, RoomStage
from omg.launchers import Job, JobEnd
from omg.launchers.local import LocalLauncher
from omg.pools.index import Pool
from omg.tracking import RunFolder

# ------------------------------------------------------------------------------ what depends on what, with fake work


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """All stages as files with nothing in them; `stop` names a run that is interrupted."""
    state = SimpleNamespace(stop=None)

    def make(*paths: Path) -> None:
        for path in paths:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()

    def finish(place: Workplace, where: Path, config: Any) -> None:
        if where.name == state.stop:
            raise KeyboardInterrupt
        make(where / "run" / "done")

    def prior(stage: PriorStage) -> None:
        make(stage.checked.runs("prior") / "run", stage.checked.pool / "prior" / "prior.json")

    monkeypatch.setattr(Workplace, "finish", finish)
    monkeypatch.setattr(PoolStage, "train", lambda stage: make(stage.checked.pool / "pool.json"))
    monkeypatch.setattr(PriorStage, "train", prior)
    monkeypatch.setattr(
        RoomStage, "measure", lambda stage: make(*(stage.checked.pool / "room" / name for name in TABLE_FILES))
    )
    monkeypatch.setattr(EvaluateStage, "write_scores", lambda stage, label, file: make(file))
    monkeypatch.setattr(EvaluateStage, "write_budget", lambda stage, label, file: make(file))
    monkeypatch.setattr(EvaluateStage, "write_answers", lambda stage, file: make(file))
    monkeypatch.setattr(EvaluateStage, "write_cross_play", lambda stage, file: make(file))
    monkeypatch.setattr(EvaluateStage, "write_diagnostics", lambda stage, label, file: make(file))
    monkeypatch.setattr(EvaluateStage, "write_tables", lambda stage: make(*table_files(stage.checked)))
    monkeypatch.setattr(ReportStage, "write", lambda stage, before: make(*report_files(stage.checked)))
    return state


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is for processes of their own is done here, the older of two first; what began and ended, in order."""
    events: list[str] = []

    def run(launcher: LocalLauncher, next_job: Any, ended: Any) -> None:
        running: list[Job] = []
        while True:
            while len(running) < launcher.jobs and (job := next_job()) is not None:
                events.append(job.label)
                running.append(job)
            if not running:
                return
            job = running.pop(0)
            for title in job.words:
                if title != job.label:
                    events.append(title)
                module.do_tasks(launcher.site.folder, [title])
                events.append(f"end of {title}")
            ended(JobEnd(job.label, True, 1.0, "here"))

    monkeypatch.setattr(LocalLauncher, "run", run)
    return events


def go(folder: Path, *words: str, **options: Any) -> list[str]:
    """Runs the small plan with some keys set; the parts that were done."""
    return list(run_pipeline(parse_plan(changed(*words)), folder, quiet=True, **options).done)


copied_or_trained = PoolStage.train
AFTER = ["evaluate tables", "report"]
OMG = ["train omg", "evaluate scores omg", "evaluate diagnostics omg", *AFTER]
SCORES = ["evaluate scores d3qn", "evaluate scores omg", "evaluate scores untrained"]
TRAINED = ["train d3qn", "train omg", *SCORES, "evaluate diagnostics omg", *AFTER]
ALL = ["pool", "prior", "train d3qn", "train omg", *SCORES, "evaluate cross-play", "evaluate diagnostics omg", *AFTER]


def test_a_given_pool_is_copied_and_may_then_go(
    fake: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(PoolStage, "train", copied_or_trained)
    given = Pool.create(tmp_path / "given", "foraging", GAME, ENV.spec)
    for seed, chosen in ((1, "training"), (2, "heldout")):
        given.add(agent(tmp_path / f"agent_{seed}", seed=seed), chosen)
    out = tmp_path / "out"
    assert go(out, f"pool.path={given.path}") == ALL
    assert [member.name for member in Pool.open(out / "pool")] == ["iql_s1", "iql_s2"]
    assert go(out, f"pool.path={given.path}", "pool.t_max=400") == []
    shutil.rmtree(given.path)
    again = run_pipeline(read_plan(out), out, quiet=True)
    assert again.done == ()
    assert again.checked.given_pool == out / "pool"
    # Made anew it would be needed; what there was is kept.
    assert "is not a pool" in refusal(lambda: run_pipeline(read_plan(out), out, quiet=True, start="pool"))
    assert len(Pool.open(out / "replaced" / "pool-1")) == 2


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize(
    ("word", "redone"),
    [
        ("game.env_args.rows=5", ALL),
        ("pool.t_max=400", ALL),
        ("pool.scripted.own_level=heldout", ALL),
        ("prior.t_max=400", ["prior", *OMG]),
        ("train.lr=0.01", TRAINED),
        ("agents.omg.subgoal_mode=random", OMG),
        ("agents.iql.config=iql", ["train iql", "evaluate scores iql", "evaluate diagnostics iql", *AFTER]),
        ("evaluation.episodes=5", [*SCORES, *AFTER]),
        ("evaluation.seed=5", [*SCORES, "evaluate cross-play", "evaluate diagnostics omg", *AFTER]),
        ("evaluation.crossplay_episodes=5", ["evaluate cross-play", *AFTER]),
        ("evaluation.inference_episodes=5", ["evaluate diagnostics omg", *AFTER]),
        ("evaluation.scripted=[random]", ["evaluate scores random", *AFTER]),
        ("evaluation.beliefs=[plastic]", ["evaluate answers", "evaluate scores plastic", *AFTER]),
        ("report.agent=d3qn", AFTER),
        ("report.title=x", ["report"]),
        ("train.use_tensorboard=True", []),
        ("name=other", []),
    ],
)
def test_what_has_changed_is_done_again_with_all_that_depends_on_it(
    word: str, redone: list[str], jobs: int, fake: SimpleNamespace, here: list[str], tmp_path: Path
) -> None:
    assert sorted(go(tmp_path, jobs=jobs)) == sorted(ALL)
    assert go(tmp_path, jobs=jobs) == []
    assert sorted(go(tmp_path, word, jobs=jobs)) == sorted(redone)
    assert go(tmp_path, word, jobs=jobs) == []
    assert bool(here) == (jobs > 1)
    old = {path.name for path in (tmp_path / "replaced").glob("*")}
    costly = {"pool": "pool-1", "prior": "runs-prior-1", "train d3qn": "runs-d3qn-1", "train omg": "runs-omg-1"}
    expected = {costly[title] for title in redone if title in costly}
    # The prior lies in the pool's folder and goes with it.
    assert old - {"pool-prior-1"} == expected
    assert ("pool-prior-1" in old) == ("prior" in redone and "pool" not in redone)


def test_parts_begin_as_soon_as_what_they_need_is_done(fake: SimpleNamespace, here: list[str], tmp_path: Path) -> None:
    go(tmp_path, jobs=3)
    assert here[:4] == ["prior", "train d3qn", "evaluate cross-play", "end of prior"]
    # As all three processes have enough to do, the first goes on with what waits for its own task alone.
    assert here[4:10] == [
        *("train omg", "end of train omg", "evaluate scores omg", "end of evaluate scores omg"),
        *("evaluate diagnostics omg", "end of evaluate diagnostics omg"),
    ]
    assert [title for title in here[10:] if not title.startswith("end of")] == [
        *("evaluate scores d3qn", "evaluate scores untrained"),
    ]
    notes = [tmp_path / "stages" / f"{name}.json" for name in ("prior", "train/omg", "evaluate/scores/omg")]
    assert sum(json.loads(note.read_text())["seconds"] for note in notes) <= 1.0 + 1e-9
    # With a process for each there is no reason to wait.
    del here[:]
    go(tmp_path, start="prior", jobs=9)
    assert {"train omg", "evaluate scores omg", "evaluate diagnostics omg"} < set(here)
    assert here.index("evaluate scores omg") > here.index("end of train omg")
    # One part alone needs no process of its own.
    del here[:]
    assert go(tmp_path, "evaluation.crossplay_episodes=5", jobs=2) == ["evaluate cross-play", *AFTER]
    assert here == []
    # Nothing is made from what is about to be made anew, be it done or not.
    go(tmp_path, start="train", jobs=3)
    assert here.index("end of train omg") < here.index("evaluate scores omg")
    del here[:]
    shutil.rmtree(tmp_path / "pool" / "prior")
    go(tmp_path, "evaluation.episodes=5", jobs=3)
    assert here.index("end of prior") < here.index("train omg")
    assert here.index("end of train omg") < here.index("evaluate scores omg")


def test_a_part_refuses_a_plan_that_has_changed_since(fake: SimpleNamespace, tmp_path: Path) -> None:
    go(tmp_path)
    module.do_tasks(tmp_path, ["evaluate scores omg"])
    (tmp_path / "pipeline.yaml").write_text(write_yaml(parse_plan(changed("evaluation.episodes=5")).values()))
    for title in ("evaluate scores omg", "evaluate scores other"):
        assert "pipeline.yaml has changed since" in refusal(lambda title=title: module.do_tasks(tmp_path, [title]))


def test_an_interrupted_pipeline_goes_on_where_it_stopped(fake: SimpleNamespace, tmp_path: Path) -> None:
    fake.stop = "omg"
    with pytest.raises(KeyboardInterrupt):
        go(tmp_path)
    assert json.loads((tmp_path / "stages" / "train" / "omg.json").read_text())["status"] == "begun"
    fake.stop = None
    assert sorted(go(tmp_path)) == sorted(title for title in ALL if title not in ("pool", "prior", "train d3qn"))
    assert not (tmp_path / "replaced").exists()


def test_what_was_to_be_made_anew_still_is_after_an_interruption(fake: SimpleNamespace, tmp_path: Path) -> None:
    go(tmp_path)
    fake.stop = "omg"
    with pytest.raises(KeyboardInterrupt):
        go(tmp_path, start="train")
    fake.stop = None
    made_anew = [*TRAINED, "evaluate cross-play"]
    assert sorted(go(tmp_path)) == sorted(title for title in made_anew if title != "train d3qn")
    assert go(tmp_path) == []


@pytest.mark.parametrize("jobs", [1, 2])
def test_stages_can_be_chosen(jobs: int, fake: SimpleNamespace, here: list[str], tmp_path: Path) -> None:
    message = refusal(lambda: go(tmp_path, only="evaluate"))
    assert message == (
        f"{tmp_path}: the stage 'pool' is not done yet. Run the pipeline up to there first, e.g. with --only pool."
    )
    assert not (tmp_path / "pipeline.yaml").exists()
    assert go(tmp_path, only="pool", jobs=jobs) == ["pool"]
    assert go(tmp_path, only="prior", jobs=jobs) == ["prior"]
    assert "'train d3qn' is not done yet" in refusal(lambda: go(tmp_path, start="evaluate"))
    assert len(go(tmp_path, jobs=jobs)) == len(ALL) - 2
    assert go(tmp_path, only="train", jobs=jobs) == []
    assert go(tmp_path, start="report", jobs=jobs) == ["report"]
    assert sorted(go(tmp_path, start="train", jobs=jobs)) == sorted([*TRAINED, "evaluate cross-play"])
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
    outcome = SimpleNamespace(status="finished", folder=tmp_path, signal=None)

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
    Workplace.finish(whole, tmp_path / "runs", lambda: config)
    wanted = {"resume": ("resume", tmp_path / "runs" / "one"), "train": ("train", config)}
    assert calls == ([wanted[expected]] if expected else [])
    if expected:
        outcome.status = "interrupted"
        with pytest.raises(KeyboardInterrupt):
            Workplace.finish(whole, tmp_path / "runs", lambda: config)
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
    assert {path.name for path in before if before[path] != after[path]} == {
        "pipeline.yaml",
        "tasks.json",
        "times.csv",
        ".lock",
    }


def test_a_new_title_makes_a_new_report_and_nothing_else(finished: PipelineResult) -> None:
    again = run_pipeline(parse_plan(changed("report.title=Another title")), finished.folder, quiet=True)
    assert again.done == ("report",)
    assert "<h1>Another title</h1>" in (finished.folder / "report.html").read_text()
    assert run_pipeline(parse_plan(PLAN), finished.folder, quiet=True).done == ("report",)


def test_the_demo_is_a_preset_of_its_own(
    fake: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(PipelineResult, "shown", [])
    monkeypatch.setattr(shown, "show_pipeline", lambda result: result.folder / "replay.html")
    assert main(["demo", "--output", str(tmp_path / "out"), "--quiet"]) == 0
    said = capsys.readouterr().out
    assert said.endswith(f"Report: {tmp_path / 'out' / 'report.html'}\nReplay: {tmp_path / 'out' / 'replay.html'}\n")
    assert read_plan(tmp_path / "out") == read_plan(demo.PRESET)
    with (tmp_path / "out" / "times.csv").open() as file:
        assert [stage for stage, _ in csv.reader(file)] == ["stage", "pool", "room", "train", "evaluate", "report"]
