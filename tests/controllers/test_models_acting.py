"""Opponent models while acting: the features are those that learning sees, and every slot of a game has its own."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import numpy as np
import pytest
from jax import Array

from helpers.played import PARTNERS, SPEC, A, B, T, U, config, drawn, episodes, fast_jit, unrolled
from helpers.tiny import GAME
from omg.components import EpisodeBatch
from omg.controllers import build_mac
from omg.controllers.base import PlayerView
from omg.controllers.basic import BasicMAC
from omg.controllers.draw import TeamDraw, TeamSlots
from omg.controllers.team import TeamPolicy, build_squad
from omg.envs import make_env
from omg.modules.opponent_models import OPPONENT_MODELS
from omg.runners.vector import play_episodes

KEY = jax.random.key(3)
MODELS = sorted(name for name, entry in OPPONENT_MODELS.items() if not entry.traits.absent)


@pytest.mark.parametrize("obs_is_state", [False, True])
@pytest.mark.parametrize(
    ("name", "feature"),
    [*((name, "code") for name in MODELS), ("omg_am", "view")],
)
def test_acting_uses_the_features_that_learning_sees(name: str, feature: str, obs_is_state: bool):
    """The actions of `act`, one step at a time, are the best ones by the values unrolled with unrolled features."""
    settings = config(
        am_model=name, obs_is_state=obs_is_state, obs_all_last_actions=True, omg_sample=False, omg_feature=feature
    )
    mac = drawn(jax.eval_shape(lambda: build_mac(settings, SPEC, KEY, PARTNERS)), 1)
    # The features must matter: their rows are the last of the first layer.
    rows = mac.agent.sizes.feature_dim
    louder = np.concatenate([mac.agent.fc1.weight[:-rows], 5.0 * mac.agent.fc1.weight[-rows:]])
    mac = eqx.tree_at(lambda mac: mac.agent.fc1.weight, mac, louder)
    every: Any = np.ones((B, T + 1, A, U), bool)
    players: Any = np.random.default_rng(1).integers(-1, PARTNERS, (B, A)).astype(np.int32)
    batch = episodes()._replace(avail=every, players=players)
    memory, chosen, notes = mac.initial_seats(B, A), [], []
    last: Any = np.full((B, A), -1, np.int32)
    everywhere: Any = np.broadcast_to(np.arange(A, dtype=np.int32), (B, A))
    act = fast_jit(BasicMAC.act_seats)
    for t in range(T + 1):
        view = PlayerView(batch.obs[:, t], batch.state[:, t], batch.avail[:, t], everywhere, last, batch.players)
        last, memory, record = act(mac, view, memory, KEY, 0.0)
        chosen.append(last)
        notes.append(record)
    batch = batch._replace(actions=np.stack(chosen, axis=1))

    @fast_jit
    def learned(mac: BasicMAC, batch: EpisodeBatch) -> tuple[Any, Array]:
        inference = mac.opponent_model.unroll(mac.reading.episodes(batch).model_inputs())
        return inference, unrolled(mac, batch, mac.opponent_model.features(inference, None))

    inference, q = learned(mac, batch)
    np.testing.assert_array_equal(np.asarray(q).argmax(axis=-1), batch.actions)
    if name == "omg_am":
        noted = np.stack([note["infer_mu"] for note in notes], axis=1)
        np.testing.assert_allclose(noted, inference.mean, atol=1e-6)


def test_every_slot_of_played_games_has_its_inference():
    """Inferred values are part of what acting returns, so each slot of each game has its own."""
    env = make_env("foraging", **GAME)
    seats, games = env.spec.n_agents, 5
    settings = config(am_model="omg_am", omg_sample=True)
    mac = drawn(jax.eval_shape(lambda: build_mac(settings, env.spec, KEY)), 0)
    other = drawn(jax.eval_shape(lambda: build_mac(config(), env.spec, KEY)), 1)
    squad, _ = build_squad([other])
    draw = TeamDraw((TeamSlots(seats - 1, (0,)), TeamSlots(1, ())))
    team = TeamPolicy(mac, squad, draw)
    batch = fast_jit(lambda key: play_episodes(env, team, key, games, 1.0).batch)(KEY)
    noted = np.asarray(batch.records["infer_mu"])
    longest = int(batch.filled.sum(axis=1).max())
    assert noted.shape == (games, env.spec.episode_limit + 1, 1, settings.subgoal_dim)
    assert sorted(set(np.asarray(batch.seat).tolist())) == list(range(seats))

    views = mac.reading.episodes(batch, draw.main_seats(batch.seat))
    inference = fast_jit(lambda model, inputs: model.unroll(inputs))(mac.opponent_model, views.model_inputs())
    slots = np.arange(longest)
    real = np.asarray(batch.filled)[:, slots]
    np.testing.assert_allclose(noted[:, slots][real], np.asarray(inference.mean)[:, slots][real], atol=1e-5)
    log_var = np.asarray(batch.records["infer_log_var"])
    np.testing.assert_allclose(log_var[:, slots][real], np.asarray(inference.log_var)[:, slots][real], atol=1e-5)
    assert np.abs(np.diff(noted[:, : longest + 1], axis=1)).max(axis=(2, 3))[real].min() > 1e-6
    assert np.abs(noted[:, : longest + 1]).max(axis=(2, 3)).min() > 1e-6

    # Nobody has a model: there is nothing to note, and nothing breaks.
    plain = TeamPolicy(other, squad, draw)
    assert jax.eval_shape(lambda key: play_episodes(env, plain, key, games, 1.0).batch.records, KEY) == {}
