"""Comparisons in plain sentences: does it help, by how much, and how sure are we."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from omg.evaluation.tables import ComparisonRow
from omg.report.words import (
    FIRST_EPISODES,
    LAST_TEST,
    SELF_PLAY,
    MetricWords,
    agent_name,
    counted,
    group_words,
    metric_words,
)
from omg.types import Row


class Answer(NamedTuple):
    """What is said about one agent and one baseline."""

    agent: str
    baseline: str
    word: str
    """`Yes`, `In part`, `Mixed`, `No`, or `Not shown`."""
    headline: str
    sentences: list[str]
    """One per group."""


def answers(rows: Iterable[Row], names: Mapping[str, str] | None = None) -> list[Answer]:
    """One answer for every pair of agent and baseline among the rows of `omg.evaluation.compare`."""
    pairs: dict[tuple[str, str], list[ComparisonRow]] = {}
    for row in map(ComparisonRow.of, rows):
        pairs.setdefault((row.agent, row.baseline), []).append(row)
    return [_answer(agent, baseline, found, names) for (agent, baseline), found in pairs.items()]


def difference_sentence(row: Row, names: Mapping[str, str] | None = None) -> str:
    """One comparison in words, with its interval, and no claim that the interval does not carry.

    Args:
        row: a row of `omg.evaluation.compare`.
        names: label -> name of agents.
    """
    found = ComparisonRow.of(row)
    words, where = metric_words(found.metric), group_words(found.group)
    difference, low, high = found.difference, found.low, found.high
    agent, baseline = agent_name(found.agent, names), agent_name(found.baseline, names)
    claim = (words.more if difference >= 0 else words.less).format(
        amount=words.amount(difference), noun=words.noun, baseline=baseline
    )
    if math.isnan(low):
        doubt = f"that rests on {_sample(found)}: too few to say whether it is more than chance."
        return f"{agent} {claim} {where}, but {doubt}"
    interval = f"95 % interval {_range(words, low, high, difference)}"
    if found.verdict == "no difference shown":
        return (
            f"No difference is shown between {agent} and {baseline} {where}: on average {agent} {claim}, but the "
            f"{interval} of that difference includes 0 ({_sample(found)})."
        )
    return f"{agent} {claim} {where} ({interval}, {_sample(found)}). {_chance_sentence(found, agent, baseline)}"


def caution(rows: Sequence[Row]) -> str:
    """What to bear in mind when several comparisons are made at once; empty for a single one."""
    if len(rows) < 2:
        return ""
    return (
        f"{len(rows)} comparisons are made here, each with its own 95 % interval. If there were no differences at all, "
        f"about one such interval in twenty would still exclude 0."
    )


def _answer(agent: str, baseline: str, rows: Sequence[ComparisonRow], names: Mapping[str, str] | None) -> Answer:
    better, worse = (sum(row.verdict == verdict for row in rows) for verdict in ("better", "worse"))
    one, other = agent_name(agent, names), agent_name(baseline, names)
    everywhere = len(rows) == 1
    of_all = f"of {counted(len(rows), 'group')} of team-mates"
    if any(row.group in (SELF_PLAY, FIRST_EPISODES) for row in rows) and not everywhere:
        return _named_answer(agent, baseline, rows, names)
    if better and worse:
        word, claim = "Mixed", f"better than {other} in {better} and worse in {worse} {of_all}"
    elif better == len(rows):
        word, claim = (
            "Yes",
            f"better than {other}" + ("" if everywhere else f" in all {len(rows)} groups of team-mates"),
        )
    elif better:
        word, claim = "In part", f"better than {other} in {better} {of_all}; in the rest no difference is shown"
    elif worse:
        word, claim = "No", f"worse than {other}" + ("" if everywhere else f" in {worse} {of_all} and better in none")
    else:
        headline = f"No difference between {one} and {other} is shown" + ("." if everywhere else " in any group.")
        return Answer(agent, baseline, "Not shown", headline, [difference_sentence(row, names) for row in rows])
    return Answer(agent, baseline, word, f"{one} is {claim}.", [difference_sentence(row, names) for row in rows])


def _named_answer(agent: str, baseline: str, rows: Sequence[ComparisonRow], names: Mapping[str, str] | None) -> Answer:
    """An answer that names its groups: those of different kinds cannot be counted together."""
    one, other = agent_name(agent, names), agent_name(baseline, names)
    better, worse, unknown = (
        " and ".join(group_words(row.group) for row in rows if row.verdict == verdict)
        for verdict in ("better", "worse", "no difference shown")
    )
    if better and worse:
        word, headline = "Mixed", f"{one} is better than {other} {better}, and worse {worse}"
    elif better or worse:
        word = "No" if worse else "In part" if unknown else "Yes"
        headline = f"{one} is {'better' if better else 'worse'} than {other} {better or worse}"
    else:
        word, headline = "Not shown", f"No difference between {one} and {other} is shown"
    if unknown and word != "Not shown":
        headline += f"; no difference is shown {unknown}"
    return Answer(agent, baseline, word, f"{headline}.", [difference_sentence(row, names) for row in rows])


def _range(words: MetricWords, low: float, high: float, difference: float) -> str:
    """The interval in the direction of the sentence, so that `3.1 fewer` has the interval `1.2 to 5.0`."""
    if difference < 0:
        low, high = -high, -low
    return f"{words.bare(low)} to {words.bare(high)}"


def _sample(row: ComparisonRow) -> str:
    own, other = row.seeds, row.baseline_seeds
    seeds = counted(own, "seed") + (" each" if own == other else f" against {counted(other, 'seed')}")
    if row.group in (SELF_PLAY, LAST_TEST):
        return seeds
    these = "" if row.interval_over == "seeds and teams" else ", these teams only"
    if row.group == FIRST_EPISODES:
        return f"{seeds}, {counted(row.teams, 'co-player')}{these.replace('teams', 'co-players')}"
    return f"{seeds}, {counted(row.teams, 'team')}{these}"


def _chance_sentence(row: ComparisonRow, agent: str, baseline: str) -> str:
    known = {SELF_PLAY: "A training", LAST_TEST: "A training", FIRST_EPISODES: "With the same co-player, a training"}
    whose = known.get(row.group, "With the same team, a training")
    share = 100 * float(f"{row.p_improvement:.2f}")  # As the table has it.
    return f"{whose} of {agent} does better than a training of {baseline} in {share:.0f} % of cases."
