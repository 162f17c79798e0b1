"""Networks: agents against the plain network on concatenated one-hot inputs, mixers against loops."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array

from helpers.played import drawn, fast_jit
from omg.errors import UserError
from omg.modules.agents import AGENTS
from omg.modules.agents.base import AgentSizes
from omg.modules.agents.dueling import DuelingAgent
from omg.modules.agents.individual import IndividualAgent, IndividualRNNAgent
from omg.modules.agents.inputs import as_one_hot
from omg.modules.agents.mlp import MLPAgent
from omg.modules.agents.rnn import RNNAgent
from omg.modules.layers import Linear, select_rows
from omg.modules.mixers import MIXERS
from omg.modules.mixers.base import Choices, MixerSizes
from omg.modules.mixers.qmix import QMixer
from omg.modules.mixers.vdn import VDNMixer

B, T, A, OBS, U, H, F, S = 2, 4, 3, 5, 6, 8, 7, 9
SIZES = AgentSizes(obs_dim=OBS, n_actions=U, n_agents=A, hidden_dim=H)


def inputs(features: int = 0) -> tuple[Any, Any, Any]:
    """Observations, last actions and features; NumPy's, whose parts are looked at without compiling."""
    rng = np.random.default_rng(0)
    last_action = rng.integers(0, U, (B, T, A))
    last_action[:, 0] = -1
    obs, extra = (rng.normal(size=(B, T, A, width)).astype(np.float32) for width in (OBS, features))
    return obs, last_action.astype(np.int32), extra if features else None


def build(name: str, sizes: AgentSizes, seed: int) -> Any:
    return drawn(jax.eval_shape(lambda: AGENTS[name].build(sizes, key=jax.random.key(0))), seed)


def seat_network(agent: Any, seat: int) -> Any:
    return jax.tree.map(lambda x: x[seat], agent.seats) if isinstance(agent, IndividualAgent) else agent


def dense(layer: Linear, x: np.ndarray) -> np.ndarray:
    return x @ np.asarray(layer.weight) + np.asarray(layer.bias)


def slow_cell(net: Any, x: np.ndarray, h: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The new recurrent state and the outputs of one seat's network for its whole input."""
    first = np.maximum(dense(net.fc1, x), 0)
    if isinstance(net, DuelingAgent):
        h = np.maximum(dense(net.fc2, first), 0)
        advantage = dense(net.advantage, h)
        return h, dense(net.value, h)[0] + advantage - advantage.sum() / U
    if isinstance(net, MLPAgent):
        h = np.maximum(dense(net.fc2, first), 0)
        return h, dense(net.fc3, h)
    gates, hidden = dense(net.input_gates, first), dense(net.hidden_gates, h)
    r = 1 / (1 + np.exp(-gates[:H] - hidden[:H]))
    z = 1 / (1 + np.exp(-gates[H : 2 * H] - hidden[H : 2 * H]))
    h = (1 - z) * np.tanh(gates[2 * H :] + r * hidden[2 * H :]) + z * h
    return h, dense(net.fc2, h)


def slow_outputs(agent: Any, obs: Array, last_action: Array, extra: Array | None) -> np.ndarray:
    """Row by row and step by step on the concatenated input, as PyMARL computes it."""
    sizes = agent.sizes
    outputs = np.zeros((B, T, A, U))
    for b in range(B):
        for a in range(A):
            net = seat_network(agent, a)
            h = np.zeros(H)
            for t in range(T):
                parts = [np.asarray(obs[b, t, a])]
                if sizes.use_last_action:
                    action = int(last_action[b, t, a])
                    parts.append(np.eye(U)[action] if action >= 0 else np.zeros(U))
                if sizes.use_agent_id:
                    parts.append(np.eye(A)[a])
                if extra is not None:
                    parts.append(np.asarray(extra[b, t, a]))
                h, outputs[b, t, a] = slow_cell(net, np.concatenate(parts), h)
    return outputs


@fast_jit
def outputs_of(agent, obs: Array, last_action: Array, extra: Array | None) -> Array:
    return agent.head(agent.unroll(agent.embed(obs, last_action, extra), agent.initial(B)))


@pytest.mark.parametrize("name", sorted(AGENTS))
@pytest.mark.parametrize(
    "sizes",
    [SIZES, SIZES._replace(feature_dim=F), SIZES._replace(use_last_action=False, use_agent_id=False)],
    ids=["usual", "features", "obs only"],
)
def test_agents_equal_the_plain_network(name: str, sizes: AgentSizes):
    agent = build(name, sizes, 1)
    data = inputs(sizes.feature_dim)
    np.testing.assert_allclose(outputs_of(agent, *data), slow_outputs(agent, *data), atol=1e-5)


@pytest.mark.parametrize("name", sorted(AGENTS))
def test_stepping_equals_unrolling(name: str):
    agent = build(name, SIZES, 2)
    obs, last_action, _ = inputs()
    h = agent.initial(B)
    assert h.shape == (B, A, H // 2 if name == "dueling" else H)
    assert agent.initial(B, 1).shape == (B, 1, h.shape[-1])
    stepped = []
    step = fast_jit(lambda obs, last, h: agent.step(agent.embed(obs, last), h))
    head = fast_jit(lambda h: agent.head(h))
    for t in range(T):
        h = step(obs[:, t], last_action[:, t], h)
        stepped.append(head(h))
    np.testing.assert_allclose(np.stack(stepped, axis=1), outputs_of(agent, obs, last_action, None), atol=1e-6)


@pytest.mark.parametrize("name", sorted(AGENTS))
@pytest.mark.parametrize("one_hots", [True, False])
def test_an_observation_all_seats_share_is_repeated(name: str, one_hots: bool):
    agent = build(name, SIZES._replace(use_last_action=one_hots, use_agent_id=one_hots), 3)
    obs, last_action, _ = inputs()
    shared = obs[:, :, :1]
    repeated = np.broadcast_to(shared, obs.shape)
    embed = fast_jit(lambda obs: agent.embed(obs, last_action))
    np.testing.assert_allclose(embed(shared), embed(repeated), atol=1e-6)


SEATS = np.array([[2, 0], [1, 2]])
"""Two of the three seats of each episode, not in their order."""


def columns(values: Any) -> np.ndarray:
    """The columns of SEATS: [B, T, A, ...] -> [B, T, 2, ...], one by one."""
    return np.stack([np.asarray(values)[b][:, SEATS[b]] for b in range(B)])


@fast_jit
def parts_of(agent: Any, obs: Array, last_action: Array, features: Array, seats: Array | None) -> dict[str, Array]:
    """What each function of an agent gives along episodes, for the given seats [B, m] or for all."""
    timed = None if seats is None else seats[:, None]
    weighed, more = agent.weigh_inputs(obs, last_action, timed), agent.weigh_features(features, timed)
    embedded = agent.embed(obs, last_action, features, timed)
    hidden = agent.unroll(embedded, agent.initial(B, obs.shape[2]), None if seats is None else seats[:, None])
    return {
        "weigh_inputs": weighed,
        "weigh_features": more,
        "activate": agent.activate(weighed + more, timed),
        "embed": embedded,
        "unroll": hidden,
        "step": agent.step(embedded, hidden, timed),
        "head": agent.head(hidden, timed),
    }


@pytest.mark.parametrize("name", sorted(AGENTS))
@pytest.mark.parametrize("one_hots", [True, False])
def test_some_seats_are_columns_of_all(name: str, one_hots: bool):
    agent = build(name, SIZES._replace(feature_dim=F, use_last_action=one_hots, use_agent_id=one_hots), 4)
    obs, last_action, extra = inputs(F)
    assert extra is not None
    every = jax.device_get(parts_of(agent, obs, last_action, extra, None))
    some = jax.device_get(parts_of(agent, columns(obs), columns(last_action), columns(extra), SEATS))
    np.testing.assert_allclose(every["activate"], every["embed"], atol=1e-6)
    for part, values in every.items():
        assert not np.allclose(values[:, :, :2], columns(values), atol=1e-3), part
        np.testing.assert_allclose(some[part], columns(values), atol=1e-6, err_msg=part)


@pytest.mark.parametrize("name", sorted(AGENTS))
def test_many_features_are_tried_for_the_same_observation(name: str):
    agent = build(name, SIZES._replace(feature_dim=F), 5)
    obs, last_action, extra = inputs(F)
    assert extra is not None
    tried = np.stack([extra, extra + 1.0], axis=2)  # [B, T, 2, A, F]

    @fast_jit
    def at_once(before: Array, seats: Array | None) -> Array:
        timed, twice = (None, None) if seats is None else (seats[:, None], seats[:, None, None])
        x = agent.weigh_inputs(obs, last_action, timed)[:, :, None] + agent.weigh_features(tried, twice)
        return agent.head(agent.step(agent.activate(x, twice), before[:, :, None], twice), twice)

    @fast_jit
    def one_by_one(before: Array) -> Array:
        values = [agent.head(agent.step(agent.embed(obs, last_action, tried[:, :, i]), before)) for i in range(2)]
        return jnp.stack(values, axis=2)

    before = parts_of(agent, obs, last_action, extra, None)["unroll"]
    expected = np.asarray(one_by_one(before))
    assert not np.allclose(expected[:, :, 0], expected[:, :, 1], atol=1e-3)
    for seats in (None, np.tile(np.arange(A), (B, 1))):
        np.testing.assert_allclose(at_once(before, seats), expected, atol=1e-6)


def test_dueling_network_has_no_memory():
    agent = build("dueling", SIZES._replace(hidden_dim=64), 6)
    assert agent.fc1.weight.shape == (SIZES.input_dim, 64)
    assert agent.fc2.weight.shape == (64, 32)
    assert agent.initial(B).shape == (B, A, 32)
    obs, last_action, _ = inputs()

    @fast_jit
    def found() -> Any:
        embedded = agent.embed(obs, last_action)
        unrolled, stepped = agent.unroll(embedded, agent.initial(B) + 5.0), agent.step(embedded, embedded + 5.0)
        return embedded, unrolled, stepped, agent.head(embedded), agent.value(embedded)

    embedded, unrolled, stepped, outputs, value = jax.device_get(found())
    np.testing.assert_array_equal(unrolled, embedded)
    np.testing.assert_array_equal(stepped, embedded)
    # The advantages are centred, so the mean of the outputs is the value.
    np.testing.assert_allclose(outputs.mean(axis=-1), value[..., 0], atol=1e-6)
    assert build("dueling", SIZES._replace(hidden_dim=1), 6).initial(B).shape == (B, A, 1)


def test_initialisation_is_pytorchs():
    sizes = AgentSizes(obs_dim=80, n_actions=14, n_agents=8, hidden_dim=64)
    assert sizes.input_dim == 102
    assert sizes._replace(feature_dim=64).input_dim == 166
    agent = jax.device_get(fast_jit(lambda key: RNNAgent(sizes, key=key))(jax.random.key(0)))
    assert agent.fc1.weight.shape == (102, 64)
    for layer, fan_in in ((agent.fc1, 102), (agent.input_gates, 64), (agent.hidden_gates, 64), (agent.fc2, 64)):
        bound = 1 / math.sqrt(fan_in)
        assert 0.98 * bound < np.abs(layer.weight).max() <= bound
        assert np.abs(layer.bias).max() <= bound
        assert float(layer.weight.std()) == pytest.approx(bound / math.sqrt(3), rel=0.05)


def test_seats_of_idv_rnn_differ():
    agent = jax.device_get(fast_jit(lambda key: IndividualRNNAgent(SIZES, key=key))(jax.random.key(0)))
    assert agent.seats.fc1.weight.shape == (A, SIZES.input_dim, H)
    assert not np.allclose(agent.seats.fc1.weight[0], agent.seats.fc1.weight[1])


def test_features_must_match_the_agent():
    obs, last_action, extra = inputs(F)
    with pytest.raises(ValueError, match="feature_dim is 0"):
        build("rnn", SIZES, 0).embed(obs, last_action, extra)
    with pytest.raises(ValueError, match=f"feature_dim is {F}"):
        build("rnn", SIZES._replace(feature_dim=F), 0).embed(obs, last_action)


def test_linear_and_rows_are_matrix_products():
    layer = drawn(jax.eval_shape(lambda: Linear(OBS, U, key=jax.random.key(0))), 0)
    x, _, _ = inputs()
    expected = np.einsum("btao,ou->btau", x, layer.weight) + layer.bias
    np.testing.assert_allclose(fast_jit(lambda x: layer(x))(x), expected, atol=1e-6)
    table = np.random.default_rng(2).normal(size=(U, H)).astype(np.float32)
    index = np.array([[0, -1, 3], [5, 3, 3]])

    def by_rows(table: Array) -> Array:
        return jnp.sin(select_rows(table, index)).sum()

    def by_one_hot(table: Array) -> Array:
        return jnp.sin(jax.nn.one_hot(index, U) @ table).sum()

    (rows, row_slope), (hot, hot_slope) = (fast_jit(jax.value_and_grad(way))(table) for way in (by_rows, by_one_hot))
    assert float(rows) == pytest.approx(float(hot), abs=1e-5)
    np.testing.assert_allclose(row_slope, hot_slope, atol=1e-6)


# Mixers


def mixer_inputs() -> tuple[Any, Any]:
    rng = np.random.default_rng(5)
    return 3.0 * rng.normal(size=(B, T, A)).astype(np.float32), rng.normal(size=(B, T, S)).astype(np.float32)


def build_mixer(name: str, sizes: MixerSizes, seed: int) -> Any:
    return drawn(jax.eval_shape(lambda: MIXERS[name].build(sizes, key=jax.random.key(0))), seed)


def slow_qmix(mixer: QMixer, qs: np.ndarray, state: np.ndarray) -> float:
    """One joint value, written out."""

    def perceptron(layers: tuple[Linear, ...], x: np.ndarray) -> np.ndarray:
        return dense(layers[0], x) if len(layers) == 1 else dense(layers[1], np.maximum(dense(layers[0], x), 0))

    width = mixer.sizes.embed_dim
    w1 = np.abs(perceptron(mixer.hyper_w1.layers, state))
    w2 = np.abs(perceptron(mixer.hyper_w2.layers, state))
    bias = dense(mixer.hyper_b1, state)
    total = float(perceptron(mixer.value.layers, state)[0])
    for e in range(width):
        inner = bias[e] + sum(qs[a] * w1[a * width + e] for a in range(A))
        total += w2[e] * (inner if inner > 0 else math.expm1(inner))
    return total


@pytest.mark.parametrize("layers", [1, 2])
def test_qmix_equals_loops(layers: int):
    mixer = build_mixer("qmix", MixerSizes(A, S, embed_dim=4, hypernet_layers=layers, hypernet_embed=5), 0)
    assert len(mixer.hyper_w1.layers) == len(mixer.hyper_w2.layers) == layers
    qs, state = mixer_inputs()
    result = np.asarray(fast_jit(lambda qs, state: mixer(qs, state))(qs, state))
    assert result.shape == (B, T)
    for b in range(B):
        for t in range(T):
            assert float(result[b, t]) == pytest.approx(
                slow_qmix(mixer, np.asarray(qs[b, t]), np.asarray(state[b, t])), abs=1e-5
            )


@pytest.mark.parametrize("name", sorted(MIXERS))
def test_mixers_rise_with_every_seats_value(name: str):
    own = tuple(section() for section in MIXERS[name].traits.sections)
    mixer = build_mixer(name, MixerSizes(A, S, n_actions=U, own=own), 1)
    qs, state = mixer_inputs()
    choices = Choices(jnp.zeros(qs.shape, int), qs + 1.0)
    slope = fast_jit(jax.grad(lambda qs: mixer(qs, state, choices).sum()))(qs)
    assert float(slope.min()) >= 0
    assert float(slope.max()) > 0


def test_vdn_is_the_sum():
    qs, state = mixer_inputs()
    mixer = VDNMixer(MixerSizes(A, S), key=jax.random.key(0))
    np.testing.assert_allclose(mixer(qs, state), np.asarray(qs).sum(axis=-1), atol=1e-6)


def test_qmix_refuses_three_layers():
    with pytest.raises(UserError, match="hypernet_layers: got 3"):
        QMixer(MixerSizes(A, S, hypernet_layers=3), key=jax.random.key(0))


def test_whole_numbers_enter_as_one_hot_vectors() -> None:
    obs = jnp.asarray([[0.0, -1.0, 2.0], [5.0, -7.0, 1.0]])
    expected = np.zeros((2, 3, 5))
    for row, numbers in enumerate([(0, -1, 2), (2, -2, 1)]):  # beyond the largest counts as the largest
        for column, number in enumerate(numbers):
            expected[row, column, number + 2] = 1.0
    np.testing.assert_array_equal(as_one_hot(obs, 2), expected.reshape(2, 15))
    assert as_one_hot(obs, 0) is obs


@pytest.mark.parametrize("name", sorted(AGENTS))
def test_one_hot_observations_give_every_number_a_row_of_its_own(name: str) -> None:
    agent = build(name, SIZES._replace(one_hot=3), 0)
    assert agent.sizes.input_dim == SIZES.input_dim + 6 * OBS
    embed = fast_jit(lambda value: agent.embed(jnp.full((2, A, OBS), value), jnp.zeros((2, A), jnp.int32)))
    low, high, other = (np.asarray(embed(value)) for value in (2.6, 3.4, 2.4))
    np.testing.assert_array_equal(low, high)
    assert np.abs(low - other).max() > 1e-3
