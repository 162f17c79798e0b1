"""`omg report` and `omg figures`: whose runs they are, what the page says of them, what is made again from tables."""

from __future__ import annotations

import csv
import re
import shlex
import sys
from pathlib import Path

import numpy as np
import pytest

from helpers.made_runs import TESTS, make_run, risen
from helpers.refusing import refusal
from helpers.reported import full_report, outline, page_data, scores
from omg.cli import main
from omg.config import resolve
from omg.config.overrides import translate
from omg.errors import UserError
from omg.evaluation.parquet import read_parquet, write_parquet
from omg.evaluation.profiles import performance_profile, self_play_gaps
from omg.evaluation.report_tables import CurveRow
from omg.evaluation.rows import read_rows
from omg.evaluation.tables import CrossPlayRow, MeasureRow, MetricRow, SummaryRow
from omg.experiments.reports import Asked, read_report
from omg.report.derived import foresight_sentences, last_measures, referred
from omg.report.figure_files import write_figures
from omg.report.inputs import ReportInput
from omg.report.kept import read_tables, write_tables
from omg.report.page import write_page
from omg.report.runs import read_runs, repeat_command, setting_rows


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """IQL and VDN with two learning rates, two runs of two seeds each."""
    folder = tmp_path_factory.mktemp("results")
    for algorithm, lr, height in (("iql", 0.001, 0.4), ("vdn", 0.001, 0.6), ("vdn", 0.01, 0.5)):
        for seed in (1, 3):
            make_run(folder, algorithm, risen(height, seed), lr=lr, seed=seed, seeds=2)
    return folder


def report_of(*paths: Path, **asked: object) -> ReportInput:
    found = read_report(paths, Asked(**asked))  # type: ignore[arg-type]
    assert isinstance(found, ReportInput)
    return found


# --------------------------------------------------------------------------------------------------------------- runs


def test_runs_that_differ_in_the_seed_are_one_agent_and_others_say_what_differs(results: Path) -> None:
    runs = read_runs([results])
    assert [run.label for run in runs] == ["iql", "iql", *["vdn (lr=0.001)", "vdn (lr=0.01)"] * 2]
    assert len({row.seed for run in runs for row in run.metrics}) == 12
    rows = setting_rows(runs)
    differing = {(row.key, row.value): row.runs for row in rows if row.differs}
    assert differing["lr", "0.01"] == "vdn (lr=0.01)"
    assert differing["mixer", "vdn"] == "vdn (lr=0.001), vdn (lr=0.01)"
    (steps,) = [row for row in rows if row.key == "t_max"]
    assert (steps.value, steps.default, steps.runs) == ("1000", "2050000", "all")
    assert "seed" not in {row.key for row in rows}


def test_how_fast_a_run_was_and_what_it_took(results: Path) -> None:
    row = read_runs([results])[0].row()
    assert (row.steps, row.planned, row.seeds, row.status) == (1000, 1000, 2, "finished")
    assert row.env_steps == pytest.approx(np.median([1000.0 + step for step in range(500, 1001, 100)]))
    assert (row.updates, row.host, row.memory) == (50.0, 0.01, 1.5)


def test_the_command_of_a_run_stands_for_its_settings(results: Path) -> None:
    config = read_runs([results])[-1].config
    program, train, *words = shlex.split(repeat_command(config))
    assert (program, train) == ("omg", "train")
    line = translate(words)
    again = resolve(line.config, line.env_config, line.overrides, open_games="none").config
    assert again.model_copy(update={"local_results_path": config.local_results_path, "use_cuda": False}) == config


def test_a_name_of_ones_own_leads_to_the_same_settings(tmp_path: Path) -> None:
    run = make_run(tmp_path, "qmix", name="mine", label="x", env_args={"rows": 5, "cols": 6, "players": 2})
    (found,) = read_runs([run])
    assert found.label == "mine x"
    line = translate(shlex.split(found.command)[2:])
    again = resolve(line.config, line.env_config, line.overrides, open_games="none").config
    assert (again.mixer, again.name, again.env_args["cols"]) == ("qmix", "mine", 6)


# ------------------------------------------------------------------------------------------------- numbers on the page


def test_numbers_on_the_page_are_those_of_the_tables(results: Path, tmp_path: Path) -> None:
    report = report_of(results)
    page = write_page(tmp_path / "page.html", report)
    _, words = outline(page)
    last = {}
    for run in read_runs([results]):
        rows = csv.DictReader((run.path / "metrics.csv").open(newline=""))
        values = [float(row["value"]) for row in rows if (row["name"], row["t_env"]) == ("test_return_mean", "1000")]
        last.setdefault(run.label, []).extend(values)
    summary = [SummaryRow.of(row) for row in report.summary]
    assert {row.agent: row.mean for row in summary} == pytest.approx({one: np.mean(last[one]) for one in last})
    for row in summary:
        shown = f"{row.agent.replace('iql', 'IQL')} {row.mean:.2f} {row.low:.2f} to {row.high:.2f}"
        assert shown in words
    groups, profiles, _, curves = page_data(page)["charts"]
    drawn = {row["name"]: row for row in groups["views"][0]["panels"][0]["rows"]}
    assert drawn["IQL"]["value"] == pytest.approx(np.mean(last["iql"]), rel=1e-6)
    assert drawn["IQL"]["low"] == pytest.approx(summary[0].low, rel=1e-6)
    assert [view["name"] for view in curves["views"]] == [
        "test_return_mean", *sorted(name for name in TESTS if name != "test_return_mean")
    ]  # fmt: skip
    line = curves["views"][0]["panels"][0]["series"][0]
    assert (line["x"], len(line["low"])) == ([100.0 * place for place in range(11)], 11)
    assert line["y"][-1] == pytest.approx(np.mean(last["iql"]), rel=1e-6)
    shares = profiles["views"][0]["panels"][0]["series"][0]
    for level, share in zip(shares["x"][1:-1], shares["y"][1:-1], strict=True):
        assert share == pytest.approx(np.mean([value > level for value in last["iql"]]))


def test_the_best_agent_is_in_question_and_the_page_says_so(results: Path) -> None:
    report = report_of(results)
    assert {row["agent"] for row in report.comparison} == {"vdn (lr=0.001)"}
    assert report.answer.startswith("By return in the last test: vdn (lr=0.001) 0.")
    assert "flatters" in report.remark
    chosen = report_of(results, agent="iql", metric="ep_length", lower_is_better=True, title="T")
    assert (chosen.metric, chosen.title, chosen.remark) == ("ep_length", "T", "")
    assert {row["verdict"] for row in chosen.comparison} == {"better"}


def test_one_run_answers_how_well_it_plays(tmp_path: Path) -> None:
    run = make_run(tmp_path, seeds=3, status="interrupted")
    report = report_of(run)
    mean = SummaryRow.of(report.summary[0]).mean
    assert report.answer.startswith(f"IQL reaches {mean:.2f} return in its last test [")
    assert report.warnings == [f"{run.name} is interrupted at 1,000 of 1,000 steps."]
    _, words = outline(write_page(tmp_path / "page.html", report))
    assert "Who is better" not in words.partition("How well does it play")[2].partition("Learning curves")[0]


def test_subgoals_stand_beside_chance_and_beside_standing_still() -> None:
    values = {"test_subgoal_future_distance": 0.5, "test_subgoal_present_distance": 0.75, "test_subgoal_probe": 0.4}
    values |= {"test_probe_chance": 0.25}
    rows = [
        {"seed": seed, "t_env": 100, "name": name, "value": value + 0.1 * (seed - 1)}
        for name, value in values.items()
        for seed in (0, 1, 2)
    ]
    measures = last_measures("omg", [MetricRow.of(row) for row in rows])
    found = {one.row.measure: one for one in referred(measures)}
    assert found["test_subgoal_future_distance"].stay == pytest.approx(0.75)
    assert found["test_subgoal_probe"].chance == pytest.approx(0.25)
    assert found["test_subgoal_probe"].row.value == pytest.approx(0.4)
    (sentence,) = foresight_sentences(measures, {"omg": "OMG"})
    assert sentence.startswith("The subgoals of OMG are closer to the future than")
    assert "0.500 against 0.750" in sentence
    worse = [
        MeasureRow.of({**row, "value": 0.9}) if row.measure.endswith("future_distance") else row for row in measures
    ]
    assert "are no closer to the future" in foresight_sentences(worse, {})[0]


def test_profiles_count_trainings_and_teams_above_a_level() -> None:
    scores_ = np.asarray([[0.0, 1.0], [0.5, 1.0], [1.0, 1.0]])
    profile = performance_profile(scores_, np.asarray([-1.0, 0.0, 0.6, 1.0]))
    assert profile.share == pytest.approx([1.0, 5 / 6, 4 / 6, 0.0])
    assert (profile.low <= profile.share).all()
    assert (profile.share <= profile.high).all()
    assert profile.low[2] < profile.share[2] < profile.high[2]
    assert np.isnan(performance_profile(scores_[:2], np.asarray([0.5])).low).all()


def test_the_gap_is_self_play_minus_the_mean_with_others() -> None:
    cells = {("a", "a"): 1.0, ("a", "b"): 0.5, ("a", "c"): 0.75, ("a", "d"): 0.25, ("b", "a"): 0.5}
    rows = [
        CrossPlayRow(agent=one, mate=other, metric="return", mean=mean, episodes=4)
        for (one, other), mean in cells.items()
    ]
    (gap,) = self_play_gaps(rows)  # b was not played with itself.
    assert (gap.agent, gap.mates, gap.self_play, gap.cross_play, gap.gap) == ("a", 3, 1.0, 0.5, 0.5)
    assert 0.25 <= gap.low < 0.5 < gap.high <= 0.75


# --------------------------------------------------------------------------------------------------- from tables alone


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_page_and_figures_are_made_again_from_tables_alone(tmp_path: Path, kind: str) -> None:
    if kind == "parquet":
        pytest.importorskip("pyarrow")
    report = full_report()
    write_tables(tmp_path / "tables", report, kind)  # type: ignore[arg-type]
    again = read_tables(tmp_path / "tables")
    first, second = (write_page(tmp_path / f"{name}.html", one) for name, one in (("a", report), ("b", again)))
    assert first.read_bytes() == second.read_bytes()
    drawn = [
        [path.read_bytes() for path in write_figures(tmp_path / name, one, "svg")]
        for name, one in (("x", report), ("y", again))
    ]
    assert [_undated(figure) for figure in drawn[0]] == [_undated(figure) for figure in drawn[1]]
    names = {path.stem for path in (tmp_path / "x").iterdir()}
    assert names == {
        "scores",
        "profiles_7_homologue",
        "profiles_7_nonhomologue",
        "differences",
        "curves",
        "crossplay",
        "offsets",
    }


def _undated(figure: bytes) -> bytes:
    return re.sub(rb"<dc:date>.*?</dc:date>|(?<=[\"#(])m?p?[0-9a-f]{10}", b"", figure)


def test_parquet_without_its_package_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(UserError, match=r"needs the package pyarrow, which is not installed\. Install it with"):
        write_parquet(tmp_path / "a.parquet", [], CurveRow)
    assert list(tmp_path.iterdir()) == []


def test_damaged_tables_are_refused_in_one_line(tmp_path: Path) -> None:
    write_tables(tmp_path, full_report())
    facts = tmp_path / "report.json"
    whole = facts.read_text()
    for damaged in ("", "[]", whole.replace('"names"', '"named"').replace("8m", "\\u0000"), whole[:50], '{"title": 3}'):
        facts.write_text(damaged)
        if damaged.startswith("{") and damaged.endswith("}\n"):
            continue
        assert "report.json cannot be read" in refusal(lambda: read_tables(tmp_path))
    pytest.importorskip("pyarrow")
    (tmp_path / "x.parquet").write_bytes(b"PAR1 nothing PAR1")
    assert "x.parquet cannot be read" in refusal(lambda: read_parquet(tmp_path / "x.parquet", CurveRow))


# ------------------------------------------------------------------------------------------------------------ commands


def test_commands_write_the_page_and_figures_with_their_tables(results: Path, tmp_path: Path, capsys) -> None:
    page, paper = tmp_path / "page.html", tmp_path / "paper"
    assert main(["report", str(results), "-o", str(page)]) == 0
    assert main(["figures", str(results), "-o", str(paper), "--format", "pdf"]) == 0
    assert {path.name for path in paper.iterdir()} == {
        "scores.pdf", "profiles.pdf", "differences.pdf", "curves.pdf", "tables",
    }  # fmt: skip
    points = read_rows(paper / "tables" / "curves.csv", CurveRow)
    assert {row.metric for row in points} == set(TESTS)
    again = tmp_path / "again.html"
    assert main(["report", str(paper / "tables"), "-o", str(again)]) == 0
    assert again.read_bytes() == page.read_bytes()
    assert f"Report: {page}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["report", "missing"], "missing is not a run folder: there is no such folder."),
        (["report", "{results}", "-o", "page.txt"], "a page ends in .html"),
        (["report", "{results}", "--metric", "retrun"], "Did you mean 'return'?"),
        (["report", "{results}", "--agent", "nobody"], "Unknown agent (--agent) 'nobody'."),
        (["figures", "{results}", "--format", "gif"], "'gif' is not one of 'png', 'svg', 'pdf'"),
    ],
)
def test_what_cannot_be_reported_is_said_in_one_line(
    results: Path, words: list[str], said: str, capsys, tmp_path, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main([word.replace("{results}", str(results)) for word in words]) == 2
    errors = capsys.readouterr().err
    assert said in errors
    assert errors.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_run_without_tests_is_refused(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    (run / "metrics.csv").write_text("seed,t_env,name,value\n")
    assert "this run has no metrics yet" in refusal(lambda: report_of(run))
    (run / "metrics.csv").write_text("seed,t_env,name,value\n1,4,loss,0.5\n")
    assert "there is no test that all runs have made" in refusal(lambda: report_of(run))


def test_a_page_of_thirty_runs_is_small(tmp_path: Path) -> None:
    for seed in range(1, 31):
        make_run(
            tmp_path,
            ("iql", "vdn", "qmix")[seed % 3],
            risen(0.4, seed),
            points=206,
            seed=seed,
            lr=0.001 * (seed % 10 + 1),
        )
    page = write_page(tmp_path / "page.html", report_of(tmp_path))
    assert len(read_runs([tmp_path])) == 30
    assert page.stat().st_size < 1_000_000


def test_scores_of_every_partner_are_on_the_page(tmp_path: Path) -> None:
    page = write_page(tmp_path / "page.html", full_report())
    (table,) = page_data(page)["tables"]
    wanted = {(row["agent"], row["group"], row["team"]) for row in scores()}
    assert len(table["rows"]) == len(wanted) == 20
    own = [
        row["mean"] for row in scores() if (row["agent"], row["group"], row["team"]) == ("iql", "7_homologue", "vdn_0")
    ]
    (line,) = [row for row in table["rows"] if row[:3] == ["IQL", "7 homologue", "vdn_0"]]
    assert line[4:7] == [f"{100 * value:.1f} %" for value in (np.mean(own), min(own), max(own))]
    assert (table["choices"], table["preset"]) == ([0, 1, 3], {"3": "battle_won"})
