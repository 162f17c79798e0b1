"""Networks: agents against the plain network on concatenated one-hot inputs, mixers against loops."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array

from omg.errors import UserError
from omg.modules.agents import AGENTS, AgentSizes, IndividualRNNAgent, RNNAgent
from omg.modules.layers import Linear, select_rows
from omg.modules.mixers import MIXERS, MixerSizes, QMixer, VDNMixer

B, T, A, OBS, U, H, F, S = 2, 4, 3, 5, 6, 8, 7, 9
SIZES = AgentSizes(obs_dim=OBS, n_actions=U, n_agents=A, hidden_dim=H)


def inputs(features: int = 0) -> tuple[Array, Array, Array | None]:
    keys = jax.random.split(jax.random.key(0), 3)
    last_action = jax.random.randint(keys[1], (B, T, A), 0, U).at[:, 0].set(-1)
    extra = jax.random.normal(keys[2], (B, T, A, features)) if features else None
    return jax.random.normal(keys[0], (B, T, A, OBS)), last_action, extra


def seat_network(agent: RNNAgent | IndividualRNNAgent, seat: int) -> RNNAgent:
    return jax.tree.map(lambda x: x[seat], agent.seats) if isinstance(agent, IndividualRNNAgent) else agent


def slow_outputs(
    agent: RNNAgent | IndividualRNNAgent, obs: Array, last_action: Array, extra: Array | None
) -> np.ndarray:
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
                x = np.concatenate(parts) @ np.asarray(net.fc1.weight) + np.asarray(net.fc1.bias)
                gates = np.maximum(x, 0) @ np.asarray(net.input_gates.weight) + np.asarray(net.input_gates.bias)
                hidden = h @ np.asarray(net.hidden_gates.weight) + np.asarray(net.hidden_gates.bias)
                r = 1 / (1 + np.exp(-gates[:H] - hidden[:H]))
                z = 1 / (1 + np.exp(-gates[H : 2 * H] - hidden[H : 2 * H]))
                h = (1 - z) * np.tanh(gates[2 * H :] + r * hidden[2 * H :]) + z * h
                outputs[b, t, a] = h @ np.asarray(net.fc2.weight) + np.asarray(net.fc2.bias)
    return outputs


@jax.jit
def outputs_of(agent, obs: Array, last_action: Array, extra: Array | None) -> Array:
    return agent.head(agent.unroll(agent.embed(obs, last_action, extra), agent.initial(B)))


@pytest.mark.parametrize("name", sorted(AGENTS))
@pytest.mark.parametrize(
    "sizes",
    [SIZES, SIZES._replace(feature_dim=F), SIZES._replace(use_last_action=False, use_agent_id=False)],
    ids=["usual", "features", "obs only"],
)
def test_agents_equal_the_plain_network(name: str, sizes: AgentSizes):
    agent = AGENTS[name](sizes, key=jax.random.key(1))
    data = inputs(sizes.feature_dim)
    np.testing.assert_allclose(outputs_of(agent, *data), slow_outputs(agent, *data), atol=1e-5)


@pytest.mark.parametrize("name", sorted(AGENTS))
def test_stepping_equals_unrolling(name: str):
    agent = AGENTS[name](SIZES, key=jax.random.key(2))
    obs, last_action, _ = inputs()
    h = agent.initial(B)
    assert h.shape == (B, A, H)
    stepped = []
    for t in range(T):
        h = agent.step(agent.embed(obs[:, t], last_action[:, t]), h)
        stepped.append(agent.head(h))
    np.testing.assert_allclose(jnp.stack(stepped, axis=1), outputs_of(agent, obs, last_action, None), atol=1e-6)


@pytest.mark.parametrize("name", sorted(AGENTS))
@pytest.mark.parametrize("one_hots", [True, False])
def test_an_observation_all_seats_share_is_repeated(name: str, one_hots: bool):
    agent = AGENTS[name](SIZES._replace(use_last_action=one_hots, use_agent_id=one_hots), key=jax.random.key(3))
    obs, last_action, _ = inputs()
    shared = obs[:, :, :1]
    repeated = jnp.broadcast_to(shared, obs.shape)
    np.testing.assert_allclose(agent.embed(shared, last_action), agent.embed(repeated, last_action), atol=1e-6)


def test_initialisation_is_pytorchs():
    sizes = AgentSizes(obs_dim=80, n_actions=14, n_agents=8, hidden_dim=64)
    assert sizes.input_dim == 102
    assert sizes._replace(feature_dim=64).input_dim == 166
    agent = RNNAgent(sizes, key=jax.random.key(0))
    assert agent.fc1.weight.shape == (102, 64)
    for layer, fan_in in ((agent.fc1, 102), (agent.input_gates, 64), (agent.hidden_gates, 64), (agent.fc2, 64)):
        bound = 1 / math.sqrt(fan_in)
        assert 0.98 * bound < float(jnp.abs(layer.weight).max()) <= bound
        assert float(jnp.abs(layer.bias).max()) <= bound
        assert float(layer.weight.std()) == pytest.approx(bound / math.sqrt(3), rel=0.05)


def test_seats_of_idv_rnn_differ():
    agent = IndividualRNNAgent(SIZES, key=jax.random.key(0))
    assert agent.seats.fc1.weight.shape == (A, SIZES.input_dim, H)
    assert not np.allclose(agent.seats.fc1.weight[0], agent.seats.fc1.weight[1])


def test_features_must_match_the_agent():
    obs, last_action, extra = inputs(F)
    with pytest.raises(ValueError, match="feature_dim is 0"):
        RNNAgent(SIZES, key=jax.random.key(0)).embed(obs, last_action, extra)
    with pytest.raises(ValueError, match=f"feature_dim is {F}"):
        RNNAgent(SIZES._replace(feature_dim=F), key=jax.random.key(0)).embed(obs, last_action)


def test_linear_and_rows_are_matrix_products():
    layer = Linear(OBS, U, key=jax.random.key(0))
    x = jax.random.normal(jax.random.key(1), (B, T, OBS))
    np.testing.assert_allclose(layer(x), jnp.einsum("bto,ou->btu", x, layer.weight) + layer.bias, atol=1e-6)
    table = jax.random.normal(jax.random.key(2), (U, H))
    index = jnp.array([[0, -1, 3], [5, 3, 3]])

    def by_rows(table: Array) -> Array:
        return jnp.sin(select_rows(table, index)).sum()

    def by_one_hot(table: Array) -> Array:
        return jnp.sin(jax.nn.one_hot(index, U) @ table).sum()

    assert float(by_rows(table)) == pytest.approx(float(by_one_hot(table)), abs=1e-5)
    np.testing.assert_allclose(jax.grad(by_rows)(table), jax.grad(by_one_hot)(table), atol=1e-6)


# Mixers


def mixer_inputs() -> tuple[Array, Array]:
    keys = jax.random.split(jax.random.key(5), 2)
    return 3.0 * jax.random.normal(keys[0], (B, T, A)), jax.random.normal(keys[1], (B, T, S))


def slow_qmix(mixer: QMixer, qs: np.ndarray, state: np.ndarray) -> float:
    """One joint value, written out."""

    def dense(layer: Linear, x: np.ndarray) -> np.ndarray:
        return x @ np.asarray(layer.weight) + np.asarray(layer.bias)

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
    mixer = QMixer(MixerSizes(A, S, embed_dim=4, hypernet_layers=layers, hypernet_embed=5), key=jax.random.key(0))
    assert len(mixer.hyper_w1.layers) == len(mixer.hyper_w2.layers) == layers
    qs, state = mixer_inputs()
    result = mixer(qs, state)
    assert result.shape == (B, T)
    for b in range(B):
        for t in range(T):
            assert float(result[b, t]) == pytest.approx(
                slow_qmix(mixer, np.asarray(qs[b, t]), np.asarray(state[b, t])), abs=1e-5
            )


@pytest.mark.parametrize("name", sorted(MIXERS))
def test_mixers_rise_with_every_seats_value(name: str):
    mixer = MIXERS[name](MixerSizes(A, S), key=jax.random.key(1))
    qs, state = mixer_inputs()
    slope = jax.grad(lambda qs: mixer(qs, state).sum())(qs)
    assert float(slope.min()) >= 0
    assert float(slope.max()) > 0


def test_vdn_is_the_sum():
    qs, state = mixer_inputs()
    mixer = VDNMixer(MixerSizes(A, S), key=jax.random.key(0))
    np.testing.assert_allclose(mixer(qs, state), np.asarray(qs).sum(axis=-1), atol=1e-6)


def test_qmix_refuses_three_layers():
    with pytest.raises(UserError, match="hypernet_layers: got 3"):
        QMixer(MixerSizes(A, S, hypernet_layers=3), key=jax.random.key(0))
