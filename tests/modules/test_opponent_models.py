"""Opponent models by themselves: features and losses against NumPy loops, shapes, and what they note while acting."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array

from helpers.played import OBS, PARTNERS, A, B, S, T, U, config, counted_steps, drawn, episodes, fast_jit
from omg.components import EpisodeBatch, loss_mask
from omg.controllers.basic import BasicMAC
from omg.controllers.reading import state_value
from omg.envs import EnvSpec
from omg.envs.places import NumberPlace, SeatCells
from omg.learners import build_learner
from omg.modules.opponent_models import OPPONENT_MODELS
from omg.modules.opponent_models.base import ModelInputs, ModelSizes, ModelTargets, kl_between, kl_to_standard
from omg.modules.opponent_models.keys import InferenceKeys, MeLIBAKeys, RecallKeys
from omg.modules.opponent_models.subgoal import SubgoalInference

D, H, E = 3, 9, 7
"""Subgoal features, recurrent features, embedding features."""
SIZES = ModelSizes(
    seen_dim=OBS,
    obs_dim=OBS,
    n_actions=U,
    n_agents=A,
    feature_dim=D,
    hidden_dim=H,
    partners=PARTNERS,
    cells=SeatCells(2, 2, 0, 1, NumberPlace(x=0, y=0), tuple((u % 2, 0) for u in range(U)), rounds=2),
    own=(InferenceKeys(), MeLIBAKeys(), RecallKeys()),
)
SEATS = np.array([[2, 0], [1, 2], [0, 1], [2, 1]], np.int32)
"""Two of the three seats of every episode have a model."""
KEY = jax.random.key(3)
MODELS = sorted(name for name, entry in OPPONENT_MODELS.items() if not entry.traits.absent)


def build(name: str, sizes: ModelSizes = SIZES, seed: int = 0) -> Any:
    return drawn(jax.eval_shape(lambda: OPPONENT_MODELS[name].build(sizes, key=jax.random.key(0))), seed)


def played(width: int = OBS) -> tuple[ModelInputs, ModelTargets, Array]:
    """Inputs of T+1 slots, targets and mask of T steps, for the seats SEATS."""
    batch = episodes()
    rng = np.random.default_rng(1)
    seen: Any = rng.normal(size=(B, T + 1, 2, width)).astype(np.float32)
    before: Any = np.concatenate([np.full((B, 1, A), -1, np.int32), batch.actions[:, :-1]], axis=1)
    players: Any = np.broadcast_to(rng.integers(-1, PARTNERS, (B, 1, A)).astype(np.int32), before.shape)
    seats: Any = SEATS
    inputs = ModelInputs(seen, before, seats[:, None], players)
    targets = ModelTargets(batch.obs[:, :-1], batch.actions[:, :-1], seats)
    return inputs, targets, loss_mask(batch)


@fast_jit
def unroll(model: Any, inputs: ModelInputs) -> Any:
    return model.unroll(inputs)


@fast_jit
def losses_of(model: Any, inputs: ModelInputs, targets: ModelTargets, mask: Array) -> tuple[Any, Any]:
    """What the model makes of the played steps, and what it learns from it."""
    inference = cut(model.unroll(inputs))
    return inference, model.loss(inference, targets, mask, KEY)


def at_step(inputs: ModelInputs, t: int) -> ModelInputs:
    assert inputs.players is not None
    return ModelInputs(inputs.seen[:, t], inputs.last_actions[:, t], inputs.seats[:, 0], inputs.players[:, t])


def cut(inference: Any) -> Any:
    return jax.tree.map(lambda values: values[:, :-1], inference)


# Features


@pytest.mark.parametrize("drawing", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_inferring_step_by_step_equals_unrolling(name: str, drawing: bool):
    model, (inputs, _, _) = build(name), played()
    inference = unroll(model, inputs)
    features = np.asarray(model.features(inference, None))
    assert features.shape == (B, T + 1, 2, model.feature_dim)
    infer, memory = fast_jit(lambda model, *rest: model.infer(*rest)), model.initial(B, 2)
    # No number of these is drawn; a key must not change what is remembered or noted.
    key = KEY if drawing and name == "omg_am" else None
    notes = []
    for t in range(T + 1):
        found, memory, record = infer(model, at_step(inputs, t), memory, key)
        if key is None:
            np.testing.assert_allclose(found, features[:, t], atol=1e-6)
        else:
            assert np.abs(np.asarray(found) - features[:, t]).min() > 1e-5
        notes.append(record)
    assert all(leaf.shape[:2] == (B, 2) for leaf in jax.tree.leaves(memory))
    if name != "omg_am":
        assert notes == [{}] * (T + 1)
        return
    for label, expected in (("infer_mu", inference.mean), ("infer_log_var", inference.log_var)):
        noted = np.stack([np.asarray(note[label]) for note in notes], axis=1)
        np.testing.assert_allclose(noted, expected, atol=1e-6)
        assert np.abs(np.diff(noted, axis=1)).max(axis=(2, 3)).min() > 1e-4
        assert np.abs(noted).max(axis=(2, 3)).min() > 1e-4


def dense(layer: Any, x: np.ndarray) -> np.ndarray:
    return x @ np.asarray(layer.weight) + np.asarray(layer.bias)


def slow_unit(model: Any, x: np.ndarray, h: np.ndarray) -> np.ndarray:
    """One step of the recurrent unit."""
    gates, hidden = dense(model.input_gates, x), dense(model.hidden_gates, h)
    r = 1 / (1 + np.exp(-gates[:H] - hidden[:H]))
    z = 1 / (1 + np.exp(-gates[H : 2 * H] - hidden[H : 2 * H]))
    return (1 - z) * np.tanh(gates[2 * H :] + r * hidden[2 * H :]) + z * h


def one_hot(action: int, others: bool = True) -> np.ndarray:
    return np.eye(U)[action] if action >= 0 and others else np.zeros(U)


def slow_inference(name: str, model: Any, inputs: ModelInputs, b: int, i: int) -> dict[str, np.ndarray]:
    """What the i-th modelling seat of episode b makes of it, slot by slot, from inputs put together by hand."""
    seat, results = int(SEATS[b, i]), []
    h, before = np.zeros(H), np.zeros(inputs.seen.shape[-1])
    for t in range(T + 1):
        seen = np.asarray(inputs.seen[b, t, i], np.float64)
        last = [int(action) for action in inputs.last_actions[b, t]]
        own = one_hot(last[seat])
        hidden = np.zeros(A) if inputs.concealed is None else inputs.concealed[b, t, i]
        each = [one_hot(last[a], others=a != seat and not hidden[a]) for a in range(A)]
        others = {"each": np.concatenate(each), "counts": sum(each), "none": np.zeros(0)}[model.sizes.actions]
        if name == "base_am":
            first = np.maximum(dense(model.fc1, np.concatenate([seen, others, own])), 0)
            embedding = np.maximum(dense(model.fc2, first), 0)
            results.append({"embedding": embedding, "logits": dense(model.actions, embedding).reshape(A - 1, U)})
        elif name == "liam_am":
            h = slow_unit(model, np.maximum(dense(model.embed, np.concatenate([seen, own])), 0), h)
            results.append({"embedding": dense(model.encode, h)})
        else:
            statistics = model.prior.statistics
            normal = (seen - np.asarray(statistics.mean)) / np.sqrt(np.asarray(statistics.variance))
            h = slow_unit(model, np.concatenate([before, others, own]), h)
            before = normal
            embedding = np.maximum(dense(model.embed, normal), 0)
            both = np.concatenate([embedding, h])
            log_var = np.clip(dense(model.log_var_head, both), -8, 4)
            mean = dense(model.mean_head, both)
            if model.sizes.residual:
                mean += np.asarray(model.prior.encode(inputs.seen[b, t, i])[0])
            results.append({"mean": mean, "log_var": log_var, "embedding": embedding, "condition": h, "seen": normal})
    return {label: np.stack([result[label] for result in results]) for label in results[0]}


@pytest.mark.parametrize(
    ("name", "actions", "hides", "residual"),
    [
        ("base_am", "each", False, False),
        ("liam_am", "each", False, False),
        ("omg_am", "each", False, False),
        ("omg_am", "each", True, False),
        ("omg_am", "counts", True, False),
        ("omg_am", "none", False, True),
    ],
)
def test_models_equal_the_plain_networks(name: str, actions: str, hides: bool, residual: bool):
    model, (inputs, _, _) = build(name, SIZES._replace(actions=actions, residual=residual)), played()
    if hides:
        some: Any = np.random.default_rng(2).random((B, T + 1, 2, A)) < 0.5
        inputs = inputs._replace(concealed=some)
    inference = unroll(model, inputs)
    for b in range(B):
        for i in range(2):
            expected = slow_inference(name, model, inputs, b, i)
            for label, values in expected.items():
                ours = inference if name == "liam_am" else getattr(inference, label)
                np.testing.assert_allclose(ours[b, :, i], values, atol=1e-5, err_msg=label)


def test_naive_probabilities_are_of_the_others_actions():
    model, (inputs, _, _) = build("base_am", SIZES._replace(naive_feature="probabilities")), played()
    inference = unroll(model, inputs)
    features = model.features(inference, None)
    assert features.shape[-1] == model.feature_dim == (A - 1) * U
    logits = np.asarray(inference.logits, np.float64)
    expected = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
    np.testing.assert_allclose(features.reshape(expected.shape), expected, atol=1e-6)


def test_identity_counts_who_sits_where():
    model, (inputs, _, _) = build("identity_am", SIZES._replace(partners=3)), played()
    assert not jax.tree.leaves(model)
    inputs = inputs._replace(players=jnp.broadcast_to(jnp.array([2, -1, 2]), inputs.last_actions.shape))
    assert unroll(model, inputs)[0, 0].tolist() == [[0.0, 0.0, 1.0]] * 2
    with pytest.raises(ValueError, match="told the players"):
        model.unroll(inputs._replace(players=None))


def test_drawn_subgoals_follow_their_distribution():
    model, (inputs, _, _) = build("omg_am"), played()
    inference = cut(unroll(model, inputs))
    draws = np.asarray(fast_jit(jax.vmap(lambda key: model.features(inference, key)))(jax.random.split(KEY, 2000)))
    spread = np.exp(0.5 * np.asarray(inference.log_var))
    np.testing.assert_allclose((draws.mean(axis=0) - inference.mean) / spread, 0.0, atol=0.12)
    np.testing.assert_allclose(draws.std(axis=0) / spread, 1.0, atol=0.1)
    point = build("omg_am", SIZES._replace(inference="mlp"))
    np.testing.assert_array_equal(point.features(inference, KEY), inference.mean)


# Losses


def slow_action_loss(
    logits: np.ndarray, targets: ModelTargets, b: int, t: int, i: int
) -> tuple[list[float], list[bool]]:
    """Cross-entropy and correctness for each other seat, in the order in which they follow the own one."""
    losses, correct = [], []
    for j in range(A - 1):
        action = int(targets.actions[b, t, (SEATS[b, i] + 1 + j) % A])
        row = logits[j]
        losses.append(float(np.log(np.exp(row).sum()) - row[action]))
        correct.append(int(row.argmax()) == action)
    return losses, correct


def test_naive_loss_equals_loops():
    model, (inputs, targets, mask) = build("base_am"), played()
    inference, (loss, metrics) = jax.device_get(losses_of(model, inputs, targets, mask))
    losses: list[float] = []
    correct: list[bool] = []
    for b, t in counted_steps():
        for i in range(2):
            found = slow_action_loss(np.asarray(inference.logits[b, t, i], np.float64), targets, b, t, i)
            losses, correct = losses + found[0], correct + found[1]
    assert float(loss) == pytest.approx(np.mean(losses), rel=1e-5)
    assert float(metrics["am_loss"]) == float(loss)
    assert float(metrics["am_action_accuracy"]) == pytest.approx(np.mean(correct))


def test_liam_loss_equals_loops():
    # It sees a state of another width than the observations it reconstructs.
    model, (inputs, targets, mask) = build("liam_am", SIZES._replace(seen_dim=S, feature_dim=E)), played(S)
    inference, (loss, metrics) = jax.device_get(losses_of(model, inputs, targets, mask))
    losses: list[float] = []
    errors: list[float] = []
    for b, t in counted_steps():
        for i in range(2):
            hidden = np.maximum(dense(model.decode, np.asarray(inference[b, t, i], np.float64)), 0)
            rebuilt = dense(model.others_obs, hidden).reshape(A - 1, OBS)
            losses += slow_action_loss(dense(model.others_actions, hidden).reshape(A - 1, U), targets, b, t, i)[0]
            for j in range(A - 1):
                real = np.asarray(targets.obs[b, t, (SEATS[b, i] + 1 + j) % A])
                errors += [float(error) for error in (rebuilt[j] - real) ** 2]
    assert float(metrics["am_obs_loss"]) == pytest.approx(np.mean(errors), rel=1e-5)
    assert float(metrics["am_action_loss"]) == pytest.approx(np.mean(losses), rel=1e-5)
    assert float(loss) == pytest.approx(np.mean(errors) + np.mean(losses), rel=1e-5)


@pytest.mark.parametrize("reconstruct", ["embedding", "input"])
def test_subgoal_loss_equals_loops(reconstruct: str):
    model, (inputs, _, mask) = build("omg_am", SIZES._replace(reconstruct=reconstruct)), played()
    rng = np.random.default_rng(4)
    goal_mean, goal_log_var = rng.normal(size=(2, B, T, 2, D)).astype(np.float32)
    inference = jax.device_get(cut(unroll(model, inputs)))
    weight = 0.3
    learn = fast_jit(lambda model: model.subgoal_loss(inference, goal_mean, goal_log_var, mask, weight, KEY))
    loss, metrics = learn(model)
    noise = np.asarray(jax.random.normal(KEY, (B, T, 2, D)), np.float64)
    errors: list[float] = []
    divergences: list[float] = []
    distances: list[float] = []
    for b, t in counted_steps():
        for i in range(2):
            row = {label: np.asarray(getattr(inference, label)[b, t, i], np.float64) for label in inference._fields}
            subgoal = row["mean"] + np.exp(0.5 * row["log_var"]) * noise[b, t, i]
            rebuilt = dense(model.decoder, np.concatenate([subgoal, row["condition"]]))
            errors.append(((rebuilt - row["embedding" if reconstruct == "embedding" else "seen"]) ** 2).mean())
            goal, goal_var = np.asarray(goal_mean[b, t, i]), np.exp(np.asarray(goal_log_var[b, t, i]))
            divergence = 0.0
            for d in range(D):
                var, gap = np.exp(row["log_var"][d]), row["mean"][d] - goal[d]
                divergence += 0.5 * (np.log(goal_var[d] / var) + (var + gap**2) / goal_var[d] - 1)
            divergences.append(divergence)
            distances.append(((row["mean"] - goal) ** 2).mean())
    assert float(metrics["am_reconstruction"]) == pytest.approx(np.mean(errors), rel=1e-5)
    assert float(metrics["am_kl"]) == pytest.approx(np.mean(divergences), rel=1e-5)
    assert float(metrics["am_goal_distance"]) == pytest.approx(np.mean(distances), rel=1e-5)
    assert float(loss) == pytest.approx(np.mean(errors) + weight * np.mean(divergences), rel=1e-5)
    point = build("omg_am", SIZES._replace(inference="mlp"))
    loss, _ = learn(point)
    assert float(loss) == pytest.approx(np.mean(distances), rel=1e-5)


def test_divergences_by_hand():
    zero, mean = jnp.zeros(2), jnp.array([1.0, 2.0])
    # Summed over features: (1 + 4) / 2; and for variances 1 against e: each (1 / e - 1 + 1) / 2.
    assert float(kl_to_standard(mean, zero)) == pytest.approx(2.5)
    assert float(kl_between(mean, zero, mean, jnp.ones(2))) == pytest.approx(1 / np.e)
    assert float(kl_between(mean, zero, zero, zero)) == pytest.approx(2.5)
    assert float(kl_between(mean, mean, mean, mean)) == 0.0


# Shapes

EIGHT_MARINES = EnvSpec("sc2", "8m", n_agents=8, n_actions=14, obs_dim=80, state_dim=168, episode_limit=120)


@pytest.mark.parametrize("obs_is_state", [False, True])
def test_sizes_on_8m(obs_is_state: bool):
    settings = config(
        am_model="omg_am",
        learner="omg_learner",
        obs_is_state=obs_is_state,
        rnn_hidden_dim=64,
        am_hidden_dim=96,
        subgoal_dim=64,
        omg_horizon=10,
    )
    learner = build_learner(settings, EIGHT_MARINES)
    state = jax.eval_shape(learner.init, KEY)
    model, agent = state.mac.opponent_model, state.mac.agent
    seen = 168 if obs_is_state else 80
    assert agent.fc1.weight.shape == ((254 if obs_is_state else 166), 64)
    assert model.input_gates.weight.shape == ((294 if obs_is_state else 206), 3 * 96)
    assert model.embed.weight.shape == (seen, 32)
    assert model.mean_head.weight.shape == model.log_var_head.weight.shape == (32 + 96, 64)
    assert [layer.weight.shape for layer in model.prior.encoder] == [(seen, 128), (128, 128)]
    games, slots = 32, 67  # 32 x 66 steps are 2112 rows of states and 16896 rows of seats.

    def shape(*sizes: int, dtype: Any = jnp.float32) -> Any:
        return jax.ShapeDtypeStruct((games, slots, *sizes), dtype)

    flags, seats = shape(dtype=jnp.bool_), shape(8, dtype=jnp.int32)
    batch = EpisodeBatch(
        shape(8, 80), shape(168), shape(8, 14, dtype=jnp.bool_), seats, shape(), flags, flags, None, {}
    )

    def inferred(mac: BasicMAC, batch: EpisodeBatch) -> Array:
        return mac.opponent_model.unroll(mac.reading.episodes(batch).model_inputs()).mean

    assert jax.eval_shape(inferred, state.mac, batch).shape == (32, 67, 8, 64)
    new, metrics = jax.eval_shape(learner.update, state, batch, 0, 0, KEY)
    assert jax.tree.map(lambda leaf: leaf.shape, new) == jax.tree.map(lambda leaf: leaf.shape, state)
    assert {f"omg_offset_{k}" for k in range(1, 11)} < set(metrics)
    assert all(value.shape == () for value in metrics.values())


def test_values_of_states_by_hand():
    q, avail = jnp.array([1.0, 2.0, 9.0]), jnp.array([True, True, False])
    assert float(state_value(q, avail, "mean")) == 1.5
    assert float(state_value(q, avail, "max")) == 2.0
    assert float(state_value(q, avail, "softmax")) == pytest.approx((1 + 2 * np.e) / (1 + np.e))
    for kind in ("mean", "max", "softmax"):
        assert float(state_value(q, jnp.zeros(3, bool), kind)) == 0.0


def test_a_divergence_within_the_free_nats_costs_nothing():
    rows = np.random.default_rng(5).normal(size=(2, B, T, 2, D)).astype(np.float32)
    mask = np.ones((B, T), np.float32)
    inference = SubgoalInference(
        rows[0], rows[0], np.zeros((B, T, 2, 32)), np.zeros((B, T, 2, H)), np.zeros((B, T, 2, OBS))
    )

    def kl(free: float) -> float:
        sizes = SIZES._replace(own=(InferenceKeys(omg_free_nats=free),))
        model = build("omg_am", sizes)
        return float(jax.jit(lambda: model.subgoal_loss(inference, rows[1], rows[1], mask, 1.0, KEY)[1]["am_kl"])())

    apart = np.asarray(kl_between(rows[0], rows[0], rows[1], rows[1]))
    assert kl(0.0) == pytest.approx(apart.mean(), rel=1e-5)
    middle = float(np.median(apart))
    assert kl(middle) == pytest.approx(np.maximum(apart, middle).mean(), rel=1e-5)
