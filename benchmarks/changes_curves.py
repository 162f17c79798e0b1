"""Tests in the course of training, of variants in several draws of partners: who is ahead, and when.

python benchmarks/changes_curves.py benchmarks/results/omg/changes/curves.csv --against same_information

A line for each variant: its score at some steps, mean over draws and seeds, and its difference from another variant,
draw by draw, with Student's 95 % interval over draws. Rows of the table: game, draw, variant, seed, t_env, score.
"""

from __future__ import annotations

import argparse
import csv
from collections import defaultdict
from pathlib import Path

import numpy as np
from scipy import special

Curves = dict[tuple[str, str, str], dict[str, list[tuple[int, float]]]]
"""(game, variant, draw) -> seed -> (t_env, score) in the order of the training."""


def read(file: Path) -> Curves:
    found: Curves = defaultdict(lambda: defaultdict(list))
    with file.open(encoding="utf-8") as lines:
        for row in csv.DictReader(lines):
            key = (row["game"], row["variant"], row["draw"])
            found[key][row["seed"]].append((int(row["t_env"]), float(row["score"])))
    return found


def at(seeds: dict[str, list[tuple[int, float]]], steps: int) -> float:
    """The mean over seeds of the first test at or after so many steps."""
    return float(
        np.mean([next((score for t_env, score in curve if t_env >= steps), np.nan) for curve in seeds.values()])
    )


def gather(runs: list[str], target: Path) -> None:
    """A table of runs, each given as GAME:DRAW:VARIANT:FOLDER."""
    with target.open("w", encoding="utf-8", newline="") as lines:
        table = csv.writer(lines)
        table.writerow(("game", "draw", "variant", "seed", "t_env", "score"))
        for run in runs:
            game, draw, variant, folder = run.split(":", 3)
            metric = {"rendezvous": "test_met_mean"}.get(game, "test_own_return_mean")
            with (Path(folder) / "metrics.csv").open(encoding="utf-8") as metrics:
                for row in csv.DictReader(metrics):
                    if row["name"] == metric:
                        table.writerow((game, draw, variant, row["seed"], row["t_env"], f"{float(row['value']):.5f}"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", type=Path)
    parser.add_argument("--against", default="same_information")
    parser.add_argument("--steps", type=int, nargs="+", default=[5_000, 10_000, 20_000, 30_000])
    parser.add_argument("--gather", nargs="+", metavar="GAME:DRAW:VARIANT:FOLDER", help="make the table of runs first")
    arguments = parser.parse_args()
    if arguments.gather:
        gather(arguments.gather, arguments.table)
    curves = read(arguments.table)
    for game in dict.fromkeys(game for game, _, _ in curves):
        print(f"\n| {game} | draws | " + " | ".join(f"{steps:,}" for steps in arguments.steps) + " |")
        print("|---|---|" + "---|" * len(arguments.steps))
        for variant in dict.fromkeys(variant for one, variant, _ in curves if one == game):
            draws = [draw for one, other, draw in curves if (one, other) == (game, variant)]
            cells = []
            for steps in arguments.steps:
                own = [at(curves[game, variant, draw], steps) for draw in draws]
                known = [draw for draw in draws if (game, arguments.against, draw) in curves]
                ahead = np.asarray(
                    [
                        at(curves[game, variant, draw], steps) - at(curves[game, arguments.against, draw], steps)
                        for draw in known
                    ]
                )
                if np.isnan(own).any():
                    # Some training was stopped before.
                    cells.append("")
                    continue
                cell = f"{np.mean(own):.3f}"
                if variant != arguments.against and len(ahead):
                    cell += f" ({ahead.mean():+.3f}"
                    if len(ahead) > 2:
                        half = special.stdtrit(len(ahead) - 1, 0.975) * ahead.std(ddof=1) / np.sqrt(len(ahead))
                        cell += f" [{ahead.mean() - half:+.3f}, {ahead.mean() + half:+.3f}]"
                    cell += ")"
                cells.append(cell)
            print(f"| {variant} | {len(draws)} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
