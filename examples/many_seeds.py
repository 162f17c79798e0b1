"""Trains several seeds as one compiled program and draws their mean and range.

Run it with `python examples/many_seeds.py`.
"""

from pathlib import Path

import omg
from omg.report import plot_curves


def main(seeds: int = 3, t_max: int = 100_000, **settings: object) -> Path:
    settings = {"test_interval": 10_000, "log_interval": 10_000} | settings
    run = omg.train("iql", "foraging", seeds=seeds, t_max=t_max, **settings)
    for agent in run.agents:
        print(f"seed {agent.card.seed}: score {agent.card.results['test_score_mean']:.2f}")
    figure = plot_curves({"iql": run.metrics}, "test_score_mean", run.folder / "score.png", title="Foraging")
    print(f"figure: {figure}")
    return figure


if __name__ == "__main__":
    main()
