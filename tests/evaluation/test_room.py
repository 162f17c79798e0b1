"""Floor, best fixed, ceiling, room, and what agents close of it."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

from helpers.refusing import refusal
from omg.evaluation.room import (
    MIXTURE,
    Responses,
    RoomScale,
    closed_rows,
    is_flat,
    over_pools,
    ratio_interval,
    room_row,
    share_closed,
    standing,
    student_interval,
)
from omg.evaluation.statistics import Estimate
from omg.evaluation.tables import ResponseRow, RoomRow, ScoreRow

PARTNERS = ("1xa", "1xb", "1xc", "1xd")


def cells(table: dict[str, Sequence[float]], which: str = "heldout") -> list[ResponseRow]:
    """Rows of a matrix without noise."""
    return [
        ResponseRow(
            set=which,
            group="1_partner",
            partner=partner,
            responder=name,
            kind=MIXTURE if name == MIXTURE else "script",
            metric="return",
            episodes=8,
            mean=value,
            error=0.0,
            first_half=value,
            second_half=value,
        )
        for name, values in table.items()
        for partner, value in zip(PARTNERS, values, strict=True)
    ]


CORNERS = {
    "random": (0.1, 0.1, 0.1, 0.1),
    "a": (1.0, 0.0, 0.0, 0.0),
    "b": (0.0, 1.0, 0.0, 0.0),
    "mostly_a": (0.9, 0.2, 0.1, 0.0),
    "cd": (0.0, 0.0, 1.0, 0.8),
    MIXTURE: (0.9, 0.9, 0.9, 0.7),
}


def measured(choice: dict[str, Sequence[float]] | None = None) -> RoomRow:
    target = Responses.of(cells(CORNERS))
    other = target if choice is None else Responses.of(cells(choice, "validation"))
    return room_row("pool", "heldout", "1_partner", "return", target, other, "validation")


def test_the_room_lies_between_the_best_row_and_the_best_of_each_column() -> None:
    row = measured()
    assert row.floor == pytest.approx(0.1)
    assert (row.best_fixed, row.best_fixed_is) == (pytest.approx(0.45), "cd")
    assert row.ceiling == pytest.approx((1.0 + 1.0 + 1.0 + 0.8) / 4)
    assert row.room == pytest.approx(0.95 - 0.45)
    assert row.share == pytest.approx(0.5 / 0.85)
    assert row.mixture == pytest.approx(0.85)
    assert row.room_low < row.room < row.room_high


def test_the_best_row_is_chosen_on_other_partners() -> None:
    row = measured({**CORNERS, "mostly_a": (1.0, 1.0, 1.0, 1.0)})
    assert (row.best_fixed, row.best_fixed_is) == (pytest.approx(0.3), "mostly_a")


def test_the_ceiling_is_not_raised_by_noise() -> None:
    """With responders who are all the same, the largest mean is too large; the ceiling is not."""
    rng = np.random.default_rng(0)
    halves = rng.normal(0.5, 0.1, (2, 40, 500))
    same = Responses(
        tuple(map(str, range(40))), ("script",) * 40, tuple(map(str, range(500))), halves, halves.mean(0), halves[0], 8
    )
    assert same.means.max(axis=0).mean() > 0.6
    assert same.ceiling().mean() == pytest.approx(0.5, abs=0.02)


def test_who_beats_a_response_is_named_if_that_is_no_chance() -> None:
    found = Responses.of(cells(CORNERS))
    assert found.beaten_by("mostly_a", "1xa") == ("a", pytest.approx(0.1))
    assert found.beaten_by("a", "1xa") is None
    noisy = Responses(
        found.responders, found.kinds, found.partners, found.halves, found.means, found.errors + 0.05, found.episodes
    )
    assert noisy.beaten_by("mostly_a", "1xa") is None
    assert noisy.beaten_by("cd", "1xa") == ("a", pytest.approx(1.0))


def test_a_matrix_with_holes_is_refused() -> None:
    rows = cells(CORNERS)
    assert refusal(lambda: Responses.of(rows[:-1])) == "responses: 'mixture' has no score with '1xd'."
    assert refusal(lambda: Responses.of([])) == "responses: there are no rows."


@pytest.mark.parametrize(
    ("means", "error", "flat"),
    [
        ([0.0, 0.2, 0.4, 0.6, 0.8, 1.0], 0.01, False),  # Still rising.
        ([0.0, 0.5, 1.0, 1.0, 1.0, 1.0], 0.01, True),
        ([0.0, 0.5, 1.0, 1.0, 0.2, 0.3], 0.01, True),  # A fall is no rise.
        ([0.0, 0.5, 0.9, 0.9, 0.92, 0.93], 0.02, True),  # Within two standard errors of the difference.
        ([0.0, 0.5, 0.9, 0.9, 0.92, 0.93], 0.001, False),
        ([0.0, 0.5, 0.9, 0.9, 0.905, 0.909], 0.0001, True),  # Within 1 % of the span.
        ([1.0, 1.0, 1.0, 1.0, 1.0], 0.0, False),  # Too few tests.
    ],
)
def test_a_curve_is_flat_when_its_last_third_brings_nothing(means: list[float], error: float, flat: bool) -> None:
    assert is_flat(np.asarray(means), np.full(len(means), error), 1.0) is flat


def test_pools_are_draws_of_partners() -> None:
    rows = [RoomRow.of({**measured(), "room": value}) for value in (0.3, 0.5, 0.7)]
    found = over_pools(rows)
    assert (found.pool, found.partners) == ("all", 12)
    # Student's distribution with two degrees of freedom: 4.303.
    half = 4.303 * 0.2 / math.sqrt(3)
    assert (found.room, found.room_low, found.room_high) == pytest.approx((0.5, 0.5 - half, 0.5 + half), abs=1e-3)
    assert math.isnan(over_pools(rows[:2]).room_low)
    assert math.isnan(student_interval(np.asarray([1.0, 2.0])).low)


def scores(values: Sequence[Sequence[float]], agent: str = "omg") -> list[ScoreRow]:
    return [
        ScoreRow(agent=agent, seed=seed, group="1_partner", team=team, episodes=4, metric="return", mean=value)
        for seed, row in enumerate(values)
        for team, value in zip(PARTNERS, row, strict=True)
    ]


def test_agents_close_a_share_of_the_room() -> None:
    target = Responses.of(cells(CORNERS))
    scales = {"1_partner": RoomScale.of(target, target)}
    near = [[0.9, 0.9, 1.0, 0.8], [0.8, 0.9, 1.0, 0.8], [1.0, 0.9, 1.0, 0.8]]
    below = [[0.2, 0.2, 0.2, 0.2], [0.1, 0.2, 0.2, 0.3], [0.2, 0.3, 0.2, 0.1]]
    good, bad = closed_rows([*scores(near), *scores(below, "liam")], "return", scales)
    assert good.closed == pytest.approx(share_closed(good.mean, 0.45, 0.95)) == pytest.approx(0.9)
    assert (good.agent, good.standing, good.floor) == ("omg", "above best fixed", pytest.approx(0.1))
    assert good.closed_low <= good.closed <= good.closed_high
    assert bad.closed < 0
    assert bad.standing.startswith("below best fixed")
    assert closed_rows(scores(near), "return", {}) == []
    elsewhere = RoomScale(("1xa",), *(np.zeros(1),) * 3, "a")
    assert closed_rows(scores(near), "return", {"1_partner": elsewhere}) == []


def test_what_is_shown_and_what_is_not() -> None:
    nan = math.nan
    assert standing(Estimate(0.5, 0.1, 0.9)) == "above best fixed"
    assert standing(Estimate(0.5, -0.1, 0.9)) == standing(Estimate(0.5, nan, nan)) == "above best fixed, not shown"
    assert standing(Estimate(-0.5, -0.9, -0.1)) == "below best fixed"
    assert standing(Estimate(-0.5, nan, nan)) == "below best fixed, not shown"
    assert standing(Estimate(nan, nan, nan)) == "no room"
    assert math.isnan(share_closed(0.5, 0.4, 0.4))


def test_a_ratio_resamples_what_there_is_enough_of() -> None:
    rng = np.random.default_rng(0)
    rows, below = rng.normal(0.5, 0.2, (5, 8)), np.full(8, 2.0)
    found = ratio_interval(rows, below, trained=True)
    assert found.low < found.value < found.high
    assert found.value == pytest.approx(rows.mean() / 2.0)
    assert math.isnan(ratio_interval(rows[:2], below, trained=True).low)
    assert math.isnan(ratio_interval(rows[:1, :2], below[:2], trained=False).low)
    few = ratio_interval(rows[:, :2], below[:2], trained=True)
    assert few.low < few.value < few.high
    assert math.isnan(ratio_interval(rows, np.zeros(8), trained=True).value)
