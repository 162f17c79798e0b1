"""Table and figures of the committed learning curves.

Every file `results/learning/ALGORITHM-MAP.csv` holds the greedy test win rates of one run (seed, t_env, name, value),
taken from the `metrics.csv` of

    omg train --config=ALGORITHM --env-config=sc2 --seeds=N with env_args.map_name=MAP t_max=2000000

on an NVIDIA H200. This script rebuilds `results/learning.md` and `results/learning-MAP.png` from them.

    python benchmarks/learning_report.py
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from omg.report.curves import plot_curves
from omg.tracking.table import Table, read_metrics

METRIC = "test_battle_won_mean"
RESULTS = Path(__file__).parent / "results"


def summary(name: str, table: Table) -> str:
    algorithm, _, map_name = name.partition("-")
    seeds = sorted(set(table.column("seed")))
    curves = {seed: [(row["t_env"], row["value"]) for row in table.where(seed=seed)] for seed in seeds}
    late = [float(np.mean([value for _, value in curve[-10:]])) for curve in curves.values()]
    best = [max(value for _, value in curve) for curve in curves.values()]
    reached = [next((t for t, value in curve if value >= 0.9), None) for curve in curves.values()]
    steps = min(curve[-1][0] for curve in curves.values())
    if all(t is not None for t in reached):
        first = f"{np.median([t for t in reached if t is not None]) / 1e3:,.0f} k"
    else:
        first = f"{sum(t is not None for t in reached)} of {len(seeds)} seeds"
    cells = (
        map_name,
        algorithm,
        str(len(seeds)),
        f"{steps / 1e6:.2f} M",
        f"{np.mean(late):.1%} ({min(late):.1%} to {max(late):.1%})",
        f"{min(best):.0%}",
        first,
    )
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    files = sorted((RESULTS / "learning").glob("*.csv"), key=lambda path: path.stem.split("-")[::-1])
    tables = {path.stem: read_metrics(path) for path in files}
    lines = [
        "# Learning curves on the sc2 simulator",
        "",
        "Greedy test wins over 32 battles every 10,000 steps, each algorithm at its own settings: IQL, VDN, QMIX and",
        "QTRAN at PyMARL's (one update of 32 episodes per episode, 32 battles side by side); COMA one update of each",
        "round of 8 episodes, IPPO and MAPPO ten passes over each round of 32. Machine: NVIDIA H200, Python 3.12,",
        "JAX 0.11.2. Several runs shared the GPU. IQL, VDN and QMIX runs that end before 2 M steps were cut off by",
        "the clock, not by choice; QTRAN, COMA, IPPO and MAPPO on 3m were asked for 0.7 to 1 M. Command and rebuild:",
        "`benchmarks/learning_report.py`.",
        "",
        "| map | algorithm | seeds | steps per seed | wins, mean of the last ten tests (over seeds)"
        " | best test, worst seed | median step of the first test >= 90 % |",
        "|---|---|---|---|---|---|---|",
        *(summary(name, table) for name, table in tables.items()),
        "",
    ]
    maps = sorted({name.partition("-")[2] for name in tables})
    for map_name in maps:
        curves = {name.partition("-")[0]: table for name, table in tables.items() if name.partition("-")[2] == map_name}
        plot_curves(curves, METRIC, RESULTS / f"learning-{map_name}.png")
        lines.append(f"![Learning curves on {map_name}](learning-{map_name}.png)\n")
    (RESULTS / "learning.md").write_text("\n".join(lines))
    print("\n".join(lines))


if __name__ == "__main__":
    main()
