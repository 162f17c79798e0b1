"""How likely players are to act: what they say of it agrees with what they do, and likelihoods with both."""

from __future__ import annotations

from collections import Counter
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers.played import SPEC, A, U, config, drawn
from helpers.tiny import GAME
from omg.components import SELECTOR_CHANCES, SELECTORS
from omg.controllers import build_mac
from omg.controllers.adapted import ObsAdapter, adapt_mac
from omg.controllers.base import Likely, Player, PlayerView
from omg.controllers.basic import BasicMAC
from omg.controllers.draw import TeamDraw, TeamSlots
from omg.controllers.likelihood import check_likely, floored, log_chances
from omg.controllers.scripted import SCRIPTED, build_scripted, scripted_names
from omg.controllers.scripted.base import ScriptedPlayer
from omg.controllers.team import TeamPolicy, build_squad
from omg.envs import Env, make_env
from omg.errors import UserError
from omg.runners.vector import play_episodes

KEY = jax.random.PRNGKey(5)
DRAWS = 1500
GAMES: dict[str, dict[str, Any]] = {
    "foraging": {"rows": 5, "cols": 5, "players": 3, "max_food": 2, "sight": 2},
    "sc2": {"map_name": "3m"},
    "stag_hunt": {"size": 4, "players": 2, "stags": 1, "hares": 1},
    "snowdrift": {"size": 4, "players": 2, "drifts": 2},
}
"""Options of games that are smaller, or more crowded, than the games themselves."""


def everybody(env: Env, seen: Any) -> PlayerView:
    shape = seen.avail.shape[:2]
    seats = jnp.broadcast_to(jnp.arange(shape[1], dtype=jnp.int32), shape)
    return PlayerView(seen.obs, seen.state, seen.avail, seats, jnp.full(shape, -1, jnp.int32))


@eqx.filter_jit
def tried(player: Any, view: PlayerView, memory: Any, key: jax.Array) -> tuple[jax.Array, ...]:
    """What the player says of its actions [N, m, U], how often it took each, and both memories."""
    said, kept = player.chances(view, memory)

    def act(key: jax.Array) -> tuple[jax.Array, Any]:
        actions, memory_after, _ = player.act_seats(view, memory, key, 0.0)
        return jax.nn.one_hot(actions, view.avail.shape[-1]), memory_after

    taken, after = jax.vmap(act)(jax.random.split(key, DRAWS))
    return said, taken.mean(axis=0), kept, jax.tree.map(lambda leaf: leaf[0], after)


def assert_agree(said: Any, taken: Any) -> None:
    """Frequencies lie within five standard deviations of the chances; what is certain always happens."""
    said, taken = np.asarray(said, np.float64), np.asarray(taken, np.float64)
    np.testing.assert_allclose(said.sum(axis=-1), 1.0, atol=1e-5)
    spread = np.sqrt(np.clip(said * (1.0 - said), 0.0, None) / DRAWS)
    assert (np.abs(taken - said) <= 5.0 * spread + 3.0 * (spread > 1e-4) / DRAWS + 1e-6).all()


@pytest.mark.parametrize("name", sorted({env for entry in SCRIPTED.values() for env in entry.traits.envs}))
def test_scripts_act_as_they_say(name: str):
    env = make_env(name, **GAMES.get(name, {}))
    # Of scripts that differ only in their numbers a few will do.
    kinds = Counter[type]()
    players = []
    for player in (build_scripted(script, env) for script in scripted_names(name)):
        kinds[type(player)] += 1
        players += [player] * (kinds[type(player)] <= 5)

    # Views from games in which everybody plays at random for a while: crowds, food alone, nothing in sight.
    @jax.jit
    def wander(key: jax.Array) -> Any:
        def step(carry: Any, key: jax.Array) -> Any:
            world, seen = carry
            actions = build_scripted("random", env).choose(seen.obs, seen.avail, None, key)
            world, seen, _ = env.step(key, world, actions)
            return (world, seen), seen

        return jax.lax.scan(step, env.reset(key, 12), jax.random.split(key, 6))[1]

    views = wander(KEY)
    flat = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), views)
    for player in players:
        assert isinstance(player, Likely)
        said, taken, kept, _ = tried(player, everybody(env, flat), None, KEY)
        assert kept is None
        assert_agree(said, taken)
        assert not (np.asarray(said) > 0)[~np.asarray(flat.avail)].any()


PLAYERS: dict[str, dict[str, Any]] = {
    "greedy": {},
    "soft": {"action_selector": "multinomial", "test_greedy": False},
    "tested greedily": {"action_selector": "multinomial", "test_greedy": True},
    "late mask": {"action_selector": "multinomial", "mask_before_softmax": False, "test_greedy": False},
    "softmax": {"action_selector": "softmax", "test_greedy": False},
    "subgoals": {"am_model": "omg_am", "omg_sample": True, "obs_all_last_actions": True},
    "state": {"obs_is_state": True, "action_selector": "softmax", "test_greedy": False},
}


def player(name: str) -> BasicMAC:
    mac: BasicMAC = drawn(jax.eval_shape(lambda: build_mac(config(**PLAYERS[name]), SPEC, KEY)), 1)
    return mac.tested()


def view_at(step: int, games: int = 6) -> PlayerView:
    rng = np.random.default_rng(step)
    avail = rng.random((games, A, U)) < 0.6
    avail[..., 2] = True
    last = np.full((games, A), -1) if step == 0 else rng.integers(0, U, (games, A))
    numbers = (rng.normal(size=(games, A, SPEC.obs_dim)), rng.normal(size=(games, SPEC.state_dim)))
    seats = np.broadcast_to(np.arange(A), (games, A))
    return PlayerView(
        *(jnp.asarray(part, jnp.float32) for part in numbers),
        jnp.asarray(avail),
        *(jnp.asarray(part, jnp.int32) for part in (seats, last)),
    )


@pytest.mark.parametrize("name", PLAYERS)
def test_networks_act_as_they_say_and_remember_the_same(name: str):
    mac = player(name)
    assert isinstance(mac, Likely)
    memory = mac.initial_seats(6, A)
    certain = []
    for step in range(3):
        said, taken, memory, after = tried(mac, view_at(step), memory, KEY)
        assert_agree(said, taken)
        jax.tree.map(lambda one, other: np.testing.assert_allclose(one, other, atol=1e-6), memory, after)
        certain.append(bool((np.asarray(said).max(axis=-1) == 1.0).all()))
    drawing = PLAYERS[name].get("test_greedy") is False
    assert certain == [not drawing] * 3


def test_every_selector_says_its_chances():
    assert set(SELECTOR_CHANCES) == set(SELECTORS)


def test_a_player_with_estimates_says_what_its_network_says():
    mac = player("state")
    rng = np.random.default_rng(0)
    adapter = ObsAdapter(
        jnp.asarray(rng.normal(size=(A, SPEC.obs_dim, SPEC.state_dim)), jnp.float32), jnp.zeros((A, SPEC.state_dim))
    )
    said, taken, _, _ = tried(adapt_mac(mac, adapter), view_at(1), mac.initial_seats(6, A), KEY)
    assert_agree(said, taken)


class Coin(ScriptedPlayer):
    """Draws, and does not say how."""

    def choose(self, obs: jax.Array, avail: jax.Array, seats: jax.Array, key: jax.Array) -> jax.Array:
        return jax.random.randint(key, avail.shape[:2], 0, 2)


def test_chances_that_nobody_knows_are_refused():
    view = view_at(0)
    with pytest.raises(UserError, match="Coin: this script draws"):
        Coin().chances(view, None)
    with pytest.raises(UserError, match="mystery: how likely a str"):
        check_likely("no player", "mystery")


def test_likelihoods_of_recorded_games():
    env = make_env("foraging", **GAME)
    soft = config(action_selector="softmax", test_greedy=False, obs_all_last_actions=True)
    macs = [drawn(jax.eval_shape(lambda: build_mac(soft, env.spec, KEY)), seed) for seed in (1, 2)]
    # Louder than new networks are: those draw nearly uniformly and cannot be told apart.
    macs = [jax.tree.map(lambda leaf: 3.0 * leaf, mac) for mac in macs]
    players: list[Player] = [macs[0], build_scripted("random", env), macs[1], build_scripted("nearest_food", env)]
    squad, position = build_squad(players)
    team = TeamPolicy(None, squad, TeamDraw((TeamSlots(2, tuple(range(4))),), "mixed"))
    batch = jax.jit(lambda key: play_episodes(env, team, key, 16, 0.0).batch)(KEY)
    assert batch is not None
    logs = np.asarray(jax.jit(lambda batch: log_chances(squad, batch, floor=0.01))(batch))
    assert logs.shape == (4, 16, env.spec.episode_limit, 2)
    played = np.asarray(batch.filled)[:, :-1]
    assert (logs[:, ~played] == 0.0).all()
    assert np.isfinite(logs).all()

    # The same by playing each player along by itself, in the second seat.
    for player, number in zip(players, position, strict=True):
        memory = player.initial_seats(16, 1)
        for t in range(3):
            last = batch.actions[:, t - 1] if t else jnp.full((16, 2), -1, jnp.int32)
            one = jnp.ones((16, 1), jnp.int32)
            view = PlayerView(batch.obs[:, t, 1:], batch.state[:, t], batch.avail[:, t, 1:], one, last)
            chances, memory = check_likely(player, "it").chances(view, memory)
            mixed = np.asarray(floored(chances, view.avail, 0.01))[:, 0]
            expected = np.log(mixed[np.arange(16), np.asarray(batch.actions[:, t, 1])])
            np.testing.assert_allclose(logs[number, :, t, 1], np.where(played[:, t], expected, 0.0), atol=1e-5)
    # Who sat there is the likeliest on average.
    assert batch.players is not None
    sums = logs.sum(axis=2)
    sat = np.asarray(batch.players)
    means = np.array([[sums[other][sat == who].mean() for other in range(4)] for who in range(4)])
    assert (means.argmax(axis=1) == np.arange(4)).all()
