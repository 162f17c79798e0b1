"""Keeps one game of each belief agent as a recording and as a page.

    python benchmarks/belief_agents.py FOLDER
    python benchmarks/belief_replays.py FOLDER docs/replays

Of 31 games with partners that were not trained with (where there are such), played from one seed, it is the one whose
belief gains the median distance over "they stay where they are". Prints what is written on the pages, as Markdown.
"""

from __future__ import annotations

import sys
from pathlib import Path

from belief_agents import GAMES, SETS

from omg import api
from omg.experiments.runs import known_runs
from omg.experiments.shown import ENDING, show_game
from omg.pools import Pool
from omg.recordings import Recording
from omg.report.watch.film import means, when

AGENT = "places"


def main(folder: str, target: str, *games: str) -> None:
    """The command line."""
    print("| game | partners | compared with where they are | belief | stay |\n|---|---|---|---|---|")
    for name in games or GAMES:
        place = Path(target) / name
        place.parent.mkdir(parents=True, exist_ok=True)
        pool = Pool.open(Path(folder) / name / "pool")
        pool_set = next(one for one in SETS if pool.members(one))
        show_game(api.load(known_runs(Path(folder) / name / AGENT)[-1]), pool, pool_set, place)
        game = Recording.read(place.with_suffix(ENDING))
        belief = next(one for one in game.beliefs if one["kind"] == "places")
        off, stay, _ = means(belief)
        partners = sorted({seat["label"] for seat in game.header["seats"] if not seat["learns"]})
        print(f"| {name} | {', '.join(partners)} | {when(belief)} | {off:.2f} | {stay:.2f} |", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
