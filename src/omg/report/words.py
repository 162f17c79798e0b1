"""How agents, groups and metrics are called in figures and sentences."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from omg.names import inert

AGENT_NAMES: Mapping[str, str] = {
    "iql": "IQL",
    "vdn": "VDN",
    "qmix": "QMIX",
    "qtran": "QTRAN",
    "coma": "COMA",
    "ippo": "IPPO",
    "mappo": "MAPPO",
    "iql_am": "Naive OM",
    "iql_liam": "LIAM",
    "iql_omg": "OMG",
    "plastic": "PLASTIC",
    "bayes": "Bayes",
    "belief_mixture": "belief mixture",
    "random": "random player",
}
"""Names of well-known agents; other labels are shown as they are."""


SELF_PLAY, FIRST_EPISODES, LAST_TEST = "self_play", "first_episodes", "last_test"
"""Groups that are no choice of team-mates: an agent in all seats, its first episodes with new co-players, and the last
test of its training."""
_GROUPS = {
    SELF_PLAY: ("self-play", "in self-play"),
    FIRST_EPISODES: ("first episodes", "in the first episodes with new co-players"),
    LAST_TEST: ("last test", "in the last test of its training"),
}
"""Their short names, and how they stand in a sentence."""


@dataclass(frozen=True)
class MetricWords:
    """How a metric is written."""

    noun: str
    """On axes and in tables."""
    share: bool = False
    """Between 0 and 1, and shown in percent."""
    more: str = "has {amount} more {noun} than {baseline}"
    """Sentence with `{amount}`, `{noun}` and `{baseline}`."""
    less: str = "has {amount} less {noun} than {baseline}"

    @property
    def factor(self) -> float:
        """From the stored value to the one shown."""
        return 100.0 if self.share else 1.0

    def value(self, number: float) -> str:
        """A score: `87.3 %` or `12.57`."""
        return f"{number * 100:.1f} %" if self.share else _signless(number)

    def bare(self, number: float) -> str:
        """A score without its unit."""
        return minus(f"{number * 100:.1f}") if self.share else _signless(number)

    def amount(self, difference: float) -> str:
        """The size of a difference, without its sign: `3.1 percentage points`."""
        return f"{abs(difference) * 100:.1f} percentage points" if self.share else _signless(abs(difference))

    def signed(self, difference: float) -> str:
        """A difference with its sign: `+3.1`."""
        digits = 3 if abs(difference) < _SMALL else 2
        return minus(f"{difference * 100:+.1f}" if self.share else f"{difference:+.{digits}f}")


_SMALL = 0.1
"""Differences below this have a third decimal."""

_METRICS = {
    "battle_won": MetricWords(
        "battles won",
        share=True,
        more="wins {amount} more of its battles than {baseline}",
        less="wins {amount} fewer of its battles than {baseline}",
    ),
    "ep_length": MetricWords(
        "steps per episode",
        more="takes {amount} steps more than {baseline}",
        less="takes {amount} steps fewer than {baseline}",
    ),
    "return": MetricWords(
        "return",
        more="reaches a return {amount} higher than {baseline}",
        less="reaches a return {amount} lower than {baseline}",
    ),
    "score": MetricWords(
        "score", more="scores {amount} more than {baseline}", less="scores {amount} less than {baseline}"
    ),
}


def metric_words(metric: str) -> MetricWords:
    """How a metric is written; `<metric>_normalised` is a number between a random player and a best response."""
    if metric in _METRICS:
        return _METRICS[metric]
    noun = inert(metric).replace("_", " ")
    if metric.endswith("_normalised"):
        base = metric_words(metric.removesuffix("_normalised")).noun
        noun = f"{base}, normalised (0 random player, 1 best response)"
    plain = noun.replace("{", "{{").replace("}", "}}")  # The sentences are filled in by `format`.
    return MetricWords(
        noun,
        more=f"is {{amount}} higher in {plain} than {{baseline}}",
        less=f"is {{amount}} lower in {plain} than {{baseline}}",
    )


def agent_name(label: str, names: Mapping[str, str] | None = None) -> str:
    """The name of an agent, from `names`, else a well-known one, else its label; as it may be shown."""
    return inert((names or {}).get(label, AGENT_NAMES.get(label, label)))


def group_name(group: str) -> str:
    """A group's short name for axes: `7 homologue`."""
    if group in _GROUPS:
        return _GROUPS[group][0]
    return inert(group).replace("_", " ").replace("nonhomologue", "non-homologue")


def group_words(group: str) -> str:
    """A group in a sentence: `with 7 unseen team-mates of one policy`."""
    if group in _GROUPS:
        return _GROUPS[group][1]
    found = re.fullmatch(r"(\d+)_(non_?)?homologue", group)
    if not found:
        return f"in the group “{group_name(group)}”"
    count = int(found[1])
    mates = "team-mate" if count == 1 else "team-mates"
    if count == 1:
        return f"with 1 unseen {mates}"
    return f"with {count} unseen {mates} of {'different algorithms' if found[2] else 'one policy'}"


def counted(count: int, noun: str) -> str:
    """`1 team`, `30 teams`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def _signless(number: float) -> str:
    return minus(f"{number:.2f}")


def minus(text: str) -> str:
    """A number with the sign that is as wide as a plus."""
    return text.replace("-", "\N{MINUS SIGN}")
