"""To which corner a player of `rendezvous` goes in which round: the table of rules behind a family of scripts.

A rule is a number of corners and how to go through them. Its name says all of it, so that one line of `RULES` is one
script. Balanced by design: of every kind of rule, each corner comes up equally often in each round.
"""

from __future__ import annotations

from dataclasses import dataclass

CORNERS = ("nw", "ne", "se", "sw")
"""In the order of `RendezvousArgs.corners`: clockwise."""
_TURN = {"cw": 1, "ccw": -1}
_DIAGONALS = [(first, (first + 2) % 4) for first in range(4)]
_SIDES = [(first, (first + 1) % 4) for first in range(4)]


@dataclass(frozen=True)
class Rule:
    """A corner for every round."""

    corners: tuple[int, ...]
    """Those it goes to, one after the other; numbers of `CORNERS`."""
    halves: bool = False
    """Whether each of two corners is kept for half of the rounds, the second one for longer; else they take turns."""

    def corner(self, number: int, rounds: int) -> int:
        """Where to go in round `number` (from 0) of `rounds`."""
        if self.halves:
            return self.corners[0 if number < rounds // 2 else 1]
        return self.corners[number % len(self.corners)]


def _rules() -> dict[str, tuple[Rule, str]]:
    found: dict[str, tuple[Rule, str]] = {}
    for corner, name in enumerate(CORNERS):
        found[f"corner_{name}"] = Rule((corner,)), f"always goes to the corner {name}"
    for first, second in (*_DIAGONALS, *_SIDES):
        names = CORNERS[first], CORNERS[second]
        found["alternate_{}_{}".format(*names)] = Rule((first, second)), "goes to {} and {} in turn".format(*names)
    for word, turn in _TURN.items():
        for first, name in enumerate(CORNERS):
            rule = Rule(tuple((first + turn * number) % 4 for number in range(4)))
            way = "clockwise" if turn > 0 else "counter-clockwise"
            found[f"cycle_{word}_{name}"] = rule, f"goes round the corners {way}, from {name}"
    for first, second in (*_DIAGONALS, *_SIDES):
        names = CORNERS[first], CORNERS[second]
        rule = Rule((first, second), halves=True)
        found["switch_{}_{}".format(*names)] = rule, "goes to {}, and from the middle round on to {}".format(*names)
    return found


RULES: dict[str, tuple[Rule, str]] = _rules()
"""Name of the script -> its rule, and what it does in a few words."""
