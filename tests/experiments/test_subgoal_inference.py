"""What inferred subgoals know of the others: the measures of evaluation on made-up games."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np

from omg.components.measure import take
from omg.evaluation.subgoals import MEASURES, InferredGames
from omg.evaluation.tables import MetricRow
from omg.experiments import inference

IDENTITY: Any = SimpleNamespace(
    map_shape=None, normalise=lambda values: values, decode_normalised=lambda values: values
)
"""A prior whose codes are the views themselves."""


def played(rng: np.random.Generator, teams: int = 4, each: int = 8, slots: int = 9) -> InferredGames:
    """Games whose views wander at random, of unequal lengths; the subgoal is the view three steps ahead."""
    games = teams * each
    seen = rng.normal(size=(games, slots, 5)).cumsum(axis=1)
    length = rng.integers(4, slots, games)
    ahead = np.minimum(np.arange(slots) + 3, length[:, None])
    future = np.take_along_axis(seen, ahead[..., None], axis=1)
    team = np.repeat(np.arange(teams), each)
    return InferredGames(seen, future, length, team, np.arange(teams) // 2, IDENTITY, horizon=3, steps=10_000)


def test_probes_find_what_is_in_the_subgoal_and_not_in_the_view() -> None:
    rng = np.random.default_rng(0)
    games = played(rng)
    marked = rng.normal(size=games.subgoal.shape) * 0.1 + np.eye(4, 5)[games.team][:, None]
    found = take(MEASURES, replace(games, subgoal=marked))
    # These games tell no places.
    assert list(found) == [measure.name for measure in MEASURES if "place" not in measure.name]
    assert found["policy named by the subgoal"] > 0.99
    assert found["policy named by the observation"] < 0.6
    assert found["policy gain"] > 0.4
    assert found["algorithm named by the subgoal"] > 0.99
    found = take(MEASURES, replace(games, subgoal=rng.normal(size=marked.shape)))
    assert found["policy named by the subgoal"] < 0.5
    alike = take(MEASURES, replace(games, algorithm=np.zeros(4, int)))
    assert list(alike) == [name for name in found if not name.startswith("algorithm")]


def test_a_subgoal_that_is_the_future_is_closer_than_the_present_and_hits() -> None:
    games = played(np.random.default_rng(1))
    found = take(MEASURES, games)
    assert found["closer to the future"] == 1.0
    assert found["future gain"] > 0.5
    assert found["hit ratio"] > 0.4
    standing = take(MEASURES, replace(games, subgoal=games.seen))
    assert standing["future gain"] == 0.0
    assert standing["closer to the future"] == 0.0


def test_only_played_steps_are_looked_at_and_no_more_than_asked_for() -> None:
    games = played(np.random.default_rng(2))
    game, slot = games.looked_at
    assert len(game) == games.length.sum()
    assert (slot < games.length[game]).all()
    assert len(replace(games, steps=50).looked_at[0]) == 50


def test_metrics_of_training_become_rows() -> None:
    names = {"omg_offset_1": 0.75, "omg_offset_2": 0.25, "omg_offset_mean": 1.25, "test_zero_score_drop": 0.5}
    metrics = [
        MetricRow(seed=seed, t_env=t_env, name=name, value=value if t_env else 9.0)
        for seed in (1, 2, 3)
        for t_env in (0, 100)
        for name, value in names.items()
    ]
    assert inference.offset_rows("omg", metrics) == [
        {"agent": "omg", "offset": 1, "count": 750},
        {"agent": "omg", "offset": 2, "count": 250},
    ]
    (row,) = inference.control_rows("omg", metrics, "score")
    assert (row["measure"], row["value"], row["low"], row["high"], row["seeds"]) == ("zero features", 0.5, 0.5, 0.5, 3)
    assert inference.control_rows("omg", metrics, "return") == []
