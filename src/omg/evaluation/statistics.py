"""Statistics of evaluations."""

from __future__ import annotations

import numpy as np

_NUMBERS_AT_ONCE = 4_000_000
"""Resampled values held in memory; 2000 draws of 100,000 episodes at once would take gigabytes."""


def bootstrap_interval(
    values: np.ndarray, level: float = 0.95, draws: int = 2000, seed: int = 0
) -> tuple[float, float]:
    """Percentile bootstrap interval of the mean of `values` [N].

    Args:
        values: [N] measurements, N >= 1.
        level: probability that the interval stands for.
        draws: resamples of size N, with replacement.
        seed: of the resampling.

    Returns:
        Lower and upper end.
    """
    values = np.asarray(values, np.float64)
    rng = np.random.default_rng(seed)
    block = max(_NUMBERS_AT_ONCE // len(values), 1)
    means = np.concatenate(
        [
            values[rng.integers(0, len(values), (min(block, draws - start), len(values)))].mean(axis=1)
            for start in range(0, draws, block)
        ]
    )
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)
