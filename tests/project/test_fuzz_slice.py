"""A short slice of `make fuzz`: generated command lines, plans and damaged files, none of which ends in a traceback."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fuzz.cases import PARTS, failures
from fuzz.harness import Case, run_case, scratch_root
from fuzz.material import Material
from omg.report.figures import plot_cross_play

SLICE = {"lines": 300, "plans": 80, "files": 80}


@pytest.fixture(scope="module")
def material(tmp_path_factory: pytest.TempPathFactory) -> Material:
    return Material(tmp_path_factory.mktemp("material") / "all")


@pytest.mark.parametrize("part", list(PARTS))
def test_generated_input_never_ends_in_a_traceback(part: str, material: Material):
    found = failures(part, int(os.environ.get("FUZZ_SEED", "1")), range(SLICE[part]), material)
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "words",
    [
        ["config", "optimizer=!!int x"],
        ["config", "lr=" + "[" * 1000],
        ["config", "lr=&a [*a]"],
        ["config", "t_max=" + "9" * 5000],
        ["train", "--config=" + "9" * 5000 + "iql"],
        ["train", "--config=iql", "name=" + "x" * 300],
        ["evaluate", "x" * 5000],
        ["evaluate", ""],
        ["resume", "."],
        ["pool", "train", "here", "--training", "iql=" + "9" * 5000],
        ["config", "env_args={a: 1, a: 2}"],
        ["config", "--config=1" + "iql1" * 2000],
        ["config", 'local_results_path="\\0"'],
        ["config", "updates_per_episode=1e-300"],
        ["config", "--env-config=foraging", "env_args.penalty=1e400"],
        ["pipeline", "quick", "--output", ""],
        ["plot", "run", "--title", "x" * 100_000],
        ["evaluate", "run", "--csv", "."],
    ],
    ids=lambda words: " ".join(words)[:40],
)
def test_what_once_ended_in_a_traceback_is_refused(words: list[str]):
    outcome = run_case(Case(words))
    assert (outcome.code, outcome.problem) == (2, ""), outcome.detail


def test_a_label_is_text_whatever_dollars_are_in_it(material: Material):
    words = ["plot", "run", "--title", r"$\frac{$", "--metric", "test_return_mean", "-o", "out.svg"]
    outcome = run_case(Case(words, lambda folder: material.copy(folder, "run")))
    assert (outcome.code, outcome.problem) == (0, ""), outcome.detail


def test_the_harness_finds_faults(monkeypatch: pytest.MonkeyPatch):
    def faulty(*_: object, **__: object) -> None:
        raise ZeroDivisionError("never foreseen")

    monkeypatch.setattr("omg.config.layers.resolve", faulty)
    outcome = run_case(Case(["config"]))
    assert outcome.problem == "ZeroDivisionError: never foreseen"
    assert "Traceback" in outcome.detail
    left = Path(scratch_root() or "/tmp").glob("omg-fuzz-*/config.yaml")
    assert not list(left)


def test_so_is_a_name_in_the_figures_of_a_report(tmp_path: Path):
    name = r"$\frac{$"
    rows = [{"agent": one, "team": other, "mean": 0.5} for one in (name, "b") for other in (name, "b")]
    assert plot_cross_play(rows, tmp_path / "a.svg", metric="return").stat().st_size > 1000
