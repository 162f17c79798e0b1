"""Made-up episodes as a policy could have played them, and states of the learners that learn from such."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from helpers.played import drawn, episodes, zeros_like
from omg.components import EpisodeBatch
from omg.controllers.draw import TeamDraw


def legal_episodes(seed: int = 0, *, reward_per_agent: bool = False, team: TeamDraw | None = None) -> EpisodeBatch:
    """`played.episodes`, but every action that was played, or would have been, was legal."""
    batch = episodes(seed, reward_per_agent=reward_per_agent, team=team)
    chance = np.random.default_rng(seed + 1000).random(batch.avail.shape)
    best = np.where(batch.avail, chance, -1.0).argmax(axis=-1).astype(np.int32)
    return batch._replace(actions=np.where(batch.avail.any(axis=-1), best, batch.actions))


def drawn_networks(learner: Any, names: tuple[str, ...], seed: int = 0) -> Any:
    """A new learner's state with numbers in the networks of these names, all else zero."""
    shapes = jax.eval_shape(learner.init, jax.random.key(0))
    networks = {name: drawn(getattr(shapes, name), 10 * seed + index) for index, name in enumerate(names)}
    return zeros_like(shapes)._replace(**networks)


def seats_of(team: TeamDraw | None, batch: EpisodeBatch) -> list[list[int]]:
    """The seats that learn, episode by episode, by going round the table."""
    count, n_agents = batch.actions.shape[0], batch.actions.shape[2]
    if team is None or batch.seat is None:
        return [list(range(n_agents))] * count
    slots = team.main_slots
    return [[(int(first) + slot - slots[0]) % n_agents for slot in slots] for first in batch.seat]


def dense(layer: Any, x: np.ndarray) -> np.ndarray:
    """A linear layer by NumPy."""
    return x @ np.asarray(layer.weight, np.float64) + np.asarray(layer.bias, np.float64)


def perceptron(layers: Any, x: np.ndarray) -> np.ndarray:
    """Linear layers with ReLU between them, by NumPy."""
    for layer in layers[:-1]:
        x = np.maximum(dense(layer, x), 0)
    return dense(layers[-1], x)
