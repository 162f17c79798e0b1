"""Tables and figures of a planners' pipeline, small enough to keep.

    omg pipeline stag_hunt --jobs 8 --output PIPELINE
    python benchmarks/planners_report.py PIPELINE benchmarks/results/hop/stag_hunt

Reads the folder of a pipeline whose agents learn in all seats, complete or not; keeps its `pipeline.yaml` and
`times.csv`, and writes:

- `tests.csv`: every test of every seed, without the tables of single actions;
- `self_play.csv`: the last test of each agent, with 95 % bootstrap intervals over seeds;
- `adaptation.csv`: what each agent earned with each new co-player, means of eight episodes;
- `adaptation_summary.csv`: the same over all 64, and on the scale from a random player to a best response;
- `curves.png`, `adaptation.png`.

An agent whose training did not end is left out.
"""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

import numpy as np

from omg.config import read_yaml
from omg.evaluation.rows import read_rows, write_rows
from omg.evaluation.tables import SelfPlayRow
from omg.experiments.adaptation.drawing import plot_adaptation
from omg.experiments.adaptation.scores import ALL, BEST_RESPONSE, RANDOM, adaptation_summary, courses
from omg.experiments.runs import is_over, known_runs
from omg.report.curves import plot_curves
from omg.report.self_play import self_play_rows, self_play_summary
from omg.report.style import figure_style
from omg.tracking import RunFolder
from omg.types import Row

METRIC = "reward_per_player"
BLOCK = 8
"""Episodes that a row of `adaptation.csv` stands for."""
KEPT = re.compile(
    r"test_(reward_per_player_mean|(hares|stags)_hunted_mean|drifts_removed_mean|ep_length_mean|action_accuracy"
    r"|precision_shovel|goal_probe_chance|belief_\w+|subgoal_\w+|present_\w+)"
)


def main(pipeline: str, results: str) -> None:
    source, target = Path(pipeline), Path(results)
    target.mkdir(parents=True, exist_ok=True)
    plan = read_yaml((source / "pipeline.yaml").read_text())
    names = plan["report"]["names"]
    for file in ("pipeline.yaml", "times.csv"):
        if (source / file).is_file():  # Times are written at the very end.
            shutil.copy(source / file, target)
    agents = [label for label in plan["agents"] if is_over(source / "runs" / label)]
    tests: list[Row] = []
    last: list[Row] = []
    curves = {}
    for label in agents:
        run = RunFolder.open(known_runs(source / "runs" / label)[-1])
        metrics = run.metrics()
        kept = [row for row in metrics if KEPT.fullmatch(row["name"])]
        tests += [{"agent": label, **row, "value": f"{row['value']:.5g}"} for row in kept]
        last += self_play_rows(label, metrics, METRIC, run.config().test_nepisode)
        curves[names.get(label, label)] = kept
    write_rows(target / "tests.csv", tests, ("agent", "seed", "t_env", "name", "value"))
    write_rows(target / "self_play.csv", self_play_summary(last), SelfPlayRow.names())
    with figure_style():  # The colours of the other figure.
        plot_curves(curves, f"test_{METRIC}_mean", target / "curves.png")
    report_adaptation(source / "adaptation" / "parts", target, names)


def report_adaptation(parts: Path, target: Path, names: dict[str, str]) -> None:
    files = [parts / f"{label}.csv" for label in (*names, RANDOM, BEST_RESPONSE)]
    rows = [row for file in files if file.is_file() for row in read_rows(file)]
    if not rows:
        return
    blocks: list[Row] = []
    for label, course in courses(rows).items():
        for seed, team in np.ndindex(course.rewards.shape[:2]):
            for first in range(0, course.rewards.shape[2], BLOCK):
                mean = course.rewards[seed, team, first : first + BLOCK].mean()
                blocks.append(
                    {
                        "agent": label,
                        "seed": course.seeds[seed],
                        "co_player": course.co_players[team],
                        "first_episode": first + 1,
                        "last_episode": min(first + BLOCK, course.rewards.shape[2]),
                        "reward": f"{mean:.5g}",
                    }
                )
    write_rows(target / "adaptation.csv", blocks, list(blocks[0]))
    summary = adaptation_summary(rows)
    short = [
        {name: f"{value:.4g}" if isinstance(value, float) else value for name, value in row.items()} for row in summary
    ]
    write_rows(target / "adaptation_summary.csv", short, list(summary[0]))
    plot_adaptation(rows, target / "adaptation.png", names=names)
    for row in summary:
        if row["co_player"] == ALL:
            ends = f"{row['normalised_low']:.2f} to {row['normalised_high']:.2f}"
            print(f"{row['agent']:<22} {row['mean']:6.2f}   normalised {row['normalised']:5.2f} ({ends})")


if __name__ == "__main__":
    main(*sys.argv[1:])
