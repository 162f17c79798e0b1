"""What a suite found, in words: who is below the best fixed strategy, whether modelling helps, whether subgoals do."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from omg.evaluation.room import RANDOM
from omg.evaluation.suite import ALL_DRAWS
from omg.evaluation.suite_tables import SuiteDifferenceRow, SuiteGameRow, SuiteRow
from omg.report.words import agent_name

_WORDS = {"better": "Yes", "worse": "No", "no difference shown": "Not shown"}
_TALLY = {"better": "ahead of", "worse": "behind", "no difference shown": "not shown against"}
BELOW = "Below"
"""The word of a sentence about agents that end below the best fixed strategy."""
_QUESTIONS = {"modelling": "modelling", "subgoals": "subgoals"}


class GameAnswer(NamedTuple):
    """What was found in one game."""

    game: str
    headline: str
    sentences: Sequence[tuple[str, str]]
    """A word, `Yes`, `No`, `Not shown` or `Below`, and what it is about; who is below best fixed comes first."""


def game_answers(
    games: Sequence[SuiteGameRow],
    agents: Sequence[SuiteRow],
    differences: Sequence[SuiteDifferenceRow],
    names: Mapping[str, str] | None = None,
) -> list[GameAnswer]:
    """An answer for each game."""
    found = []
    for game in (row for row in games if row.draw == ALL_DRAWS):
        own = [row for row in agents if row.game == game.game and row.share == 1.0]
        compared = [row for row in differences if row.game == game.game]
        if not game.room > 0:
            found.append(GameAnswer(game.game, "no room was measured, so nothing can be closed.", ()))
            continue
        sentences = [*_below(own, names)]
        for question in _QUESTIONS:
            sentences += [
                _pair_words(pair, names) for pair in _pairs([row for row in compared if row.question == question])
            ]
        found.append(GameAnswer(game.game, _headline(game, own, compared, names), sentences))
    return found


def range_words(value: float, low: float, high: float) -> str:
    """`+0.12 [+0.03, +0.21]`; without its interval where there is none."""
    if math.isnan(value):
        return "\N{EN DASH}"
    ends = "" if math.isnan(low) or math.isnan(high) else f" [{_signed(low)}, {_signed(high)}]"
    return f"{_signed(value)}{ends}"


def _headline(
    game: SuiteGameRow,
    own: Sequence[SuiteRow],
    compared: Sequence[SuiteDifferenceRow],
    names: Mapping[str, str] | None,
) -> str:
    best = max(own, key=lambda row: row.closed)
    parts = [f"of the room {agent_name(best.agent, names)} closes {range_words(*_closed(best))}, the most of all"]
    for question, noun in _QUESTIONS.items():
        last = [row for row in compared if row.question == question and row.share == 1.0]
        parts += [f"{noun}: {_tally(last, names)}"] if last else []
    return ". ".join(part[0].upper() + part[1:] for part in parts) + "."


def _tally(rows: Sequence[SuiteDifferenceRow], names: Mapping[str, str] | None) -> str:
    """Who is ahead of whom in the end, agent by agent."""
    told = []
    for agent in dict.fromkeys(row.agent for row in rows):
        words = []
        for verdict, word in (
            ("better", "ahead of"),
            ("worse", "behind"),
            ("no difference shown", "not shown against"),
        ):
            own = [row for row in rows if (row.agent, row.verdict) == (agent, verdict)]
            words += [f"{word} {', '.join(agent_name(row.baseline, names) for row in own)}"] if own else []
        told.append(f"{agent_name(agent, names)} {', '.join(words)}")
    return "; ".join(told)


def _below(own: Sequence[SuiteRow], names: Mapping[str, str] | None) -> list[tuple[str, str]]:
    """Who ends below the best fixed strategy; an agent that does says nothing about its model."""
    low = [row for row in own if row.closed < 0 and row.agent != RANDOM]
    if not low:
        return []
    shown = ", ".join(f"{agent_name(row.agent, names)} {range_words(*_closed(row))}" for row in low)
    return [(BELOW, f"ends below the best fixed strategy: {shown}")]


def _pairs(rows: Sequence[SuiteDifferenceRow]) -> list[list[SuiteDifferenceRow]]:
    """All shares of the training of each pair of agents, the same question."""
    found: dict[tuple[str, str], list[SuiteDifferenceRow]] = {}
    for row in rows:
        found.setdefault((row.agent, row.baseline), []).append(row)
    return list(found.values())


def _pair_words(rows: Sequence[SuiteDifferenceRow], names: Mapping[str, str] | None) -> tuple[str, str]:
    first, last = rows[0], rows[-1]
    shown = ", ".join(f"{range_words(row.difference, row.low, row.high)} at {row.share:.0%}" for row in rows)
    about = {"modelling": "Modelling", "subgoals": "Subgoals"}[first.question]
    text = f"{about}, {agent_name(first.agent, names)} minus {agent_name(first.baseline, names)}: {shown}"
    return _WORDS[last.verdict], text


def _closed(row: SuiteRow) -> tuple[float, float, float]:
    return row.closed, row.closed_low, row.closed_high


def _signed(number: float) -> str:
    return f"{number:+.2f}".replace("-", "\N{MINUS SIGN}")
