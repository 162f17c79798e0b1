"""Runs in teams and a prior for them, in the tiny game."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from helpers.tiny import tiny_config
from omg.config import Config
from omg.modules.opponent_models.prior import Prior
from omg.pools import PriorCard, save_prior

MODELS = {"am_hidden_dim": 8, "am_embed_dim": 4, "subgoal_dim": 4, "omg_horizon": 2, "updates_per_episode": 1.0}


def team_config(results: Path, team: str, **changes: Any) -> Config:
    return tiny_config(results, team, **{**MODELS, **changes})


def stored_prior(folder: Path, **changes: Any) -> Prior:
    """A prior with weights from NumPy for the tiny game."""
    sizes = {"env": "foraging", "scenario": "4x4-2p-1f", "obs_is_state": False, "features": 9, "subgoal_dim": 4}
    card = PriorCard(**{**sizes, **changes}, t_env=0)
    shapes = jax.eval_shape(lambda: Prior(card.features, card.subgoal_dim, key=jax.random.PRNGKey(0)))
    rng = np.random.default_rng(0)
    prior = jax.tree.map(lambda leaf: jnp.asarray(np.abs(rng.normal(0, 0.5, leaf.shape)), leaf.dtype), shapes)
    save_prior(folder, prior, card)
    return prior
