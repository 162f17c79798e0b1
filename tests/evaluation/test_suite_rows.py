"""Shares of the room over draws of partners, and what they answer."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from helpers.room_pages import COMPARED, part, suite_page
from omg.evaluation.budget import Marks
from omg.evaluation.suite import ALL_DRAWS, Gain, agent_rows, difference_rows, game_rows, over_draws
from omg.report.suite import SuitePage, probe_tables, suite_screen
from omg.report.suite_words import game_answers


def test_the_interval_is_students_over_draws() -> None:
    gains = np.array([0.2, 0.5, 0.8, 0.7])
    rooms = np.full(4, 2.0)
    found = over_draws([Gain(gain, 5.0, 10) for gain in gains], rooms)
    low, high = stats.t.interval(0.95, 3, gains.mean() / 2, stats.sem(gains) / 2)
    assert found == pytest.approx((gains.mean() / 2, low, high))


def test_a_draw_with_next_to_no_room_says_next_to_nothing() -> None:
    gains = [Gain(1.0, 0.0, 3), Gain(1.0, 0.0, 3), Gain(-0.1, 0.0, 3)]
    assert over_draws(gains, np.array([2.0, 2.0, 0.01])).value == pytest.approx(1.9 / 4.01)
    assert all(math.isnan(number) for number in over_draws(gains, np.array([0.0, 0.0, 0.0])))


def test_with_fewer_draws_than_three_the_interval_is_over_seeds() -> None:
    scores = np.array([1.0, 2.0, 3.0, 5.0])
    found = over_draws([Gain.of(scores, 1.0)], np.array([4.0]))
    low, high = stats.t.interval(0.95, 3, (scores.mean() - 1) / 4, stats.sem(scores) / 4)
    assert found == pytest.approx(((scores.mean() - 1) / 4, low, high))
    # Two trainings that have nothing to do with each other: their variances add up.
    assert Gain.of(scores, scores) == (0.0, 2 * scores.var(ddof=1) / 4, 4)
    assert math.isnan(over_draws([Gain.of(scores[:2], 1.0)], np.array([4.0])).low)


def test_intervals_over_draws_hold_the_truth_as_often_as_they_say() -> None:
    """Draws and seeds vary; 95 % of the intervals hold the mean over all possible draws."""
    rng, held = np.random.default_rng(0), 0
    for _ in range(1000):
        gains = [Gain.of(0.5 + rng.normal(0, 0.3) + rng.normal(0, 0.4, 5), 0.0) for _ in range(3)]
        found = over_draws(gains, np.ones(3))
        held += found.low <= 0.5 <= found.high
    assert 930 <= held <= 970


def test_tables_of_a_suite_and_its_answers() -> None:
    parts = [part(1, 0.0), part(2, 0.1), part(3, -0.1)]
    games = game_rows(parts)
    assert [row.draw for row in games] == ["1", "2", "3", ALL_DRAWS]
    assert (games[-1].room, games[-1].room_share) == (2.0, 2 / 3)
    closed = {(row.agent, row.share): row for row in agent_rows(parts)}
    assert closed["liam", 1.0].closed == pytest.approx(0.5)
    assert closed["omg", 1.0].closed == pytest.approx(-0.25)
    assert closed["random", 0.5].closed == pytest.approx(-0.5)
    assert {row.interval_over for row in closed.values()} == {"draws"}
    differences = difference_rows(parts, COMPARED)
    # The best modelling agent is chosen by the validation partners, not by what it is judged by.
    assert {(row.question, row.agent, row.baseline) for row in differences} == {
        ("modelling", "omg", "gru"),
        ("subgoals", "omg", "gru"),
        ("subgoals", "omg", "liam"),
    }
    last = {row.baseline: row for row in differences if row.share == 1.0 and row.question == "subgoals"}
    assert last["gru"].difference == pytest.approx(-0.5)
    assert last["gru"].verdict == "worse"
    (answer,) = game_answers(games, list(closed.values()), differences, {"omg": "OMG", "gru": "GRU"})
    assert answer.sentences[0][0] == "Below"
    assert "OMG \N{MINUS SIGN}0.25" in answer.sentences[0][1]
    assert answer.sentences[1] == (
        "No",
        "Modelling, OMG minus GRU: \N{MINUS SIGN}0.25 [\N{MINUS SIGN}0.25, \N{MINUS SIGN}0.25] at 50%, "
        "\N{MINUS SIGN}0.50 [\N{MINUS SIGN}0.50, \N{MINUS SIGN}0.50] at 100%",
    )
    page = SuitePage("Title", games, list(closed.values()), differences)
    assert str(suite_screen(page)[0]).startswith("game: Of the room liam closes +0.50 [")


def test_probes_are_means_over_draws() -> None:
    page = suite_page()
    known = {row.agent: row for row in page.probes}
    assert (known["omg"].draws, known["omg"].seeds, known["omg"].value) == (3, 3, pytest.approx(0.6))
    # Student's over 0.6, 0.7 and 0.5.
    assert known["omg"].high == pytest.approx(0.6 + 4.3027 * 0.1 / math.sqrt(3), abs=1e-4)
    ((head, lines),) = probe_tables(page).values()
    assert head == ("game", "agent", "model", "recurrent state", "running mean of views", "present view", "chance")
    assert [line[2] for line in lines] == ["0.60 [0.35, 0.85]", "\N{EN DASH}"]
    assert lines[1][-1] == "0.25 [0.25, 0.25]"


def test_without_a_room_nothing_is_closed() -> None:
    parts = [part(draw, 0.0, Marks()) for draw in (1, 2, 3)]
    games, agents = game_rows(parts), agent_rows(parts)
    assert all(math.isnan(row.closed) for row in agents)
    (answer,) = game_answers(games, agents, difference_rows(parts, COMPARED))
    assert answer.headline == "no room was measured, so nothing can be closed."
