"""The page that plays a recorded game, or two side by side: complete in one file, its data deflated inside."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Sequence
from importlib import resources
from string import Template

from omg.errors import UserError
from omg.recordings import Recording
from omg.report.markup import document, html_text
from omg.report.watch.film import film, finding, guesses, guessing, means, names_of, unit
from omg.types import Tree

_SCRIPTS = ("tools.js", "stage.js", "plot.js", "panels.js", "player.js")
"""In the order in which they stand in the page."""
_MOST = 40_000_000
"""Characters of a page's data before it is deflated; beyond it the observations are left out, then it is refused."""


def watch_page(games: Sequence[Recording], note: str = "") -> str:
    """A page that plays games.

    Args:
        games: one, or two that are shown side by side.
        note: text that stands below the answer: which game this is, and why it is shown.

    Raises:
        UserError: there is no picture of the game, the two are not alike, or they are far too long for a page.
    """
    told = film(games)
    names = names_of(games)
    title = _title(games)
    difference, mark = "", ""
    if told["difference"] is not None:
        difference = (
            f'<div class="differs" id="differs"><p class="small">{html_text(told["difference"]["what"])}</p>'
            '<button type="button" id="to-difference">Go there</button></div>'
        )
        mark = '<span class="mark-difference" id="mark"></span>'
    elif len(games) > 1:
        difference = '<p class="differs">The two games are the same from beginning to end.</p>'
    body = Template(_asset("player.html")).substitute(
        style=_asset("player.css"),
        kind="two" if len(games) > 1 else "one",
        title=html_text(title),
        answer=html_text(answer(games)),
        facts="<br>".join(html_text(_facts(game, name, len(games))) for game, name in zip(games, names, strict=True)),
        note=f'<p class="small note">{html_text(note)}</p>' if note else "",
        difference=difference,
        mark=mark,
        stages="".join(_stage(number, name, len(games)) for number, name in enumerate(names)),
        plots=_each(games, '<section class="panel" id="plot-{}" aria-label="Distance over time" hidden></section>'),
        actions=_each(games, '<div><p class="small" id="paid-{0}"></p><div id="actions-{0}"></div></div>'),
        others=_each(games, '<div id="others-{}"></div>'),
        sees=_each(games, '<div id="sees-{}"></div>'),
        numbers=_each(games, '<div id="numbers-{}"></div>'),
        film=_deflated(told),
    )
    return document(title, body, script())


def script() -> str:
    """What the page runs: strict, and with no name outside of itself."""
    return "\n".join(['"use strict";', "{", *map(_asset, _SCRIPTS), "}"])


def answer(games: Sequence[Recording]) -> str:
    """What a reader wants to know first: of two games how they compare, of one how right its belief is."""
    names = names_of(games)
    if len(games) == 1:
        game = games[0]
        places, actions = _first(game, "places"), _first(game, "actions")
        return finding(game, places) if places else guessing(game, actions) if actions else _ending(game)
    told = []
    for game, name in zip(games, names, strict=True):
        told.append(f"{name}: return {game.header['facts'].get('return', 0.0):.4g} in {game.steps} steps")
        places, actions = _first(game, "places"), _first(game, "actions")
        if places and means(places)[2]:
            off, stay, _ = means(places)
            told[-1] += f', its belief off by {off:.2f} {unit(game.header)} ("they stay where they are": {stay:.2f})'
        elif actions and guesses(game, actions)[2]:
            right, again, _ = guesses(game, actions)
            told[-1] += f', right about {100 * right:.0f} % of actions ("the same as before": {100 * again:.0f} %)'
    return ". ".join([*told, ""]).strip()


def _first(game: Recording, kind: str) -> Tree | None:
    """The first belief of a kind."""
    return next((belief for belief in game.beliefs if belief["kind"] == kind), None)


def _ending(game: Recording) -> str:
    facts = game.header["facts"]
    how = "ended" if game.header["ended"] == "terminated" else "was stopped by the time limit"
    return f"The game {how} after {game.steps} steps, with a return of {facts.get('return', 0.0):.4g}."


def _facts(game: Recording, name: str, count: int) -> str:
    facts = ", ".join(f"{key.replace('_', ' ')} {value:.4g}" for key, value in game.header["facts"].items())
    return f"{name}: {facts}" if count > 1 else facts


def _title(games: Sequence[Recording]) -> str:
    header = games[0].header
    names = " beside ".join(names_of(games))
    return f"{names} in {header['game']} {header['scenario']}, seed {header['seed']}, game {header['number']}"


def _stage(number: int, name: str, count: int) -> str:
    heading = f"<h2>{html_text(name)}</h2>" if count > 1 else ""
    return f'<div class="stage-box">{heading}<svg class="stage" id="stage-{number}" role="img"></svg></div>'


def _each(games: Sequence[Recording], markup: str) -> str:
    return "".join(markup.format(number) for number in range(len(games)))


def _deflated(told: dict) -> str:
    """The page's data as text that nothing in it can end: base 64."""
    text = json.dumps(told, separators=(",", ":"), allow_nan=False)
    if len(text) > _MOST:
        for game in told["games"]:
            game["obs"] = {}
        text = json.dumps(told, separators=(",", ":"), allow_nan=False)
    if len(text) > _MOST:
        raise UserError(f"This game is too long for a page: {len(text):,} characters of data, allowed: {_MOST:,}.")
    return base64.b64encode(zlib.compress(text.encode(), 9)).decode()


def _asset(name: str) -> str:
    return (resources.files("omg.report.watch") / "assets" / name).read_text(encoding="utf-8")
