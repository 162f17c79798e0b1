"""`omg_ppo_learner`: PPO whose policy and critic read the subgoal that the opponent model infers.

What is selected and inferred is described in `omg.learners.subgoals`; here V(s_t, g) is what the critic says. Policy
and critic learn with the same subgoals; the probabilities that actions were drawn with are computed with them, too.

Letters in shapes: B episodes, T steps, m seats that learn, D subgoal features, H horizon.
"""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array

from omg.components import EpisodeBatch
from omg.controllers.basic import Columns
from omg.learners.ppo import PPOLearner, PPOState
from omg.learners.subgoals import SubgoalLearner


class OMGPPOLearner(SubgoalLearner, PPOLearner):
    """PPO with inferred subgoals."""

    def _candidate_values(
        self, state: PPOState, batch: EpisodeBatch, columns: Columns, inferred: Array, goals: Array, steps: int
    ) -> Array:
        horizon = self.config.omg_horizon
        inputs = state.mac.extend(columns, inferred)
        assert inputs is not None
        parts = self.critic_parts(batch, columns, inputs)
        shown = state.mac.shown(goals)
        candidates = jnp.stack([shown[:, k : k + steps] for k in range(1, horizon + 1)], axis=2)
        others = inputs[:, :steps, None, :, : inputs.shape[-1] - shown.shape[-1]]
        shape = (*candidates.shape[:-1], others.shape[-1])
        tried = jnp.concatenate([jnp.broadcast_to(others, shape), candidates], axis=-1)
        return state.scale.stretch(state.critic.try_features(parts, tried, columns.timed_seats))
