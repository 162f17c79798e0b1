"""The tables of HOP+ beside HOP and direct-OM, from what `hop_plus_runs.py` left: as text for the page.

    python benchmarks/hop_plus_report.py benchmarks/results/hop/hop_plus

Three tables: the reward of a player in every test, with a 95 % bootstrap interval over seeds, beside that test of HOP
and direct-OM (`benchmarks/results/hop/GAME/tests.csv`) whose steps are nearest; where subgoals say that co-players will
be; and how surprised co-players' networks are when told nothing, what was inferred and the truth. `worth` is the share
of the truth's worth that inference has: (nothing - inferred) / (nothing - truth).
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from omg.evaluation.statistics import bootstrap_interval

GAMES = {"stag_hunt": "4h1s", "stag_hunt_4h2s": "4h2s", "snowdrift": "snowdrift"}
REWARD = "test_reward_per_player_mean"
OTHERS = {"hop": "HOP", "direct_om": "direct-OM"}
Tests = dict[str, list[tuple[int, dict[str, float]]]]
"""Seed -> its tests in order: environment steps, and measures by name."""


def read_tests(path: Path, agent: str, game: str) -> Tests:
    """The tests of one agent in a table, of which some are about one game alone."""
    found: dict[str, dict[int, dict[str, float]]] = {}
    with path.open() as file:
        for row in csv.DictReader(file):
            if row["agent"] == agent and row.get("game", game) == game:
                found.setdefault(row["seed"], {}).setdefault(int(row["t_env"]), {})[row["name"]] = float(row["value"])
    return {seed: sorted(tests.items()) for seed, tests in found.items()}


def at(tests: Tests, steps: float) -> tuple[float, list[dict[str, float]]]:
    """The test of every seed that is nearest to some steps, untrained only to untrained: mean steps, and measures."""
    nearest = [
        min(own, key=lambda test: (bool(test[0]) != bool(steps), abs(test[0] - steps))) for own in tests.values()
    ]
    return float(np.mean([test[0] for test in nearest])), [test[1] for test in nearest]


def said(values: Iterable[float], digits: int = 2) -> str:
    """Mean and interval."""
    array = np.asarray(list(values))
    low, high = bootstrap_interval(array)
    return f"{array.mean():.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"


def mean(measures: list[dict[str, float]], name: str) -> float:
    """Over seeds; not a number where nobody has it."""
    return float(np.mean([own.get(f"test_{name}", np.nan) for own in measures]))


def table(head: list[str], rows: list[list[str]]) -> str:
    """As the pages have it."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def rewards(folder: Path, runs: Mapping[str, Tests]) -> str:
    """Every test of HOP+, beside the others at their nearest."""
    rows = []
    for game, tests in runs.items():
        # Seeds do not stop at the same step; a test belongs to all of them.
        number = min(len(own) for own in tests.values())
        for which in range(number):
            steps = float(np.mean([own[which][0] for own in tests.values()]))
            values = [own[which][1][REWARD] for own in tests.values()]
            row = [GAMES[game], f"{steps:,.0f}", said(values), f"{min(values):.2f}"]
            for agent in OTHERS:
                other = read_tests(folder.parent / game / "tests.csv", agent, game)
                when, measures = at(other, steps)
                row.append(f"{said(one[REWARD] for one in measures)} at {when:,.0f}")
            rows.append(row)
    return table(["game", "steps", "HOP+", "worst seed", *OTHERS.values()], rows)


def places(runs: Mapping[str, Tests]) -> str:
    """Where subgoals say that co-players will be, in the last test."""
    head = ["", "steps", "place error", "exact", "blindly", "stays", "stays, exact", "probe", "present view", "chance"]
    names = ("subgoal_place_error", "subgoal_place_exact", "chance_place_error", "present_place_error",
             "present_place_exact", "subgoal_goal_probe", "present_goal_probe", "goal_probe_chance")  # fmt: skip
    rows = []
    for game, tests in runs.items():
        steps, measures = at(tests, max(own[-1][0] for own in tests.values()))
        rows.append([GAMES[game], f"{steps:,.0f}", *(f"{mean(measures, name):.2f}" for name in names)])
    return table(head, rows)


def surprises(runs: Mapping[str, Tests]) -> str:
    """Of co-players' networks, in every test but the one before training."""
    rows = []
    for game, tests in runs.items():
        for which in range(1, min(len(own) for own in tests.values())):
            measures = [own[which][1] for own in tests.values()]
            nothing, inferred, truth = (
                np.array([own[f"test_action_surprise{name}"] for own in measures])
                for name in ("_told_nothing", "", "_told_truth")
            )
            steps = np.mean([own[which][0] for own in tests.values()])
            worth = (nothing - inferred) / (nothing - truth)
            rows.append([
                GAMES[game], f"{steps:,.0f}", *(f"{values.mean():.3f}" for values in (nothing, inferred, truth)),
                said(worth), f"{int((inferred < nothing).sum())} of {len(measures)}",
            ])  # fmt: skip
    return table(["", "steps", "told nothing", "inferred", "the truth", "worth", "seeds with inferred below"], rows)


def main(folder: Path) -> None:
    runs = {game: read_tests(folder / "tests.csv", "hop_plus", game) for game in GAMES}
    runs = {game: tests for game, tests in runs.items() if tests}
    for title, text in (
        ("Reward of a player", rewards(folder, runs)),
        ("Places, last test", places(runs)),
        ("Surprise", surprises(runs)),
    ):
        print(f"{title}:\n\n{text}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
