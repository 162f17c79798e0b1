"""What remembering by rules is worth in rendezvous, computed and not trained: `python benchmarks/recall_limits.py CSV`.

A player knows the scripts of its training exactly, and meets those of a set. Each round it believes in corners by what
it knows, walks the first step that promises most, sees which way the other has taken its first, and walks to whatever
corner is then likelier. Nothing is learned, so what differs is how beliefs are made alone:

- `known`: Bayes' rule over the scripts of the training; a script does something else with a chance of 0.02;
- `rules`: the rules of `recall_am` by themselves, weighed as there;
- `both`: as `recall_am` weighs them.

Rows: draw, set, belief, share of rounds met, for the draws of `suite_rendezvous`.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable, Sequence
from importlib.resources import files

import jax.numpy as jnp
import numpy as np
import yaml

from omg.controllers.scripted.rules import RULES
from omg.envs.rendezvous.args import RendezvousArgs
from omg.experiments.draws import KindsSection
from omg.modules.opponent_models.recalling import Recalled

ROUNDS, CORNERS = 5, 4
OTHERWISE = 0.02
"""Chance that a script that is known does something else, as `known` sees it."""
SETS = ("training", "validation", "heldout")
STEPS = [(axis, side) for axis in (0, 1) for side in (0, 2)]
"""First steps: along the rows or the columns, to this side."""
PLACES = RendezvousArgs().corners
Belief = Callable[[Sequence[int]], np.ndarray]


def corners_of(script: str) -> list[int]:
    """Of every round."""
    return [RULES[script][0].corner(number, ROUNDS) for number in range(ROUNDS)]


def met(belief: np.ndarray, corner: int) -> float:
    """The chance to meet whoever goes to a corner by one of its two shortest ways."""
    reached = {step: [k for k in range(CORNERS) if PLACES[k][step[0]] == step[1]] for step in STEPS}

    def promised(step: tuple[int, int]) -> float:
        return sum(max(belief[k] * (k in reached[other]) for k in reached[step]) for other in STEPS)

    best = max(map(promised, STEPS))
    chances = []
    for step in (step for step in STEPS if promised(step) > best - 1e-9):
        for other in (other for other in STEPS if corner in reached[other]):
            likely = {k: belief[k] * (k in reached[other]) for k in reached[step]}
            best_of = [k for k, chance in likely.items() if chance > max(likely.values()) - 1e-9]
            chances.append((corner in best_of) / len(best_of))
    return float(np.mean(chances))


def known_scripts(training: Sequence[str]) -> Belief:
    """Bayes' rule over scripts that are known."""
    ways = np.array([corners_of(script) for script in training])

    def belief(ends: Sequence[int]) -> np.ndarray:
        right = (ways[:, : len(ends)] == np.array(ends, int)).sum(axis=1)
        weights = (1 - OTHERWISE) ** right * (OTHERWISE / (CORNERS - 1)) ** (len(ends) - right)
        chances = np.bincount(ways[:, len(ends)], weights / weights.sum(), CORNERS) + 1e-4
        return chances / chances.sum()

    return belief


def recalling(known: Belief, trust: float) -> Belief:
    """What `recall_am` makes of what is known."""

    def belief(ends: Sequence[int]) -> np.ndarray:
        recalled = Recalled.empty(1, 1, 1, ROUNDS, CORNERS, trust)
        for number in range(len(ends) + 1):
            learned = jnp.asarray(known(ends[:number]), jnp.float32)[None, None, None]
            landed = jnp.full((1, 1, 1), ends[number - 1] if number else 0)
            recalled = recalled.after(landed, jnp.zeros((1, 1, 1), jnp.int32), jnp.full((1, 1), number), learned)
        return np.asarray(recalled.chances(learned), float)[0, 0, 0]

    return belief


def main(path: str, draws: int = 6) -> int:
    """Writes the rows; returns the exit status."""
    preset = files("omg.experiments").joinpath("presets/suite/suite_rendezvous.yaml")
    kinds = KindsSection.model_validate(yaml.safe_load(preset.read_text())["pool"]["kinds"])
    with open(path, "w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(("draw", "set", "belief", "met"))
        for draw in range(1, draws + 1):
            dealt = kinds.dealt(draw)
            known = known_scripts([script for script, where in dealt.items() if where == "training"])
            beliefs = {"known": known, "rules": recalling(known, 1e-6), "both": recalling(known, 0.2)}
            for which in SETS:
                scripts = [corners_of(script) for script, where in dealt.items() if where == which]
                for name, belief in beliefs.items():
                    found = [met(belief(way[:number]), way[number]) for way in scripts for number in range(ROUNDS)]
                    rows.writerow((draw, which, name, f"{np.mean(found):.4f}"))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:2]))
