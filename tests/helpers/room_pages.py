"""A measured room and a suite of games, made up: what their pages are made of."""

from __future__ import annotations

import numpy as np

from omg.evaluation.budget import Marks
from omg.evaluation.suite import (
    Comparisons,
    PartResult,
    Probe,
    agent_rows,
    difference_rows,
    game_rows,
    probe_rows,
)
from omg.evaluation.tables import ResponseRow, RoomRow
from omg.report.suite import SuitePage

MARKS = Marks(0.0, 1.0, 3.0)
COMPARED = Comparisons("gru", ("liam", "omg"), ("omg",), ("gru", "liam", "absent"))


def part(draw: int, shift: float, marks: Marks = MARKS) -> PartResult:
    """A draw in which everybody scores `shift` more."""
    seeds = 0.1 * np.array([-1.0, 0.0, 1.0])
    reached = {
        (agent, share): shift + base * share + seeds
        for agent, base in (("gru", 1.5), ("liam", 2.0), ("omg", 0.5))
        for share in (0.5, 1.0)
    }
    reached |= {("random", share): np.array([0.0]) for share in (0.5, 1.0)}
    # With the validation partners, OMG is the best of those that model.
    probes = {("omg", "policy from the model"): Probe(0.6 + shift, 3), ("gru", "policy by chance"): Probe(0.25, 3)}
    return PartResult("game", draw, "return", 4, marks, reached, {"gru": 1.0, "liam": 1.0, "omg": 2.0}, probes)


def suite_page(title: str = "A suite") -> SuitePage:
    """Three draws of one game."""
    parts = [part(1, 0.0), part(2, 0.1), part(3, -0.1)]
    games, agents, differences = game_rows(parts), agent_rows(parts), difference_rows(parts, COMPARED)
    probes, notes = probe_rows(parts), ["A note."]
    return SuitePage(title, games, agents, differences, probes, notes=notes, commands=["omg pipeline suite"])


def measured_room(pool: str = "pool") -> tuple[list[RoomRow], list[ResponseRow]]:
    """A room of two partners and three responders."""
    earned = {"a": (0.9, 0.1), "b": (0.2, 0.8), "mixture": (0.6, 0.5)}
    responses = [
        ResponseRow(
            set="heldout", group="1_partner", partner=partner, responder=responder,
            kind="mixture" if responder == "mixture" else "member", metric="return", episodes=100,
            mean=mean, error=0.01, first_half=mean, second_half=mean,
        )
        for responder, means in earned.items()
        for partner, mean in zip(("p1", "p2"), means, strict=True)
    ]  # fmt: skip
    ends = {
        f"{name}_{end}": value + way
        for name, value in (("floor", 0.1), ("best_fixed", 0.5), ("ceiling", 0.85), ("room", 0.35), ("share", 0.47))
        for end, way in (("low", -0.05), ("high", 0.05))
    }
    room = RoomRow(
        pool=pool, set="heldout", group="1_partner", metric="return", partners=2, responders=3, episodes=100,
        floor=0.1, best_fixed=0.5, best_fixed_is="a", chosen_on="validation", ceiling=0.85, room=0.35, share=0.47,
        mixture=0.55, told_apart=2.0, told_share=0.75, exact=0.7, worth=0.2, **ends,
    )  # fmt: skip
    return [room], responses
