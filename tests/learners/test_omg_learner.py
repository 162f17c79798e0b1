"""OMG: selector, mix and targets against loops that try every candidate and carry every recurrent state by hand."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array

from helpers.played import (
    ENDED,
    LENGTHS,
    ONE_SEAT,
    PARTNERS,
    SPEC,
    TWO_SEATS,
    A,
    B,
    T,
    U,
    behind_the_end,
    config,
    counted_steps,
    counted_views,
    drawn_state,
    episodes,
    fast_jit,
    same_bytes,
)
from omg.components import EpisodeBatch
from omg.controllers.basic import BasicMAC
from omg.controllers.draw import TeamDraw
from omg.controllers.reading import Selection
from omg.errors import UserError
from omg.learners import build_learner
from omg.learners.omg import OMGLearner
from omg.learners.q import QLearner, QState
from omg.modules.opponent_models.prior import InputStatistics

D, H = 3, 3
KEY = jax.random.key(11)


def build(team: TeamDraw | None = None, learns_prior: bool = False, **changes: Any) -> OMGLearner:
    settings = config(am_model="omg_am", learner="omg_learner", **changes)
    learner = build_learner(settings, SPEC, team, PARTNERS, learns_prior=learns_prior)
    assert isinstance(learner, OMGLearner)
    return learner


def data(learner: QLearner, seed: int = 0, **options: Any) -> EpisodeBatch:
    return episodes(seed, team=learner.team, **options)


def seats_of(learner: QLearner, b: int) -> list[int]:
    if learner.team is None:
        return list(range(A))
    slots, first = learner.team.main_slots, int(episodes(team=learner.team).seat[b])
    return [(first + slot - slots[0]) % A for slot in slots]


# One seat, one step at a time


@fast_jit
def cell(agent: Any, seen: Array, last: Array, features: Array, h: Array, seat: Array) -> tuple[Array, Array]:
    """The recurrent state and the values after one step of one seat."""
    h = agent.step(agent.embed(seen[None], last[None], features[None], seat[None]), h, seat[None])
    return h, agent.head(h, seat[None])[0]


def step(
    learner: QLearner, agent: Any, batch: EpisodeBatch, b: int, t: int, seat: int, goal: Any, h: Array
) -> tuple[Array, np.ndarray]:
    """One step of one seat of one episode with the subgoal `goal`, its input put together by hand."""
    seen = batch.state[b, t] if learner.config.obs_is_state else batch.obs[b, t, seat]
    last = np.asarray(batch.actions[b, t - 1]) if t > 0 else np.full(A, -1)
    features = np.asarray(goal)
    if learner.config.obs_all_last_actions:
        others = [np.eye(U)[last[a]] if a != seat and t > 0 else np.zeros(U) for a in range(A)]
        features = np.concatenate([*others, features])
    h, q = cell(agent, seen, jnp.int32(last[seat]), jnp.asarray(features, jnp.float32), h, jnp.int32(seat))
    return h, np.asarray(q)


def shown(learner: QLearner, mac: BasicMAC, goals: Any) -> np.ndarray:
    """What the agent reads of subgoals: [..., D] as they are, or decoded layer by layer."""
    x = np.asarray(goals)
    if learner.config.omg_feature == "code":
        return x
    prior = mac.opponent_model.prior
    for layer in prior.decoder:
        x = x @ np.asarray(layer.weight) + np.asarray(layer.bias)
        x = np.where(x > 0, x, 0.01 * x)
    return x @ np.asarray(prior.output.weight) + np.asarray(prior.output.bias)


def slow_value(q: np.ndarray, avail: np.ndarray, kind: str) -> float:
    legal = [float(q[u]) for u in range(U) if avail[u]]
    if kind == "max":
        return max(legal)
    if kind == "mean":
        return sum(legal) / len(legal)
    weights = np.exp(legal)
    return float((weights * np.array(legal)).sum() / weights.sum())


# Selector


def slow_selection(learner: OMGLearner, mac: BasicMAC, batch: EpisodeBatch, inferred: np.ndarray) -> dict[Any, Any]:
    """(b, t, i) -> selected offset, its encoding and the spread of the values, one candidate after the other."""
    settings, found, batch = learner.config, {}, jax.device_get(batch)
    encode = fast_jit(lambda seen: mac.opponent_model.prior.encode(seen))
    acted_on = shown(learner, mac, inferred)
    for b in range(B):
        for i, seat in enumerate(seats_of(learner, b)):
            h = mac.agent.initial(1, 1)[0]
            for t in range(LENGTHS[b]):
                values, codes = [], []
                for k in range(1, settings.omg_horizon + 1):
                    ahead = min(t + k, LENGTHS[b])
                    code = encode(batch.state[b, ahead] if settings.obs_is_state else batch.obs[b, ahead, seat])
                    _, q = step(learner, mac.agent, batch, b, t, seat, shown(learner, mac, code[0]), h)
                    values.append(slow_value(q, np.asarray(batch.avail[b, t, seat]), settings.omg_value))
                    codes.append(code)
                best = int(np.argmax(values) if settings.subgoal_mode == "optimistic" else np.argmin(values))
                found[b, t, i] = best + 1, codes[best], max(values) - min(values)
                h, _ = step(learner, mac.agent, batch, b, t, seat, acted_on[b, t, i], h)
    return found


def selector(learner: OMGLearner) -> Callable[..., Selection]:
    def select(state: QState, batch: EpisodeBatch, inferred: Array, key: Array) -> Selection:
        (share,) = learner.shares(state.mac.reading, batch)
        encoded = state.mac.opponent_model.prior.encode(share.views.model_inputs().seen)
        return learner.training.select(state.mac.opponent_model, state, share, encoded, inferred, key)

    return fast_jit(select)


def subgoals(learner: QLearner, seed: int = 3) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(B, T + 1, learner.seats, D)).astype(np.float32)


SELECTORS: dict[str, tuple[TeamDraw | None, dict[str, Any]]] = {
    "optimistic": (ONE_SEAT, {}),
    "conservative, two seats": (TWO_SEATS, {"subgoal_mode": "conservative"}),
    "optimistic, max": (ONE_SEAT, {"omg_value": "max", "agent": "idv_rnn"}),
    "conservative, softmax": (ONE_SEAT, {"subgoal_mode": "conservative", "omg_value": "softmax", "agent": "dueling"}),
    "all seats on the state": (None, {"obs_is_state": True, "omg_value": "softmax"}),
    "all last actions": (ONE_SEAT, {"obs_all_last_actions": True, "omg_horizon": 4}),
    "views": (ONE_SEAT, {"omg_feature": "view", "obs_all_last_actions": True}),
}


@pytest.mark.parametrize("case", SELECTORS)
def test_selector_equals_trying_every_candidate(case: str):
    team, changes = SELECTORS[case]
    learner = build(team, **changes)
    state, batch, inferred = drawn_state(learner), data(learner), subgoals(learner)
    select = selector(learner)
    selection = select(state, learner.keep(batch), inferred, KEY)
    expected = slow_selection(learner, state.mac, batch, inferred)
    assert len({offset for offset, _, _ in expected.values()}) > 1
    for (b, t, i), (offset, (mean, log_var), spread) in expected.items():
        assert int(selection.offset[b, t, i]) == offset <= LENGTHS[b] - t
        np.testing.assert_allclose(selection.mean[b, t, i], mean, atol=1e-5)
        np.testing.assert_allclose(selection.log_var[b, t, i], log_var, atol=1e-5)
        assert float(selection.spread[b, t, i]) == pytest.approx(spread, abs=1e-5)
    # What lies behind the end of an episode is never looked at.
    other = select(state, learner.keep(behind_the_end(batch)), inferred, KEY)
    for b, t in counted_steps():
        assert same_bytes(jax.tree.map(lambda x: x[b, t], other), jax.tree.map(lambda x: x[b, t], selection))  # noqa: B023


def test_selector_carries_the_state_of_the_inferred_subgoals():
    learner = build(ONE_SEAT)
    state, batch = drawn_state(learner), data(learner)
    select = selector(learner)
    one = select(state, learner.keep(batch), subgoals(learner), KEY)
    other = select(state, learner.keep(batch), subgoals(learner, seed=4), KEY)
    # The first step has no past; later ones do. The shortest episode has but one candidate left in its second step.
    difference = np.abs(np.asarray(one.spread) - np.asarray(other.spread))
    np.testing.assert_allclose(difference[:, 0], 0.0, atol=1e-6)
    assert difference[:3, 1].min() > 1e-5


@pytest.mark.parametrize(
    ("mode", "horizon", "wanted"),
    [("optimistic", 1, 1), ("next", 4, 1), ("k3", 4, 3), ("k3", 2, 2), ("furthest", 4, 4)],
)
def test_fixed_offsets(mode: str, horizon: int, wanted: int):
    learner = build(subgoal_mode=mode, omg_horizon=horizon)
    state, batch = drawn_state(learner), data(learner)
    selection = selector(learner)(state, batch, subgoals(learner), KEY)
    prior = state.mac.opponent_model.prior
    codes = np.asarray(fast_jit(lambda seen: prior.encode(seen))(batch.obs)[0])
    for b, t in counted_steps():
        offset = min(wanted, LENGTHS[b] - t)
        assert selection.offset[b, t].tolist() == [offset] * A
        np.testing.assert_allclose(selection.mean[b, t], codes[b, t + offset], atol=1e-6)


def test_random_offsets_are_uniform():
    learner = build(subgoal_mode="random", omg_horizon=4)
    state, batch = drawn_state(learner), data(learner)
    select, keys = selector(learner), jax.random.split(KEY, 500)
    many = np.asarray(jax.vmap(lambda key: select(state, batch, subgoals(learner), key).offset)(keys))
    for b, t in counted_steps():
        left = LENGTHS[b] - t
        counts = np.bincount(many[:, b, t].reshape(-1), minlength=5)[1:] / many[:, b, t].size
        assert len(counts) == 4
        # Past the end the last state repeats, so that its offset takes the share of those behind it.
        share = [0.25 if k < left else 0.25 * (4 - k + 1) if k == left else 0.0 for k in range(1, 5)]
        np.testing.assert_allclose(counts, share, atol=0.05)


# Mix


def features_for(learner: OMGLearner) -> Callable[..., tuple[Array, dict[str, Array]]]:
    """The subgoals that enter Q in an update, and its metrics."""

    def features(state: Any, batch: EpisodeBatch, t_env: Array | int, key: Array) -> tuple[Array, dict[str, Array]]:
        update = learner.training.update(state, learner.shares(state.mac.reading, batch), t_env, key)
        (given,) = update.features
        assert given is not None
        return given, update.metrics

    return fast_jit(features)


def both_kinds(learner: OMGLearner, state: Any, batch: EpisodeBatch) -> tuple[np.ndarray, np.ndarray]:
    """What is inferred, and the encodings of the next states (those of the present one in the last slot)."""
    model = state.mac.opponent_model
    inferred = model.unroll(state.mac.reading.episodes(batch).model_inputs()).mean
    code = np.asarray(model.prior.encode(batch.obs)[0])
    return np.asarray(inferred), np.concatenate([code[:, 1:], code[:, -1:]], axis=1)


def test_share_of_selected_subgoals_falls():
    learner = build(subgoal_mode="next", omg_sample=False)
    state, batch = drawn_state(learner), data(learner)
    inferred, selected = both_kinds(learner, state, batch)
    mixed = jax.vmap(features_for(learner), in_axes=(None, None, None, 0))
    keys = jax.random.split(KEY, 60)
    played = np.asarray(batch.filled)
    for t_env, share in ((0, 0.5), (25_000, 0.25), (40_000, 0.1), (50_000, 0.0), (70_000, 0.0)):
        features, metrics = mixed(state, batch, t_env, keys)
        np.testing.assert_allclose(metrics["omg_selected_share"], share, atol=1e-6)
        taken = np.isclose(features, selected, atol=1e-5).all(axis=-1)
        left = np.isclose(features, inferred, atol=1e-5).all(axis=-1)
        assert (taken ^ left).all()
        assert taken[:, played].mean() == pytest.approx(share, abs=0.04)
        assert not taken[:, ~played].any()


@pytest.mark.parametrize("q_input", ["inferred", "selected", "zero"])
def test_what_enters_q(q_input: str):
    learner = build(subgoal_mode="next", omg_sample=False, omg_q_input=q_input, omg_feature="view")
    state, batch = drawn_state(learner), data(learner)
    features, _ = features_for(learner)(state, batch, 0, KEY)
    inferred, selected = both_kinds(learner, state, batch)
    played = np.asarray(batch.filled)
    if q_input == "zero":
        assert state.mac.reading.feature_control == "zero"
        # Whatever was inferred, nothing of it is read, nor what zeros would stand for.
        views, model = state.mac.reading.episodes(batch), state.mac.opponent_model
        assert not np.asarray(state.mac.reading.features(model, views, features)).any()
        reading = state.mac.with_features("inferred").reading
        assert np.asarray(reading.features(model, views, features)).any()
        return
    assert state.mac.reading.feature_control == "inferred"
    expected = selected if q_input == "selected" else inferred
    np.testing.assert_allclose(np.asarray(features)[played], expected[played], atol=1e-5)
    np.testing.assert_allclose(np.asarray(features)[~played], inferred[~played], atol=1e-5)


def test_subgoals_are_drawn_in_training():
    learner = build(omg_q_input="inferred")
    state, batch = drawn_state(learner), data(learner)
    features, draw = both_kinds(learner, state, batch)[0], features_for(learner)
    one, other = (np.asarray(draw(state, batch, 0, jax.random.key(seed))[0]) for seed in range(2))
    assert np.abs(one - other).min() > 1e-6
    assert np.abs(one - features).min() > 1e-6


def test_some_of_the_others_actions_are_hidden_while_learning():
    learner = build(omg_q_input="inferred", omg_sample=False, omg_action_dropout=0.5)
    state, batch, draw = drawn_state(learner), data(learner), features_for(learner)
    one, other = (np.asarray(draw(state, batch, 0, jax.random.key(seed))[0]) for seed in range(2))
    # Nobody has done anything before the first step.
    np.testing.assert_array_equal(one[:, 0], other[:, 0])
    assert np.abs(one - other).max(axis=(1, 3)).min() > 1e-6


# Targets


def slow_loss(learner: OMGLearner, state: Any, batch: EpisodeBatch, features: np.ndarray) -> float:
    """The Q loss with the recurrent states of both networks carried by hand."""
    settings, errors, batch = learner.config, [], jax.device_get(batch)
    features = shown(learner, state.mac, features)
    for b in range(B):
        for i, seat in enumerate(seats_of(learner, b)):
            online = frozen = state.mac.agent.initial(1, 1)[0]
            for t in range(LENGTHS[b]):
                g, after = features[b, t, i], features[b, t + 1, i]
                bootstrap = g if settings.omg_bootstrap == "same" else after
                online, q = step(learner, state.mac.agent, batch, b, t, seat, g, online)
                frozen, _ = step(learner, state.target_mac.agent, batch, b, t, seat, g, frozen)
                _, q_next = step(learner, state.mac.agent, batch, b, t + 1, seat, bootstrap, online)
                _, target_next = step(learner, state.target_mac.agent, batch, b, t + 1, seat, bootstrap, frozen)
                chooser = q_next if settings.double_q else target_next
                legal = [u for u in range(U) if batch.avail[b, t + 1, seat, u]]
                following = target_next[max(legal, key=lambda u: chooser[u])]
                reward = np.asarray(batch.reward[b, t])
                reward = float(reward[seat] if reward.ndim else reward)
                over = ENDED[b] and t == LENGTHS[b] - 1
                target = reward + settings.gamma * (0.0 if over else 1.0) * following
                errors.append((q[int(batch.actions[b, t, seat])] - target) ** 2)
    return float(np.mean(errors))


TARGETS: dict[str, tuple[TeamDraw | None, dict[str, Any]]] = {
    "same subgoal": (ONE_SEAT, {}),
    "same subgoal, no double q": (TWO_SEATS, {"double_q": False, "omg_q_input": "selected"}),
    "same subgoal, a network each, all last actions": (ONE_SEAT, {"agent": "idv_rnn", "obs_all_last_actions": True}),
    "same subgoal, views": (ONE_SEAT, {"omg_feature": "view", "obs_all_last_actions": True}),
    "next subgoal": (ONE_SEAT, {"omg_bootstrap": "next"}),
    "next subgoal, views": (ONE_SEAT, {"omg_bootstrap": "next", "omg_feature": "view"}),
    "next subgoal, all seats on the state": (
        None,
        {"omg_bootstrap": "next", "agent": "dueling", "obs_is_state": True, "omg_q_input": "selected"},
    ),
}


@pytest.mark.parametrize("case", TARGETS)
def test_q_loss_equals_carrying_the_state_by_hand(case: str):
    team, changes = TARGETS[case]
    learner = build(team, **changes)
    state, batch = drawn_state(learner), data(learner, reward_per_agent=True)
    kept = learner.keep(batch)

    @fast_jit
    def update(state: QState, batch: EpisodeBatch) -> tuple[Array, Array]:
        (features,) = learner.training.update(state, learner.shares(state.mac.reading, batch), 0, KEY).features
        assert features is not None
        return features, learner.update(state, batch, 0, 0, KEY)[1]["loss"]

    features, loss = update(state, kept)
    assert float(loss) == pytest.approx(slow_loss(learner, state, batch, np.asarray(features)), rel=1e-4)


# The prior


def test_without_a_given_prior_it_is_learned_along():
    learner = build(ONE_SEAT, learns_prior=True, subgoal_mode="next")
    state, batch = drawn_state(learner), data(learner)
    # One feature never changes, as in games where a unit type is missing.
    batch = batch._replace(obs=batch.obs * np.array([1, 1, 0, 1], np.float32) + np.array([0, 0, 0.5, 0], np.float32))
    prior = state.mac.opponent_model.prior
    start = prior.with_statistics(InputStatistics.empty(prior.statistics.mean.size))
    model = state.mac.opponent_model.with_prior(start)
    state = state._replace(mac=dataclasses.replace(state.mac, opponent_model=model))
    update, end, losses = fast_jit(learner.update), state, []
    for _ in range(4):
        end, metrics = update(end, learner.keep(batch), 0, 0, KEY)
        losses.append(float(metrics["prior_loss"]))
    assert np.all(np.diff(losses) < 0)
    learned = end.mac.opponent_model.prior
    for one, other in zip(jax.tree.leaves(start), jax.tree.leaves(learned), strict=True):
        assert not same_bytes(one, other)
    assert all(np.isfinite(np.asarray(leaf)).all() for leaf in jax.tree.leaves(end))
    # The input statistics are those of the views it learned from, four times over, and nothing else moves them.
    rows, counted = np.stack([batch.obs[b, t, seats_of(learner, b)[0]] for b, t in counted_views()]), learned.statistics
    assert float(counted.rows) == 4 * len(rows)
    np.testing.assert_allclose([counted.mean, counted.variance], [rows.mean(axis=0), rows.var(axis=0)], atol=1e-5)
    once, metrics = update(state, learner.keep(batch), 0, 0, KEY)
    again, _ = update(state, learner.keep(behind_the_end(batch)), 0, 0, KEY)
    assert same_bytes(once, again)
    # Inferred and selected subgoals of one update rest on the same statistics, its own.
    model = model.with_prior(start.with_statistics(once.mac.opponent_model.prior.statistics))
    views = state.mac.reading.episodes(batch, learner.main_seats(batch))
    inferred, code = np.asarray(model.unroll(views.model_inputs()).mean), np.asarray(model.prior.encode(views.seen)[0])
    distance = np.mean([((inferred[b, t] - code[b, t + 1]) ** 2).mean() for b, t in counted_steps()])
    assert float(metrics["am_goal_distance"]) == pytest.approx(distance, rel=1e-4)


def test_omg_learner_needs_its_model():
    with pytest.raises(UserError, match="am_model: got liam_am, but a learner of subgoals trains omg_am"):
        OMGLearner(config(am_model="liam_am"), SPEC)
