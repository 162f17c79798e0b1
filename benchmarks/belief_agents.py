"""Trains agents whose subgoals say where the others will be, and measures how far off that is.

    python benchmarks/belief_agents.py FOLDER                       # all games, from nothing; minutes on a GPU
    python benchmarks/belief_agents.py FOLDER foraging stag_hunt    # some of them
    python benchmarks/belief_agents.py FOLDER foraging --share 0.05 # a twentieth of the training: does it run?

For each game: a pool of partners (scripts; in 8m the kept pool of benchmarks/pools, in predator-prey agents trained
here), priors on the games of its training set, and one agent in one seat for each line of `AGENTS`. Then every agent
plays with partners that were not trained with (`heldout`) and, in games of other seeds, with those that were
(`training`). `FOLDER/GAME.csv` has every measure of `omg.evaluation.subgoals`; the table is printed as Markdown.

What is done already is not done again, and what was interrupted goes on, as long as its folder is there.
"""

from __future__ import annotations

import argparse
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from omg.config import resolve
from omg.evaluation.rows import read_rows, write_rows
from omg.evaluation.tables import MeasureRow
from omg.experiments import pretrain, train_pool
from omg.experiments.evaluation import Arena, load_contestants
from omg.experiments.inference import inference_rows
from omg.experiments.runs import finish
from omg.pools import prior_folder
from omg.types import Row

SETS = ("heldout", "training")
EIGHT_MARINES = Path(__file__).parent / "pools" / "8m.tar.xz"
SHOWN = {
    "place error of the subgoal": "belief",
    "place error of standing still": "stay",
    "place error by chance": "chance",
    "place error of the prior": "prior",
    "closer to the future place": "closer",
}
"""Measure -> head of its column."""


@dataclass(frozen=True)
class Game:
    """Who is met, and for how long is learned."""

    env: str
    training: tuple[str, ...] = ()
    """Scripts."""
    heldout: tuple[str, ...] = ()
    trained: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Partners that are trained here: set -> algorithm -> number."""
    t_max: int = 400_000
    prior_t_max: int = 200_000
    settings: Mapping[str, object] = field(default_factory=dict)
    """Of the agents."""


GAMES = {
    "8m": Game("sc2", settings={"omg_actions": "counts"}),
    "foraging": Game(
        "foraging",
        ("nearest_food", "own_level", "left_food", "right_food"),
        ("highest_food", "top_food", "bottom_food"),
    ),
    "stag_hunt": Game(
        "stag_hunt",
        ("nearest_stag", "nearest_hare", "nearest_prey", "stag_then_hare"),
        ("joins_other", "stag_in_company", "hare_after_waiting"),
    ),
    "snowdrift": Game(
        "snowdrift",
        ("nearest_drift", "north_drift", "south_drift", "drift_then_never"),
        ("west_drift", "east_drift", "drift_in_company"),
    ),
    "predator_prey": Game("predator_prey", trained={"training": {"iql": 3}, "heldout": {"iql": 2}}),
    "toy_grid": Game("toy_grid", ("go_top", "go_bottom", "show_top", "hide_bottom"), ("show_bottom", "hide_top")),
    "rendezvous": Game(
        "rendezvous",
        ("corner_nw", "corner_ne", "corner_se", "corner_sw", "alternate_nw_se", "alternate_ne_sw"),
        ("alternate_nw_ne", "alternate_se_sw"),
        settings={"omg_candidates": "rounds", "subgoal_mode": "next", "omg_horizon": 1},
    ),
}

COMMON: Mapping[str, object] = {
    "subgoal_mode": "furthest",
    "omg_horizon": 5,
    "omg_inference": "mlp",
    "subgoal_dim": 32,
    "am_hidden_dim": 128,
    "batch_size_run": 32,
    "batch_size": 64,
    "updates_per_episode": 0.25,
    "epsilon_anneal_time": 50_000,
    "test_interval": 100_000,
    "log_interval": 50_000,
    "test_nepisode": 64,
    "diagnostics_interval": 10_000_000,
    "save_buffer": False,
    "use_tensorboard": False,
}
"""Of all agents."""
AGENTS: Mapping[str, Mapping[str, object]] = {
    "places": {"subgoal_of": "places"},
    "others": {"subgoal_of": "others"},
    "places_cvae": {"subgoal_of": "places", "omg_inference": "cvae", "omg_kl_weight": 0.1},
}
"""The point is what is shown; `others` has its places as the state tells them (pictures on boards), the last one a
distribution in place of a point."""
PRIOR = {"subgoal_dim": 32, "prior_kl_weight": 0.0001, "use_tensorboard": False, "batch_size": 64, "batch_size_run": 32}


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("games", nargs="*", metavar="GAME", help=f"of {', '.join(GAMES)}; all by default")
    parser.add_argument("--agents", nargs="*", default=list(AGENTS), choices=list(AGENTS))
    parser.add_argument("--share", type=float, default=1.0, help="of the training")
    parser.add_argument("--episodes", type=int, default=240, help="that each agent is measured in, for each set")
    told = parser.parse_args()
    for name in told.games or GAMES:
        measure(told.folder, name, told.agents, told.share, told.episodes)
    print(table(told.folder))


def measure(folder: Path, name: str, agents: list[str], share: float, episodes: int) -> None:
    """Trains and measures the agents of one game."""
    game, pool = GAMES[name], folder / name / "pool"
    make_pool(game, pool, share)
    players = resolve(None, game.env).env.spec.n_agents
    rows: list[Row] = []
    for label in agents:
        settings = {**COMMON, **game.settings, **AGENTS[label]}
        kind = str(settings["subgoal_of"])
        if not (pool / prior_folder(kind)).exists():
            pretrain(pool, {**PRIOR, "subgoal_of": kind, "t_max": round(share * game.prior_t_max)}, quiet=True)
        runs = folder / name / label
        resolved = resolve(
            f"{players - 1}pool1iql_omg",
            game.env,
            {
                **settings,
                "init_param_path": str(pool),
                "t_max": round(share * game.t_max),
                "local_results_path": str(runs),
            },
        )
        run = finish(resolved.config, quiet=True).path
        contestants = load_contestants(label, run)
        arena = Arena(pool, contestants.agents[0].env)
        for pool_set in SETS:
            if arena.pool.members(pool_set):
                found = inference_rows(contestants, arena, pool_set, episodes=episodes, seed=1000)
                rows += [{"game": name, "partners": pool_set, **row} for row in found]
        write_rows(folder / f"{name}.csv", rows, ["game", "partners", *MeasureRow.names()])
        print(f"{name}: {label} is done", flush=True)


def make_pool(game: Game, pool: Path, share: float) -> None:
    """The partners of a game."""
    if pool.exists():
        return
    if game.env == "sc2":
        pool.parent.mkdir(parents=True, exist_ok=True)
        with tarfile.open(EIGHT_MARINES) as packed:
            packed.extractall(pool.parent, filter="data")
        (pool.parent / "8m").rename(pool)
        return
    scripts = {**dict.fromkeys(game.training, "training"), **dict.fromkeys(game.heldout, "heldout")}
    settings = {"t_max": round(share * 300_000), "use_tensorboard": False, "save_buffer": False} if game.trained else {}
    train_pool(pool, game.trained, game.env, settings, scripted=scripts, quiet=True)


def table(folder: Path) -> str:
    """The measures that count, as Markdown."""
    lines = ["| game | partners | agent | " + " | ".join(SHOWN.values()) + " |", "|---" * (3 + len(SHOWN)) + "|"]
    for name in GAMES:
        file = folder / f"{name}.csv"
        if not file.exists():
            continue
        by_agent: dict[tuple[str, str], dict[str, float]] = {}
        for row in read_rows(file):
            if row["measure"] in SHOWN:
                by_agent.setdefault((str(row["partners"]), str(row["agent"])), {})[str(row["measure"])] = float(
                    row["value"]
                )
        for (partners, agent), found in by_agent.items():
            shown = " | ".join(f"{found[measure]:.2f}" for measure in SHOWN)
            lines.append(f"| {name} | {partners} | {agent} | {shown} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
