"""One agent in all seats of its game."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from omg.evaluation.statistics import bootstrap_interval
from omg.pools import Agent
from omg.runners import play_episodes


def play_team(agent: Agent, episodes: int, seed: int = 0, epsilon: float = 0.0) -> list[dict[str, Any]]:
    """Plays `episodes` episodes and summarises every metric.

    Returns:
        One row per metric: metric, mean, std, low and high (95 % bootstrap interval of the mean), episodes.
    """

    def play(policy: Any, key: jax.Array) -> Any:
        return play_episodes(agent.env, policy, key, episodes, jnp.float32(epsilon), record=False).stats

    stats = jax.device_get(eqx.filter_jit(play)(agent.policy, jax.random.PRNGKey(seed)))
    columns = {"return": stats.returns, "ep_length": stats.lengths, **stats.metrics}
    rows = []
    for name, values in columns.items():
        values = np.asarray(values, np.float64)
        low, high = bootstrap_interval(values)
        row = {"metric": name, "mean": float(values.mean()), "std": float(values.std()), "low": low, "high": high}
        rows.append({**row, "episodes": episodes})
    return rows
