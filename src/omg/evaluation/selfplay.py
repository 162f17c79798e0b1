"""One agent in all seats of its game."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from omg.controllers.base import Policy
from omg.envs import Env
from omg.evaluation.statistics import bootstrap_interval
from omg.pools import Agent
from omg.runners.vector import EpisodeStats, play_episodes


def play_team(agent: Agent, episodes: int, seed: int = 0, epsilon: float = 0.0) -> list[dict[str, Any]]:
    """Plays `episodes` episodes and summarises every metric.

    Args:
        agent: plays in all seats.
        episodes: number of games, all played side by side.
        seed: of all random numbers; the same seed gives the same table.
        epsilon: exploration handed to the agent; 0 plays greedily.

    Returns:
        One row per metric: metric, mean, std, low and high (95 % bootstrap interval of the mean), episodes.

    Raises:
        UserError: the agent is a bound that cannot play in all seats.
    """
    agent.check_untold()
    stats = jax.device_get(_play(agent.env, agent.policy, jax.random.PRNGKey(seed), jnp.float32(epsilon), episodes))
    metrics = {name: stats.metrics[name] for name in agent.spec.metrics}
    columns = {"return": stats.returns, "ep_length": stats.lengths, **metrics}
    rows = []
    for name, values in columns.items():
        values = np.asarray(values, np.float64)
        low, high = bootstrap_interval(values)
        row = {"metric": name, "mean": float(values.mean()), "std": float(values.std()), "low": low, "high": high}
        rows.append({**row, "episodes": episodes})
    return rows


@eqx.filter_jit
def _play(env: Env, policy: Policy, key: jax.Array, epsilon: jax.Array, episodes: int) -> EpisodeStats:
    """Statistics [episodes]; compiled once per game, shape of policy and number of episodes."""
    return play_episodes(env, policy, key, episodes, epsilon, record=False).stats
