"""Probes of what agents know: found where it is, and not found where it is not."""

from __future__ import annotations

import numpy as np

from omg.components.measure import take
from omg.evaluation.probes import (
    MEAN,
    MEMORY,
    MODEL,
    MOST_STEPS,
    OBSERVATION,
    PROBES,
    ProbedGames,
    coming_steps,
    running_mean,
)

TEAMS, EACH, SLOTS = 4, 10, 7
GAMES = TEAMS * EACH


def played(rng: np.random.Generator) -> ProbedGames:
    """The memory knows the team, the model knows the step, and nobody else knows anything."""
    team = np.repeat(np.arange(TEAMS), EACH)
    coming = rng.integers(0, 3, (GAMES, SLOTS))
    noise = {source: rng.normal(size=(GAMES, SLOTS, 5)) * 0.1 for source in (MODEL, OBSERVATION, MEAN, MEMORY)}
    noise[MEMORY] += np.eye(TEAMS, 5)[team][:, None]
    noise[MODEL] += np.eye(3, 5)[coming]
    return ProbedGames(noise, coming, rng.integers(4, SLOTS, GAMES), team)


def test_each_source_is_probed_for_both_questions() -> None:
    games = played(np.random.default_rng(0))
    found = take(PROBES, games)
    assert list(found) == [measure.name for measure in PROBES]
    assert found["policy from the memory"] > 0.99
    assert found["step from the model"] > 0.9
    for name in ("policy from the model", "policy from the running mean", "step from the memory"):
        assert found[name] < 0.55
    assert 0.2 < found["policy by chance"] < 0.4


def test_what_is_not_there_is_not_probed() -> None:
    games = played(np.random.default_rng(1))
    known = {source: values for source, values in games.known.items() if source != MODEL}
    alone = ProbedGames(known, games.coming, games.length, np.zeros(GAMES, int))
    assert list(take(PROBES, alone)) == [
        "step from the observation",
        "step from the running mean",
        "step from the memory",
        "step by chance",
    ]


def test_the_running_mean_looks_back_only() -> None:
    seen = np.random.default_rng(2).normal(size=(3, 5, 2))
    found = running_mean(seen)
    for t in range(5):
        np.testing.assert_allclose(found[:, t], seen[:, : t + 1].mean(axis=1))


def test_steps_are_told_apart_by_place_and_action() -> None:
    places = np.array([[[0.0], [1.0], [1.0], [0.0]]])
    actions = np.array([[2, 2, 1, 1]])
    found = coming_steps(places, actions, np.array([[1, 2, 3, 3]]))
    assert found[0, 2] == found[0, 3]
    assert len(set(found[0, :3].tolist())) == 3
    many = np.arange(2.0 * MOST_STEPS).reshape(1, -1, 1)
    actions = np.arange(2 * MOST_STEPS)[None] % 3
    ahead = np.minimum(np.arange(2 * MOST_STEPS) + 1, 2 * MOST_STEPS - 1)[None]
    np.testing.assert_array_equal(coming_steps(many, actions, ahead), actions[:, ahead[0]])
