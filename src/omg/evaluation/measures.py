"""What inferred subgoals are worth, apart from the score: do they come true, how far ahead, and what do they know?

Distances between states are in normalised units: every feature is divided by its spread over the states met (see
`feature_scale`), and the distance is the root of the mean square over features. 1 is thus a typical distance of a state
from the average one, whatever the game.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from omg.errors import UserError
from omg.evaluation.statistics import FEWEST, Estimate, cluster_interval

_CONSTANT = 1e-6
"""A feature with a smaller spread counts as constant and is compared in its own units."""

_PENALTIES = np.logspace(-4, 2, 7)
_PROBE_DRAWS = 1000


def feature_scale(states: np.ndarray) -> np.ndarray:
    """Spread of every feature: `states` [..., D] -> standard deviations [D], 1 for features that never change."""
    spread = np.asarray(states, np.float64).reshape(-1, np.shape(states)[-1]).std(axis=0)
    return np.where(spread < _CONSTANT, 1.0, spread)


def state_distance(first: np.ndarray, second: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Normalised distance between states [..., D] and [..., D] with the feature spreads `scale` [D]: [...]."""
    difference = (np.asarray(first, np.float64) - np.asarray(second, np.float64)) / scale
    return np.sqrt(np.mean(difference**2, axis=-1))


def subgoal_hit_ratio(
    decoded: np.ndarray,
    states: np.ndarray,
    lengths: np.ndarray,
    scale: np.ndarray,
    tolerance: float,
    predictions: np.ndarray | None = None,
) -> np.ndarray:
    """Share of an episode's states that an inferred subgoal pointed at in time.

    The decoded subgoal of step t hits when the nearest real state at or after t is no further away than `tolerance`.
    Distinct hits are counted and divided by the number of states of the episode. Decoded states of a continuous game
    are never quite equal, so *distinct* is judged by the real states they hit: a hit counts if its real state is
    further than `tolerance` from those of all hits counted before it. With a tolerance of 0 these are the distinct
    decoded states that really occur, and the ratio cannot exceed 1 with any tolerance.

    For an episode (s1, ..., s5) with the predictions s3, s1, s5, s5 the ratio is 2/5: s3 lies ahead of step 1, s1 does
    not lie ahead of step 2, and s5 counts once. A model that only repeats the present state also scores high, since
    that state occurs at t; `closer_than_now` tells the two apart.

    Args:
        decoded: [B, P, D] subgoals decoded to states; step t of an episode is `decoded[b, t]`.
        states: [B, T, D] real states.
        lengths: [B] number of real states of each episode; the rest is padding.
        scale: [D] spread of the features.
        tolerance: largest distance, in normalised units, at which two states are the same.
        predictions: [B] number of valid subgoals of each episode; by default all P, or as many as there are states.

    Returns:
        [B] ratios between 0 and 1.
    """
    available = np.minimum(lengths, decoded.shape[1])
    counts = available if predictions is None else np.minimum(predictions, available)
    ratios = [
        _distinct_hits(decoded[index, :count] / scale, states[index, :length] / scale, tolerance) / length
        for index, (length, count) in enumerate(zip(lengths, counts, strict=True))
    ]
    return np.asarray(ratios)


def _distinct_hits(decoded: np.ndarray, states: np.ndarray, tolerance: float) -> int:
    """Number of distinct states of one episode [T, D] that were hit by the subgoals [P, D], all in units of spread."""
    from scipy.spatial.distance import cdist  # Not above: a run does not wait for SciPy.

    root = np.sqrt(states.shape[1])
    # Differences are formed before they are squared, unlike in a matrix product, so that equal states have distance 0.
    ahead = np.triu(np.ones((len(decoded), len(states)), bool))
    distance = np.where(ahead, cdist(decoded, states) / root, np.inf)
    nearest = distance.argmin(axis=1)
    hits = nearest[distance[np.arange(len(decoded)), nearest] <= tolerance]
    same = cdist(states, states) / root <= tolerance
    counted = 0
    covered = np.zeros(len(states), bool)
    for hit in dict.fromkeys(hits.tolist()):
        if not covered[hit]:
            counted += 1
            covered |= same[hit]
    return counted


def offset_histogram(offsets: np.ndarray, horizon: int, mask: np.ndarray | None = None) -> np.ndarray:
    """How often each offset k was selected.

    Args:
        offsets: [...] how many steps ahead the selected state lay, 1 to `horizon`.
        horizon: H, the number of candidates.
        mask: [...] true where a selection counts; everywhere when left out.

    Returns:
        [H] counts of k = 1, ..., H.
    """
    chosen = np.asarray(offsets).ravel() if mask is None else np.asarray(offsets)[np.asarray(mask, bool)]
    if chosen.size and (chosen.min() < 1 or chosen.max() > horizon):
        raise ValueError(f"offsets must lie between 1 and {horizon}, got {chosen.min()} to {chosen.max()}")
    return np.bincount(chosen.astype(np.int64) - 1, minlength=horizon)


@dataclass(frozen=True)
class Closeness:
    """How far the decoded subgoal and the present state are from the state H steps ahead, in normalised units."""

    decoded: Estimate
    """Mean distance of the decoded subgoal, with an interval over episodes."""
    current: Estimate
    """Mean distance of the present state."""
    gain: Estimate
    """Present state minus decoded subgoal: above 0, the subgoal says more about the future than standing still."""
    share: float
    """Share of the steps in which the subgoal is the closer of the two."""


def closer_than_now(
    decoded: np.ndarray, current: np.ndarray, future: np.ndarray, episode: np.ndarray, scale: np.ndarray
) -> Closeness:
    """Whether subgoals look ahead, or merely repeat the present.

    Args:
        decoded: [N, D] subgoals decoded to states.
        current: [N, D] states in which they were inferred.
        future: [N, D] states H steps later.
        episode: [N] episode of each step; intervals are over episodes.
        scale: [D] spread of the features.
    """
    of_decoded, of_current = state_distance(decoded, future, scale), state_distance(current, future, scale)
    return Closeness(
        decoded=cluster_interval(of_decoded, episode),
        current=cluster_interval(of_current, episode),
        gain=cluster_interval(of_current - of_decoded, episode),
        share=float(np.mean(of_decoded < of_current)),
    )


@dataclass(frozen=True)
class ProbeScore:
    """How well a linear probe reads a label off features, on episodes it was not trained on."""

    accuracy: Estimate
    """Share of steps, with an interval over episodes."""
    balanced_accuracy: Estimate
    """Mean over the classes of the share of their steps; guessing gives 1 / classes."""
    majority: float
    """Accuracy of always naming the most frequent class of the training episodes."""
    classes: int
    episodes: int
    correct: np.ndarray
    """[N] whether each step was named rightly."""


@dataclass(frozen=True)
class ProbeGain:
    """What features tell about a label beyond what other features tell."""

    features: ProbeScore
    baseline: ProbeScore
    accuracy: Estimate
    """Difference in accuracy, with a paired interval over episodes."""
    balanced_accuracy: Estimate
    """Difference in balanced accuracy, with a paired interval over episodes."""


def linear_probe(
    features: np.ndarray, labels: np.ndarray, episode: np.ndarray, *, folds: int = 5, seed: int = 0
) -> ProbeScore:
    """Accuracy of ridge regression onto one-hot labels.

    Episodes are dealt into `folds` parts; each part is scored by a probe trained on the others, so that no episode is
    on both sides. Features are standardised by the training episodes. The penalty is chosen on one of the training
    parts with a probe trained on the rest of them, and the probe then trained anew on all.

    Args:
        features: [N, D].
        labels: [N] classes, e.g. which policy the others follow.
        episode: [N] episode of each step.
        folds: number of parts, at least 3.
        seed: of the dealing and the resampling.

    Raises:
        UserError: there are fewer episodes than parts.
    """
    names, classes, episodes = _indices(labels, episode, folds)
    part = _deal(classes, episodes, folds, seed)
    correct, majority = _cross_fit(features, classes, part, folds)
    accuracy, balanced = _rates(correct[None], classes, episodes)
    drawn_accuracy, drawn_balanced = _drawn_rates(correct[None], classes, episodes, seed)
    return ProbeScore(
        accuracy=_interval(accuracy[0], drawn_accuracy[0]),
        balanced_accuracy=_interval(balanced[0], drawn_balanced[0]),
        majority=majority,
        classes=len(names),
        episodes=int(episodes.max()) + 1,
        correct=correct,
    )


def probe_gain(
    features: np.ndarray,
    baseline_features: np.ndarray,
    labels: np.ndarray,
    episode: np.ndarray,
    *,
    folds: int = 5,
    seed: int = 0,
) -> ProbeGain:
    """Compares two sets of features, e.g. subgoal and observation, by probes on the same parts of the same episodes.

    Args:
        features: [N, D].
        baseline_features: [N, E].
        labels: [N] classes.
        episode: [N] episode of each step.
        folds: number of parts, at least 3.
        seed: of the dealing and the resampling.
    """
    own = linear_probe(features, labels, episode, folds=folds, seed=seed)
    baseline = linear_probe(baseline_features, labels, episode, folds=folds, seed=seed)
    _, classes, episodes = _indices(labels, episode, folds)
    correct = np.stack([own.correct, baseline.correct])
    (accuracy, balanced), drawn = _rates(correct, classes, episodes), _drawn_rates(correct, classes, episodes, seed)
    return ProbeGain(
        features=own,
        baseline=baseline,
        accuracy=_interval(accuracy[0] - accuracy[1], drawn[0][0] - drawn[0][1]),
        balanced_accuracy=_interval(balanced[0] - balanced[1], drawn[1][0] - drawn[1][1]),
    )


def ridge_weights(covariance: np.ndarray, target: np.ndarray, penalties: np.ndarray) -> Iterator[np.ndarray]:
    """Solutions W [D, classes] of (covariance + penalty · 1) W = target for every penalty, from one eigendecomposition.

    Args:
        covariance: [D, D] of the features.
        target: [D, classes] covariance of features and targets.
        penalties: [P] positive numbers.
    """
    values, vectors = np.linalg.eigh(covariance)
    turned = vectors.T @ target
    for penalty in penalties:
        yield vectors @ (turned / (np.maximum(values, 0.0) + penalty)[:, None])


@dataclass(frozen=True)
class _Moments:
    """Sums over steps from which any union of parts is standardised and solved without touching the steps again."""

    count: float
    features: np.ndarray
    """[D] sum of the features."""
    classes: np.ndarray
    """[classes] steps of each class."""
    squares: np.ndarray
    """[D, D] sum of the products of features."""
    products: np.ndarray
    """[D, classes] sum of the features of each class."""

    def __add__(self, other: _Moments) -> _Moments:
        return _Moments(*(getattr(self, name) + getattr(other, name) for name in self.__dataclass_fields__))


def _indices(labels: np.ndarray, episode: np.ndarray, folds: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The classes' names [classes], the class of each step [N] and its episode, counted from 0 [N]."""
    names, classes = np.unique(labels, return_inverse=True)
    found, episodes = np.unique(episode, return_inverse=True)
    if folds < FEWEST or len(found) < folds:
        raise UserError(
            f"probe: got {len(found)} episodes for {folds} parts. Needed: {FEWEST} or more parts, each of "
            "at least one episode."
        )
    return names, classes.ravel(), episodes.ravel()


def _deal(classes: np.ndarray, episodes: np.ndarray, folds: int, seed: int) -> np.ndarray:
    """Part [N] of each step. Episodes of the same most frequent class are spread evenly over the parts."""
    table = np.zeros((episodes.max() + 1, classes.max() + 1), np.int64)
    np.add.at(table, (episodes, classes), 1)
    shuffled = np.random.default_rng(seed).permutation(len(table))
    order = shuffled[np.argsort(table.argmax(axis=1)[shuffled], kind="stable")]
    part = np.empty(len(table), np.int64)
    part[order] = np.arange(len(table)) % folds
    return part[episodes]


def _cross_fit(features: np.ndarray, classes: np.ndarray, part: np.ndarray, folds: int) -> tuple[np.ndarray, float]:
    """Whether each step was named rightly by the probe of the other parts [N], and how often the majority class was."""
    # Any affine change of the features leaves the result alone; this one keeps the sums below well scaled.
    inputs = np.asarray(features, np.float64)
    inputs = (inputs - inputs.mean(axis=0)) / feature_scale(inputs)
    one_hot = np.eye(classes.max() + 1)[classes]
    steps = [np.flatnonzero(part == index) for index in range(folds)]
    moments = [_moments(inputs[index], one_hot[index]) for index in steps]
    correct = np.zeros(len(classes), bool)
    majority = np.zeros(len(classes), bool)
    for held_out in range(folds):
        inner = (held_out + 1) % folds
        rest = [moments[index] for index in range(folds) if index not in (held_out, inner)]
        core = sum(rest[1:], rest[0])
        score = [np.mean(predict(inputs[steps[inner]]) == classes[steps[inner]]) for predict in _probes(core)]
        # Of equally good penalties the strongest.
        best = len(score) - 1 - int(np.argmax(score[::-1]))
        training = core + moments[inner]
        (predict,) = _probes(training, _PENALTIES[best : best + 1])
        correct[steps[held_out]] = predict(inputs[steps[held_out]]) == classes[steps[held_out]]
        majority[steps[held_out]] = classes[steps[held_out]] == training.classes.argmax()
    return correct, float(majority.mean())


def _moments(inputs: np.ndarray, one_hot: np.ndarray) -> _Moments:
    return _Moments(len(inputs), inputs.sum(axis=0), one_hot.sum(axis=0), inputs.T @ inputs, inputs.T @ one_hot)


class _Probe:
    """A trained probe: inputs [N, D] -> classes [N]."""

    def __init__(self, weights: np.ndarray, bias: np.ndarray) -> None:
        self.weights, self.bias = weights, bias

    def __call__(self, inputs: np.ndarray) -> np.ndarray:
        return (inputs @ self.weights + self.bias).argmax(axis=1)


def _probes(moments: _Moments, penalties: np.ndarray = _PENALTIES) -> Iterator[_Probe]:
    """One probe per penalty, trained on the steps behind `moments` with features standardised over these steps."""
    mean, shares = moments.features / moments.count, moments.classes / moments.count
    covariance = moments.squares / moments.count - np.outer(mean, mean)
    spread = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    spread = np.where(spread < _CONSTANT, 1.0, spread)
    target = (moments.products / moments.count - np.outer(mean, shares)) / spread[:, None]
    for standardised in ridge_weights(covariance / np.outer(spread, spread), target, penalties):
        weights = standardised / spread[:, None]
        yield _Probe(weights, shares - mean @ weights)


def _counts(correct: np.ndarray, classes: np.ndarray, episodes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Steps of each episode and class that are right [probes, E, classes], and all of them [E, classes]."""
    shape = (episodes.max() + 1, classes.max() + 1)
    cell = np.ravel_multi_index((episodes, classes), shape)
    size = shape[0] * shape[1]
    right = np.stack([np.bincount(cell, probe, size).reshape(shape) for probe in correct])
    return right, np.bincount(cell, minlength=size).reshape(shape).astype(np.float64)


def _rates(correct: np.ndarray, classes: np.ndarray, episodes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Accuracy [probes] and balanced accuracy [probes] of `correct` [probes, N]."""
    right, total = _counts(correct, classes, episodes)
    return right.sum(axis=(1, 2)) / total.sum(), (right.sum(axis=1) / total.sum(axis=0)).mean(axis=1)


def _drawn_rates(
    correct: np.ndarray, classes: np.ndarray, episodes: np.ndarray, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """`_rates` of resampled episodes, the same ones for all probes: [probes, draws] and [probes, draws]."""
    right, total = _counts(correct, classes, episodes)
    count = len(total)
    rng = np.random.default_rng(seed)
    weights = rng.multinomial(count, np.full(count, 1 / count), size=_PROBE_DRAWS).astype(np.float64)
    accuracy = (weights @ right.sum(axis=2).T).T / (weights @ total.sum(axis=1))
    seen = weights @ total  # [draws, C]
    # A class that a resample does not hold at all is left out of its mean.
    with np.errstate(invalid="ignore"):
        balanced = np.nanmean((weights @ right) / seen, axis=2)
    return accuracy, balanced


def _interval(value: float, drawn: np.ndarray, level: float = 0.95) -> Estimate:
    low, high = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2])
    return Estimate(float(value), float(low), float(high))
