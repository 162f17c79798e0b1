"""Told apart after so many steps: posteriors worked out by hand, and scripts that show at once who they are."""

from __future__ import annotations

import math

import jax
import numpy as np
import pytest

from helpers.tiny import GAME
from omg.controllers.base import Player
from omg.controllers.scripted import build_scripted
from omg.controllers.team import build_squad
from omg.envs import make_env
from omg.errors import UserError
from omg.evaluation.beliefs import team_evidence, told_apart, told_apart_rows
from omg.evaluation.groups import Group, MemberName, make_groups
from omg.evaluation.heldout import Mates


def mates(env: object, *names: str) -> Mates:
    players: list[Player] = [build_scripted(name, env) for name in names]
    squad, position = build_squad(players)
    return Mates(tuple(MemberName(f"{name}_{i}", name) for i, name in enumerate(names)), squad, tuple(position))


def test_posteriors_by_hand():
    group = Group("1_partner", ("one", "other", "twin"), np.array([[0], [1], [2]], np.int32))
    half, most = math.log(0.5), math.log(0.99)
    few = math.log(0.01)
    # Game 0, with `one`: nothing to see, then a step that `one` takes nearly always and the others never. Games 1
    # and 2 end after one step that tells nothing.
    nothing = [[half, 0.0], [half, 0.0]]
    evidence = np.array([[[half, most], *nothing], [[half, few], *nothing], [[half, few], *nothing]])
    played = np.array([[True, True], [True, False], [True, False]])
    one, other, twin = told_apart_rows(group, evidence, played, np.array([0, 1, 2]))
    assert (one.reached, one.steps, one.episodes, one.same_as) == (1.0, 2.0, 1, "")
    assert one.posterior == pytest.approx(0.99 / 1.01)
    assert (other.reached, other.same_as) == (0.0, "twin")
    assert math.isnan(other.steps)
    assert other.posterior == pytest.approx(1 / 3)
    assert (twin.same_as, twin.episodes) == ("other", 1)


def test_evidence_is_of_the_mates_in_their_order_round_the_table():
    rng = np.random.default_rng(0)
    logs = rng.normal(size=(2, 3, 4, 3))
    group = Group("2_homologue", ("a", "b"), np.array([[0, 1], [1, 0]], np.int32))
    evidence = team_evidence(logs, group, (1, 0), np.array([0, 1, 2]))
    assert evidence.shape == (2, 3, 4)
    # In game 1 the agent has seat 1: the first mate sits in seat 2, the second in seat 0. Member 0 is player 1.
    np.testing.assert_allclose(evidence[0, 1], logs[1, 1, :, 2] + logs[0, 1, :, 0])
    np.testing.assert_allclose(evidence[1, 2], logs[0, 2, :, 0] + logs[1, 2, :, 1])


def test_scripts_are_told_apart_and_the_same_script_twice_is_not():
    env = make_env("foraging", **GAME)
    who = mates(env, "nearest_food", "random", "random")
    (group,) = make_groups(who.members, 2)
    rows = {row.team: row for row in told_apart(env, build_scripted("nearest_food", env), who, group, 24)}
    food, one, twin = rows["1xnearest_food_0"], rows["1xrandom_1"], rows["1xrandom_2"]
    assert (one.same_as, twin.same_as, food.same_as) == (twin.team, one.team, "")
    assert one.reached == twin.reached == 0.0
    assert 0.3 < one.posterior <= 0.5
    assert food.posterior > 0.7
    assert food.reached > 0.25
    assert 2 <= food.steps <= 8


def test_players_whose_chances_are_not_known_are_refused():
    env = make_env("foraging", **GAME)
    who = mates(env, "random")
    strange = who._replace(squad=type(who.squad)((jax.random.PRNGKey(0),), (1,)))
    (group,) = make_groups(who.members, 2)
    with pytest.raises(UserError, match="pool: how likely"):
        told_apart(env, build_scripted("random", env), strange, group, 2)
