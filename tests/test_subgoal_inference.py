"""What inferred subgoals know of the others: the measures of evaluation on made-up games."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from omg.evaluation import (
    MemberName,
)
from omg.evaluation.tables import MetricRow
from omg.experiments import inference


def played(rng: np.random.Generator, teams: int = 4, each: int = 8, slots: int = 9) -> inference.InferredGames:
    """Games whose views wander at random, of unequal lengths; the subgoal is the view three steps ahead."""
    games = teams * each
    seen = rng.normal(size=(games, slots, 5)).cumsum(axis=1)
    length = rng.integers(4, slots, games)
    ahead = np.minimum(np.arange(slots) + 3, length[:, None])
    future = np.take_along_axis(seen, ahead[..., None], axis=1)
    return inference.InferredGames(seen, future, length, np.repeat(np.arange(teams), each))


def test_probes_find_what_is_in_the_subgoal_and_not_in_the_view() -> None:
    rng = np.random.default_rng(0)
    games = played(rng)
    mates: Any = SimpleNamespace(members=[MemberName(f"{name}_s1", name) for name in "aabb"])
    marked = rng.normal(size=(*games.subgoal.shape[:2], 4)) * 0.1 + np.eye(4)[games.team][:, None]
    found = inference._probes(games._replace(subgoal=marked), mates, 10_000, 0)
    assert found["policy named by the subgoal"] > 0.99
    assert found["policy named by the observation"] < 0.6
    assert found["policy gain"] > 0.4
    assert found["algorithm named by the subgoal"] > 0.99
    found = inference._probes(games._replace(subgoal=rng.normal(size=marked.shape)), mates, 10_000, 0)
    assert found["policy named by the subgoal"] < 0.5
    alike: Any = SimpleNamespace(members=[MemberName(f"a_s{index}", "a") for index in range(4)])
    assert set(inference._probes(games, alike, 10_000, 0)) == {name for name in found if name.startswith("policy")}


def test_a_subgoal_that_is_the_future_is_closer_than_the_present_and_hits() -> None:
    games = played(np.random.default_rng(1))
    identity = SimpleNamespace(map_shape=None, normalise=lambda values: values, decode_normalised=lambda values: values)
    agent: Any = SimpleNamespace(
        policy=SimpleNamespace(opponent_model=SimpleNamespace(prior=identity)), config=SimpleNamespace(omg_horizon=3)
    )
    found = inference._future(agent, games, 10_000, 0)
    assert found["closer to the future"] == 1.0
    assert found["future gain"] > 0.5
    assert found["hit ratio"] > 0.4
    standing = inference._future(agent, games._replace(subgoal=games.seen), 10_000, 0)
    assert standing["future gain"] == 0.0
    assert standing["closer to the future"] == 0.0


def test_only_played_steps_are_looked_at_and_no_more_than_asked_for() -> None:
    games = played(np.random.default_rng(2))
    game, slot = inference._some_steps(games, 10_000, 0)
    assert len(game) == games.length.sum()
    assert (slot < games.length[game]).all()
    assert len(inference._some_steps(games, 50, 0)[0]) == 50


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
