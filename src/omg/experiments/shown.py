"""A game to look at: of some that an agent plays, the one whose belief about the others is as good as in the middle.

Neither the best game nor the worst is shown, and which one it is depends on nothing but the seed.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from omg import api
from omg.components.files import write_text
from omg.errors import UserError
from omg.experiments.pipeline import PipelineResult
from omg.experiments.runs import known_runs
from omg.pools import Agent, Pool
from omg.recordings import Recording
from omg.recordings.playing import agent_in_pool, play
from omg.report.watch.film import means
from omg.report.watch.page import watch_page
from omg.report.words import counted

GAMES = 31
"""Of which one is shown; odd, so that there is one in the middle."""
ENDING = ".omgrec"


def belief_gain(game: Recording) -> float:
    """Distance by which beliefs about places are better than "they stay where they are", mean over the game's steps.

    NaN for a game in which nobody believes anything of the kind.
    """
    gains = []
    for belief in game.beliefs:
        if belief["kind"] == "places":
            off, stay, steps = means(belief)
            gains += [stay - off] if steps else []
    return float(np.mean(gains)) if gains else float("nan")


def middle_game(games: Sequence[Recording]) -> Recording:
    """The game with the median gain; of those without any belief about places the first.

    Raises:
        UserError: there is no game.
    """
    if not games:
        raise UserError("There is no game to show.")
    gains = [belief_gain(game) for game in games]
    known = sorted((gain, number) for number, gain in enumerate(gains) if not np.isnan(gain))
    return games[known[len(known) // 2][1] if known else 0]


def why_shown(games: Sequence[Recording], pool_set: str) -> str:
    """What the page says of how its game was chosen, by `middle_game`."""
    short = int(np.isnan([belief_gain(game) for game in games]).sum())
    seed = games[0].header["seed"]
    told = f"{counted(len(games), 'game')} with partners of the set {pool_set}, played from seed {seed}"
    if short == len(games):
        return f"The first of {told}."
    if short:
        told += f" ({short} of them too short to compare anything)"
    return f'Of {told}, this is the one whose belief has the median gain over "they stay where they are".'


def show_game(agent: Agent, pool: Pool, pool_set: str, place: Path, *, games: int = GAMES, seed: int = 0) -> Path:
    """Plays an agent beside players of a pool and keeps the middle game as a recording and as a page.

    Args:
        agent: who is shown.
        pool: of the others.
        pool_set: theirs.
        place: of both files, without an ending.
        games: of which one is kept.
        seed: of the games.

    Returns:
        The page.

    Raises:
        UserError: they do not fit, or the files cannot be written.
    """
    played = play(agent_in_pool(agent, pool, pool_set), games, seed, views=False)
    game = middle_game(played)
    page = place.with_suffix(".html")
    game.write(place.with_suffix(ENDING))
    try:
        write_text(page, watch_page([game], why_shown(played, pool_set)))
    except OSError as error:
        raise UserError(f"{page} cannot be written: {error.strerror or error}.") from None
    return page


def show_pipeline(result: PipelineResult) -> Path:
    """The middle game of the agent that a pipeline's report is about, with the partners that it was measured with.

    One that is there already stays, unless something was done anew.

    Returns:
        The page, `replay.html` in the pipeline's folder.
    """
    checked, place = result.checked, result.folder / "replay"
    page = place.with_suffix(".html")
    if page.exists() and not result.done:
        return page
    plan = checked.plan
    agent = api.load(known_runs(checked.runs(plan.report.agent or list(plan.agents)[-1]))[-1])
    return show_game(agent, Pool.open(checked.pool), plan.evaluation.sets[0], place)
