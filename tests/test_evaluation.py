"""Evaluation with a pool: which teams there are, that everybody meets the same games, and that nobody loses a seat."""

from __future__ import annotations

import csv
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import omg
from omg.cli import main
from omg.config import Config
from omg.controllers import LEARNER
from omg.envs import make_env
from omg.errors import UserError
from omg.evaluation import MemberName, group_names, load_mates, make_groups, pool_scores, record_group, stack_agents
from omg.evaluation import heldout as heldout_module
from omg.evaluation.heldout import lineups
from omg.experiments import inference
from omg.experiments.evaluation import Arena, cross_play_pool, evaluate_runs, run_labels, untrained
from omg.pools import Agent, Pool, load_agent
from omg.runners import play_episodes
from tiny import GAME, tiny_agent, tiny_config, tiny_pool

SEATS = 4
TABLE = {**GAME, "players": SEATS}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A pool of three networks and a script for four seats, and three agents that play like nobody in it."""
    base = tmp_path_factory.mktemp("evaluation")
    tiny_pool(base / "pool", (11, 12, 13), "nearest_food", env_args=TABLE)
    for seed in (1, 2, 3):
        tiny_agent(base / f"agent_{seed}", config(), seed)
    return base


def config() -> Config:
    return tiny_config(Path("."), env_args=TABLE)


@pytest.fixture(scope="module")
def arena(folder: Path) -> Arena:
    return Arena(folder / "pool")


@pytest.fixture(scope="module")
def agents(folder: Path) -> list[Agent]:
    return [load_agent(folder / f"agent_{seed}") for seed in (1, 2, 3)]


def refusal(call: Any) -> str:
    with pytest.raises(UserError) as refused:
        call()
    return str(refused.value)


# --------------------------------------------------------------------------------------------------- groups of teams

pools = st.lists(st.sampled_from("abc"), min_size=1, max_size=9).map(
    lambda letters: [MemberName(f"{letter}_s{index}", letter) for index, letter in enumerate(letters)]
)


@settings(max_examples=60, deadline=None)
@given(members=pools, n_agents=st.integers(2, 9), seed=st.integers(0, 5))
def test_groups_are_what_their_names_say(members: list[MemberName], n_agents: int, seed: int) -> None:
    others = n_agents - 1
    groups = make_groups(members, n_agents, None, seed)
    assert [group.name for group in groups] == group_names(n_agents)
    several = len({member.algorithm for member in members}) > 1
    for group in groups:
        assert group.mates.shape == (len(members), others)
        assert len(group.teams) == len(members)
        for index, row in enumerate(group.mates):
            if group.name in (f"{others}_homologue", "1_partner"):
                assert set(row) == {index}
            elif group.name == f"{others - 1}_homologue":
                assert set(row[:-1]) == {index}
                other = members[row[-1]]
                assert other.algorithm != members[index].algorithm if several else True
                assert other != members[index] or len(members) == 1
            else:
                seats = Counter(members[mate].algorithm for mate in row)
                assert max(seats.values()) - min(seats.values()) <= 1
                assert len(seats) == min(others, len({member.algorithm for member in members}))
                for algorithm, taken in seats.items():
                    there = [i for i, member in enumerate(members) if member.algorithm == algorithm]
                    assert len({mate for mate in row if mate in there}) == min(taken, len(there))
        (alone,) = make_groups(members, n_agents, [group.name], seed)
        np.testing.assert_array_equal(alone.mates, group.mates)
        assert alone.teams == group.teams


def test_group_names_of_the_games_of_the_field() -> None:
    assert group_names(8) == ["7_homologue", "6_homologue", "7_nonhomologue"]
    assert group_names(3) == ["2_homologue", "2_nonhomologue"]
    assert group_names(2) == ["1_partner"]
    members = [MemberName("a_s1", "a"), MemberName("b_s1", "b")]
    assert make_groups(members, 4, ["2_homologue"])[0].teams == ("2xa_s1+1xb_s1", "2xb_s1+1xa_s1")
    message = refusal(lambda: make_groups(members, 4, ["3_homolog"]))
    assert message.startswith("Unknown group of a game with 4 seats: '3_homolog'. Did you mean '3_homologue'? Allowed:")


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
    mates = arena.mates("training", agents[0].config)
    networks = {mates.position[i]: arena.pool.load(member.name) for i, member in enumerate(mates.members[:3])}
    for name in group_names(SEATS):
        (group,) = make_groups(mates.members, SEATS, [name])
        rollout, team = record_group(arena.env, stack_agents([agents[0].policy]), mates, group, 4)
        batch = jax.tree.map(lambda leaf: jnp.asarray(leaf[0]), rollout.batch)
        taken, players = np.asarray(batch.actions), np.asarray(batch.players)
        played = np.asarray(batch.filled)
        assert team.tolist() == [0] * 4 + [1] * 4 + [2] * 4 + [3] * 4
        choosers = {LEARNER: agents[0], **networks}
        for number, chooser in choosers.items():
            q = np.asarray(chooser.policy.unroll(batch))
            best = np.where(np.asarray(batch.avail), q, -np.inf).argmax(axis=-1)
            mine = (players == number)[:, None, :] & played[:, :, None]
            assert mine.sum() > 0
            np.testing.assert_array_equal(taken[mine], best[mine])


# ------------------------------------------------------------------------------------------------------ pairing


def test_scores_do_not_depend_on_label_company_chunks_or_other_groups(
    arena: Arena, agents: list[Agent], monkeypatch: pytest.MonkeyPatch
) -> None:
    mates = arena.mates("training", agents[0].config)
    monkeypatch.setattr(heldout_module, "_GAMES", 12)
    monkeypatch.setitem(heldout_module._GAMES_AT_ONCE, "cpu", 24)
    three = stack_agents([agent.policy for agent in agents])
    together = pool_scores(arena.env, three, "three", (1, 2, 3), mates, None, 5, seed=7)
    for index, seed in enumerate((1, 2, 3)):
        alone = pool_scores(arena.env, stack_agents([agents[index].policy]), "one", (seed,), mates, None, 5, seed=7)
        same = [{**row, "agent": "one"} for row in together if row["seed"] == seed]
        assert alone == same
    (row,) = [
        row
        for row in pool_scores(arena.env, three, "three", (1, 2, 3), mates, ["2_homologue"], 5, seed=7)
        if (row["seed"], row["team"], row["metric"]) == (2, "2xiql_s12+1xnearest_food", "ep_length")
    ]
    assert row in together
    other = pool_scores(arena.env, three, "three", (1, 2, 3), mates, None, 5, seed=8)
    assert [line["mean"] for line in other] != [line["mean"] for line in together]


def test_two_agents_see_the_same_starts_and_sit_at_the_same_tables(arena: Arena, agents: list[Agent]) -> None:
    mates = arena.mates("training", agents[0].config)
    (group,) = make_groups(mates.members, SEATS, ["3_nonhomologue"])
    first, second = (
        record_group(arena.env, stack_agents([agent.policy]), mates, group, 4)[0].batch for agent in agents[:2]
    )
    np.testing.assert_array_equal(first.obs[0][:, 0], second.obs[0][:, 0])
    np.testing.assert_array_equal(first.players, second.players)
    np.testing.assert_array_equal(first.seat, second.seat)
    assert (first.actions != second.actions).any()


def test_a_run_is_paired_with_itself_under_another_label(folder: Path) -> None:
    table = evaluate_runs(
        {"one": folder / "agent_1", "two": folder / "agent_1"}, folder / "pool", pool_set="training", episodes=4
    )
    rows = {label: [row["mean"] for row in table.where(agent=label)] for label in ("one", "two")}
    assert rows["one"] == rows["two"]
    assert len(rows["one"]) == 3 * 4 * 5  # groups, teams, metrics
    assert {row["metric"] for row in table} == {"return", "ep_length", "score", "foods_left", "own_return"}


# --------------------------------------------------------------------------------------------------- cross-play


def test_the_diagonal_of_cross_play_is_self_play_in_the_same_games(folder: Path, arena: Arena) -> None:
    episodes, seed = 6, 3
    table = cross_play_pool(folder / "pool", episodes=episodes, seed=seed)
    members = [member.name for member in arena.pool]
    assert {(row["agent"], row["mate"]) for row in table} == {(one, other) for one in members for other in members}
    name = group_names(SEATS)[0]
    key = jax.random.fold_in(jax.random.PRNGKey(seed), heldout_module.zlib.crc32(name.encode()) & 0x7FFFFFFF)
    key = jax.random.fold_in(key, 0)
    games = len(members) * episodes
    for index, member in enumerate(members[:3]):
        policy = arena.pool.load(member).policy
        stats = play_episodes(arena.env, policy, key, games, 0.0, record=False).stats
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


def test_the_api_evaluates_with_a_pool(folder: Path, agents: list[Agent]) -> None:
    table = omg.evaluate(agents[0], pool=folder / "pool", group="3_homologue", pool_set="training", episodes=4)
    assert set(table.column("group")) == {"3_homologue"}
    assert table.columns == ["agent", "seed", "group", "team", "episodes", "metric", "mean"]
    assert table.where(metric="score").column("team") == ["3xiql_s11", "3xiql_s12", "3xiql_s13", "3xnearest_food"]
    assert set(table.column("agent")) == {"iql"}
    same = evaluate_runs(
        {"iql": folder / "agent_1"}, folder / "pool", pool_set="training", groups=["3_homologue"], episodes=4
    )
    assert list(table) == list(same)


def test_what_does_not_fit_is_refused(folder: Path, agents: list[Agent], tmp_path: Path) -> None:
    pool = folder / "pool"
    message = refusal(lambda: omg.evaluate(agents[0], group="3_homologue"))
    assert message == "group: got '3_homologue', but there is no pool whose players could make it. Give pool=POOL."
    message = refusal(lambda: omg.evaluate(agents[0], pool=pool))
    assert "the pool has no members in the set 'heldout'. It has: training iql=3" in message
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
    pool = ["--pool", str(folder / "pool"), "--set", "training", "--episodes", "4", "--metric", "own_return"]
    file = tmp_path / "scores.csv"
    words = [str(folder / "agent_1"), str(folder / "agent_2"), *pool, "--group", "3_homologue", "--csv", str(file)]
    assert main(["evaluate", *words]) == 0
    text = capsys.readouterr().out
    assert "foraging 4x4-4p-1f, set training, 4 episodes per team" in text
    assert "Compared with agent_1, on the same teams" in text
    assert "no difference shown" in text  # one seed each gives no interval
    with file.open() as lines:
        rows = list(csv.DictReader(lines))
    assert {row["agent"] for row in rows} == {"agent_1", "agent_2"}
    assert len(rows) == 2 * 4 * 5
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
    words = ["crossplay", str(folder / "pool"), "--episodes", "6", "--output", str(tmp_path / "out")]
    assert main(words) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    with (tmp_path / "out" / "crossplay.csv").open() as file:
        means = {
            (row["agent"], row["mate"]): float(row["mean"]) for row in csv.DictReader(file) if row["metric"] == "score"
        }
    assert ["iql_s11", "iql_s12", "iql_s13", "nearest_food"] in lines
    assert ["iql_s12", *(f"{means['iql_s12', mate]:.2f}" for mate in lines[2])] in lines
    assert (tmp_path / "out" / "crossplay.png").read_bytes().startswith(b"\x89PNG")
    assert main([*words, "--metric", "scor"]) == 2
    assert capsys.readouterr().err.startswith("error: Unknown metric 'scor'. Did you mean 'score'?")


# --------------------------------------------------------------------------------------- what the subgoals know


def played(rng: np.random.Generator, teams: int = 4, each: int = 8, slots: int = 9) -> inference.Played:
    """Games whose views wander at random, of unequal lengths; the subgoal is the view three steps ahead."""
    games = teams * each
    seen = rng.normal(size=(games, slots, 5)).cumsum(axis=1)
    length = rng.integers(4, slots, games)
    ahead = np.minimum(np.arange(slots) + 3, length[:, None])
    future = np.take_along_axis(seen, ahead[..., None], axis=1)
    return inference.Played(seen, future, length, np.repeat(np.arange(teams), each))


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
    identity = SimpleNamespace(normalise=lambda values: values, decode_normalised=lambda values: values)
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
        {"seed": seed, "t_env": t_env, "name": name, "value": value if t_env else 9.0}
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


def test_an_agent_with_subgoals_is_measured_on_real_games(arena: Arena) -> None:
    own = tiny_config(Path("."), "iql_omg", env_args=TABLE, subgoal_dim=4, am_hidden_dim=8, seeds=3)
    contestants = untrained(own, arena.env)
    rows = inference.inference_rows(contestants, arena, "training", episodes=20)
    assert [row["measure"] for row in rows] == list(inference.MEANINGS)
    by_name = {row["measure"]: row for row in rows}
    assert by_name["policy named by the subgoal"]["meaning"].endswith("(4 of them)")
    assert by_name["policy gain"]["value"] == pytest.approx(
        by_name["policy named by the subgoal"]["value"] - by_name["policy named by the observation"]["value"]
    )
    assert all(row["low"] <= row["value"] <= row["high"] for row in rows)
    assert inference.inference_rows(untrained(config(), arena.env), arena, "training") == []
    assert load_mates(arena.pool, "training", own, arena.env).members == arena.mates("training", own).members
