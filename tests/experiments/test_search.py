"""Which settings are tried next: by Optuna's samplers, in rounds that know nothing but the rounds before."""

from __future__ import annotations

import json
import math
from pathlib import Path

import optuna
import pytest

from helpers.refusing import refusal
from helpers.tiny import tiny_config
from omg.evaluation.tables import MetricRow
from omg.experiments.search import Range, Sampler, SettingsSearch, Tried, check_sampler, check_space
from omg.experiments.trials import least_to_go_on, values_at

SPACE = {
    "lr": Range(low=1e-4, high=1e-1, log=True),
    "gamma": Range(low=0.9, high=0.99),
    "batch_size": Range(low=4, high=32, step=4),
    "double_q": [True, False],
}
TRIALS = 22


def search(tmp_path: Path, sampler: Sampler, *, lower: bool = False, draw: int = 1) -> SettingsSearch:
    config = tiny_config(tmp_path, lr=0.001, gamma=0.95)
    return SettingsSearch(SPACE, sampler, config, trials=TRIALS, size=5, draw=draw, lower=lower)


def score(settings: dict[str, object]) -> float:
    """Best at a learning rate of 0.01, with 0.97 as discount."""
    lr, gamma = float(str(settings.get("lr", 0.001))), float(str(settings.get("gamma", 0.95)))
    return -((math.log10(lr) + 2) ** 2) - 100 * (gamma - 0.97) ** 2


def searched(found: SettingsSearch, sign: float = 1.0) -> list[list[Tried]]:
    rounds: list[list[Tried]] = []
    while sum(map(len, rounds)) < TRIALS:
        rounds.append([Tried(one, sign * score(one)) for one in found.propose(rounds, lambda settings: "")])
    return rounds


@pytest.mark.parametrize("sampler", ["random", "tpe", "cmaes"])
def test_rounds_follow_from_those_before_alone(sampler: Sampler, tmp_path: Path) -> None:
    rounds = searched(search(tmp_path, sampler))
    assert [len(one) for one in rounds] == [5, 5, 5, 5, 2]
    assert rounds[0][0].settings == {}
    flat = [one.settings for tried in rounds for one in tried]
    assert len({json.dumps(one) for one in flat}) == TRIALS
    for one in flat[1:]:
        assert set(one) == set(SPACE)
        assert 1e-4 <= float(str(one["lr"])) <= 1e-1
        assert one["batch_size"] in range(4, 33, 4)
        assert type(one["batch_size"]) is int
        assert type(one["double_q"]) is bool
    # As it is when the program comes back to what it finds on disk, where numbers are text.
    told = [[Tried(json.loads(json.dumps(one.settings)), one.value) for one in tried] for tried in rounds]
    for number in (0, 2, 4):
        again = search(tmp_path, sampler).propose(told[:number], lambda settings: "")
        assert again == [one.settings for one in rounds[number]]
    assert [one.settings for one in searched(search(tmp_path, sampler, draw=2))[0]] != [
        one.settings for one in rounds[0]
    ]


def test_samplers_go_by_what_they_are_told(tmp_path: Path) -> None:
    means = {}
    for sampler in ("random", "tpe", "cmaes"):
        late = searched(search(tmp_path, sampler))[3:]
        means[sampler] = sum(one.value for tried in late for one in tried) / sum(map(len, late))
    assert means["tpe"] > means["random"]
    assert means["cmaes"] > means["random"]
    # Where less is better, the same search finds the same.
    rounds = searched(search(tmp_path, "tpe"))
    assert searched(search(tmp_path, "tpe", lower=True), -1.0)[4][0].settings == rounds[4][0].settings


def test_what_matters_is_found_and_others_can_read_it(tmp_path: Path) -> None:
    found = search(tmp_path, "random")
    settings = [one.settings for part in searched(found) for one in part]
    tried = [Tried(one, -((math.log10(float(str(one.get("lr", 0.001)))) + 2) ** 2)) for one in settings]
    importance = found.importance(tried)
    assert max(importance, key=lambda key: importance[key]) == "lr"
    assert sum(importance.values()) == pytest.approx(1.0)
    assert found.importance(tried[:1]) == {}
    path = tmp_path / "tried.journal"
    stopped = Tried(tried[1].settings, math.nan, [(100, 0.25)])
    found.write_journal([tried[0], stopped, Tried(tried[2].settings, math.nan)], str(path), "tried")
    backend = optuna.storages.journal.JournalFileBackend(str(path))
    study = optuna.load_study(study_name="tried", storage=optuna.storages.JournalStorage(backend))
    assert [trial.state.name for trial in study.trials] == ["COMPLETE", "PRUNED", "PRUNED"]
    assert study.best_value == tried[0].value
    assert study.trials[0].params["lr"] == 0.001
    assert study.trials[1].intermediate_values == {100: 0.25}


def test_settings_that_no_run_takes_are_replaced(tmp_path: Path) -> None:
    found = search(tmp_path, "tpe")
    drawn = found.propose([], lambda settings: "" if settings["double_q"] else "double_q: not here")
    assert all(one["double_q"] for one in drawn[1:])
    message = refusal(lambda: found.propose([], lambda settings: "lr: got this."))
    assert message == "tune.space: found no further settings that can be tried. lr: got this."


def test_a_space_with_an_end_is_tried_to_its_end(tmp_path: Path) -> None:
    config = tiny_config(tmp_path, lr=0.001)
    found = SettingsSearch({"lr": [0.001, 0.01, 0.1, 1.0]}, "tpe", config, trials=4, size=2, draw=1, lower=False)
    rounds: list[list[Tried]] = []
    for _ in range(2):
        rounds.append([Tried(one, 0.0) for one in found.propose(rounds, lambda settings: "")])
    assert sorted(float(str(one.settings.get("lr", 0.001))) for part in rounds for one in part) == [0.001, 0.01, 0.1, 1]


@pytest.mark.parametrize(
    ("space", "sampler", "message"),
    [
        ({}, "tpe", "tune.space: missing. Give what is tried, "),
        ({"lr": []}, "tpe", "tune.space.lr: got nothing to choose from."),
        ({"lr": Range(low=1, high=1)}, "tpe", "tune.space.lr: got 1 to 1; expected two numbers, the lower one first."),
        (
            {"lr": Range(low=0, high=1, log=True)},
            "tpe",
            "tune.space.lr: got log and low 0; powers of ten have no steps",
        ),
        ({"lr": Range(low=1, high=2, step=3)}, "tpe", "tune.space.lr: got step 3, which is more than from 1 to 2."),
        ({"lr": Range(low=1, high=2)}, "grid", "tune.space.lr: got a range, of which a grid needs a step. Give step, "),
        ({"lr": Range(low=1, high=2)}, "cmaes", "tune.sampler: cmaes needs two ranges or more in the space; tpe "),
    ],
)
def test_spaces_that_cannot_be_drawn_from_are_refused(space: dict[str, object], sampler: Sampler, message: str) -> None:
    assert refusal(lambda: check_space(space, sampler)).startswith(message)  # type: ignore[arg-type]


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("omg.experiments.search.find_spec", lambda name: None)
    check_sampler("grid")
    assert refusal(lambda: check_sampler("tpe")) == (
        "tune.sampler: tpe needs the package optuna, which is not installed. Install it with: "
        "pip install 'omg-marl[optuna]'"
    )


def test_trials_go_on_as_successive_halving_has_it() -> None:
    values = [0.3, 0.9, 0.1, 0.5, 0.7, 0.2, 0.8]
    study = optuna.create_study(
        direction="maximize",
        pruner=optuna.pruners.SuccessiveHalvingPruner(min_resource=1, reduction_factor=3, min_early_stopping_rate=0),
    )
    for number, value in enumerate(values):
        trial = study.ask()
        trial.report(value, 1)
        least = least_to_go_on([[(1, one)] for one in values[:number]], 3)
        stops = bool(least) and not value >= least[1]
        assert trial.should_prune() == stops, (number, value, least)
    assert least_to_go_on([[(5, math.nan)], [(5, 1.0), (9, 2.0)]], 3) == {5: 1.0, 9: 2.0}


def test_the_first_test_behind_a_step_counts_over_all_seeds() -> None:
    rows = [
        MetricRow(seed=seed, t_env=t_env + seed, name=name, value=float(t_env + 10 * seed))
        for name in ("test_return_mean", "other")
        for seed in (1, 2)
        for t_env in (0, 100, 200, 300)
    ]
    assert values_at(rows, "test_return_mean", [50, 101, 102, 999]) == [(50, 115.0), (101, 115.0), (102, 215.0)]
