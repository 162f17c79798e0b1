"""Subgoal measures against slow, obvious versions of themselves and against worked examples."""

from __future__ import annotations

import numpy as np
import pytest

from omg.errors import UserError
from omg.evaluation.measures import (
    closer_than_now,
    feature_scale,
    linear_probe,
    offset_histogram,
    probe_gain,
    ridge_weights,
    state_distance,
    subgoal_hit_ratio,
)


def slow_distance(first: np.ndarray, second: np.ndarray, scale: np.ndarray) -> float:
    total = 0.0
    for one, other, unit in zip(first, second, scale, strict=True):
        total += ((one - other) / unit) ** 2
    return float(np.sqrt(total / len(scale)))


def slow_hit_ratio(decoded: np.ndarray, states: np.ndarray, scale: np.ndarray, tolerance: float) -> float:
    """One episode: `decoded` [P, D], `states` [T, D]."""
    counted: list[np.ndarray] = []
    for step, subgoal in enumerate(decoded):
        nearest, least = None, np.inf
        for state in states[step:]:
            distance = slow_distance(subgoal, state, scale)
            if distance < least:
                nearest, least = state, distance
        if nearest is None or least > tolerance:
            continue
        if all(slow_distance(nearest, other, scale) > tolerance for other in counted):
            counted.append(nearest)
    return len(counted) / len(states)


def episodes(seed: int, count: int = 6, slots: int = 12, width: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """Random walks [B, T, D] on a coarse grid, which come back to where they have been, and their lengths [B]."""
    rng = np.random.default_rng(seed)
    walks = np.cumsum(rng.integers(-1, 2, (count, slots, width)), axis=1).astype(float)
    return walks, rng.integers(3, slots + 1, count)


def test_worked_example_of_the_hit_ratio() -> None:
    states = np.arange(1.0, 6.0).reshape(1, 5, 1)
    predicted = np.array([3.0, 1.0, 5.0, 5.0]).reshape(1, 4, 1)
    for tolerance in (0.0, 0.3):
        ratio = subgoal_hit_ratio(predicted, states, np.array([5]), np.ones(1), tolerance)
        assert ratio == pytest.approx([0.4])
    # Decoded states are never exact; what counts is the real state they mean.
    blurred = predicted + np.array([0.1, -0.1, 0.05, -0.2]).reshape(1, 4, 1)
    assert subgoal_hit_ratio(blurred, states, np.array([5]), np.ones(1), 0.3) == pytest.approx([0.4])
    assert subgoal_hit_ratio(blurred, states, np.array([5]), np.ones(1), 0.08) == pytest.approx([0.2])


def test_a_game_that_stands_still_is_one_state() -> None:
    states = np.full((1, 10, 2), 3.0)
    assert subgoal_hit_ratio(states, states, np.array([10]), np.ones(2), 0.1) == pytest.approx([0.1])


@pytest.mark.parametrize("tolerance", [0.0, 0.4, 0.8, 1.5])
def test_hit_ratio_equals_the_slow_version(tolerance: float) -> None:
    states, lengths = episodes(0)
    rng = np.random.default_rng(1)
    # Some subgoals look ahead, some back, some nowhere.
    decoded = np.stack([walk[rng.integers(0, len(walk), len(walk))] for walk in states])
    decoded += np.where(rng.random(decoded.shape[:2]) < 0.5, 0.0, rng.normal(0, 0.5))[..., None]
    scale = feature_scale(states)
    found = subgoal_hit_ratio(decoded, states, lengths, scale, tolerance)
    slow = [
        slow_hit_ratio(decoded[index, :length], states[index, :length], scale, tolerance)
        for index, length in enumerate(lengths)
    ]
    assert found == pytest.approx(slow)
    assert 0 < np.mean(slow) < 1


def test_padding_and_missing_predictions_do_not_count() -> None:
    states, lengths = episodes(2)
    padded = np.where(np.arange(states.shape[1])[:, None] < lengths[:, None, None], states, 77.0)
    scale = feature_scale(states)
    assert subgoal_hit_ratio(padded, padded, lengths, scale, 0.0) == pytest.approx(
        subgoal_hit_ratio(states, states, lengths, scale, 0.0)
    )
    none = subgoal_hit_ratio(states, states, lengths, scale, 0.0, predictions=np.zeros(len(lengths), int))
    assert none.tolist() == [0.0] * len(lengths)
    one = subgoal_hit_ratio(states, states, lengths, scale, 0.0, predictions=np.ones(len(lengths), int))
    assert one == pytest.approx(1 / lengths)


def test_offsets_are_counted_from_one() -> None:
    offsets = np.array([[1, 3, 3], [5, 1, 2]])
    assert offset_histogram(offsets, 5).tolist() == [2, 1, 2, 0, 1]
    mask = np.array([[1, 1, 0], [1, 0, 0]])
    assert offset_histogram(offsets, 5, mask).tolist() == [1, 0, 1, 0, 1]
    with pytest.raises(ValueError, match="between 1 and 4, got 1 to 5"):
        offset_histogram(offsets, 4)
    with pytest.raises(ValueError, match="between 1 and 5, got 0"):
        offset_histogram(offsets - 1, 5)


def test_distances_are_in_units_of_spread() -> None:
    states = np.random.default_rng(0).normal(0, [1.0, 10.0, 0.0], (1000, 3))
    scale = feature_scale(states)
    assert scale == pytest.approx([1.0, 10.0, 1.0], rel=0.1)
    assert state_distance(states[0], states[1], scale) == pytest.approx(slow_distance(states[0], states[1], scale))


def test_subgoals_that_look_ahead_are_closer_than_now() -> None:
    rng = np.random.default_rng(0)
    episode = np.repeat(np.arange(30), 10)
    current, step = rng.normal(size=(300, 4)), rng.normal(size=(300, 4))
    future = current + step
    ahead = closer_than_now(current + 0.8 * step, current, future, episode, np.ones(4))
    distances = np.sqrt((step**2).mean(axis=1))
    assert ahead.current.value == pytest.approx(distances.mean())
    assert ahead.decoded.value == pytest.approx(0.2 * distances.mean())
    assert ahead.gain.value == pytest.approx(0.8 * distances.mean())
    assert ahead.share == 1.0
    assert 0 < ahead.gain.low < ahead.gain.value < ahead.gain.high
    still = closer_than_now(current, current, future, episode, np.ones(4))
    assert (still.gain.value, still.share) == (0.0, 0.0)
    back = closer_than_now(current - 0.5 * step, current, future, episode, np.ones(4))
    assert back.gain.high < 0


def test_ridge_equals_least_squares_with_penalty_rows() -> None:
    rng = np.random.default_rng(0)
    inputs, targets = rng.normal(size=(50, 6)), rng.normal(size=(50, 3))
    for penalty, weights in zip(
        (0.1, 3.0), ridge_weights(inputs.T @ inputs / 50, inputs.T @ targets / 50, np.array([0.1, 3.0])), strict=True
    ):
        rows = np.concatenate([inputs, np.sqrt(50 * penalty) * np.eye(6)])
        solution = np.linalg.lstsq(rows, np.concatenate([targets, np.zeros((6, 3))]), rcond=None)[0]
        assert weights == pytest.approx(solution)


def slow_probe(features: np.ndarray, labels: np.ndarray, part: np.ndarray, folds: int) -> np.ndarray:
    """Whether each step is named rightly, with every probe fitted to its own rows by least squares."""

    def fit_and_name(train: np.ndarray, test: np.ndarray, penalty: float) -> np.ndarray:
        mean, spread = features[train].mean(axis=0), features[train].std(axis=0)
        inputs, one_hot = (features[train] - mean) / spread, np.eye(labels.max() + 1)[labels[train]]
        rows = np.concatenate([inputs, np.sqrt(len(inputs) * penalty) * np.eye(inputs.shape[1])])
        goal = np.concatenate([one_hot - one_hot.mean(axis=0), np.zeros((inputs.shape[1], one_hot.shape[1]))])
        weights = np.linalg.lstsq(rows, goal, rcond=None)[0]
        return ((features[test] - mean) / spread @ weights + one_hot.mean(axis=0)).argmax(axis=1)

    correct = np.zeros(len(labels), bool)
    for held_out in range(folds):
        inner = (held_out + 1) % folds
        core, check = (part != held_out) & (part != inner), part == inner
        penalties = [float(penalty) for penalty in np.logspace(-4, 2, 7)]
        scores = [np.mean(fit_and_name(core, check, penalty) == labels[check]) for penalty in penalties]
        best = max(range(7), key=lambda index: (scores[index], index))
        test = part == held_out
        correct[test] = fit_and_name(part != held_out, test, penalties[best]) == labels[test]
    return correct


def probe_data(strength: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    episode = np.repeat(np.arange(60), 8)
    labels = np.repeat(rng.integers(0, 3, 60), 8)
    features = rng.normal(size=(480, 5)) * [1, 10, 0.1, 1, 1] + 7.0
    features[:, 0] += strength * labels
    features[:, 1] -= 10 * strength * (labels == 1)
    return features, labels, episode


def test_probe_equals_the_slow_version() -> None:
    from omg.evaluation.measures import _deal

    features, labels, episode = probe_data(1.0)
    part = _deal(labels, episode, 5, 0)
    found = linear_probe(features, labels, episode)
    slow = slow_probe(features, labels, part, 5)
    assert found.correct.tolist() == slow.tolist()
    recalls = [slow[labels == label].mean() for label in range(3)]
    assert found.accuracy.value == pytest.approx(slow.mean())
    assert found.balanced_accuracy.value == pytest.approx(np.mean(recalls))
    assert found.accuracy.low < found.accuracy.value < found.accuracy.high
    assert 0.55 < found.accuracy.value < 0.95


def test_no_episode_is_on_both_sides_of_the_probe() -> None:
    # The features name the episode and nothing else: a probe that saw other steps of it would know every label.
    rng = np.random.default_rng(0)
    episode = np.repeat(np.arange(100), 20)
    labels = np.repeat(rng.integers(0, 4, 100), 20)
    features = np.repeat(rng.normal(size=(100, 80)), 20, axis=0)
    found = linear_probe(features, labels, episode)
    assert found.balanced_accuracy.low < 0.25 < found.balanced_accuracy.high
    assert found.accuracy.value < 0.45
    assert (found.classes, found.episodes) == (4, 100)


def test_probe_knows_its_majority_baseline() -> None:
    episode = np.repeat(np.arange(40), 5)
    labels = np.where(episode % 4 == 0, "rare", "often")
    found = linear_probe(np.random.default_rng(0).normal(size=(200, 3)), labels, episode)
    assert found.majority == pytest.approx(0.75)
    assert found.accuracy.value == pytest.approx(0.75, abs=0.03)
    assert found.balanced_accuracy.value == pytest.approx(0.5, abs=0.05)


def test_constant_features_are_harmless() -> None:
    features, labels, episode = probe_data(1.0)
    wider = np.concatenate([features, np.full((len(features), 2), 4.0)], axis=1)
    assert (
        linear_probe(wider, labels, episode).correct.tolist()
        == linear_probe(features, labels, episode).correct.tolist()
    )


def test_probe_gain_is_paired_and_signed() -> None:
    features, labels, episode = probe_data(1.5)
    gain = probe_gain(features, features[:, 2:], labels, episode)
    assert gain.accuracy.value == pytest.approx(gain.features.accuracy.value - gain.baseline.accuracy.value)
    assert 0.2 < gain.accuracy.low < gain.accuracy.value < gain.accuracy.high
    assert gain.balanced_accuracy.low > 0.2
    nothing = probe_gain(features, features, labels, episode)
    assert tuple(nothing.accuracy) == (0.0, 0.0, 0.0)
    assert probe_gain(features[:, 2:], features, labels, episode).accuracy.high < 0


def test_probe_needs_enough_episodes() -> None:
    with pytest.raises(UserError, match="probe: got 4 episodes for 5 parts"):
        linear_probe(np.zeros((8, 2)), np.arange(8) % 2, np.repeat(np.arange(4), 2))
