"""Planners among partners of hidden kinds: shares of the room in the first, third and tenth episode with a new partner.

    omg pipeline partners_stag_hunt --jobs 4 --output PIPELINE            # and partners_snowdrift
    python benchmarks/planner_partners.py OUT --starts 8 PIPELINE ...     # tables of them
    python benchmarks/planner_partners.py OUT --starts 8                  # what can be had, exactly; nothing is trained

The held-out partners of each plan are scripts, all equally likely and never named to anybody. What can be had is
computed exactly (`omg.evaluation.exact`), on some starts: the best answer to each partner (told), to a partner who is
inferred by Bayes' rule from scripts that are known (inferred), by the position alone (none), one answer to one of them
for everybody (fixed), any legal action (random). Shares are (own return - fixed) / (told - fixed).

Writes `exact.csv` (a row per game) and `shares.csv` (game, agent, episode, mean, share with a 95 % bootstrap interval
over partners and repetitions).
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path
from typing import Any

import numpy as np

from omg.config import read_yaml
from omg.controllers.scripted import SCRIPTED
from omg.envs import make_env
from omg.evaluation.exact import exact_values
from omg.evaluation.rows import read_rows
from omg.experiments.plan import read_plan

PLANS = ("partners_stag_hunt", "partners_snowdrift")
EPISODES = (1, 3, 10)
DRAWS = 2000


def exact_row(name: str, starts: int) -> dict[str, Any]:
    """What can be had with the held-out partners of a plan."""
    plan = read_plan(name)
    env = make_env(plan.game.env_config, **plan.game.env_args)
    kinds = sorted(script for script, role in plan.pool.scripted.items() if role == "heldout")
    found = exact_values(env, [SCRIPTED[kind].build(env) for kind in kinds], starts=starts, seed=0)
    closes = (found.optimum - found.fixed) / (found.told - found.fixed) if found.told > found.fixed else np.nan
    return {
        "game": name,
        "starts": found.starts,
        "random": found.random,
        "fixed": found.fixed,
        "none": found.memoryless,
        "inferred": found.optimum,
        "told": found.told,
        "inferred_share": closes,
        "positions": found.positions,
        "beliefs": found.beliefs,
    }


def shares(name: str, folder: Path, exact: dict[str, Any]) -> list[dict[str, Any]]:
    """Of every agent that adapted in a pipeline, in some of the episodes."""
    rows = read_rows(folder / "adaptation" / "adaptation.csv")
    rewards: dict[tuple[str, int], dict[tuple[str, str], float]] = {}
    for row in rows:
        if int(row["episode"]) in EPISODES:
            of_episode = rewards.setdefault((str(row["agent"]), int(row["episode"])), {})
            of_episode[str(row["co_player"]), str(row["seed"])] = float(row["reward"])
    room = exact["told"] - exact["fixed"]
    found = []
    for (agent, episode), values in sorted(rewards.items()):
        partners, seeds = (sorted({key[place] for key in values}) for place in (0, 1))
        table = np.array([[values[partner, seed] for seed in seeds] for partner in partners])
        rng = np.random.default_rng(0)
        means = []
        for _ in range(DRAWS):
            some = rng.integers(len(partners), size=len(partners)), rng.integers(len(seeds), size=len(seeds))
            means.append(table[np.ix_(*some)].mean())
        low, high = np.percentile(means, (2.5, 97.5))
        share, share_low, share_high = ((value - exact["fixed"]) / room for value in (table.mean(), low, high))
        found.append({
            "game": name, "agent": agent, "episode": episode, "mean": table.mean(), "share": share,
            "share_low": share_low, "share_high": share_high, "partners": len(partners), "repetitions": len(seeds),
        })  # fmt: skip
    return found


def write(path: Path, rows: list[dict[str, Any]]) -> None:
    with path.open("w", newline="") as file:
        table = csv.DictWriter(file, list(rows[0]))
        table.writeheader()
        table.writerows(
            {key: round(value, 4) if isinstance(value, float) else value for key, value in row.items()} for row in rows
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("output", type=Path)
    parser.add_argument("pipelines", type=Path, nargs="*")
    parser.add_argument("--starts", type=int, default=8)
    args = parser.parse_args()
    args.output.mkdir(parents=True, exist_ok=True)
    exact = {name: exact_row(name, args.starts) for name in PLANS}
    for row in exact.values():
        print(row, flush=True)
    write(args.output / "exact.csv", list(exact.values()))
    found: list[dict[str, Any]] = []
    for folder in args.pipelines:
        name = read_yaml((folder / "pipeline.yaml").read_text())["name"]
        found += shares(name, folder, exact[name])
    if found:
        write(args.output / "shares.csv", found)


if __name__ == "__main__":
    main()
