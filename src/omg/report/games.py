"""Recorded games of a run on its page: the best, the median and the worst."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from omg.recordings import ENDING, Recording
from omg.recordings.runs import REPLAYS
from omg.report.inputs import ShownGame
from omg.report.watch.page import watch_page
from omg.report.words import counted, metric_words

_FEWEST = 3
"""Games that have a best, a median and a worst one."""


def shown_games(runs: Sequence[Path], metric: str, *, lower_is_better: bool = False) -> list[ShownGame]:
    """The best, the median and the worst of the recorded games of some runs; all of them where there are fewer.

    Args:
        runs: their folders; nothing comes of those that have recorded no game, or one without a picture.
        metric: by which games are ranked; by their return where they do not say it.
        lower_is_better: for metrics such as the number of steps.

    Raises:
        UserError: a recording is damaged, or too long for a page.
    """
    paths = [path for run in runs for path in sorted((run / REPLAYS).glob(f"*{ENDING}"))]
    games = [game for game in map(Recording.read, paths) if game.header["stage"] is not None]
    if not games:
        return []
    name = metric if all(metric in game.header["facts"] for game in games) else "return"
    ranked = sorted((_value(game, name) * (1 if lower_is_better else -1), place) for place, game in enumerate(games))
    chosen = {"best": 0, "median": len(ranked) // 2, "worst": len(ranked) - 1}
    if len(ranked) < _FEWEST:
        chosen = {"best": 0, "other": 1} if len(ranked) > 1 else {"only": 0}
    found = []
    for word, rank in chosen.items():
        game = games[ranked[rank][1]]
        words = metric_words(name)
        told = f"seed {game.header['seed']}, game {game.header['number']}"
        of = counted(len(games), "recorded game")
        title = f"The {word} of {of}: {words.noun} {words.value(_value(game, name))}, {told}"
        found.append(ShownGame(title, watch_page([game])))
    return found


def _value(game: Recording, name: str) -> float:
    return float(game.header["facts"].get(name, 0.0))
