"""Planners among partners of hidden kinds: shares of the room in the first, third and tenth episode with a new partner.

    omg pipeline partners_stag_hunt pool.draw=2 --jobs 4 --output PIPELINE     # and partners_snowdrift, draws 1 to 3
    python benchmarks/planner_partners.py OUT PIPELINE ...                     # tables and a figure of them
    python benchmarks/planner_partners.py OUT --draws 3                        # what can be had, exactly; no training

The held-out partners of each plan are scripts, dealt anew in every draw, all equally likely and never named to anybody.
What can be had is computed exactly (`omg.evaluation.exact`), on some starts: the best answer to each partner (told), to
a partner who is inferred by Bayes' rule from scripts that are known (inferred), by the position alone (none), one
answer to one of them for everybody (fixed), any legal action (random). Shares are (own return - fixed) / (told -
fixed); of several draws their gains together by their rooms together.

Writes `exact.csv` (a row per game and draw), `shares.csv` (game, agent, episode, mean, share with a 95 % bootstrap
interval over draws, partners and repetitions; PLASTIC, which remembers no episode, with that of the evaluation, as
episode 0) and `shares.png`.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from omg.controllers.scripted import SCRIPTED
from omg.envs import make_env
from omg.evaluation.exact import exact_values
from omg.evaluation.rows import read_rows
from omg.experiments.plan import Plan, read_plan
from omg.report.style import figure_style

PLANS = ("partners_snowdrift", "partners_stag_hunt")
EPISODES = (1, 3, 10)
RESAMPLED = 2000
METHOD = "plastic"


class Earned(NamedTuple):
    """Of one agent in one draw."""

    returns: np.ndarray
    """[partners, repetitions]."""
    fixed: float
    told: float


def exact_row(plan: Plan, starts: int) -> dict[str, Any]:
    """What can be had with the held-out partners of a plan."""
    env = make_env(plan.game.env_config, **plan.game.env_args)
    kinds = sorted(script for script, role in plan.pool.scripts.items() if role == "heldout")
    found = exact_values(env, [SCRIPTED[kind].build(env) for kind in kinds], starts=starts, seed=0)
    row = {
        "game": plan.name,
        "draw": plan.pool.draw,
        "starts": found.starts,
        "random": found.random,
        "fixed": found.fixed,
        "none": found.memoryless,
        "inferred": found.optimum,
        "told": found.told,
    }
    shares = {f"{name}_share": share(row[name], found.fixed, found.told) for name in ("random", "none", "inferred")}
    return row | shares | {"positions": found.positions, "beliefs": found.beliefs, "partners": " ".join(kinds)}


def share(value: float, fixed: float, told: float) -> float:
    """Of the room; not a number where there is none."""
    return (value - fixed) / (told - fixed) if told > fixed + 1e-9 else np.nan


def earned(folder: Path, exact: dict[str, Any]) -> dict[tuple[str, int], Earned]:
    """Of every agent in some episodes of a pipeline; PLASTIC's in episode 0."""
    by_place: dict[tuple[str, int], dict[tuple[str, str], float]] = {}
    for row in read_rows(folder / "adaptation" / "adaptation.csv"):
        if int(row["episode"]) in EPISODES:
            places = by_place.setdefault((str(row["agent"]), int(row["episode"])), {})
            places[str(row["co_player"]), str(row["seed"])] = float(row["reward"])
    for row in read_rows(folder / "evaluation" / "scores.csv"):
        if row["set"] == "heldout" and row["metric"] == "own_return" and row["agent"] == METHOD:
            by_place.setdefault((METHOD, 0), {})[str(row["team"]), str(row["seed"])] = float(row["mean"])
    found = {}
    for place, values in by_place.items():
        partners, repetitions = (sorted({key[axis] for key in values}) for axis in (0, 1))
        table = np.array([[values[partner, one] for one in repetitions] for partner in partners])
        found[place] = Earned(table, exact["fixed"], exact["told"])
    return found


def pooled(draws: list[Earned], rng: np.random.Generator | None = None) -> float:
    """The share of several draws; with `rng` of draws, partners and repetitions that are drawn from them."""
    chosen = draws if rng is None else [draws[index] for index in rng.integers(len(draws), size=len(draws))]
    gains, rooms = 0.0, 0.0
    for own in chosen:
        table = own.returns
        if rng is not None:
            table = table[np.ix_(*(rng.integers(size, size=size) for size in table.shape))]
        gains += table.mean() - own.fixed
        rooms += own.told - own.fixed
    return gains / rooms


def share_rows(name: str, draws: list[dict[tuple[str, int], Earned]]) -> list[dict[str, Any]]:
    """Of every agent and episode that all draws have."""
    rows = []
    for agent, episode in sorted(set.intersection(*(set(one) for one in draws))):
        own = [one[agent, episode] for one in draws]
        rng = np.random.default_rng(0)
        low, high = np.percentile([pooled(own, rng) for _ in range(RESAMPLED)], (2.5, 97.5))
        rows.append({
            "game": name, "agent": agent, "episode": episode,
            "mean": float(np.mean([one.returns.mean() for one in own])),
            "share": pooled(own), "share_low": low, "share_high": high, "draws": len(own),
            "partners": sum(len(one.returns) for one in own), "repetitions": own[0].returns.shape[1],
        })  # fmt: skip
    return rows


def plot(path: Path, rows: list[dict[str, Any]], exact: list[dict[str, Any]], names: dict[str, str]) -> None:
    """Shares in the episodes, a panel per game, with what none and Bayes' rule have within one episode."""
    import matplotlib.pyplot as plt

    games = sorted({row["game"] for row in rows})
    with figure_style():
        figure, panels = plt.subplots(1, len(games), figsize=(5.2 * len(games), 4.2), squeeze=False)
        for game, axes in zip(games, panels[0], strict=True):
            agents = sorted({row["agent"] for row in rows if row["game"] == game and row["agent"] != "random"})
            for number, agent in enumerate(agents):
                own = [row for row in rows if row["game"] == game and row["agent"] == agent]
                at = np.array([EPISODES.index(row["episode"]) if row["episode"] else 0 for row in own])
                middle = np.array([row["share"] for row in own])
                reach = np.array([[row["share"] - row["share_low"], row["share_high"] - row["share"]] for row in own]).T
                beside = at + (number - len(agents) / 2) * 0.08
                axes.errorbar(beside, middle, reach, fmt="o-", ms=4, capsize=2, label=names.get(agent, agent))
            own_exact = [row for row in exact if row["game"] == game]
            room = sum(row["told"] - row["fixed"] for row in own_exact)
            for name, style in (("none", ":"), ("inferred", "--")):
                value = sum(row[name] - row["fixed"] for row in own_exact) / room
                axes.axhline(value, ls=style, color="grey", lw=1, label={"none": "exact, by the position alone",
                             "inferred": "exact, Bayes' rule within an episode"}[name])  # fmt: skip
            axes.axhline(1.0, color="grey", lw=0.8)
            axes.axhline(0.0, color="grey", lw=0.8)
            axes.set_xticks(range(len(EPISODES)), [str(episode) for episode in EPISODES])
            axes.set(title=game.removeprefix("partners_").replace("_", " "), xlabel="episode with a new partner")
        panels[0, 0].set_ylabel("share of the room")
        figure.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=3, fontsize=8)
        figure.savefig(path, dpi=130)
        plt.close(figure)


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
    parser.add_argument("--starts", type=int, default=48)
    parser.add_argument("--draws", type=int, default=1, help="without pipelines: how many draws of partners")
    args = parser.parse_args()
    args.output.mkdir(parents=True, exist_ok=True)
    plans = [read_plan(folder) for folder in args.pipelines]
    if not plans:
        plans = [read_plan(name, [f"pool.draw={draw + 1}"]) for name in PLANS for draw in range(args.draws)]
    exact = []
    for plan in plans:
        exact.append(exact_row(plan, args.starts))
        print(exact[-1], flush=True)
        write(args.output / "exact.csv", exact)
    by_game: dict[str, list[dict[tuple[str, int], Earned]]] = {}
    for folder, plan, row in zip(args.pipelines, plans, exact, strict=False):
        by_game.setdefault(plan.name, []).append(earned(folder, row))
    rows = [row for name, draws in by_game.items() for row in share_rows(name, draws)]
    if rows:
        write(args.output / "shares.csv", rows)
        plot(args.output / "shares.png", rows, exact, plans[0].values()["report"]["names"])


if __name__ == "__main__":
    main()
