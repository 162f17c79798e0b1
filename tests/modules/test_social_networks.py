"""Networks over maps, and a network for every seat: against loops over cells, seats and rows."""

from __future__ import annotations

import math
from typing import Any

import jax
import numpy as np
import pytest

from helpers.played import drawn, fast_jit
from omg.envs import make_env
from omg.modules.agents import AGENTS
from omg.modules.agents.base import AgentSizes
from omg.modules.convolutions import Conv3x3
from omg.modules.critics import CRITICS
from omg.modules.critics.base import CriticSizes
from omg.modules.critics.inputs import SeatNetworks
from omg.modules.maps import FILTERS, MapEncoder, encoded_dim

B, T, A, U, REST = 2, 3, 3, 4, 5
SHAPE = (2, 3, 4)
OBS = math.prod(SHAPE) + REST
SIZES = AgentSizes(
    obs_dim=OBS, n_actions=U, n_agents=A, hidden_dim=6, use_last_action=False, use_agent_id=False, map_shape=SHAPE
)
SEATS = np.array([[2, 0], [1, 2]])
"""Two of the three seats of each episode, not in their order."""


def build(make: Any, seed: int = 0) -> Any:
    return drawn(jax.eval_shape(make), seed)


def slow_convolution(layer: Conv3x3, x: np.ndarray) -> np.ndarray:
    """Cell by cell, [C, H, W] -> [C', H, W]."""
    weight, bias = np.asarray(layer.weight, np.float64), np.asarray(layer.bias, np.float64)
    _, height, width = x.shape
    result = np.zeros((weight.shape[-1], height, width))
    for row in range(height):
        for col in range(width):
            total = bias.copy()
            for down in (-1, 0, 1):
                for right in (-1, 0, 1):
                    if 0 <= row + down < height and 0 <= col + right < width:
                        total += x[:, row + down, col + right] @ weight[down + 1, right + 1]
            result[:, row, col] = total
    return result


def slow_encoding(encoder: MapEncoder, vector: np.ndarray) -> np.ndarray:
    pictures = vector[: math.prod(SHAPE)].reshape(SHAPE)
    for layer in encoder.convolutions:
        pictures = np.maximum(slow_convolution(layer, pictures), 0)
    return np.concatenate([pictures.ravel(), vector[math.prod(SHAPE) :]])


def slow_layers(network: Any, last: Any, x: np.ndarray) -> np.ndarray:
    for layer in (network.fc1, network.fc2):
        x = np.maximum(x @ np.asarray(layer.weight, np.float64) + np.asarray(layer.bias), 0)
    return x @ np.asarray(last.weight, np.float64) + np.asarray(last.bias)


def seat_of(stack: Any, seat: int) -> Any:
    return jax.tree.map(lambda leaf: leaf[seat], stack)


def observations() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(B, T, A, OBS)).astype(np.float32)


def test_a_convolution_equals_loops_over_cells():
    layer = build(lambda: Conv3x3(2, 5, key=jax.random.key(0)))
    x = np.random.default_rng(1).normal(size=(6, *SHAPE)).astype(np.float32)
    result = np.moveaxis(np.asarray(fast_jit(lambda x: layer(x))(np.moveaxis(x, 1, -1))), -1, 1)
    assert result.shape == (6, 5, *SHAPE[1:])
    for index in range(6):
        np.testing.assert_allclose(result[index], slow_convolution(layer, x[index]), atol=1e-5)


def test_several_convolutions_at_once_are_each_its_own():
    layers = build(lambda: jax.vmap(lambda key: Conv3x3(2, 5, key=key))(jax.random.split(jax.random.key(0), 3)))
    x = np.random.default_rng(2).normal(size=(3, *SHAPE)).astype(np.float32)
    cells = np.moveaxis(x, 1, -1)[:, None]
    together = np.moveaxis(np.asarray(fast_jit(jax.vmap(lambda layer, x: layer(x)))(layers, cells)), -1, 2)[:, 0]
    for index in range(3):
        np.testing.assert_allclose(together[index], slow_convolution(seat_of(layers, index), x[index]), atol=1e-5)


@pytest.mark.parametrize("name", ["conv", "idv_conv"])
def test_agents_look_at_the_map_and_read_the_rest(name: str):
    agent, obs = build(lambda: AGENTS[name].build(SIZES, key=jax.random.key(0))), observations()
    nothing = np.full((B, T, A), -1)
    unroll = fast_jit(lambda agent, obs: agent.head(agent.unroll(agent.embed(obs, nothing), agent.initial(B))))
    outputs = np.asarray(unroll(agent, obs))
    assert agent.initial(B).shape == (B, A, 6)
    for b, t, seat in np.ndindex(B, T, A):
        network = seat_of(agent.seats, seat) if name == "idv_conv" else agent
        encoded = slow_encoding(network.encoder, obs[b, t, seat])
        assert encoded.size == encoded_dim(OBS, SHAPE) == network.fc1.weight.shape[0] == FILTERS[-1] * 12 + REST
        np.testing.assert_allclose(outputs[b, t, seat], slow_layers(network, network.fc3, encoded), atol=1e-4)
    taken = np.take_along_axis(obs, SEATS[:, None, :, None], axis=2)
    timed = SEATS[:, None]
    some = fast_jit(lambda agent, obs: agent.head(agent.embed(obs, nothing[:, :, :2], None, timed), timed))(
        agent, taken
    )
    np.testing.assert_allclose(some, np.take_along_axis(outputs, SEATS[:, None, :, None], axis=2), atol=1e-5)


def test_numbers_behind_the_map_may_enter_one_hot():
    agent = build(lambda: AGENTS["conv"].build(SIZES._replace(one_hot=1), key=jax.random.key(0)))
    assert agent.fc1.weight.shape[0] == FILTERS[-1] * 12 + 3 * REST
    obs, last = observations(), np.zeros((B, T, A), np.int32)
    embed = fast_jit(lambda agent, obs: agent.embed(obs, last))
    low, high, moved = obs.copy(), obs.copy(), obs.copy()
    low[..., -1], high[..., -1] = 0.6, 1.4
    np.testing.assert_allclose(embed(agent, low), embed(agent, high))
    # The map itself is not rounded.
    moved[..., 0] += 0.01
    assert np.abs(np.asarray(embed(agent, moved)) - np.asarray(embed(agent, obs))).max() > 1e-6


@pytest.mark.parametrize("name", ["conv", "idv_conv"])
def test_critics_look_at_the_map(name: str):
    sizes = CriticSizes((OBS, 2), hidden_dim=6, n_agents=A, map_shape=SHAPE)
    critic = build(lambda: CRITICS[name].build(sizes, key=jax.random.key(0)))
    obs, more = observations(), np.random.default_rng(3).normal(size=(1, T, 1, 2)).astype(np.float32)
    values = np.asarray(fast_jit(lambda critic, parts: critic(parts))(critic, (obs, more)))
    for b, t, seat in np.ndindex(B, T, A):
        network = critic.networks.networks
        network = seat_of(network, seat) if name == "idv_conv" else network
        x = np.concatenate([slow_encoding(network.encoder, obs[b, t, seat]), more[0, t, 0]])
        assert float(values[b, t, seat]) == pytest.approx(slow_layers(network, network.value, x)[0], abs=1e-4)
    taken = np.take_along_axis(obs, SEATS[:, None, :, None], axis=2)
    some = fast_jit(lambda critic, parts, seats: critic(parts, seats))(critic, (taken, more), SEATS[:, None])
    np.testing.assert_allclose(some, np.take_along_axis(values, SEATS[:, None], axis=2), atol=1e-5)


def test_what_all_seats_see_is_given_once():
    networks = build(lambda: SeatNetworks(CriticSizes((OBS,), 6), 3, n_agents=A, key=jax.random.key(0)))
    shared = observations()[:, :, :1]
    every = fast_jit(lambda obs: networks([obs]))
    once, repeated = every(shared), every(np.repeat(shared, A, axis=2))
    assert once.shape == (B, T, A, 3)
    np.testing.assert_allclose(once, repeated, atol=1e-6)


@pytest.mark.parametrize("env", ["stag_hunt", "snowdrift"])
def test_board_games_say_where_their_map_is(env: str):
    game: Any = make_env(env, size=5)
    _, seen = jax.device_get(jax.jit(game.reset, static_argnums=1)(jax.random.key(0), 2))
    shape = game.spec.map_shape
    front = math.prod(shape)
    maps = jax.jit(game.map_view.maps)
    np.testing.assert_array_equal(seen.obs[..., :front].reshape(2, 4, *shape), maps(seen.obs))
    np.testing.assert_array_equal(seen.state[..., :front].reshape(2, *shape), maps(seen.state))
    assert make_env("foraging").spec.map_shape is None
