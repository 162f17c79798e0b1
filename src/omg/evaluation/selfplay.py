"""One agent in all seats of its game."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from omg.controllers.base import Policy
from omg.envs import Env
from omg.evaluation.statistics import bootstrap_interval
from omg.evaluation.tables import AloneRow
from omg.pools import Agent
from omg.runners.vector import EpisodeStats, play_episodes


def play_team(agent: Agent, episodes: int, seed: int = 0, epsilon: float = 0.0) -> list[AloneRow]:
    """Plays `episodes` episodes and summarises every metric.

    Args:
        agent: plays in all seats.
        episodes: number of games, all played side by side.
        seed: of all random numbers; the same seed gives the same table.
        epsilon: exploration handed to the agent; 0 plays greedily.

    Returns:
        One row per metric; its interval is the 95 % bootstrap interval of the mean over episodes.

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
        mean, spread = float(values.mean()), float(values.std())
        rows.append(AloneRow(metric=name, mean=mean, std=spread, low=low, high=high, episodes=episodes))
    return rows


@eqx.filter_jit
def _play(env: Env, policy: Policy, key: jax.Array, epsilon: jax.Array, episodes: int) -> EpisodeStats:
    """Statistics [episodes]; compiled once per game, shape of policy and number of episodes."""
    return play_episodes(env, policy, key, episodes, epsilon, record=False).stats
