"""Evaluation with a pool: which teams there are, that everybody meets the same games, and that nobody loses a seat."""

from __future__ import annotations

import csv
import itertools
import re
from collections import Counter
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import omg
from helpers.played import unrolled
from helpers.refusing import refusal
from helpers.tiny import GAME, tiny_agent, tiny_config, tiny_pool
from omg.cli import experiments, main
from omg.config import Config
from omg.controllers.draw import LEARNER
from omg.envs import make_env
from omg.evaluation import (
    Group,
    Mates,
    group_names,
    make_groups,
    pool_scores,
    record_group,
    stack_agents,
)
from omg.evaluation import heldout as heldout_module
from omg.evaluation.heldout import lineups
from omg.evaluation.probes import PROBES
from omg.evaluation.subgoals import MEASURES
from omg.experiments import evaluation, inference
from omg.experiments.evaluation import Arena, cross_play_arena, cross_play_pool, evaluate_runs, run_labels, untrained
from omg.pools import Agent, Pool, load_agent
from omg.runners.vector import play_episodes
from omg.tracking import Table

SEATS = 4
EPISODES = 4
"""The same in most tests, which then share a compilation."""
TEAMS = ["3xiql_s11", "3xiql_s12", "3xiql_s13", "3xnearest_food", "3xrandom"]
TABLE = {**GAME, "players": SEATS}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A pool of three networks (to train with) and two scripts (held out), and three agents like nobody in it."""
    base = tmp_path_factory.mktemp("evaluation")
    pool = tiny_pool(base / "pool", (11, 12, 13), env_args=TABLE)
    for script in ("nearest_food", "random"):
        pool.add_scripted(script, "heldout")
    for seed in (1, 2, 3):
        tiny_agent(base / f"agent_{seed}", config(), seed)
    return base


def config() -> Config:
    return tiny_config(Path("."), env_args=TABLE)


@pytest.fixture(scope="module")
def arena(folder: Path) -> Arena:
    return Arena(folder / "pool")


@pytest.fixture(scope="module")
def agents(folder: Path, arena: Arena) -> list[Agent]:
    """The three agents, all in the same game object."""
    loaded = [load_agent(folder / f"agent_{seed}") for seed in (1, 2, 3)]
    return [Agent(agent.policy, agent.config, arena.env, agent.card) for agent in loaded]


def all_teams(mates: Mates) -> Group:
    """The teams of all groups as one."""
    groups = make_groups(mates.members, SEATS)
    teams = tuple(team for group in groups for team in group.teams)
    return Group("all", teams, np.concatenate([group.members for group in groups]))


# ---------------------------------------------------------------------------------------------- who sits where


def test_the_agent_comes_to_sit_in_every_seat_and_the_others_follow_it_round_the_table() -> None:
    mates = np.asarray([[0, 1, 2], [3, 3, 0]])
    position = (5, 6, 7, 8)
    found = lineups(mates, position, 8)
    seats, players = np.asarray(found.seat), np.asarray(found.players)
    for team, row in enumerate(mates):
        games = slice(8 * team, 8 * (team + 1))
        assert Counter(seats[games].tolist()) == dict.fromkeys(range(SEATS), 2)
        for seat, line in zip(seats[games], players[games], strict=True):
            turned = np.roll(line, -seat)
            assert turned.tolist() == [LEARNER, *(position[mate] for mate in row)]
    # In a game with roles it takes the seats of its own.
    assert np.asarray(lineups(mates, position, 4, (0, 2)).seat).tolist() == [0, 2, 0, 2] * 2


@settings(max_examples=60, deadline=None)
@given(data=st.data(), members=st.integers(1, 6), teams=st.integers(1, 12), others=st.integers(1, 7))
def test_no_player_ever_has_more_seats_than_places(data: Any, members: int, teams: int, others: int) -> None:
    line = st.lists(st.integers(0, members - 1), min_size=others, max_size=others)
    mates = np.asarray(data.draw(st.lists(line, min_size=teams, max_size=teams)))
    at_once = data.draw(st.integers(1, teams))
    places = heldout_module._places(mates, at_once)
    for first in range(0, teams, at_once):
        chunk = mates[first : first + at_once]
        played = np.concatenate([chunk, mates[: at_once - len(chunk)]])
        assert np.bincount(played.ravel()).max() <= places


def test_every_seat_takes_the_action_that_its_own_player_chooses(arena: Arena, agents: list[Agent]) -> None:
    """With too few places for a player some of its seats would silently take action 0."""
    mates = arena.mates(None, agents[0].config)
    networks = {mates.position[i]: arena.pool.load(member.name) for i, member in enumerate(mates.members[:3])}
    rollout, team = record_group(arena.env, stack_agents([agents[0].policy]), mates, all_teams(mates), EPISODES)
    assert team.tolist() == [number for number in range(15) for _ in range(EPISODES)]
    batch = jax.tree.map(lambda leaf: jnp.asarray(leaf[0]), rollout.batch)
    taken, players, legal = np.asarray(batch.actions), np.asarray(batch.players), np.asarray(batch.avail)
    unroll = eqx.filter_jit(lambda policy: unrolled(policy, batch))
    for number, chooser in {LEARNER: agents[0], **networks}.items():
        best = np.where(legal, np.asarray(unroll(chooser.policy)), -np.inf).argmax(axis=-1)
        mine = (players == number)[:, None, :] & np.asarray(batch.filled)[:, :, None]
        assert mine.sum() > 100
        np.testing.assert_array_equal(taken[mine], best[mine])


# ------------------------------------------------------------------------------------------------------ pairing


def test_scores_do_not_depend_on_label_company_or_chunks(
    arena: Arena, agents: list[Agent], monkeypatch: pytest.MonkeyPatch
) -> None:
    mates = arena.mates(None, agents[0].config)
    monkeypatch.setattr(heldout_module, "_GAMES", 12)  # three of five teams, so that the second call is filled up
    monkeypatch.setitem(heldout_module._GAMES_AT_ONCE, "cpu", 24)
    three = stack_agents([agent.policy for agent in agents])
    together = pool_scores(arena.env, three, "three", (1, 2, 3), mates, None, EPISODES, seed=7)
    for index, seed in enumerate((1, 2, 3)):
        alone = pool_scores(
            arena.env, stack_agents([agents[index].policy]), "one", (seed,), mates, None, EPISODES, seed=7
        )
        same = [{**row, "agent": "one"} for row in together if row["seed"] == seed]
        assert alone == same
    other = pool_scores(arena.env, three, "three", (1, 2, 3), mates, None, EPISODES, seed=8)
    assert [line["mean"] for line in other] != [line["mean"] for line in together]


def test_two_agents_see_the_same_starts_and_sit_at_the_same_tables(arena: Arena, agents: list[Agent]) -> None:
    mates = arena.mates(None, agents[0].config)
    first, second = (
        record_group(arena.env, stack_agents([agent.policy]), mates, all_teams(mates), EPISODES)[0].batch
        for agent in agents[:2]
    )
    np.testing.assert_array_equal(first.obs[0][:, 0], second.obs[0][:, 0])
    np.testing.assert_array_equal(first.players, second.players)
    np.testing.assert_array_equal(first.seat, second.seat)
    assert (first.actions != second.actions).any()


def test_a_run_is_paired_with_itself_under_another_label(folder: Path, agents: list[Agent]) -> None:
    runs = {"one": folder / "agent_1", "two": folder / "agent_1"}
    said: list[str] = []
    table = evaluate_runs(runs, folder / "pool", pool_set="training", episodes=EPISODES, say=said.append)
    assert said[0] == "one: 1 seed(s) with the set training"
    assert said[-1] == "two: 1 seed(s) with the set training, 9 of 9 teams done"
    rows = {label: [row["mean"] for row in table.where(agent=label)] for label in runs}
    assert rows["one"] == rows["two"]
    assert len(rows["one"]) == 3 * 3 * 5  # groups, teams, metrics
    assert {row["metric"] for row in table} == {"return", "ep_length", "score", "foods_left", "own_return"}
    # Asking for one group leaves its games as they are.
    alone = omg.evaluate(agents[0], pool=folder / "pool", group="3_homologue", pool_set="training", episodes=EPISODES)
    assert alone.columns == ["agent", "seed", "group", "team", "episodes", "metric", "mean"]
    assert set(alone.column("agent")) == {"iql"}
    assert [{**row, "agent": "one"} for row in alone] == list(table.where(agent="one", group="3_homologue"))
    assert alone.where(metric="score").column("team") == TEAMS[:3]


# --------------------------------------------------------------------------------------------------- cross-play


def test_the_diagonal_of_cross_play_is_self_play_in_the_same_games(arena: Arena) -> None:
    episodes, seed = EPISODES, 3
    table = Table(cross_play_arena(arena, "training", episodes, seed))
    members = [member.name for member in arena.pool.members("training")]
    assert {(row["agent"], row["mate"]) for row in table} == {(one, other) for one in members for other in members}
    name = group_names(SEATS)[0]
    key = jax.random.fold_in(jax.random.PRNGKey(seed), heldout_module.zlib.crc32(name.encode()) & 0x7FFFFFFF)
    key = jax.random.fold_in(key, 0)
    games = len(members) * episodes
    play = eqx.filter_jit(lambda policy: play_episodes(arena.env, policy, key, games, 0.0, record=False).stats)
    for index, member in enumerate(members):
        policy = arena.pool.load(member).policy
        stats = play(policy)
        own = slice(index * episodes, (index + 1) * episodes)
        for metric, values in (
            ("return", stats.returns),
            ("ep_length", stats.lengths),
            ("score", stats.metrics["score"]),
        ):
            (row,) = table.where(agent=member, mate=member, metric=metric)
            assert row["mean"] == pytest.approx(float(np.mean(np.asarray(values)[own], dtype=np.float64)), abs=1e-6)


def test_cross_play_needs_somebody_who_learned(tmp_path: Path) -> None:
    env = make_env("foraging", **GAME)
    pool = Pool.create(tmp_path / "pool", "foraging", GAME, env.spec)
    pool.add_scripted("random", "heldout")
    assert refusal(lambda: cross_play_pool(pool.path)).endswith("cross-play needs at least one learned member.")


# ------------------------------------------------------------------------------------------- API and command line


def test_what_does_not_fit_is_refused(folder: Path, agents: list[Agent], tmp_path: Path) -> None:
    pool = folder / "pool"
    message = refusal(lambda: omg.evaluate(agents[0], group="3_homologue"))
    assert message == "group: got '3_homologue', but there is no pool whose players could make it. Give pool=POOL."
    message = refusal(lambda: omg.evaluate(agents[0], pool=pool, pool_set="validation"))
    assert "the pool has no members in the set 'validation'. It has: training iql=3" in message
    message = refusal(lambda: omg.evaluate(agents[0], pool=pool, pool_set="training", group="7_homologue"))
    assert message.startswith("Unknown group of a game with 4 seats: '7_homologue'.")
    assert refusal(lambda: omg.evaluate(agents[0], pool=tmp_path)).startswith(f"{tmp_path} is not a pool:")
    assert refusal(lambda: omg.evaluate(agents[0], episodes=0)) == "episodes: got 0, allowed: 1 or more."
    smaller = tiny_agent(tmp_path / "smaller", tiny_config(tmp_path), 1)
    message = refusal(lambda: omg.evaluate(smaller, pool=pool, pool_set="training"))
    assert message == f"pool: {pool} is for foraging 4x4-4p-1f, but the agent plays foraging 4x4-2p-1f."
    runs = {"four": folder / "agent_1", "two": smaller}
    message = refusal(lambda: evaluate_runs(runs, pool, pool_set="training", episodes=1, groups=["3_homologue"]))
    assert message == "two: plays foraging 4x4-2p-1f, but the others play foraging 4x4-4p-1f."


def test_evaluate_prints_scores_differences_and_a_table(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    asked: dict[str, Any] = {}

    def scores(runs: dict[str, Path], pool: Path, **settings: Any) -> Table:
        asked.update(settings, pool=pool, runs=runs)
        cells = [(label, seed, team) for label in runs for seed in (1, 2, 3) for team in TEAMS]
        better = {"agent_1": 0.0, "agent_2": 0.25}
        return Table(
            [
                {"agent": label, "seed": seed, "group": "3_homologue", "team": team, "episodes": 4}
                | {"metric": "own_return", "mean": 0.25 + 0.01 * seed + better[label]}
                for label, seed, team in cells
            ]
        )

    monkeypatch.setattr(evaluation, "evaluate_runs", scores)
    pool = ["--pool", str(folder / "pool"), "--set", "training", "--episodes", str(EPISODES), "--metric", "own_return"]
    file = tmp_path / "scores.csv"
    words = [str(folder / "agent_1"), str(folder / "agent_2"), *pool, "--group", "3_homologue", "--csv", str(file)]
    assert main(["evaluate", *words]) == 0
    text = capsys.readouterr().out
    assert "foraging 4x4-4p-1f, set training, 4 episodes per team" in text
    assert "Compared with agent_1, on the same teams" in text
    assert re.search(r"agent_2 +3 homologue +0\.52 \[0\.51, 0\.53\] +0\.52 +0\.52 \(3xiql_s11\) +3 +5", text)
    assert re.search(r"agent_2 +3 homologue +\+0\.25 \[\+0\.2\d, \+0\.2\d\] +1 +better", text)
    assert asked == {
        "runs": {"agent_1": folder / "agent_1", "agent_2": folder / "agent_2"},
        "pool": folder / "pool",
        "pool_set": "training",
        "groups": ["3_homologue"],
        "episodes": EPISODES,
        "seed": 0,
        "which": "last",
        "step": None,
        "obs_adapter": "none",
        "apart": None,
        **{key: asked[key] for key in ("say", "begin", "note", "further")},
    }
    with file.open() as lines:
        assert [row["agent"] for row in csv.DictReader(lines)] == ["agent_1"] * 15 + ["agent_2"] * 15
    for bad, message in (
        (["--group", "7_homologue"], "Unknown group (--group) of a game with 4 seats: '7_homologue'."),
        (["--which", "worst"], "Unknown agent (--which) 'worst'."),
        (["--explore"], "--explore: with --pool agents play their best actions."),
    ):
        assert main(["evaluate", str(folder / "agent_1"), *pool, *bad]) == 2
        assert capsys.readouterr().err.startswith(f"error: {message}")
    assert main(["evaluate", str(folder / "agent_1"), "--group", "3_homologue"]) == 2
    assert capsys.readouterr().err.startswith("error: --group: needs a pool")
    assert refusal(lambda: run_labels([folder / "agent_1"] * 2)) == f"RUN: got '{folder / 'agent_1'}' twice."


def test_crossplay_writes_a_matrix(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    names = [member.name for member in Pool.open(folder / "pool")]
    means = {(one, other): index / 7 for index, (one, other) in enumerate(itertools.product(names, names))}
    table = Table(
        [
            {"agent": one, "mate": other, "metric": metric, "mean": mean, "episodes": 4}
            for (one, other), mean in means.items()
            for metric in ("return", "score")
        ]
    )
    monkeypatch.setattr(evaluation, "cross_play_pool", lambda *_, **__: table)
    words = ["crossplay", str(folder / "pool"), "--episodes", str(EPISODES), "--output", str(tmp_path / "out")]
    assert main(words) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert names in lines
    assert ["iql_s12", *(f"{means['iql_s12', mate]:.2f}" for mate in names)] in lines
    with (tmp_path / "out" / "crossplay.csv").open() as file:
        assert len(list(csv.DictReader(file))) == 50
    assert (tmp_path / "out" / "crossplay.png").read_bytes().startswith(b"\x89PNG")
    assert main([*words, "--metric", "scor"]) == 2
    assert capsys.readouterr().err.startswith("error: Unknown metric 'scor'. Did you mean 'score'?")
    monkeypatch.setattr(experiments, "_MOST_PLAYERS", 4)
    assert main(words) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["itself", "iql", "nearest_food", "random"] in lines
    itself = sum(means[f"iql_s{seed}", f"iql_s{seed}"] for seed in (11, 12, 13)) / 3
    others = [means["iql_s11", "iql_s12"], means["iql_s11", "iql_s13"], means["iql_s12", "iql_s11"]]
    others += [means["iql_s12", "iql_s13"], means["iql_s13", "iql_s11"], means["iql_s13", "iql_s12"]]
    (line,) = [line for line in lines if line[:1] == ["iql"]]
    assert line[1:3] == [f"{itself:.2f}", f"{sum(others) / 6:.2f}"]


def test_an_agent_with_subgoals_is_measured_on_real_games(arena: Arena) -> None:
    own = tiny_config(Path("."), "iql_omg", env_args=TABLE, subgoal_dim=4, am_hidden_dim=8, seeds=3)
    contestants = untrained(own, arena.env)
    rows = inference.inference_rows(contestants, arena, None, episodes=20)
    # A view of foraging as it comes says where nobody is: these subgoals tell no places.
    expected = [measure.name for measure in (*MEASURES, *PROBES) if "place" not in measure.name]
    assert [row["measure"] for row in rows] == expected
    by_name = {row["measure"]: row for row in rows}
    assert by_name["policy named by the subgoal"]["meaning"].endswith("(5 of them)")
    assert by_name["policy gain"]["value"] == pytest.approx(
        by_name["policy named by the subgoal"]["value"] - by_name["policy named by the observation"]["value"]
    )
    assert all(row["low"] <= row["value"] <= row["high"] for row in rows)
    by_name = {row["measure"]: row["value"] for row in rows}
    assert by_name["policy from the model"] == by_name["policy named by the subgoal"]
    # Without a model, what the agent remembers is left to be probed.
    alone = inference.inference_rows(untrained(config(), arena.env), arena, None, episodes=20)
    assert [row["measure"] for row in alone] == [probe.name for probe in PROBES if "model" not in probe.name]
