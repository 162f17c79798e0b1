"""Belief players: beliefs by hand and by recorded likelihoods, memories that go along, and scores in a small game."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers.played import config, drawn
from helpers.tiny import GAME
from omg.controllers import build_mac
from omg.controllers.base import Likely, Player, PlayerView, WatchesOthers
from omg.controllers.basic import BasicMAC
from omg.controllers.belief import BeliefPlayer, belief_player
from omg.controllers.draw import TeamDraw, TeamSlots
from omg.controllers.likelihood import log_chances
from omg.controllers.scripted import build_scripted
from omg.controllers.team import TeamPolicy, build_squad
from omg.envs import Env, make_env
from omg.errors import UserError
from omg.runners.vector import play_episodes

KEY = jax.random.PRNGKey(2)
CORNERS = ("corner_nw", "corner_ne", "corner_se", "corner_sw")


def seated(player: Player, mates: list[Player], slots: int = 1) -> TeamPolicy:
    """The player in one seat, a mate in all others, every mate in as many games."""
    squad, position = build_squad(mates)
    return TeamPolicy(player, squad, TeamDraw((TeamSlots(1, ()), TeamSlots(slots, tuple(position)))))


def network(env: Env, seed: int) -> BasicMAC:
    """A player that remembers, draws, and is not like another one."""
    soft = config(action_selector="softmax", test_greedy=False, obs_all_last_actions=True)
    mac: BasicMAC = jax.tree.map(
        lambda leaf: 3.0 * leaf, drawn(jax.eval_shape(lambda: build_mac(soft, env.spec, KEY)), seed)
    )
    return mac


@pytest.mark.parametrize(
    ("plastic", "mixture", "low", "high"),
    [(False, False, 0.85, 0.9), (True, False, 0.85, 0.9), (False, True, 0.8, 0.9)],
)
def test_whoever_believes_meets_in_nearly_every_round(plastic: bool, mixture: bool, low: float, high: float):
    """The optimum with four corners is 0.875; a best response to one of them alone reaches 0.375."""
    env = make_env("rendezvous")
    corners: list[Player] = [build_scripted(name, env) for name in CORNERS]
    player = belief_player(env.spec, corners, corners, plastic=plastic, mixture=mixture)
    assert isinstance(player, Likely)
    assert isinstance(player, WatchesOthers)
    team = seated(player, corners)
    stats = jax.jit(lambda key: play_episodes(env, team, key, 400, 0.0, record=False).stats)(KEY)
    assert low < float(stats.metrics["met"].mean()) < high


def test_updates_by_hand():
    env = make_env("rendezvous")
    corners: list[Player] = [build_scripted(name, env) for name in CORNERS[:2]]
    # One game; the agent in seat 1. Chances of the partners in seat 0 for the action that was taken: 0.5 and 0.2.
    expected = jnp.zeros((1, 2, 2, 5)).at[0, :, 0, 3].set(jnp.asarray([0.5, 0.2])).at[0, :, 1].set(0.7)
    view = PlayerView(
        *(jnp.zeros(0),) * 3, seats=jnp.asarray([[1]], jnp.int32), last_actions=jnp.asarray([[3, 1]], jnp.int32)
    )
    for changes, factors in (
        ({"plastic": True}, [1 - 0.1 * 0.5, 1 - 0.1 * 0.8]),
        ({"plastic": True, "eta": 0.5}, [0.75, 0.6]),
        ({"plastic": False}, [0.5, 0.2]),
    ):
        player = belief_player(env.spec, corners, corners, **changes)
        np.testing.assert_allclose(player.evidence(view, expected), np.log([factors]), rtol=1e-5)
        before = view._replace(last_actions=jnp.full((1, 2), -1, jnp.int32))
        assert (np.asarray(player.evidence(before, expected)) == 0.0).all()
    for name in ("eta", "floor"):
        with pytest.raises(UserError, match=f"{name}: got 1.0, allowed: above 0 and below 1"):
            belief_player(env.spec, corners, corners, **{name: 1.0})


def test_beliefs_are_the_posterior_of_what_was_done_in_teams_of_several():
    env = make_env("foraging", **{**GAME, "players": 3})
    partners: list[Player] = [network(env, 1), build_scripted("nearest_food", env), network(env, 2)]
    player = belief_player(env.spec, partners, [network(env, 3)] * 3, plastic=False, floor=0.01)
    team = seated(player, partners, slots=2)
    batch = jax.jit(lambda key: play_episodes(env, team, key, 12, 0.0).batch)(KEY)
    assert batch is not None
    squad, position = build_squad(partners)
    logs = np.asarray(jax.jit(lambda batch: log_chances(squad, batch, 0.01))(batch))[np.asarray(position)]
    others = np.arange(3) != np.asarray(batch.seat)[:, None]
    total = np.where(others[None, :, None], logs, 0.0).sum(axis=3).cumsum(axis=2)
    expected = np.exp(total - np.logaddexp.reduce(total, axis=0))
    found = np.asarray(batch.records["belief"])[:, :, 0]
    np.testing.assert_allclose(found[:, 0], 1 / 3, rtol=1e-6)
    played = np.asarray(batch.filled)
    for step in range(1, played.shape[1]):
        alive = played[:, step]
        np.testing.assert_allclose(found[alive, step], expected[:, alive, step - 1].T, atol=1e-4)
    assert found[played].max() > 0.9


def test_a_response_acts_as_it_would_alone():
    """Its memory goes along whoever is believed in: the one response of two partners is that player."""
    env = make_env("foraging", **GAME)
    partners: list[Player] = [network(env, 1), network(env, 2)]
    alone = network(env, 3)
    greedy = dataclasses.replace(alone, selector="epsilon_greedy")
    player = belief_player(env.spec, partners, [greedy, greedy])

    def played(main: Player) -> Any:
        team = seated(main, [build_scripted("nearest_food", env)])
        return jax.jit(lambda key: play_episodes(env, team, key, 8, 0.0).batch)(KEY)

    one, other = played(greedy), played(player)
    np.testing.assert_array_equal(one.actions, other.actions)
    assert len(np.unique(np.asarray(one.actions)[np.asarray(one.filled)])) > 1


def test_memory_begins_with_the_axis_of_games_and_players_can_be_stacked():
    env = make_env("foraging", **GAME)
    player = belief_player(env.spec, [network(env, 1), build_scripted("random", env)], [network(env, 2)] * 2)
    memory = jax.eval_shape(lambda: player.initial_seats(5, 1))
    assert {leaf.shape[0] for leaf in jax.tree.leaves(memory)} == {5}
    squad, _ = build_squad([player, player])
    assert isinstance(squad.kinds[0], BeliefPlayer)
    assert squad.numbers == (2,)
