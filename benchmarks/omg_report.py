"""Tables and figures of the OMG experiments from their raw scores.

    python benchmarks/omg_report.py benchmarks/results/omg/8m battle_won
    python benchmarks/omg_report.py benchmarks/results/omg/foraging own_return score ep_length

    omg pipeline foraging train.t_max=150000 --output PIPELINE
    python benchmarks/omg_report.py --from PIPELINE benchmarks/results/omg/foraging_short own_return score ep_length

    omg train --config=7pool1iql ... with name=iql_from init_from=POOL ...
    omg evaluate RUN --pool POOL --csv iql_from.csv
    python benchmarks/omg_report.py --add RUN iql_from.csv benchmarks/results/omg/8m_again battle_won

    omg pipeline FILE train.seed=11 train.seeds=20 pool.path=POOL --output PIPELINE
    python benchmarks/omg_report.py --more PIPELINE benchmarks/results/omg/8m_again battle_won

    omg pipeline benchmarks/results/omg/8m_point/pipeline.yaml --output PIPELINE
    python benchmarks/omg_report.py --from PIPELINE --agent omg_mlp_counts --beside benchmarks/results/omg/8m_again \
        benchmarks/results/omg/8m_point battle_won

Reads `scores.csv` of the folder (one row per agent, seed and team) and writes `summary.csv`, `differences.csv`,
`groups.png` and `differences.png` beside it. The figures show the first metric. With `--from` the folder is filled from
a finished pipeline first: `scores.csv`, `curves.csv` (means over seeds), `diagnostics.csv`, `times.csv`,
`pipeline.yaml`. With `--add` one more run joins them under its name: its curves, and its scores with the same pool.
With `--more` further seeds of agents that are there do, from a pipeline with the same pool; their curves stay apart.
With `--beside` the agents of another folder, which played with the same pool, stand in the tables, too.
With `--overall` nothing is written: each agent's mean over the groups is printed, with its standard error over seeds.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from omg.config import read_yaml
from omg.evaluation.comparison import compare, summarise
from omg.evaluation.rows import read_rows, write_rows
from omg.experiments.runs import known_runs
from omg.report.figures import plot_differences, plot_groups
from omg.tracking import RunFolder
from omg.types import Row

AGENT = "omg_optimistic"
NAMES = {
    "iql": "IQL",
    "iql_all": "IQL, all last actions",
    "iql_am": "Naive OM",
    "iql_liam": "LIAM",
    "d3qn": "D3QN",
    "d3qn_all": "D3QN, all last actions",
    "d3qn_am": "Naive OM",
    "d3qn_liam": "LIAM",
    "omg_optimistic": "OMG, optimistic",
    "omg_conservative": "OMG, conservative",
    "omg_zero": "OMG, subgoal zeroed",
    "omg_optimistic_all": "OMG, all last actions",
    "omg_horizon_1": "OMG, horizon 1",
    "omg_horizon_3": "OMG, horizon 3",
    "omg_horizon_10": "OMG, horizon 10",
    "omg_inferred": "OMG, Q learns with inferred ones only",
    "omg_selected": "OMG, Q learns with selected ones only",
    "omg_random": "OMG, random selector",
    "omg_next": "OMG, next state selected",
    "omg_third": "OMG, third state selected",
    "best_response": "trained with these partners themselves",
    "omg_weak_prior": "OMG, prior of 4,000 steps",
    "omg_mlp": "OMG, point",
    "omg_mlp_counts": "OMG, point, actions counted",
    "omg_mlp_none": "OMG, point, no actions",
    "liam_lr3": "LIAM, lr 0.003",
    "iql_from": "IQL, from a pool policy",
    "omg_from": "OMG, from a pool policy",
}
FLOORS = {"untrained", "random"}
"""Everything is better than these; they would only stretch the figure."""
INFERENCE = {"am_goal_distance", "omg_value_spread", "test_subgoal_future_distance", "test_subgoal_present_distance"}
"""How well subgoals are inferred, and how much they matter to the agent; in the curves of agents that have them."""
LOWER_IS_BETTER = {"ep_length"}
ROUNDED = 4


def report(place: Path, metrics: tuple[str, ...], main_agent: str, judged: str, beside: list[Path]) -> None:
    every = [row for folder in (place, *beside) for row in read_rows(folder / "scores.csv")]
    played = [row for row in every if row["set"] == judged]
    summary: list[Row] = []
    differences: list[Row] = []
    for metric in metrics:
        rows = [
            {**row, "episodes": int(row["episodes"]), "metric": metric, "mean": float(row[metric])} for row in played
        ]
        lower = metric in LOWER_IS_BETTER
        agents = dict.fromkeys(row["agent"] for row in rows)
        baselines = [agent for agent in agents if agent not in {main_agent, *FLOORS}]
        summary += summarise(rows, metric, lower_is_better=lower)
        differences += compare(rows, metric, main_agent, baselines, lower_is_better=lower)
    for name, table in (("summary", summary), ("differences", differences)):
        write_rows(place / f"{name}.csv", [rounded(row) for row in table], list(table[0]))
    first = metrics[0]
    plot_groups([row for row in summary if row["metric"] == first], place / "groups.png", names=NAMES)
    plot_differences([row for row in differences if row["metric"] == first], place / "differences.png", names=NAMES)
    for row in differences:
        values = [f"{row[key]:+.3f}" for key in ("difference", "low", "high")]
        print(f"{row['metric']:12s} {row['group']:16s} minus {row['baseline']:20s} {' '.join(values)} {row['verdict']}")


def overall(place: Path, metric: str, judged: str) -> None:
    scores: dict[str, dict[str, dict[str, list[float]]]] = {}
    for row in read_rows(place / "scores.csv"):
        if row["set"] == judged:
            groups = scores.setdefault(row["agent"], {}).setdefault(row["seed"], {})
            groups.setdefault(row["group"], []).append(float(row[metric]))
    for agent, seeds in scores.items():
        means = [np.mean([np.mean(teams) for teams in groups.values()]) for groups in seeds.values()]
        error = np.std(means, ddof=1) / np.sqrt(len(means)) if len(means) > 1 else np.nan
        print(f"{agent:20s} {np.mean(means):.4f} +- {error:.4f} ({len(means)} seeds)")


def fill(pipeline: Path, place: Path, metrics: tuple[str, ...]) -> None:
    place.mkdir(parents=True, exist_ok=True)
    for name in ("pipeline.yaml", "times.csv", "evaluation/diagnostics.csv"):
        shutil.copy(pipeline / name, place)
    scores = tidy_scores(read_rows(pipeline / "evaluation" / "scores.csv"), metrics)
    write_rows(place / "scores.csv", scores, list(scores[0]))
    curves: list[Row] = []
    for agent in read_yaml((pipeline / "pipeline.yaml").read_text())["agents"]:
        curves += run_curves(agent, known_runs(pipeline / "runs" / agent)[-1], metrics)
    write_rows(place / "curves.csv", curves, list(curves[0]))


def add(run: Path, scores: Path, place: Path, metrics: tuple[str, ...]) -> None:
    name = RunFolder.open(run).config().name
    played = [{**row, "set": "heldout"} for row in read_rows(scores) if row["agent"] == name]
    if not played:
        sys.exit(f"{scores}: has no rows of the run '{name}'.")
    for file, found in (("scores.csv", tidy_scores(played, metrics)), ("curves.csv", run_curves(name, run, metrics))):
        others = [row for row in read_rows(place / file) if row["agent"] != name]
        write_rows(place / file, [*others, *found], list(others[0]))


def more(pipeline: Path, place: Path, metrics: tuple[str, ...]) -> None:
    scores, curves = read_rows(place / "scores.csv"), read_rows(place / "curves.csv")
    there = {(row["agent"], row["seed"]) for row in scores}
    found = [
        row
        for row in tidy_scores(read_rows(pipeline / "evaluation" / "scores.csv"), metrics)
        if row["agent"] not in FLOORS
    ]
    seeds = sorted({int(row["seed"]) for row in found})
    if any((row["agent"], row["seed"]) in there for row in found):
        sys.exit(f"{place}: has some of the seeds {seeds[0]} to {seeds[-1]} already.")
    for agent in dict.fromkeys(row["agent"] for row in found):
        run = known_runs(pipeline / "runs" / agent)[-1]
        curves += run_curves(f"{agent}, seeds {seeds[0]} to {seeds[-1]}", run, metrics)
    write_rows(place / "scores.csv", [*scores, *found], list(scores[0]))
    write_rows(place / "curves.csv", curves, list(curves[0]))


def tidy_scores(rows: list[Row], metrics: tuple[str, ...]) -> list[Row]:
    """One row for each agent, seed and team, the metrics side by side."""
    games: dict[tuple[Any, ...], Row] = {}
    for row in rows:
        if row["metric"] in metrics:
            game = {key: row[key] for key in ("agent", "set", "seed", "group", "team", "episodes")}
            games.setdefault(tuple(game.values()), game)[row["metric"]] = f"{float(row['mean']):.5g}"
    return list(games.values())


def run_curves(agent: str, run: Path, metrics: tuple[str, ...]) -> list[Row]:
    wanted = {f"{kind}{metric}_mean" for metric in metrics for kind in ("", "test_")}
    return means(agent, RunFolder.open(run).metrics(), wanted | INFERENCE)


def means(agent: str, metrics: Iterable[Row], wanted: set[str]) -> list[Row]:
    """Means over seeds; they log at slightly different steps, so the first points are put together, and so on."""
    points: dict[tuple[str, int], list[Row]] = {}
    counts: dict[tuple[str, Any], int] = {}
    for row in metrics:
        if row["name"] in wanted:
            who = (row["name"], row["seed"])
            counts[who] = counts.get(who, -1) + 1
            points.setdefault((row["name"], counts[who]), []).append(row)
    return [
        {
            "agent": agent,
            "t_env": round(np.mean([row["t_env"] for row in rows])),
            "name": name,
            "mean_over_seeds": f"{np.mean([row['value'] for row in rows]):.5g}",
            "seeds": len(rows),
        }
        for (name, _), rows in points.items()
    ]


def rounded(row: Row) -> Row:
    return {key: round(value, ROUNDED) if isinstance(value, float) else value for key, value in row.items()}


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("folder", type=Path)
    words.add_argument("metrics", nargs="+")
    words.add_argument("--from", dest="pipeline", type=Path, help="fill the folder from this pipeline")
    words.add_argument("--more", type=Path, metavar="PIPELINE", help="more seeds, or further agents")
    words.add_argument("--add", type=Path, nargs=2, metavar=("RUN", "SCORES"), help="one more run and its scores")
    words.add_argument("--agent", default=AGENT, help="the one that all others are subtracted from")
    words.add_argument("--set", dest="judged", default="heldout", help="the set of team-mates")
    words.add_argument("--beside", type=Path, action="append", default=[], metavar="FOLDER", help="with these agents")
    words.add_argument("--overall", action="store_true", help="print means over groups, write nothing")
    given = words.parse_args()
    metrics = tuple(given.metrics)
    if given.overall:
        return overall(given.folder, metrics[0], given.judged)
    if given.pipeline is not None:
        fill(given.pipeline, given.folder, metrics)
    if given.more is not None:
        more(given.more, given.folder, metrics)
    if given.add is not None:
        add(*given.add, given.folder, metrics)
    report(given.folder, metrics, given.agent, given.judged, given.beside)


if __name__ == "__main__":
    main()
